//! Stored bytes.
//!
//! 1. The first byte is the format's version, the last four are the CRC-32 of all before them. That much
//!    holds for every version, so that older code can tell newer bytes from damaged ones.
//! 2. What is stored says whose it is: the key's preimage stands in the bytes, and reading compares it with
//!    the key or the identity that was asked for. Bytes that were moved to another key are refused.
//! 3. Anything cut off, flipped or left over is an error: never a panic, never a wrong success.
//! 4. No length is believed before the bytes are there, so hostile ones allocate nothing.
//! 5. A fixture per version and state is kept in the tests: what is written once is read for ever.
//!
//! It does not compress or encrypt, and it does not know fences: a store keeps those beside the bytes.
//!
//! ```text
//! version 1 · kind 1 · fingerprint 1 (+ 32) · attempts · created · updated · expires · state… · key · crc 4
//! ```
//! Numbers are LEB128. Of the times only the first is absolute; each other one is a signed distance.

mod bytes;
mod execution;
mod outcome;
mod record;

pub use execution::{decode_execution, encode_execution, encode_execution_into};
pub use record::{decode, decode_record, encode, encode_into};

use crate::{key::KeyError, sabotage::is_on};

/// The version that is written, and the newest that is read.
pub const VERSION: u8 = 1;

/// Why bytes cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A newer Semel wrote them.
    #[error("stored in format {found}, but this Semel reads formats up to {supported}: upgrade Semel")]
    Newer {
        /// The format of the bytes.
        found: u8,
        /// The newest format that this code reads.
        supported: u8,
    },
    /// They are not what was written.
    #[error("the checksum does not match: the stored bytes are damaged")]
    Checksum,
    /// The checksum holds, but this is not what Semel writes there.
    #[error("{0} cannot be read: Semel did not write these bytes")]
    Malformed(&'static str),
    /// They hold something that is no key.
    #[error("the key cannot be read: Semel did not write these bytes")]
    Key(#[source] KeyError),
    /// They are intact, but belong to another key.
    #[error("stored under another key than the one they were written for")]
    OtherKey,
}

const CHECKSUM_BYTES: usize = 4;

/// Appends the checksum of what was written since `start`.
fn seal(out: &mut Vec<u8>, start: usize) {
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks the frame, and gives what stands between the version and the checksum.
fn open(bytes: &[u8]) -> Result<bytes::Reader<'_>, WireError> {
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(WireError::Checksum);
    };
    let matches = crc32fast::hash(content) == u32::from_le_bytes(*checksum);
    if !matches && !is_on("checksum_unchecked") {
        return Err(WireError::Checksum);
    }
    match content.split_first() {
        Some((&VERSION, rest)) => Ok(bytes::Reader::new(rest)),
        Some((&found, _)) if found > VERSION => Err(WireError::Newer { found, supported: VERSION }),
        Some(_) | None => Err(WireError::Malformed("the version")),
    }
}
