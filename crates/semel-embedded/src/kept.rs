//! Files of values that wait, may be for long: they left the journal, and are not finished.
//!
//! 1. A file is written once, by the flusher, under a temporary name: frames like the journal's, and behind them
//!    an index, so that opening it does not read the values. The map points into it as it points into the journal.
//! 2. A value that was replaced is dead. Who is, is written beside the file (`.dead`) when the journal's file
//!    that holds the replacement goes, and before it does. Until then the journal's is the newer one.
//! 3. A file counts once the journal notes that what it covers was moved, as a [bucket](crate::bucket) does. It
//!    takes the place of those it was made from.
//! 4. A file of which less than half is alive is made anew from what is. So a value that waits is written to the
//!    journal once, here once, and less than once more on average, however many wait.
//!
//! It does not hold finished values: these expire, and are found in SQLite.

use crate::{
    disk::{Disk, DiskFile, SLICE_BYTES, Temporary},
    error::{corrupt, disk as disk_error},
    frame::{self, Frame, Kind, Put},
    segment::{RESTORE, Segment},
};
use semel_core::{fence::Fence, key::Identity, store::StoreError, time::Timestamp};
use std::{io, sync::Arc};

const MAGIC: &[u8; 8] = b"SEMELKPT";
const PREFIX: &str = "waiting-";
const SUFFIX: &str = ".log";
const DEAD: &str = ".dead";
const HEADER_BYTES: usize = 64;
const FOOTER_BYTES: usize = 16;
/// About how long a value's entry in the index is.
const INDEXED_BYTES_TYPICAL: usize = 100;
/// In a segment's number: it is that of a file here, not of the journal.
const IS_KEPT: u32 = 1 << 31;

/// Whether a segment of this number is a file of those that wait.
pub(crate) const fn is_kept(segment: u32) -> bool {
    segment & IS_KEPT != 0
}

fn name(number: u32) -> String {
    format!("{PREFIX}{:010}{SUFFIX}", number & !IS_KEPT)
}

fn dead_name(number: u32) -> String {
    format!("{PREFIX}{:010}{DEAD}", number & !IS_KEPT)
}

/// The number in a name, of a file or of its dead.
pub(crate) fn number(name: &str) -> Option<u32> {
    let name = name.strip_prefix(PREFIX)?;
    let number = name.strip_suffix(SUFFIX).or_else(|| name.strip_suffix(DEAD))?;
    Some(number.parse::<u32>().ok()? | IS_KEPT)
}

fn is_file(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// A file, as whoever reads it knows it.
pub(crate) struct Kept {
    pub(crate) segment: Arc<Segment>,
    /// How long the file is.
    pub(crate) bytes: u64,
    /// How many bytes of values are alive.
    pub(crate) live_bytes: u64,
}

/// A file, as the flusher knows it.
pub(crate) struct Grave {
    number: u32,
    salt: u32,
    /// Where the values stand, in order.
    offsets: Vec<u32>,
    /// Which of them are dead, as far as the journal need not tell.
    dead: Vec<bool>,
    /// Whether the disk knows, and whether it knows of any.
    is_written: bool,
    has_file: bool,
}

/// A value of a file, as its index has it.
pub(crate) struct Indexed<'a> {
    pub(crate) identity: Identity,
    pub(crate) fence: Fence,
    pub(crate) floor: Timestamp,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// What its owner makes its note of.
    pub(crate) front: &'a [u8],
}

/// A value that was replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Died {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The file of the journal that holds what replaced it.
    pub(crate) by: u32,
}

/// Opens the files of a directory of which the journal notes that they count, and removes the others.
pub(crate) fn open_all(disk: &dyn Disk, names: &[String], moved: u32) -> Result<Vec<Opened>, StoreError> {
    let removing = || disk_error("remove a file of those that wait");
    remove_leftovers(disk, names).map_err(removing())?;
    let mut all = Vec::new();
    for number in names.iter().filter(|it| is_file(it)).filter_map(|it| number(it)) {
        let opened = Opened::open(disk, number)?;
        // It may have been named, and the directory not synced.
        opened.kept.segment.file.sync().map_err(disk_error("sync a file of those that wait"))?;
        all.push(opened);
    }
    let counts = |it: &Opened| it.covers <= moved;
    let replaced: Vec<u32> = all.iter().filter(|it| counts(it)).flat_map(|it| it.replaces.clone()).collect();
    let is_valid = |it: &Opened| counts(it) && !replaced.contains(&it.grave.number);
    let (mut valid, left_over): (Vec<_>, Vec<_>) = all.into_iter().partition(is_valid);
    for mut it in left_over {
        it.grave.has_file = names.contains(&dead_name(it.grave.number));
        it.grave.remove(disk).map_err(removing())?;
    }
    for it in &mut valid {
        if names.contains(&dead_name(it.grave.number)) {
            it.grave.read(disk)?;
        }
    }
    Ok(valid)
}

/// A file that was opened, with its index.
pub(crate) struct Opened {
    pub(crate) kept: Kept,
    pub(crate) grave: Grave,
    covers: u32,
    replaces: Vec<u32>,
    index: Vec<u8>,
    /// Where in the index its values begin.
    values_at: usize,
}

