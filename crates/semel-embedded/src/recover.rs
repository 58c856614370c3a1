//! Opening a directory: from what a crash left to an engine.
//!
//! 1. A directory is Semel's once it holds the file `FORMAT`, which is made last.
//! 2. The journal is read from its newest segment backwards, down to what was moved into SQLite. Everything
//!    read is synced before it is shown to anybody, because what was written may not have been durable.
//! 3. A bucket that covers segments of which the journal does not note that they were moved is the work of
//!    a flush that was cut short. The journal still has it all, so the bucket is removed; so is one that was
//!    merged into another, and one that has expired: the crash may have come while such were being removed,
//!    and the newer go last.
//! 4. The new process writes into a new segment; no old one is written to again.

use crate::{
    archive::Archive,
    bucket::{self, Bucket},
    disk::Disk,
    engine::{Engine, Options, State, Tail},
    error::{corrupt, disk as disk_error, misconfigured},
    expire::Purging,
    frame::{Frame, Kind, Put},
    hot::{Entry, Hot},
    kept::{self, Died, Grave, Indexed, Kept, is_kept},
    owner::Owner,
    pace::Pace,
    segment::{self, RESTORE, Segment},
    spares::{FULL, Made, Purpose, Spares, is_reserve, is_spare},
};
use semel_core::{
    fence::Fence,
    sabotage,
    store::StoreError,
    time::{Clock, Timestamp},
};
use std::{
    collections::{BTreeMap, hash_map::Entry as Slot},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
};

const FORMAT: u32 = 1;
const FORMAT_FILE: &str = "FORMAT";
/// About how many bytes a value takes in the journal: a claim and an outcome.
const PUT_BYTES_TYPICAL: usize = 400;
/// How many spare files of the journal survive a restart.
const SPARES_MAX: usize = 2;

/// What was read from the journal.
struct Recovered<O: Owner> {
    owner: O,
    hot: Hot<O::Note>,
    segments: BTreeMap<u32, Arc<Segment>>,
    /// The newest segment that holds anything, and where it ends.
    newest: (u32, u32),
    moved: u32,
    last_fence: Option<Fence>,
}

impl<O: Owner> Engine<O> {
    /// Opens the directory, or makes it one of Semel's.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let names = disk.list().map_err(disk_error("read the directory"))?;
        let is_new = !has_format::<O>(&*disk, &names)?;
        let Leftovers { spares: spare, reserve } =
            remove_leftovers(&*disk, &names, options.segment_bytes, O::RESERVE_SEGMENTS)?;
        if is_new {
            make_format::<O>(&*disk).map_err(disk_error("make the directory"))?;
        }
        let recovered = read_journal::<O>(&*disk, &names)?;
        let Recovered { mut owner, mut hot, mut segments, newest, moved, last_fence } = recovered;
        let (kept, graves, dead) = open_kept(&*disk, &names, moved, &mut owner, &mut hot)?;
        hot.retain(|it| it.kind != Kind::Removed);
        owner.replayed(&hot);
        let archive = Archive::new(open_buckets(&*disk, &names, moved, &owner, clock.now())?);
        let spares = Spares::new(Arc::clone(&disk), options.segment_bytes, options.flush_segments, spare);
        let spares = spares.with_reserve(O::RESERVE_SEGMENTS, reserve);
        let number = names.iter().filter_map(|it| segment::number(it)).max().unwrap_or(0) + 1;
        let made = spares.make_now(number, clock.now(), Purpose::Known);
        let Made { segment, is_short, limit, is_of_reserve } =
            made.map_err(disk_error("begin a file of the journal"))?;
        let first = Arc::new(segment);
        segments.insert(number, Arc::clone(&first));
        let mut state = State {
            owner,
            hot,
            last_fence,
            segments,
            kept,
            dead: Vec::new(),
            tail: Tail::new(first, is_short, limit),
            retired: Vec::new(),
            last_number: number,
            purging: Purging::default(),
            next: None,
            durable: (number, 0),
            appended: 0,
            taken: 0,
            waiters: Vec::new(),
            is_sync_asked: false,
            syncs: 0,
            is_syncer_idle: false,
            moving: None,
            trouble: is_of_reserve.then(|| FULL.to_owned()),
            poison: None,
            is_closing: false,
        };
        for it in dead {
            state.died(it);
        }
        state.push(&Frame::Follows { segment: newest.0, end: newest.1 });
        state.push_summary();
        let pace = Arc::new(Pace::new(options.clone(), state.segments.len()));
        let engine = Self {
            disk,
            clock,
            options,
            pace,
            state: Mutex::new(state),
            io: Mutex::default(),
            written: AtomicU64::new(0),
            archive,
            graves: Mutex::new(graves),
            files: Mutex::default(),
            spares,
            wanted: Condvar::new(),
            chores: Condvar::new(),
            room: tokio::sync::Notify::new(),
            idle: tokio::sync::Notify::new(),
            is_full: AtomicBool::new(false),
            reopened_at: last_fence,
        };
        engine.sync()?;
        Ok(engine)
    }
}

