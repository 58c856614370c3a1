//! A file of the journal.
//!
//! 1. A segment is filled with zeros, or with what an earlier use left, before it gets its name: syncing
//!    bytes inside a file is twice as fast as syncing its growth.
//! 2. It begins with a header (format, number, salt, length), synced before the file gets its name.
//! 3. Nothing is written into a segment before the one ahead of it is durable to its end. So only the newest
//!    may end in a torn frame; in any other, and before any [`Frame::Durable`] mark, that is damage.

use crate::{
    disk::{Disk, DiskFile, SLICE_BYTES, Temporary},
    error::{corrupt, disk as disk_error, misconfigured},
    frame::{self, ALIGNMENT, Frame},
};
use semel_core::{sabotage, store::StoreError, time::Timestamp};
use std::{io, sync::Arc};

const MAGIC: &[u8; 8] = b"SEMELJNL";
const FORMAT: u32 = 1;
/// Where the first frame stands.
pub(crate) const HEADER_BYTES: u32 = 64;
const PREFIX: &str = "journal-";
const SUFFIX: &str = ".log";

pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) salt: u32,
    pub(crate) file: Arc<dyn DiskFile>,
}

pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{number:010}{SUFFIX}")
}

pub(crate) fn number(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()
}

impl Segment {
    /// Turns a blank file (see [`blank`]) into the segment of this number. The salt must differ from that of
    /// any earlier use of the file: the number does, and the time, should the directory be copied.
    pub(crate) fn make(disk: &dyn Disk, blank: &str, number: u32, now: Timestamp) -> io::Result<Self> {
        let salt = crc32fast::hash(&[&now.as_millis().to_le_bytes()[..], &number.to_le_bytes()].concat());
        let file = disk.open(blank)?;
        let length = file.length()? as u32;
        file.write_at(&header(number, salt, length), 0)?;
        file.sync()?;
        disk.rename(blank, &name(number))?;
        if !sabotage::is_on("embedded_directory_unsynced") {
            disk.sync_directory()?;
        }
        Ok(Self { number, salt, file })
    }

    pub(crate) fn open(disk: &dyn Disk, number: u32) -> Result<Self, StoreError> {
        let name = name(number);
        let file = disk.open(&name).map_err(disk_error(format_args!("open `{name}`")))?;
        let mut head = [0; HEADER_BYTES as usize];
        file.read_at(&mut head, 0).map_err(|_| corrupt(format!("`{name}` has no header: {RESTORE}")))?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        if &head[..8] != MAGIC {
            return Err(corrupt(format!("`{name}` is not a journal of Semel: {RESTORE}")));
        }
        if word(8) > FORMAT {
            return Err(misconfigured(format!(
                "`{name}` was written by a newer Semel (format {}, this one knows {FORMAT}): upgrade Semel",
                word(8)
            )));
        }
        if head[..] != header(number, word(16), word(20))[..] {
            return Err(corrupt(format!("the header of `{name}` is damaged: {RESTORE}")));
        }
        if file.length().map_err(disk_error(format_args!("open `{name}`")))? < word(20).into() {
            return Err(corrupt(format!("`{name}` was cut short: {RESTORE}")));
        }
        Ok(Self { number, salt: word(16), file })
    }

