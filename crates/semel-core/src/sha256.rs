//! SHA-256, for everything that is hashed here.
//!
//! 1. One place decides whose it is: ring's, which is written by hand for each kind of processor. Where a processor has no
//!    instructions for it, as on many virtual machines, portable code executes half as much again (callgrind), and hashing is then
//!    the largest single part of what a call costs.
//! 2. A hash is 32 bytes, and nothing else.
//!
//! It does not compare in constant time: whoever compares secrets does that.

use ring::digest::{Context, SHA256, digest};

const HASH: &str = "SHA-256 has 32 bytes";

/// The hash of these bytes.
///
/// ```
/// use semel_core::sha256::sha256;
/// assert_eq!(sha256("abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
/// ```
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    digest(&SHA256, bytes.as_ref()).as_ref().try_into().expect(HASH)
}

/// A hash of what comes piece by piece.
///
/// ```
/// use semel_core::sha256::{Sha256, sha256};
/// assert_eq!(Sha256::new().and(b"a").and(b"bc").finish(), sha256("abc"));
/// ```
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Of this, too.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// As [`Sha256::update`], for those who have the pieces at hand.
    #[must_use]
    pub fn and(mut self, piece: &[u8]) -> Self {
        self.update(piece);
        self
    }

    /// The hash of all of it.
    pub fn finish(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().expect(HASH)
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}