/// Whether the directory is one of Semel's; an error if it is one that this version cannot serve.
fn has_format<O: Owner>(disk: &dyn Disk, names: &[String]) -> Result<bool, StoreError> {
    if !names.iter().any(|it| it == FORMAT_FILE) {
        let is_data = |it: &&String| segment::number(it).is_some() || bucket::parse_name(it).is_some();
        if let Some(name) = names.iter().find(is_data) {
            return Err(corrupt(format!("the directory holds `{name}` but no `{FORMAT_FILE}`: {RESTORE}")));
        }
        return Ok(false);
    }
    let file = disk.open(FORMAT_FILE).map_err(disk_error("read the file `FORMAT`"))?;
    let mut bytes = vec![0; file.length().unwrap_or(0).min(256) as usize];
    file.read_at(&mut bytes, 0).map_err(disk_error("read the file `FORMAT`"))?;
    let text = String::from_utf8_lossy(&bytes);
    let format: Option<u32> = text.strip_prefix(O::FORMAT_TEXT).and_then(|it| it.trim_end().parse().ok());
    match format {
        Some(FORMAT) => Ok(true),
        Some(newer) if newer > FORMAT => Err(misconfigured(format!(
            "the directory was written by a newer Semel (format {newer}, this one knows {FORMAT}): upgrade Semel"
        ))),
        Some(_) | None => Err(corrupt(format!("the file `{FORMAT_FILE}` is damaged: {RESTORE}"))),
    }
}

fn make_format<O: Owner>(disk: &dyn Disk) -> std::io::Result<()> {
    const TEMPORARY: &str = "FORMAT.tmp";
    let file = disk.create(TEMPORARY)?;
    file.write_at(format!("{}{FORMAT}\n", O::FORMAT_TEXT).as_bytes(), 0)?;
    file.sync()?;
    disk.rename(TEMPORARY, FORMAT_FILE)?;
    disk.sync_directory()
}

/// Whether nobody needs the file once its maker is dead: ours, and SQLite's own beside one being built.
fn is_temporary(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| ending == "tmp" || ending == "tmp-journal")
}

/// Files without a use that are kept.
struct Leftovers {
    spares: Vec<String>,
    reserve: Vec<String>,
}

