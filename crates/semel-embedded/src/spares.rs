//! Files that wait to be a segment.
//!
//! 1. A spare is a file of a segment's full length that nobody uses; a segment that was moved into SQLite
//!    becomes one.
//! 2. Where there is none and somebody cannot wait, a short file serves; its segment is ended as soon as a
//!    full one is there. Nothing is written beyond the room that was taken for it: a journal that cannot be written
//!    stops for good.
//! 3. The reserve are files whose room is taken, for when the disk is full. What was accepted is delivered and finished
//!    from it; nothing new is written there.

use crate::{
    disk::{Disk, Temporary},
    lock,
    segment::{self, Segment},
};
use semel_core::{sabotage, time::Timestamp};
use std::{
    io,
    sync::{Arc, Mutex},
};

const PREFIX: &str = "spare-";
const RESERVE_PREFIX: &str = "reserve-";
/// How much of a file is filled ahead when there is no time to fill it all.
const SHORT_BYTES: u32 = 256 << 10;

pub(crate) struct Spares {
    disk: Arc<dyn Disk>,
    segment_bytes: u32,
    most: usize,
    names: Mutex<Vec<String>>,
    /// How many files the reserve has when it is whole.
    reserve_max: usize,
    reserve: Mutex<Vec<String>>,
}

/// What a segment is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A key that was not there: it is refused where only the reserve is left.
    New,
    /// One that was.
    Known,
}

/// A segment that was made at once.
pub(crate) struct Made {
    pub(crate) segment: Segment,
    /// Whether it is to be ended as soon as a better one is there.
    pub(crate) is_short: bool,
    /// How far it may be written.
    pub(crate) limit: u32,
    /// Whether it was of the reserve: until the housekeeper says otherwise, the disk is full.
    pub(crate) is_of_reserve: bool,
}

/// What is wrong when the reserve is needed, until somebody knows it better.
pub(crate) const FULL: &str = "the disk has no room for another file of the journal: free some space";

/// Whether this is the name of a spare.
pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether this is the name of a file of the reserve.
pub(crate) fn is_reserve(name: &str) -> bool {
    name.starts_with(RESERVE_PREFIX)
}

impl Spares {
    /// Keeps at most so many, these to begin with.
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u32, most: usize, names: Vec<String>) -> Self {
        let (names, reserve_max) = (Mutex::new(names), 0);
        Self { disk, segment_bytes, most, names, reserve_max, reserve: Mutex::default() }
    }

    /// With a reserve of so many files, these to begin with.
    pub(crate) fn with_reserve(self, reserve_max: usize, names: Vec<String>) -> Self {
        Self { reserve_max, reserve: Mutex::new(names), ..self }
    }

    /// A segment of this number from a spare, or else from a short file, or else from the reserve, if it may be.
    pub(crate) fn make_now(&self, number: u32, now: Timestamp, purpose: Purpose) -> io::Result<Made> {
        let make = |blank: &str, is_short, limit, is_of_reserve| {
            let segment = Segment::make(&*self.disk, blank, number, now)?;
            Ok(Made { segment, is_short, limit, is_of_reserve })
        };
        if let Some(spare) = lock(&self.names).pop() {
            return make(&spare, false, self.segment_bytes, false);
        }
        let full = match self.short(number) {
            Ok((blank, limit)) => return make(&blank, true, limit, false),
            Err(full) => full,
        };
        let is_reserved = purpose == Purpose::New && !sabotage::is_on("embedded_reserve_for_everybody");
        let reserve = if is_reserved { None } else { lock(&self.reserve).pop() };
        reserve.map_or(Err(full), |it| make(&it, false, self.segment_bytes, true))
    }

    /// A segment of this number and of full length, however long that takes.
    pub(crate) fn make_full(&self, number: u32, now: Timestamp) -> io::Result<Segment> {
        let spare = lock(&self.names).pop();
        let blank = if let Some(name) = spare {
            name
        } else {
            let name = format!("blank-{number:010}.tmp");
            segment::blank(&*self.disk, &name, self.segment_bytes)?;
            name
        };
        Segment::make(&*self.disk, &blank, number, now)
    }

    /// A file of which the beginning is filled, and how far it may be written: to a segment's full length, unless the disk has
    /// only the room for what is filled.
    fn short(&self, number: u32) -> io::Result<(String, u32)> {
        let name = format!("short-{number:010}.tmp");
        let mut temporary = Temporary::new(&*self.disk, name.clone());
        let file = self.disk.create(&name)?;
        let filled = self.segment_bytes.min(SHORT_BYTES);
        let limit = if file.allocate(self.segment_bytes.into()).is_ok() {
            self.segment_bytes
        } else {
            file.allocate(filled.into())?;
            filled
        };
        segment::fill(&*file, filled)?;
        temporary.keep();
        Ok((name, limit))
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

    /// Makes what is missing of the reserve.
    pub(crate) fn fill_reserve(&self) -> io::Result<()> {
        while !self.is_whole() {
            let taken = lock(&self.reserve).clone();
            let name = (0..self.reserve_max)
                .map(|it| format!("{RESERVE_PREFIX}{it:010}.tmp"))
                .find(|it| !taken.contains(it));
            let name = name.expect("it is not whole, so that a name is free");
            let mut making = Temporary::new(&*self.disk, "reserving.tmp".to_owned());
            let file = self.disk.create(&making.name)?;
            if file.allocate(self.segment_bytes.into())? {
                // Its length is a segment's, so that it can be told from one that a crash left half made.
                file.write_at(&[0], u64::from(self.segment_bytes) - 1)?;
                file.sync()?;
            } else {
                segment::fill(&*file, self.segment_bytes)?;
            }
            making.rename(&name)?;
            lock(&self.reserve).push(name);
        }
        Ok(())
    }

    /// How many files there are, the reserve's among them.
    pub(crate) fn count(&self) -> usize {
        lock(&self.names).len() + lock(&self.reserve).len()
    }

    /// Whether nothing of the reserve is in use.
    pub(crate) fn is_whole(&self) -> bool {
        lock(&self.reserve).len() >= self.reserve_max
    }

    /// Whether so much of the reserve is in use that the rest is for what is under way.
    pub(crate) fn is_low(&self) -> bool {
        lock(&self.reserve).len() < self.reserve_max.div_ceil(2)
    }
}