    /// Visits every frame up to the end of the segment, and tells where that is. `end` is where the next
    /// segment says that this one ends.
    pub(crate) fn scan(
        &self,
        end: Option<u32>,
        mut visit: impl FnMut(u32, usize, Frame<'_>),
    ) -> Result<u32, StoreError> {
        let length = self.file.length().map_err(disk_error("read the journal"))?;
        let mut bytes = vec![0; end.map_or(length, |it| length.min(it.into())) as usize];
        self.file.read_at(&mut bytes, 0).map_err(disk_error("read the journal"))?;
        let mut offset = HEADER_BYTES;
        while let Some((frame, length)) =
            bytes.get(offset as usize..).and_then(|it| frame::read(it, self.salt, offset))
        {
            visit(offset, length, frame);
            offset += length as u32;
        }
        let durable = end.or_else(|| self.durable_beyond(&bytes, offset));
        match durable {
            Some(durable) if durable > offset => Err(corrupt(format!(
                "`{}` is damaged at byte {offset} of {durable}: {RESTORE}",
                name(self.number)
            ))),
            Some(_) | None => Ok(offset),
        }
    }

    /// Whether a mark behind this offset says that more than this had been durable.
    fn durable_beyond(&self, bytes: &[u8], from: u32) -> Option<u32> {
        let is_blank = |it: &[u8; ALIGNMENT]| *it == [0; ALIGNMENT];
        // A file that was cut in the padding of its last frame ends before that.
        let (words, _) = bytes.get(from as usize..)?.as_chunks();
        let candidates = words.iter().enumerate().filter(|(_, word)| !is_blank(word));
        candidates
            .map(|(word, _)| from as usize + word * ALIGNMENT)
            .filter_map(|offset| frame::read_durable(&bytes[offset..], self.salt, offset as u32))
            .find(|upto| *upto > from)
    }
}

pub(crate) const RESTORE: &str = "restore the directory from a backup, or move it away to begin anew";

fn header(number: u32, salt: u32, length: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([FORMAT, number, salt, length].iter().flat_map(|it| it.to_le_bytes()));
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.resize(HEADER_BYTES as usize, 0);
    bytes
}

/// Makes a file of zeros to turn into a segment later. If it fails, it leaves nothing.
pub(crate) fn blank(disk: &dyn Disk, name: &str, bytes: u32) -> io::Result<()> {
    let mut temporary = Temporary::new(disk, name.to_owned());
    let file = disk.create(name)?;
    // At once, rather than half-way.
    file.allocate(bytes.into())?;
    fill(&*file, bytes)?;
    temporary.keep();
    Ok(())
}

/// Writes zeros up to this length, durably.
pub(crate) fn fill(file: &dyn DiskFile, bytes: u32) -> io::Result<()> {
    let zeros = vec![0; SLICE_BYTES.min(bytes as usize)];
    for offset in (0..bytes as usize).step_by(SLICE_BYTES) {
        let length = SLICE_BYTES.min(bytes as usize - offset);
        file.write_at(&zeros[..length], offset as u64)?;
        file.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::OsDisk,
        gate::{Gate, GatedDisk},
    };

    #[test]
    fn what_stands_behind_a_torn_frame_is_hashed_once_whatever_it_looks_like() {
        const BYTES: u32 = 64 << 10;
        let directory = tempfile::tempdir().unwrap();
        let disk = OsDisk::new(directory.path());
        blank(&disk, "blank.tmp", BYTES).unwrap();
        let segment = Segment::make(&disk, "blank.tmp", 1, Timestamp::from_millis(1)).unwrap();
        // As the bytes of an event could be: each word is the head of a frame of half of the file.
        let word = u64::from(BYTES / 2) << 32 | 7;
        let words: Vec<u8> = (0..BYTES / 8 - 8).flat_map(|_| word.to_le_bytes()).collect();
        segment.file.write_at(&words, HEADER_BYTES.into()).unwrap();
        let before = frame::tests::HASHED.get();
        assert_eq!(segment.scan(None, |_, _, _| panic!("there is none")).unwrap(), HEADER_BYTES);
        let hashed = frame::tests::HASHED.get() - before;
        assert!(hashed <= BYTES as usize, "{hashed} bytes were hashed of {BYTES}");
    }

    #[test]
    fn a_file_that_is_made_ahead_holds_up_nobodys_sync_for_more_than_a_slice() {
        let directory = tempfile::tempdir().unwrap();
        let gate = Gate::default();
        let disk = GatedDisk(OsDisk::new(directory.path()), gate.clone());
        blank(&disk, "blank.tmp", 3 * SLICE_BYTES as u32 + 1).unwrap();
        assert_eq!(gate.syncs(), 4);
        assert_eq!(disk.open("blank.tmp").unwrap().length().unwrap(), 3 * SLICE_BYTES as u64 + 1);
    }
}