/// Removes what a crash left half made, and most of the spare files; gives those it keeps.
fn remove_leftovers(
    disk: &dyn Disk,
    names: &[String],
    segment_bytes: u32,
    reserve_max: usize,
) -> Result<Leftovers, StoreError> {
    let spares: Vec<_> = names.iter().filter(|it| is_spare(it)).take(SPARES_MAX).cloned().collect();
    let is_whole = |it: &&String| {
        let length = disk.open(it).and_then(|it| it.length());
        length.is_ok_and(|it| it == u64::from(segment_bytes))
    };
    let reserve = names.iter().filter(|it| is_reserve(it)).filter(is_whole);
    let reserve: Vec<_> = reserve.take(reserve_max).cloned().collect();
    let is_kept = |it: &&String| spares.contains(it) || reserve.contains(it);
    for name in names.iter().filter(|it| is_temporary(it) && !is_kept(it)) {
        disk.remove(name).map_err(disk_error(format_args!("remove `{name}`")))?;
    }
    Ok(Leftovers { spares, reserve })
}

fn read_journal<O: Owner>(disk: &dyn Disk, names: &[String]) -> Result<Recovered<O>, StoreError> {
    let mut numbers: Vec<u32> = names.iter().filter_map(|it| segment::number(it)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut it = Recovered {
        owner: O::default(),
        hot: Hot::new(),
        segments: BTreeMap::new(),
        newest: (0, segment::HEADER_BYTES),
        moved: 0,
        last_fence: None,
    };
    // Which segment comes next on the way back, and where it ends.
    let mut wanted: Option<(u32, u32)> = None;
    for number in numbers {
        if number <= it.moved {
            disk.remove(&segment::name(number)).map_err(disk_error("remove a file of the journal"))?;
            continue;
        }
        if wanted.is_some_and(|(wanted, _)| number < wanted) {
            break;
        }
        let segment = Segment::open(disk, number)?;
        if wanted.is_some_and(|(wanted, _)| number > wanted) {
            // Made ahead of need, and passed over.
            disk.remove(&segment::name(number)).map_err(disk_error("remove a file of the journal"))?;
            continue;
        }
        let mut follows = None;
        let mut group = Vec::new();
        let mut is_sound = true;
        it.hot.reserve(wanted.map_or(0, |it| it.1) as usize / PUT_BYTES_TYPICAL);
        let end = segment.scan(wanted.map(|it| it.1), |offset, length, frame| match frame {
            Frame::Put(put) if put.is_continued => {
                let Put { identity, fence, expires_at, floor, kind, is_continued, payload } = put;
                let put = Put { identity, fence, expires_at, floor, kind, is_continued, payload: &[] };
                group.push((offset, length, put, payload.to_vec()));
            }
            Frame::Put(put) => {
                for (offset, length, put, payload) in group.drain(..) {
                    is_sound &= it.replay((number, offset, length), &Put { payload: &payload, ..put });
                }
                is_sound &= it.replay((number, offset, length), &put);
            }
            Frame::Own { bytes } => is_sound &= it.owner.replay_own(bytes).is_some(),
            Frame::Moved { upto, fence } => {
                it.moved = it.moved.max(upto);
                it.last_fence = it.last_fence.max(Some(fence));
            }
            Frame::Follows { segment, end } => follows = Some((segment, end)),
            Frame::Durable { .. } => {}
        })?;
        if !is_sound {
            return Err(corrupt(format!("`{}` makes no sense: {RESTORE}", segment::name(number))));
        }
        match follows {
            Some(before) => wanted = Some(before),
            // Made ahead of need, and never used.
            None if wanted.is_none() && end == segment::HEADER_BYTES => {
                disk.remove(&segment::name(number)).map_err(disk_error("remove a file of the journal"))?;
                continue;
            }
            None => return Err(corrupt(format!("`{}` has no beginning: {RESTORE}", segment::name(number)))),
        }
        if !sabotage::is_on("embedded_recovered_unsynced") {
            segment.file.sync().map_err(disk_error("sync the journal"))?;
        }
        if it.segments.is_empty() {
            it.newest = (number, end);
        }
        it.segments.insert(number, Arc::new(segment));
    }
    match wanted {
        Some((number, _)) if number > it.moved && !it.segments.contains_key(&number) && number != 0 => {
            Err(corrupt(format!("`{}` is missing: {RESTORE}", segment::name(number))))
        }
        Some(_) | None => Ok(it),
    }
}

impl<O: Owner> Recovered<O> {
    /// Takes in a put that stands there; `false` if it makes no sense.
    fn replay(&mut self, (segment, offset, length): (u32, u32, usize), put: &Put<'_>) -> bool {
        let Some(note) = self.owner.replay(put.payload) else { return false };
        let Put { fence, expires_at, floor, kind, .. } = *put;
        self.last_fence = self.last_fence.max(Some(fence));
        let length = length as u32;
        let entry = Entry { fence, expires_at, floor, segment, offset, length, kind, note };
        self.hot.recover(&put.identity, entry);
        true
    }
}

type KeptFiles = (BTreeMap<u32, Kept>, BTreeMap<u32, Grave>, Vec<Died>);

/// The files of those that wait, what is dead in them, and the values in them that the journal replaced.
fn open_kept<O: Owner>(
    disk: &dyn Disk,
    names: &[String],
    moved: u32,
    owner: &mut O,
    hot: &mut Hot<O::Note>,
) -> Result<KeptFiles, StoreError> {
    let mut dead = Vec::new();
    let mut files = kept::open_all(disk, names, moved)?;
    hot.reserve(files.iter().map(kept::Opened::about).sum());
    let mut visit = |segment: u32, indexed: Indexed<'_>| {
        let Indexed { identity, fence, floor, offset, length, front } = indexed;
        let known = hot.slot(&identity);
        if let Slot::Occupied(known) = &known {
            let Entry { fence: theirs, segment: place, offset: at, length: long, .. } = *known.get();
            if theirs >= fence {
                let by = if is_kept(place) { moved } else { place };
                dead.push(Died { segment, offset, length, by });
                return Ok(());
            }
            if is_kept(place) {
                dead.push(Died { segment: place, offset: at, length: long, by: moved });
            }
        }
        let note = owner.recall(front);
        let note =
            note.ok_or_else(|| corrupt(format!("a file of those that wait makes no sense: {RESTORE}")))?;
        let expires_at = Timestamp::NEVER;
        let kind = Kind::Waiting;
        known.insert_entry(Entry { fence, expires_at, floor, segment, offset, length, kind, note });
        Ok(())
    };
    files.iter_mut().try_for_each(|it| it.visit(&mut visit))?;
    let (mut kept, mut graves) = (BTreeMap::new(), BTreeMap::new());
    for it in files {
        let number = it.kept.segment.number;
        kept.insert(number, it.kept);
        graves.insert(number, it.grave);
    }
    Ok((kept, graves, dead))
}

