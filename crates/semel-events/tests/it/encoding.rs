//! Compressed bodies, and bombs.

use crate::given::headers;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use semel_events::encoding::{ACCEPTED, EncodingError, RATIO_FREE_BYTES, RATIO_MAX, decompressed};
use std::io::Write as _;

const LIMIT: usize = 1024 * 1024;
/// Compressed by the command `zstd`, with a checksum.
const ZSTD: &[u8] = include_bytes!("../fixtures/zstd/batch.json.zst");
const PLAIN: &[u8] = include_bytes!("../fixtures/zstd/batch.json");

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    compress_to_vec(plain, CompressionLevel::Fastest)
}

fn decode(encoding: &str, body: &[u8], limit: usize) -> Result<Bytes, EncodingError> {
    decompressed(&headers(&[("content-encoding", encoding)]), &Bytes::copy_from_slice(body), limit)
}

/// Bytes that cannot be compressed, by a seed.
fn noise(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..length).map(|_| random.u8(..)).collect()
}

#[test]
fn what_was_compressed_is_as_before() {
    for encoding in ["gzip", "GZIP", "x-gzip", " gzip "] {
        assert_eq!(decode(encoding, &gzip(PLAIN), LIMIT).unwrap(), PLAIN, "{encoding}");
    }
    assert_eq!(decode("zstd", ZSTD, LIMIT).unwrap(), PLAIN);
    let noise = noise(200_000);
    assert_eq!(decode("zstd", &zstd(&noise), LIMIT).unwrap(), noise);
    assert_eq!(decode("gzip", &gzip(&noise), LIMIT).unwrap(), noise);
    assert_eq!(decode("identity", PLAIN, LIMIT).unwrap(), PLAIN);
    assert_eq!(decode("gzip", &gzip(b""), LIMIT).unwrap(), "");
}

#[test]
fn another_encoding_or_several_are_refused() {
    for encoding in ["br", "deflate", "gzip, gzip", "gzip,zstd", "compress", "", "gzip;q=1", "aws-chunked"] {
        assert_eq!(decode(encoding, &gzip(PLAIN), LIMIT), Err(EncodingError::Unsupported), "{encoding}");
    }
    let twice = headers(&[("content-encoding", "gzip"), ("content-encoding", "gzip")]);
    assert_eq!(decompressed(&twice, &gzip(&gzip(PLAIN)).into(), LIMIT), Err(EncodingError::Unsupported));
    assert_eq!(EncodingError::Unsupported.status(), 415);
    for encoding in ACCEPTED.split(", ") {
        assert_ne!(decode(encoding, b"", LIMIT), Err(EncodingError::Unsupported), "{encoding}");
    }
}

#[test]
fn a_body_is_as_large_as_it_may_be_and_no_larger() {
    let noise = noise(1_000);
    for (encoding, body) in [("identity", noise.clone()), ("gzip", gzip(&noise)), ("zstd", zstd(&noise))] {
        assert_eq!(decode(encoding, &body, 1_000).unwrap().len(), 1_000, "{encoding}");
        assert_eq!(decode(encoding, &body, 999), Err(EncodingError::TooLarge), "{encoding}");
    }
    assert_eq!(EncodingError::TooLarge.status(), 413);
}

#[test]
fn a_bomb_is_not_unpacked() {
    let zeros = vec![0; 16 * LIMIT];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros))] {
        assert_eq!(decode(encoding, &bomb, LIMIT), Err(EncodingError::TooLarge), "{encoding}");
        // Also where the limit alone would let it pass.
        assert_eq!(decode(encoding, &bomb, usize::MAX - 1), Err(EncodingError::TooLarge), "{encoding}");
    }
}

#[test]
fn the_ratio_counts_from_a_size_that_could_do_harm() {
    let free = gzip(&vec![0; RATIO_FREE_BYTES]);
    assert!(free.len() * RATIO_MAX < RATIO_FREE_BYTES, "it is compressed more than the ratio");
    assert_eq!(decode("gzip", &free, LIMIT).unwrap().len(), RATIO_FREE_BYTES);
    let more = gzip(&vec![0; RATIO_FREE_BYTES + 1]);
    assert_eq!(decode("gzip", &more, LIMIT), Err(EncodingError::TooLarge));
}

#[test]
fn what_is_damaged_is_refused() {
    let noise = noise(1_000);
    for (encoding, body) in [("gzip", gzip(&noise)), ("zstd", ZSTD.to_vec())] {
        let damaged = Err(EncodingError::Damaged);
        for length in 0..body.len() {
            assert_eq!(decode(encoding, &body[..length], LIMIT), damaged, "{encoding} cut at {length}");
        }
        let trailing = [&body[..], b"x"].concat();
        assert_eq!(decode(encoding, &trailing, LIMIT), damaged, "{encoding} with something behind it");
        let twice = [&body[..], &body].concat();
        assert_eq!(decode(encoding, &twice, LIMIT), damaged, "{encoding} twice");
        let mut flipped = body.clone();
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        assert_eq!(decode(encoding, &flipped, LIMIT), damaged, "{encoding} with a wrong length or checksum");
    }
    assert_eq!(EncodingError::Damaged.status(), 400);
}

#[test]
fn a_window_that_nobody_needs_is_not_made() {
    // Magic, a descriptor without content size, a window of 2 GiB, and an empty last block.
    let frame = b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    assert_eq!(decode("zstd", frame, LIMIT), Err(EncodingError::Damaged));
    // The same with a window of 1 KiB is fine.
    let frame = b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00";
    assert_eq!(decode("zstd", frame, LIMIT).unwrap(), "");
}
