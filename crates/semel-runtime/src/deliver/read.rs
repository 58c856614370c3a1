//! Bodies of answers, up to a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use semel_core::sabotage;

/// The body, or as much of it as is read, and whether there was more. A body that is not read to its end is dropped, and
/// its connection or stream closed.
pub(super) async fn read(mut body: Incoming, bytes_max: usize) -> Result<(Bytes, bool), hyper::Error> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), false));
    }
    let bytes_max = if sabotage::is_on("answers_read_past_the_limit") { bytes_max * 4 } else { bytes_max };
    let mut whole = Gathered::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let room = bytes_max - whole.len();
        if data.len() > room {
            whole.push(data.slice(..room));
            return Ok((whole.into_bytes(), true));
        }
        whole.push(data);
    }
    Ok((whole.into_bytes(), false))
}

/// Up to here a body is copied, in bytes: a piece holds all of the buffer that it came in, which its connection could use
/// again.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// Pieces of a body: a large one is kept as it is, more are copied together.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
            self.first = Bytes::new();
        }
        self.all.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        match self.all.len() {
            0 if self.first.len() <= COPIED_BYTES_MAX => Bytes::copy_from_slice(&self.first),
            0 => self.first,
            _ => self.all.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_as_they_went_in() {
        for pieces in [&[][..], &["one"], &["", "one"], &["one", "", "two"], &["a", "b", "c", "d"]] {
            let mut gathered = Gathered::default();
            for piece in pieces {
                gathered.push(Bytes::from_static(piece.as_bytes()));
            }
            assert_eq!(gathered.len(), pieces.concat().len(), "{pieces:?}");
            assert_eq!(gathered.into_bytes(), pieces.concat(), "{pieces:?}");
        }
    }

    #[test]
    fn a_small_piece_is_copied_and_a_large_one_is_not() {
        for (bytes, is_copied) in [(COPIED_BYTES_MAX, true), (COPIED_BYTES_MAX + 1, false)] {
            let piece = Bytes::from(vec![b'x'; bytes]);
            let mut gathered = Gathered::default();
            gathered.push(piece.clone());
            assert_eq!(gathered.into_bytes().as_ptr() != piece.as_ptr(), is_copied, "{bytes} bytes");
        }
    }
}
