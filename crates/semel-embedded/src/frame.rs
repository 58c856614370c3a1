//! What the journal is made of.
//!
//! 1. A frame is a checksum, a length, a body, and padding to eight bytes.
//! 2. The checksum is seeded with the segment's salt and the frame's offset, so a frame that another use of
//!    the file left behind, or that moved, is not one.
//! 3. Where a frame does not check, the journal ends: what follows was never acknowledged. What had been
//!    acknowledged is told from the [`Frame::Durable`] marks behind it (see [`crate::segment`]).

use semel_core::{fence::Fence, key::Identity, sabotage::is_on, time::Timestamp};

pub(crate) const ALIGNMENT: usize = 8;
const HEAD_BYTES: usize = 8;
const DURABLE: u8 = 2;
const DURABLE_BYTES: usize = 1 + 4;
const PUT_BYTES: usize = 2 + 32 + 8 + 8 + 8;
/// Where in a put its identity stands.
pub(crate) const IDENTITY_AT: u64 = HEAD_BYTES as u64 + 2;
/// In the byte of a put's kind: see [`Put::is_continued`].
const CONTINUED: u8 = 0x80;

/// One entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    /// A key has a new value.
    Put(Put<'a>),
    /// Everything in this segment before that offset was durable when this was written.
    Durable { upto: u32 },
    /// First in a segment: where the one before it ends.
    Follows { segment: u32, end: u32 },
    /// Segments up to this one were moved into SQLite; what is left of them is to be ignored. No fence issued
    /// until then was higher than this.
    Moved { upto: u32, fence: Fence },
    /// Something of the [owner's](crate::owner::Owner) own.
    Own { bytes: &'a [u8] },
}

/// A key's new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) identity: Identity,
    pub(crate) fence: Fence,
    pub(crate) expires_at: Timestamp,
    /// The latest end of a bucket that holds an older value of this key: this one must outlive it.
    pub(crate) floor: Timestamp,
    pub(crate) kind: Kind,
    /// Whether this counts only together with the put that follows it.
    pub(crate) is_continued: bool,
    pub(crate) payload: &'a [u8],
}

/// What the flusher does with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Changes soon: stays in the journal.
    Leased,
    /// May stay as it is for long: goes into SQLite.
    Settled,
    /// Waits, may be for long, and is large: goes into a file of those that wait.
    Waiting,
    /// Was removed. It hides what stood there before, as long as the journal has that.
    Removed,
}

/// How long a frame with bytes of the owner's own is.
pub(crate) const fn own_length(bytes: usize) -> usize {
    (HEAD_BYTES + 1 + bytes).next_multiple_of(ALIGNMENT)
}

/// How long a put is.
pub(crate) const fn put_length(payload: usize) -> usize {
    (HEAD_BYTES + PUT_BYTES + payload).next_multiple_of(ALIGNMENT)
}

