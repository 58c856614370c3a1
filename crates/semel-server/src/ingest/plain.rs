//! A body as it was before it was compressed, and the memory for it.

use crate::listen::{Memory, Room};
use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_ENCODING};
use semel_core::sabotage::is_on;
use semel_events::encoding::{EncodingError, RATIO_FREE_BYTES, RATIO_MAX, decompressed};

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotPlain {
    /// There is no memory for it.
    Busy,
    /// It cannot be decompressed.
    Encoding(EncodingError),
}

/// The body as it was before it was compressed, of at most so many bytes, with the room that is left to it. What was sent is let
/// go of.
pub(super) async fn plain(
    memory: &Memory,
    mut room: Room,
    headers: &HeaderMap,
    body: Bytes,
    bytes_max: u64,
) -> Result<(Bytes, Room), NotPlain> {
    if headers.contains_key(CONTENT_ENCODING) && !is_on("decompressed_bytes_are_free") {
        let most = plain_bytes_max(body.len() as u64, bytes_max);
        // Boxed, so that the others, of which there are most, do not carry room for it.
        room = Box::pin(memory.take_more(room, most)).await.ok_or(NotPlain::Busy)?;
    }
    let plain = decompressed(headers, &body, bytes_max as usize).map_err(NotPlain::Encoding)?;
    drop(body);
    room.keep(plain.len() as u64);
    Ok((plain, room))
}

/// The most that so many bytes become, where so many are allowed.
fn plain_bytes_max(sent: u64, bytes_max: u64) -> u64 {
    sent.saturating_mul(RATIO_MAX as u64).max(RATIO_FREE_BYTES as u64).min(bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use http::HeaderValue;
    use std::{io::Write as _, time::Duration};

    const BYTES_MAX: u64 = 64 * 1024;

    fn gzip() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))])
    }

    /// So many bytes that are the same, compressed.
    fn same(count: usize) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b' '; count]).unwrap();
        encoder.finish().unwrap().into()
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_body_may_become_takes_room_before_it_does() {
        let memory = Memory::new(BYTES_MAX, Duration::from_secs(5));
        let others = memory.take(BYTES_MAX / 2, None).await.unwrap();
        let body = same(40 * 1024);
        let room = memory.take(body.len() as u64, None).await.unwrap();
        let busy = plain(&memory, room, &gzip(), body.clone(), BYTES_MAX).await;
        assert_eq!(busy.map(|it| it.0), Err(NotPlain::Busy));
        let room = memory.take(BYTES_MAX / 2, None).await.expect("what it held is given back");
        let (sent, _) = plain(&memory, room, &HeaderMap::new(), body.clone(), BYTES_MAX).await.unwrap();
        assert_eq!(sent, body, "what is not compressed takes no more");
        drop(others);
        let room = memory.take(body.len() as u64, None).await.unwrap();
        let (plain, _held) = plain(&memory, room, &gzip(), body, BYTES_MAX).await.unwrap();
        assert_eq!(plain.len(), 40 * 1024);
        assert!(memory.take(24 * 1024 + 1, None).await.is_none(), "what it has become takes room");
        assert!(memory.take(24 * 1024, None).await.is_some(), "what it could have become does not");
    }

    #[test]
    fn a_body_becomes_as_large_as_it_may_and_no_larger() {
        assert_eq!(plain_bytes_max(1, BYTES_MAX * 2), RATIO_FREE_BYTES as u64);
        assert_eq!(plain_bytes_max(10_000, u64::MAX), 200_000);
        assert_eq!(plain_bytes_max(u64::MAX, BYTES_MAX), BYTES_MAX);
    }
}