fn open_buckets<O: Owner>(
    disk: &dyn Disk,
    names: &[String],
    moved: u32,
    owner: &O,
    now: Timestamp,
) -> Result<Vec<Arc<Bucket>>, StoreError> {
    let mut list = Vec::new();
    for name in names.iter().filter(|it| bucket::parse_name(it).is_some()) {
        if moved == 0 && names.iter().all(|it| segment::number(it).is_none()) {
            return Err(corrupt(format!("the directory holds `{name}` but no journal: {RESTORE}")));
        }
        list.push(Arc::new(Bucket::open(disk, name)?));
    }
    let replaced: Vec<u32> = list.iter().flat_map(|it| it.replaces.iter().copied()).collect();
    // Who counts what goes removes what has expired later, and counts it.
    let is_over = |it: &Bucket| it.end <= now && !O::IS_COUNTING;
    let is_valid = |it: &Arc<Bucket>| {
        it.covers <= moved && !replaced.contains(&it.serial()) && !is_over(it) && !owner.is_gone(&it.name)
    };
    let (valid, left_over): (Vec<_>, Vec<_>) = list.into_iter().partition(is_valid);
    for Bucket { name, .. } in left_over.iter().map(|it| &**it) {
        disk.remove(name).map_err(disk_error(format_args!("remove `{name}`")))?;
    }
    Ok(valid)
}
