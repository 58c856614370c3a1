//! Whether two payloads are the same.

use sha2::{Digest, Sha256};

/// Hash of a canonical payload, with the version of the rules that made it canonical.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint {
    version: u8,
    hash: [u8; 32],
}

impl Fingerprint {
    /// Of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { version: 1, hash: Sha256::digest(bytes).into() }
    }
}
