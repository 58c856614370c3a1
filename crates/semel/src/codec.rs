//! A result as bytes, and back.
//!
//! 1. A typed result is JSON. `()`, `None`, `0`, `""` and `[]` come back as themselves.
//! 2. Above [`COMPRESS_BYTES_MIN`] it is compressed, if that makes it smaller. The first byte says which.
//! 3. Then it is sealed, if there is a keyring: see [`crate::seal`].
//! 4. What is too large as it would be stored, or cannot be encoded, is not kept: its size and digest are.
//! 5. A result that nobody had (an operator said that the effect happened) reads as JSON `null`, so it
//!    replays as `()` or `None`, and as nothing else.
//!
//! It does not decide what becomes of a call: one whose result is not kept is completed all the same.

use crate::seal::Seal;
use semel_core::{
    key::Key,
    record::{Body, NotKept},
    sha256::sha256,
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};

/// Results of fewer bytes are stored as they are.
pub(crate) const COMPRESS_BYTES_MIN: usize = 1024;
/// Largest result that is decompressed: a larger one was not written by this library.
const DECODED_BYTES_MAX: usize = 256 * 1024 * 1024;

// The first byte of what is stored. Numbers are never used again for something else.
const PLAIN: u8 = 0;
const LZ4: u8 = 1;
/// To be opened by [`Seal::open`], which gives one of the others. No flipped bit makes it one of them.
pub(crate) const SEALED: u8 = b'S';

/// How a result is to be kept.
pub(crate) struct Keeping<'a> {
    /// Whose it is.
    pub(crate) key: &'a Key,
    pub(crate) seal: &'a Seal,
    /// Largest one, as it is stored.
    pub(crate) bytes_max: usize,
    pub(crate) until: Timestamp,
}

/// A typed result, as it will be stored.
pub(crate) fn body_of<T: Serialize + ?Sized>(value: &T, keeping: &Keeping<'_>) -> Body {
    // One byte of codec in front, so that a small result needs no second buffer.
    let mut encoded = Vec::with_capacity(64);
    encoded.push(PLAIN);
    match serde_json::to_writer(&mut encoded, value) {
        Ok(()) => keeping.body(compressed(encoded)),
        Err(_) => Body::NotKept { cause: NotKept::Unserializable, size: 0, digest: [0; 32] },
    }
}

/// A result that is bytes already, with room for the codec in front, so that a small one needs no second buffer.
#[derive(Default)]
pub(crate) struct Encoded(Vec<u8>);

impl Encoded {
    /// Nothing yet, with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut encoded = Vec::with_capacity(bytes + 1);
        encoded.push(PLAIN);
        Self(encoded)
    }

    /// The same bytes, and more behind them.
    pub(crate) fn then(mut self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(&mut self.0);
        self
    }

    /// Without the room in front.
    #[cfg(feature = "http")]
    pub(crate) fn content(&self) -> &[u8] {
        &self.0[1..]
    }

    /// As it will be stored.
    pub(crate) fn into_body(self, keeping: &Keeping<'_>) -> Body {
        keeping.body(compressed(self.0))
    }
}

/// These bytes, as a result.
pub(crate) fn encoded(bytes: &[u8]) -> Encoded {
    Encoded::with_capacity(bytes.len()).then(|it| it.extend_from_slice(bytes))
}

/// A typed result as an operator gives it.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut encoded = vec![PLAIN];
    serde_json::to_writer(&mut encoded, value)?;
    Ok(compressed(encoded))
}

fn compressed(plain: Vec<u8>) -> Vec<u8> {
    let content = &plain[1..];
    if content.len() < COMPRESS_BYTES_MIN {
        return plain;
    }
    let mut packed = vec![LZ4];
    packed.extend(lz4_flex::compress_prepend_size(content));
    if packed.len() < plain.len() { packed } else { plain }
}

impl Keeping<'_> {
    fn body(&self, encoded: Vec<u8>) -> Body {
        let bytes = self.seal.close(self.key, encoded);
        if bytes.len() <= self.bytes_max {
            return Body::Kept { bytes, until: self.until };
        }
        // Of what was sealed: the digest of what is in it would let others guess it.
        let digest = sha256(&bytes);
        Body::NotKept { cause: NotKept::TooLarge, size: bytes.len() as u64, digest }
    }
}

/// As [`content`], of bytes that are not needed any more: what was not compressed is not copied.
#[cfg(feature = "http")]
pub(crate) fn into_content(stored: Vec<u8>) -> Option<bytes::Bytes> {
    match stored.first()? {
        &PLAIN => Some(bytes::Bytes::from(stored).slice(1..)),
        _ => content(&stored).map(Into::into),
    }
}

/// The content of stored bytes that are not sealed; `None` if they were not written by this codec.
pub(crate) fn content(stored: &[u8]) -> Option<Vec<u8>> {
    let (&codec, rest) = stored.split_first()?;
    match codec {
        PLAIN => Some(rest.to_vec()),
        LZ4 => {
            let (size, packed) = lz4_flex::block::uncompressed_size(rest).ok()?;
            if size > DECODED_BYTES_MAX {
                return None;
            }
            lz4_flex::block::decompress(packed, size).ok()
        }
        _ => None,
    }
}

/// The typed result in stored bytes that are not sealed; `None` if they are not one of this type.
pub(crate) fn value<T: DeserializeOwned>(stored: &[u8]) -> Option<T> {
    match stored.split_first()? {
        (&PLAIN, json) => serde_json::from_slice(json).ok(),
        _ => serde_json::from_slice(&content(stored)?).ok(),
    }
}

/// What a result that nobody had reads as, if this type can be read from nothing.
pub(crate) fn nothing<T: DeserializeOwned>() -> Option<T> {
    serde_json::from_str("null").ok()
}
