//! Files that wait to be a segment.
//!
//! 1. A spare is a file of a segment's full length that nobody uses; a segment that was moved into SQLite
//!    becomes one.
//! 2. Where there is none and somebody cannot wait, a short file serves; its segment is ended as soon as a
//!    full one is there.

use crate::{
    disk::Disk,
    lock,
    segment::{self, Segment},
};
use semel_core::time::Timestamp;
use std::{
    io,
    sync::{Arc, Mutex},
};

const PREFIX: &str = "spare-";
/// How much of a file is filled ahead when there is no time to fill it all.
const SHORT_BYTES: u32 = 256 << 10;

pub(crate) struct Spares {
    disk: Arc<dyn Disk>,
    segment_bytes: u32,
    most: usize,
    names: Mutex<Vec<String>>,
}

/// Whether this is the name of a spare.
pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl Spares {
    /// Keeps at most so many, these to begin with.
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u32, most: usize, names: Vec<String>) -> Self {
        Self { disk, segment_bytes, most, names: Mutex::new(names) }
    }

    /// A segment of this number from a spare, or else from a short file. Tells whether it is short.
    pub(crate) fn make_now(&self, number: u32, now: Timestamp) -> io::Result<(Segment, bool)> {
        let spare = lock(&self.names).pop();
        let is_short = spare.is_none();
        let blank = match spare {
            Some(name) => name,
            None => self.blank("short", number, self.segment_bytes.min(SHORT_BYTES))?,
        };
        Ok((Segment::make(&*self.disk, &blank, number, now)?, is_short))
    }

    /// A segment of this number and of full length, however long that takes.
    pub(crate) fn make_full(&self, number: u32, now: Timestamp) -> io::Result<Segment> {
        let spare = lock(&self.names).pop();
        let blank = spare.map_or_else(|| self.blank("blank", number, self.segment_bytes), Ok)?;
        Segment::make(&*self.disk, &blank, number, now)
    }

    fn blank(&self, kind: &str, number: u32, bytes: u32) -> io::Result<String> {
        let name = format!("{kind}-{number:010}.tmp");
        segment::blank(&*self.disk, &name, bytes)?;
        Ok(name)
    }

    /// Keeps the file of a segment that is not needed any more, or removes it.
    pub(crate) fn keep(&self, segment: &Segment) -> io::Result<()> {
        let name = segment::name(segment.number);
        let is_full_length = segment.file.length()? == u64::from(self.segment_bytes);
        if !is_full_length || lock(&self.names).len() >= self.most {
            return self.disk.remove(&name);
        }
        let spare = format!("{PREFIX}{:010}.tmp", segment.number);
        self.disk.rename(&name, &spare)?;
        lock(&self.names).push(spare);
        Ok(())
    }
}
