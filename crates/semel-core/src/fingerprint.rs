//! Whether two payloads are the same.
//!
//! 1. A fingerprint is SHA-256 over the canonical payload, with the version of the rules that made it
//!    canonical: a payload is compared only under the rules it was first hashed by.
//! 2. Raw bytes are canonical as they are. In JSON, the order of members and the space between tokens do not
//!    matter; everything else does: `1`, `1.0` and `1e0` differ, and a number keeps every digit.
//! 3. Strings are compared after decoding, so `"\u0041"` is `"A"`. They are not normalised beyond that.
//! 4. What two readers could read differently is refused, not guessed: duplicate members, lone surrogates,
//!    invalid UTF-8, a byte order mark, anything after the value, nesting deeper than [`JSON_DEPTH_MAX`].
//! 5. No payload, raw bytes, JSON, byte strings in a row, and those with JSON after them never share a fingerprint, not
//!    even for the same bytes.
//!
//! A large JSON text is not copied to be made canonical: its canonical form is hashed as it is found.
//!
//! It does not select fields, and it does not parse numbers: who wants `1` and `1.0` to be equal hashes what
//! the numbers mean to them.

mod json;
mod large;
mod strings;

pub use json::{JSON_DEPTH_MAX, NotJson};

use crate::{hex::Hex, scratch::with_bytes, sha256::Sha256};
use std::{fmt, num::NonZeroU8};

/// The rules of today.
const VERSION: NonZeroU8 = NonZeroU8::MIN;
/// Members of so many bytes are put in order without a second buffer.
const ORDERED_BYTES: usize = 1024;

/// What kind of payload was hashed; its byte goes first, so that the kinds never meet.
#[derive(Clone, Copy)]
enum Domain {
    Bytes = 1,
    Json = 2,
    Parts = 3,
    PartsAndJson = 4,
}

/// How much room the canonical form of a JSON text takes in the buffer that it is made in: none if the text is large, because
/// it is then hashed piece by piece.
///
/// ```
/// use semel_core::fingerprint::json_room;
/// assert_eq!(json_room(b"[1, 2]"), 12);
/// assert_eq!(json_room(&[b' '; 1_000_000]), 0);
/// ```
pub fn json_room(text: &[u8]) -> usize {
    if large::is_large(text) { 0 } else { text.len() + text.len().min(ORDERED_BYTES) }
}

/// Hash of a canonical payload, with the version of the rules that made it canonical.
///
/// ```
/// use semel_core::fingerprint::Fingerprint;
/// let one = Fingerprint::of_json(br#"{"id": 7, "amount": 10.50}"#)?;
/// let two = Fingerprint::of_json(br#"{"amount":10.50,"id":7}"#)?;
/// assert_eq!(one, two);
/// assert_ne!(one, Fingerprint::of_json(br#"{"id":7,"amount":10.5}"#)?);
/// # Ok::<(), semel_core::fingerprint::NotJson>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: NonZeroU8,
    hash: [u8; 32],
}

impl Fingerprint {
    /// Of no payload at all: the key alone decides. Not the fingerprint of an empty payload.
    ///
    /// The hash of the single byte 0, which is the domain that no payload has.
    pub const EMPTY: Self = Self {
        version: VERSION,
        hash: [
            0x6e, 0x34, 0x0b, 0x9c, 0xff, 0xb3, 0x7a, 0x98, 0x9c, 0xa5, 0x44, 0xe6, 0xbb, 0x78, 0x0a, 0x2c,
            0x78, 0x90, 0x1d, 0x3f, 0xb3, 0x37, 0x38, 0x76, 0x85, 0x11, 0xa3, 0x06, 0x17, 0xaf, 0xa0, 0x1d,
        ],
    };

    /// Of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::hashed(Domain::Bytes, bytes)
    }

    /// Of a JSON text, whatever the order of its members and the space between its tokens.
    pub fn of_json(text: &[u8]) -> Result<Self, NotJson> {
        with_bytes(|room| {
            room.reserve(json_room(text));
            Self::of_canonical(Domain::Json, room, text)
        })
    }

    fn hashed(domain: Domain, canonical: &[u8]) -> Self {
        let hash = Sha256::new().and(&[domain as u8]).and(canonical).finish();
        Self { version: VERSION, hash }
    }

    /// Of several byte strings in a row, and of a JSON text after them, if there is one. Without one, none of them is copied.
    ///
    /// The caller sees to it that they do not run into each other: by lengths in front of them, for instance.
    pub fn of_parts(parts: &[&[u8]], json: Option<&[u8]>) -> Result<Self, NotJson> {
        if let Some(text) = json {
            return with_bytes(|head| {
                head.reserve(parts.iter().map(|it| it.len()).sum::<usize>() + json_room(text));
                for part in parts {
                    head.extend_from_slice(part);
                }
                Self::of_canonical(Domain::PartsAndJson, head, text)
            });
        }
        let mut hash = Sha256::new().and(&[Domain::Parts as u8]);
        for part in parts {
            hash.update(part);
        }
        Ok(Self { version: VERSION, hash: hash.finish() })
    }

    /// As [`Fingerprint::of_parts`], of one byte string and a JSON text. The buffer is used to put them together, and is
    /// given back as it was: one with [`json_room`] costs no allocation, unless the text is large.
    ///
    /// ```
    /// use semel_core::fingerprint::Fingerprint;
    /// let (mut head, json) = (b"POST /orders".to_vec(), br#"{"id": 7}"#);
    /// let one = Fingerprint::of_head_and_json(&mut head, json)?;
    /// assert_eq!(one, Fingerprint::of_parts(&[b"POST /orders"], Some(json))?);
    /// # Ok::<(), semel_core::fingerprint::NotJson>(())
    /// ```
    pub fn of_head_and_json(head: &mut Vec<u8>, text: &[u8]) -> Result<Self, NotJson> {
        Self::of_canonical(Domain::PartsAndJson, head, text)
    }

    /// Of the canonical form of a JSON text, after what stands in the buffer, which is given back as it was.
    fn of_canonical(domain: Domain, head: &mut Vec<u8>, text: &[u8]) -> Result<Self, NotJson> {
        if large::is_large(text) {
            let hash = Sha256::new().and(&[domain as u8]).and(head);
            let hash = large::hash_canonical(hash, text)?.finish();
            return Ok(Self { version: VERSION, hash });
        }
        let length = head.len();
        let (whole, written) = json::canonical_after(std::mem::take(head), text);
        *head = whole;
        let hashed = written.map(|()| Self::hashed(domain, head));
        head.truncate(length);
        hashed
    }

    /// One that was taken apart by [`Fingerprint::version`] and [`Fingerprint::hash`].
    pub const fn from_parts(version: NonZeroU8, hash: [u8; 32]) -> Self {
        Self { version, hash }
    }

    /// The version of the rules that made the payload canonical.
    pub const fn version(&self) -> NonZeroU8 {
        self.version
    }

    /// SHA-256 over the canonical payload.
    pub const fn hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:{}", self.version, Hex::of(&self.hash).as_str())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}
