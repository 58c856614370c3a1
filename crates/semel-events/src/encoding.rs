//! Compressed bodies.
//!
//! 1. `gzip` and `zstd`, one of them and once. Others, and encodings within encodings, are refused.
//! 2. What comes out has a limit, and may be at most [`RATIO_MAX`] times as large as what went in; below
//!    [`RATIO_FREE_BYTES`] any ratio will do, since that much is no bomb. Nothing is decoded beyond that.
//! 3. All that was sent belongs to it: checksums and lengths are checked, and what follows the end is refused.
//!
//! Signatures are over what was sent, so this comes after them.

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use http::{HeaderMap, header::CONTENT_ENCODING};
use ruzstd::decoding::StreamingDecoder;
use semel_core::sabotage::is_on;
use std::io::Read;

/// How much larger a body may become.
pub const RATIO_MAX: usize = 20;
/// Up to here, a body may become as large as it likes, in bytes.
pub const RATIO_FREE_BYTES: usize = 64 * 1024;
/// Largest window of zstd, in bytes: what its specification asks every decoder to have.
pub const WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// It is encoded in another way, or more than once.
    #[error("the body's encoding is not `gzip`, not `zstd`, or there are several")]
    Unsupported,
    /// It is larger than it may be, or more than [`RATIO_MAX`] times what was sent.
    #[error("the body is larger than it may be once it is decompressed")]
    TooLarge,
    /// It is not what it is said to be.
    #[error("the body cannot be decompressed")]
    Damaged,
}

impl EncodingError {
    /// The status of an answer that says so.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Unsupported => 415,
            Self::TooLarge => 413,
            Self::Damaged => 400,
        }
    }
}

/// What can be read, for the header `Accept-Encoding` of a refusal.
pub const ACCEPTED: &str = "gzip, zstd";

/// The body as it was before it was compressed, of at most so many bytes. A body that is not is given as it is.
///
/// ```
/// use semel_events::encoding::decompressed;
/// let plain = decompressed(&http::HeaderMap::new(), &"plain".into(), 100)?;
/// assert_eq!(plain, "plain");
/// # Ok::<(), semel_events::encoding::EncodingError>(())
/// ```
pub fn decompressed(headers: &HeaderMap, body: &Bytes, limit: usize) -> Result<Bytes, EncodingError> {
    let mut all = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = match (all.next(), all.next()) {
        (None, _) => "identity",
        (Some(one), None) => one.to_str().map_err(|_| EncodingError::Unsupported)?.trim(),
        (Some(_), Some(_)) => return Err(EncodingError::Unsupported),
    };
    let is = |name: &str| encoding.eq_ignore_ascii_case(name);
    if is("identity") {
        return if body.len() > limit { Err(EncodingError::TooLarge) } else { Ok(body.clone()) };
    }
    let by_ratio = body.len().saturating_mul(RATIO_MAX).max(RATIO_FREE_BYTES);
    let limit = if is_on("events_bomb_unpacked") { limit } else { limit.min(by_ratio) };
    if is("gzip") || is("x-gzip") {
        gunzipped(body, limit)
    } else if is("zstd") {
        unzstd(body, limit)
    } else {
        Err(EncodingError::Unsupported)
    }
}

fn gunzipped(body: &[u8], limit: usize) -> Result<Bytes, EncodingError> {
    let mut decoder = GzDecoder::new(body);
    let plain = read(&mut decoder, limit)?;
    // A second member would be here as well: nobody needs one.
    if decoder.into_inner().is_empty() { Ok(plain) } else { Err(EncodingError::Damaged) }
}

fn unzstd(body: &[u8], limit: usize) -> Result<Bytes, EncodingError> {
    let decoder = StreamingDecoder::new_with_max_window_size(body, WINDOW_BYTES_MAX);
    let mut decoder = decoder.map_err(|_| EncodingError::Damaged)?;
    let plain = read(&mut decoder, limit)?;
    if !decoder.get_ref().is_empty() {
        return Err(EncodingError::Damaged);
    }
    let frame = decoder.into_frame_decoder();
    let is_whole =
        frame.get_checksum_from_data().is_none_or(|it| frame.get_calculated_checksum() == Some(it));
    if is_whole { Ok(plain) } else { Err(EncodingError::Damaged) }
}

fn read(decoder: &mut impl Read, limit: usize) -> Result<Bytes, EncodingError> {
    let mut plain = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut plain);
    read.map_err(|_| EncodingError::Damaged)?;
    if plain.len() > limit { Err(EncodingError::TooLarge) } else { Ok(plain.into()) }
}