/// Appends a frame that will stand at this offset of the segment with this salt.
pub(crate) fn append(out: &mut Vec<u8>, salt: u32, offset: u32, frame: &Frame<'_>) {
    let start = out.len();
    out.extend([0; HEAD_BYTES]);
    match frame {
        Frame::Put(put) => {
            out.push(1);
            out.push(put.kind as u8 | if put.is_continued { CONTINUED } else { 0 });
            out.extend(put.identity.as_bytes());
            out.extend(put.fence.get().to_le_bytes());
            out.extend(put.expires_at.as_millis().to_le_bytes());
            out.extend(put.floor.as_millis().to_le_bytes());
            out.extend(put.payload);
        }
        Frame::Durable { upto } => {
            out.push(DURABLE);
            out.extend(upto.to_le_bytes());
        }
        Frame::Follows { segment, end } => {
            out.push(3);
            out.extend(segment.to_le_bytes());
            out.extend(end.to_le_bytes());
        }
        Frame::Moved { upto, fence } => {
            out.push(4);
            out.extend(upto.to_le_bytes());
            out.extend(fence.get().to_le_bytes());
        }
        Frame::Own { bytes } => {
            out.push(5);
            out.extend(*bytes);
        }
    }
    let length = (out.len() - start - HEAD_BYTES) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(salt, offset, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    out.resize(start + (HEAD_BYTES + length as usize).next_multiple_of(ALIGNMENT), 0);
}

/// The frame at the front of these bytes, which stand at this offset, and how many of them it takes; `None`
/// if there is none.
pub(crate) fn read(bytes: &[u8], salt: u32, offset: u32) -> Option<(Frame<'_>, usize)> {
    let (head, tail) = bytes.split_at_checked(HEAD_BYTES)?;
    let length = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
    let body = tail.get(..length)?;
    if length == 0 || head[..4] != checksum(salt, offset, &bytes[4..HEAD_BYTES + length]).to_le_bytes() {
        return None;
    }
    Some((parse(body)?, (HEAD_BYTES + length).next_multiple_of(ALIGNMENT)))
}

/// As [`read`], for whoever looks for marks in bytes that may be anything, as in those of events behind a torn frame. They may
/// look like the beginnings of long frames, each of which would be hashed to its end: only what is as long as a mark is.
pub(crate) fn read_durable(bytes: &[u8], salt: u32, offset: u32) -> Option<u32> {
    let (head, _) = bytes.split_at_checked(HEAD_BYTES + DURABLE_BYTES)?;
    let is_mark = head[4..8] == (DURABLE_BYTES as u32).to_le_bytes() && head[HEAD_BYTES] == DURABLE;
    if !is_mark && !is_on("embedded_marks_are_sought_in_all_frames") {
        return None;
    }
    match read(bytes, salt, offset)? {
        (Frame::Durable { upto }, _) => Some(upto),
        (Frame::Put(_) | Frame::Follows { .. } | Frame::Moved { .. } | Frame::Own { .. }, _) => None,
    }
}

fn parse(body: &[u8]) -> Option<Frame<'_>> {
    let number = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    match body[0] {
        1 => Some(Frame::Put(Put {
            kind: match body.get(1)? & !CONTINUED {
                0 => Kind::Leased,
                1 => Kind::Settled,
                2 => Kind::Waiting,
                3 => Kind::Removed,
                _ => return None,
            },
            is_continued: body.get(1)? & CONTINUED != 0,
            identity: Identity::from_bytes(body.get(2..34)?.try_into().ok()?),
            fence: Fence::new(long(34)?)?,
            expires_at: Timestamp::from_millis(long(42)?),
            floor: Timestamp::from_millis(long(50)?),
            payload: body.get(PUT_BYTES..)?,
        })),
        DURABLE => Some(Frame::Durable { upto: number(1)? }),
        3 => Some(Frame::Follows { segment: number(1)?, end: number(5)? }),
        4 => Some(Frame::Moved { upto: number(1)?, fence: Fence::new(long(5)?)? }),
        5 => Some(Frame::Own { bytes: body.get(1..)? }),
        _ => None,
    }
}

pub(crate) fn checksum(salt: u32, offset: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt.rotate_left(offset % 31) ^ offset);
    hasher.update(bytes);
    #[cfg(test)]
    tests::HASHED.set(tests::HASHED.get() + bytes.len());
    hasher.finalize()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// How many bytes this thread has hashed.
        pub(crate) static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    fn put(payload: &[u8]) -> Frame<'_> {
        Frame::Put(Put {
            identity: Identity::from_bytes([7; 32]),
            fence: Fence::new(9).unwrap(),
            expires_at: Timestamp::NEVER,
            floor: Timestamp::EPOCH,
            kind: Kind::Leased,
            is_continued: true,
            payload,
        })
    }

    #[test]
    fn every_frame_reads_back_and_fills_the_length_it_said() {
        let frames = [
            put(b"hello"),
            put(b""),
            Frame::Durable { upto: 5 },
            Frame::Follows { segment: 3, end: 64 },
            Frame::Moved { upto: 8, fence: Fence::new(3).unwrap() },
            Frame::Own { bytes: b"own" },
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            append(&mut bytes, 11, 64, &frame);
            assert_eq!(read(&bytes, 11, 64), Some((frame.clone(), bytes.len())));
            if let Frame::Put(it) = frame {
                assert_eq!(bytes.len(), put_length(it.payload.len()));
            }
        }
    }

    #[test]
    fn a_frame_with_a_flipped_bit_elsewhere_or_of_another_use_is_none() {
        let mut bytes = Vec::new();
        append(&mut bytes, 11, 0, &put(b"hello"));
        let content = HEAD_BYTES + PUT_BYTES + 5;
        for bit in 0..content * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes, 11, 0), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(read(&bytes, 12, 0), None);
        assert_eq!(read(&bytes, 11, 8), None);
        assert_eq!(read(&[0; 64], 11, 0), None);
    }
}