impl Opened {
    fn open(disk: &dyn Disk, number: u32) -> Result<Self, StoreError> {
        let name = name(number);
        let damaged = || corrupt(format!("`{name}` is damaged: {RESTORE}"));
        let file = disk.open(&name).map_err(disk_error(format_args!("open `{name}`")))?;
        let bytes = file.length().map_err(disk_error(format_args!("open `{name}`")))?;
        let mut head = [0; HEADER_BYTES];
        file.read_at(&mut head, 0).map_err(|_| damaged())?;
        let salt = u32::from_le_bytes(head[12..16].try_into().expect("four bytes"));
        if head[..] != header(number, salt)[..] {
            return Err(damaged());
        }
        let index = read_index(&*file, bytes).ok_or_else(damaged)?;
        let mut reader = Reader(&index);
        let covers = reader.word().ok_or_else(damaged)?;
        let count = reader.word().ok_or_else(damaged)?;
        let replaces = (0..count).map(|_| reader.word()).collect::<Option<_>>().ok_or_else(damaged)?;
        let values_at = index.len() - reader.0.len();
        let kept = Kept { segment: Arc::new(Segment { number, salt, file }), bytes, live_bytes: 0 };
        let (offsets, dead) = (Vec::new(), Vec::new());
        let grave = Grave { number, salt, offsets, dead, is_written: true, has_file: false };
        Ok(Self { kept, grave, covers, replaces, index, values_at })
    }

    /// About how many values it holds.
    pub(crate) fn about(&self) -> usize {
        self.index.len() / INDEXED_BYTES_TYPICAL
    }

    /// Visits its living values, once: the index is let go of.
    pub(crate) fn visit(
        &mut self,
        mut visit: impl FnMut(u32, Indexed<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Self { kept, grave, values_at, .. } = self;
        let index = std::mem::take(&mut self.index);
        let mut reader = Reader(&index[*values_at..]);
        while !reader.0.is_empty() {
            let Some(indexed) = reader.indexed() else {
                return Err(corrupt(format!("`{}` makes no sense: {RESTORE}", name(grave.number))));
            };
            let is_dead = grave.dead.get(grave.offsets.len()).copied().unwrap_or_default();
            grave.offsets.push(indexed.offset);
            if !is_dead {
                kept.live_bytes += u64::from(indexed.length);
                visit(grave.number, indexed)?;
            }
        }
        grave.dead.resize(grave.offsets.len(), false);
        Ok(())
    }
}

fn read_index(file: &dyn DiskFile, bytes: u64) -> Option<Vec<u8>> {
    let mut footer = [0; FOOTER_BYTES];
    let footer_at = bytes.checked_sub(FOOTER_BYTES as u64)?;
    file.read_at(&mut footer, footer_at).ok()?;
    let word = |at: usize| u32::from_le_bytes(footer[at..at + 4].try_into().expect("four bytes"));
    if crc32fast::hash(&footer[..12]) != word(12) || u64::from(word(0)) + u64::from(word(4)) != footer_at {
        return None;
    }
    let mut index = vec![0; word(4) as usize];
    file.read_at(&mut index, word(0).into()).ok()?;
    (crc32fast::hash(&index) == word(8)).then_some(index)
}

impl Grave {
    fn read(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        let name = dead_name(self.number);
        let failed = || disk_error(format!("read `{name}`"));
        let file = disk.open(&name).map_err(failed())?;
        let mut bytes = vec![0; file.length().map_err(failed())? as usize];
        file.read_at(&mut bytes, 0).map_err(failed())?;
        let checked = bytes.split_last_chunk::<4>().filter(|(bits, sum)| self.sum(bits) == **sum);
        let (bits, _) = checked.ok_or_else(|| corrupt(format!("`{name}` is damaged: {RESTORE}")))?;
        self.dead = bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 != 0)).collect();
        self.has_file = true;
        Ok(())
    }

    fn sum(&self, bits: &[u8]) -> [u8; 4] {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.salt);
        hasher.update(bits);
        hasher.finalize().to_le_bytes()
    }

    /// A value here is dead, and the disk may know.
    pub(crate) fn bury(&mut self, offset: u32) {
        let ordinal = self.offsets.binary_search(&offset).expect("a value of a file stands in its index");
        self.dead[ordinal] = true;
        self.is_written = false;
    }

    /// Writes who is dead; durable once the directory is synced. Says whether there was anything to write.
    pub(crate) fn write(&mut self, disk: &dyn Disk) -> io::Result<bool> {
        if self.is_written {
            return Ok(false);
        }
        let byte = |bits: &[bool]| (0..).zip(bits).fold(0, |byte, (bit, dead)| byte | u8::from(*dead) << bit);
        let mut bytes: Vec<u8> = self.dead.chunks(8).map(byte).collect();
        bytes.extend(self.sum(&bytes));
        let temporary = format!("dead-{:010}.tmp", self.number & !IS_KEPT);
        let file = disk.create(&temporary)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        disk.rename(&temporary, &dead_name(self.number))?;
        (self.is_written, self.has_file) = (true, true);
        Ok(true)
    }

    /// Removes the file, and only then its dead: should the power be cut in between, nobody comes back.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.remove(&name(self.number))?;
        if self.has_file {
            disk.sync_directory()?;
            disk.remove(&dead_name(self.number))?;
        }
        Ok(())
    }
}

