//! One entry per parser of stored bytes, for fuzzers and for the short run in the tests.
//!
//! 1. Every entry takes any bytes, never panics, and gives up in bounded time and memory.
//! 2. What is read can be written, and is the same when it is read again.
//! 3. Most bytes fail at a checksum, so they are also tried with the right one.
//!
//! Not for users.

use crate::{
    disk::DiskFile,
    frame::{self, ALIGNMENT},
    queue::fuzz::{card, execution, own, place},
    segment::{HEADER_BYTES, Segment},
};
use semel_core::{key::Identity, wire};
use std::{io, sync::Arc};

/// What a fuzzer calls.
pub type Entry = fn(&[u8]);

/// Every entry, by its name; the corpus is kept under the same name.
pub const ALL: [(&str, Entry); 7] = [
    ("frame", frame),
    ("segment", segment),
    ("card", card),
    ("execution", execution),
    ("own", own),
    ("place", place),
    ("record", record),
];

const SALT: u32 = 11;

/// A record of the library, under the identity that its first bytes say: with its checksum, and with the right one.
fn record(bytes: &[u8]) {
    let Some((identity, stored)) = bytes.split_first_chunk() else { return };
    let identity = Identity::from_bytes(*identity);
    let content = stored.split_last_chunk::<4>().map_or(stored, |(content, _)| content);
    let sealed = [content, &crc32fast::hash(content).to_le_bytes()].concat();
    for stored in [stored, &sealed] {
        let Ok((key, record)) = wire::decode(&identity, stored) else { continue };
        let again = wire::encode(&key, &record);
        assert_eq!(wire::decode(&identity, &again), Ok((key, record)), "written and read");
    }
}

/// One frame, with the checksum that it has and with the right one.
fn frame(bytes: &[u8]) {
    let mut sealed = Vec::new();
    seal(&mut sealed, bytes);
    for bytes in [bytes, &sealed] {
        let Some((frame, used)) = frame::read(bytes, SALT, 0) else { continue };
        let mut again = Vec::new();
        frame::append(&mut again, SALT, 0, &frame);
        assert_eq!(frame::read(&again, SALT, 0), Some((frame, again.len())), "written and read");
        assert!(used.is_multiple_of(ALIGNMENT) && used < bytes.len() + ALIGNMENT, "{used} bytes");
    }
}

/// Appends a frame with this body.
fn seal(out: &mut Vec<u8>, body: &[u8]) {
    let start = out.len();
    let rest = [&(body.len() as u32).to_le_bytes(), body].concat();
    out.extend(frame::checksum(SALT, start as u32, &rest).to_le_bytes());
    out.extend(rest);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

/// A file of the journal. The first byte says how much is cut off at the end; then come frames, each behind the length
/// of its body, until one is longer than what is left.
fn segment(bytes: &[u8]) {
    let Some((cut, mut rest)) = bytes.split_first() else { return };
    let mut written = vec![0; HEADER_BYTES as usize];
    let mut starts = vec![HEADER_BYTES];
    while let Some((length, body)) = rest.split_first()
        && let Some((body, behind)) = body.split_at_checked((*length).into())
    {
        seal(&mut written, body);
        starts.push(written.len() as u32);
        rest = behind;
    }
    written.extend(rest);
    written.truncate(written.len().saturating_sub((cut % 32).into()).max(HEADER_BYTES as usize));
    let file = Arc::new(File(written));
    let segment = Segment { number: 1, salt: SALT, file };
    for end in [None].into_iter().chain(starts.iter().copied().map(Some)) {
        let mut next = HEADER_BYTES;
        let scanned = segment.scan(end, |offset, length, _| {
            assert_eq!(offset, next, "one frame behind the other");
            next += length as u32;
        });
        if let Ok(found) = scanned {
            assert_eq!(found, next, "it ends behind its last frame");
            assert!(end.is_none_or(|it| it <= found), "it ends before the next one says");
        }
    }
}

/// A file that is only read.
struct File(Vec<u8>);

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = self.0.get(offset as usize..).and_then(|it| it.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn shrink(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