/// Removes the dead of files that are gone.
fn remove_leftovers(disk: &dyn Disk, names: &[String]) -> io::Result<()> {
    let is_left = |it: &&String| !is_file(it) && number(it).is_some_and(|it| !names.contains(&name(it)));
    names.iter().filter(is_left).try_for_each(|it| disk.remove(it))
}

fn header(number: u32, salt: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.extend(salt.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn indexed(&mut self) -> Option<Indexed<'a>> {
        let identity = Identity::from_bytes(self.take()?);
        let fence = Fence::new(u64::from_le_bytes(self.take()?))?;
        let floor = Timestamp::from_millis(u64::from_le_bytes(self.take()?));
        let (offset, length) = (self.word()?, self.word()?);
        let front_length = u32::from_le_bytes(self.take()?) as usize;
        let (front, rest) = self.0.split_at_checked(front_length)?;
        self.0 = rest;
        Some(Indexed { identity, fence, floor, offset, length, front })
    }
}

/// A file that is being written.
pub(crate) struct Builder<'a> {
    temporary: Temporary<'a>,
    number: u32,
    salt: u32,
    file: Arc<dyn DiskFile>,
    /// Not yet written, and where it begins.
    buffer: Vec<u8>,
    start: u64,
    index: Vec<u8>,
    offsets: Vec<u32>,
    live_bytes: u64,
}

impl<'a> Builder<'a> {
    /// Begins the file of this number, which covers the journal's up to that one and replaces those.
    pub(crate) fn new(
        disk: &'a dyn Disk,
        number: u32,
        covers: u32,
        replaces: &[u32],
        now: Timestamp,
    ) -> io::Result<Self> {
        let salt = crc32fast::hash(&[&now.as_millis().to_le_bytes()[..], &number.to_le_bytes()].concat());
        let temporary = Temporary::new(disk, format!("waiting-{:010}.tmp", number & !IS_KEPT));
        let file = disk.create(&temporary.name)?;
        let mut index = Vec::new();
        for word in [covers, replaces.len() as u32].iter().chain(replaces) {
            index.extend(word.to_le_bytes());
        }
        Ok(Self {
            temporary,
            number,
            salt,
            file,
            buffer: header(number, salt),
            start: 0,
            index,
            offsets: Vec::new(),
            live_bytes: 0,
        })
    }

    /// Adds a value, and says where it stands and how long it is.
    pub(crate) fn push(
        &mut self,
        identity: Identity,
        fence: Fence,
        floor: Timestamp,
        payload: &[u8],
        front: &[u8],
    ) -> io::Result<(u32, u32)> {
        let offset = (self.start + self.buffer.len() as u64) as u32;
        let expires_at = Timestamp::NEVER;
        let kind = Kind::Waiting;
        let put = Put { identity, fence, expires_at, floor, kind, is_continued: false, payload };
        frame::append(&mut self.buffer, self.salt, offset, &Frame::Put(put));
        let length = frame::put_length(payload.len()) as u32;
        self.index.extend(identity.as_bytes());
        self.index.extend(fence.get().to_le_bytes());
        self.index.extend(floor.as_millis().to_le_bytes());
        for word in [offset, length, front.len() as u32] {
            self.index.extend(word.to_le_bytes());
        }
        self.index.extend(front);
        self.offsets.push(offset);
        self.live_bytes += u64::from(length);
        if self.buffer.len() >= SLICE_BYTES {
            self.write_out()?;
        }
        Ok((offset, length))
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.start)?;
        self.file.sync()?;
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file durable, and names it.
    pub(crate) fn finish(mut self) -> io::Result<(Kept, Grave)> {
        let index_at = (self.start + self.buffer.len() as u64) as u32;
        let mut footer = Vec::new();
        for word in [index_at, self.index.len() as u32, crc32fast::hash(&self.index)] {
            footer.extend(word.to_le_bytes());
        }
        footer.extend(crc32fast::hash(&footer).to_le_bytes());
        self.buffer.extend(&self.index);
        self.buffer.extend(&footer);
        self.write_out()?;
        self.temporary.rename(&name(self.number))?;
        self.temporary.disk.sync_directory()?;
        let segment = Arc::new(Segment { number: self.number, salt: self.salt, file: self.file });
        let kept = Kept { segment, bytes: self.start, live_bytes: self.live_bytes };
        let dead = vec![false; self.offsets.len()];
        let (number, salt, offsets) = (self.number, self.salt, self.offsets);
        Ok((kept, Grave { number, salt, offsets, dead, is_written: true, has_file: false }))
    }
}

/// The number after all of these.
pub(crate) fn next_number<'a>(numbers: impl Iterator<Item = &'a u32>) -> u32 {
    (numbers.max().map_or(0, |it| it & !IS_KEPT) + 1) | IS_KEPT
}
