//! The engine: a journal in front of SQLite files, whatever the values mean.
//!
//! 1. [`Engine::apply`] decides a swap under one short lock and appends it to the journal's tail in memory;
//!    nothing is answered before the tail has reached the operating system or the disk, as the change needs.
//! 2. Whoever needs the OS writes the tail out itself, for everybody; whoever needs the disk waits for the
//!    syncing thread, which syncs for all who wait ([`crate::commit`]).
//! 3. Values are found through [`Hot`] in the journal, and in the [`Archive`] after the flusher moved them
//!    there ([`crate::flush`]).
//! 4. A failed write or sync of the journal stops the engine for good: the OS may have dropped what it held,
//!    so no later success would mean anything.
//!
//! It does not know records, leases or policies: a value is bytes, an expiry, and a [`Kind`].

use crate::{
    archive::{Archive, Archived, bucket_end},
    commit::Waiter,
    disk::Disk,
    error::{corrupt, poisoned, refused},
    expire::Purging,
    frame::{self, Frame, Kind, Put},
    hot::{Entry, Hot},
    kept::{Died, Grave, Kept, is_kept},
    lock,
    owner::Owner,
    pace::Pace,
    segment::{HEADER_BYTES, RESTORE, Segment},
    spares::{Purpose, Spares},
};
use semel_core::{
    fence::Fence,
    key::Identity,
    sabotage,
    store::StoreError,
    time::{Clock, Timestamp},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Largest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;
/// How often a read may find that its value has just moved.
pub(crate) const MOVES_MAX: usize = 16;

/// The sizes of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large a file of the journal is.
    pub segment_bytes: u32,
    /// How many full files of the journal are moved into SQLite together.
    pub flush_segments: usize,
    /// How many full files of the journal may wait before new keys must.
    pub backlog_segments_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, flush_segments: 8, backlog_segments_max: 16 }
    }
}

/// See the module.
pub(crate) struct Engine<O: Owner> {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) state: Mutex<State<O>>,
    /// Held while bytes go from the tail to the OS, so that they do so in order.
    pub(crate) io: Mutex<Vec<u8>>,
    /// How much of the journal the OS has, in bytes since the start.
    pub(crate) written: AtomicU64,
    pub(crate) archive: Archive,
    /// Who is dead in the files of those that wait.
    pub(crate) graves: Mutex<BTreeMap<u32, Grave>>,
    /// Held while files of records are made or removed.
    pub(crate) files: Mutex<()>,
    pub(crate) spares: Spares,
    /// How fast files are made.
    pub(crate) pace: Arc<Pace>,
    /// Wakes the syncing thread.
    pub(crate) wanted: Condvar,
    /// Wakes the housekeeping thread.
    pub(crate) chores: Condvar,
    /// Tells those who wait for the backlog to shrink that it did.
    pub(crate) room: tokio::sync::Notify,
    /// Tells those who wait for files to be left alone that they are.
    pub(crate) idle: tokio::sync::Notify,
    pub(crate) is_full: AtomicBool,
    /// The newest fence of the process before this one: whoever held a lease then is dead.
    pub(crate) reopened_at: Option<Fence>,
}

/// What changes under the lock.
pub(crate) struct State<O: Owner> {
    pub(crate) owner: O,
    pub(crate) hot: Hot<O::Note>,
    pub(crate) last_fence: Option<Fence>,
    /// The files of the journal, by number; the last is the tail's.
    pub(crate) segments: BTreeMap<u32, Arc<Segment>>,
    /// The files of those that wait, by number.
    pub(crate) kept: BTreeMap<u32, Kept>,
    /// Who died in there, and is not yet known to the flusher.
    pub(crate) dead: Vec<Died>,
    pub(crate) tail: Tail,
    /// Tails of full segments that have not been written out.
    pub(crate) retired: Vec<Batch>,
    /// The highest number any segment was given.
    pub(crate) last_number: u32,
    /// The next segment, made ahead of need.
    pub(crate) next: Option<Arc<Segment>>,
    /// Everything in the journal before this segment and offset is durable.
    pub(crate) durable: (u32, u32),
    /// How many bytes were appended since the start.
    pub(crate) appended: u64,
    /// How many of these were taken to be written out; in between, a write is under way.
    pub(crate) taken: u64,
    pub(crate) waiters: Vec<Waiter>,
    /// Whether one of those who wait wants no more company.
    pub(crate) is_sync_asked: bool,
    /// How often those who waited were taken to be synced for.
    pub(crate) syncs: u64,
    pub(crate) is_syncer_idle: bool,
    /// Which segments are being moved into SQLite, and since when.
    pub(crate) moving: Option<(u32, Timestamp)>,
    /// What has expired, and is to go.
    pub(crate) purging: Purging,
    /// Why housekeeping could not do its work, until it can: the disk is full, most likely.
    pub(crate) trouble: Option<String>,
    /// Why the engine stopped.
    pub(crate) poison: Option<String>,
    pub(crate) is_closing: bool,
}

/// The end of the journal.
pub(crate) struct Tail {
    pub(crate) segment: Arc<Segment>,
    /// Appended, but not yet taken to be written out.
    pub(crate) pending: Vec<u8>,
    /// Where the pending bytes begin.
    pub(crate) start: u32,
    /// How far the segment was durable when last synced, and what the last mark says of that.
    pub(crate) durable: u32,
    pub(crate) marked: u32,
    /// Whether the file was not filled ahead to a segment's full length.
    pub(crate) is_short: bool,
    /// How far the file may be written.
    pub(crate) limit: u32,
}

/// Bytes on their way to the OS.
pub(crate) struct Batch {
    pub(crate) segment: Arc<Segment>,
    pub(crate) start: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(segment: Arc<Segment>, is_short: bool, limit: u32) -> Self {
        let start = HEADER_BYTES;
        Self { segment, pending: Vec::new(), start, durable: start, marked: start, is_short, limit }
    }

    pub(crate) fn end(&self) -> u32 {
        self.start + self.pending.len() as u32
    }
}

/// A swap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) expected: Option<Fence>,
    pub(crate) expires_at: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) payload: &'a [u8],
}

/// What became of a swap. A won one may be answered once the journal is written up to `upto`; if it `is_alone`,
/// nothing else is on its way to the disk.
#[derive(Debug)]
pub(crate) enum Applied {
    Won { fence: Fence, upto: u64, is_alone: bool },
    Lost(Option<Value>),
}

/// A value as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) fence: Fence,
    pub(crate) payload: Vec<u8>,
    /// Whether it would survive a power cut now. What would not must not be shown as settled.
    pub(crate) is_durable: bool,
}

/// Where a value was found.
enum Place<N> {
    Journal(At<N>),
    Archive(Archived),
}

/// An entry's frame, and how to come by its bytes.
struct At<N> {
    entry: Entry<N>,
    segment: Arc<Segment>,
    /// Its bytes, if the OS does not have them yet.
    bytes: Option<Vec<u8>>,
    /// Whether its bytes may be on their way to the OS at this moment.
    is_in_flight: bool,
    is_durable: bool,
}

impl<O: Owner<Note = ()>> Engine<O> {
    /// Swaps, in memory; `waiter` is woken when the change is durable.
    pub(crate) fn apply(
        &self,
        change: &Change<'_>,
        waiter: impl FnOnce(u64) -> Option<Waiter>,
    ) -> Result<Applied, StoreError> {
        let now = self.clock.now();
        let mut archived: Option<Archived> = None;
        for _ in 0..MOVES_MAX {
            let mut state = lock(&self.state);
            state.check()?;
            let (fence, floor) = match state.hot.get(change.identity) {
                Some(entry) => (Some(entry.fence), state.floor_under(entry)),
                None => match &archived {
                    Some(it) if it.version == self.archive.version() => (it.fence(), it.floor),
                    Some(_) | None => {
                        drop(state);
                        archived = Some(self.archive.find(change.identity)?);
                        continue;
                    }
                },
            };
            if fence != change.expected {
                drop(state);
                return Ok(Applied::Lost(self.load(change.identity)?));
            }
            let purpose = if change.expected.is_none() { Purpose::New } else { Purpose::Known };
            if purpose == Purpose::New {
                self.admit(&state)?;
            }
            let is_alone = state.is_syncer_idle && state.tail.pending.is_empty();
            let fence = Fence::next(state.last_fence, now);
            let Change { identity, expires_at, kind, payload, .. } = *change;
            let floor = if sabotage::is_on("embedded_floor_ignored") { Timestamp::EPOCH } else { floor };
            let put =
                Put { identity: *identity, fence, expires_at, floor, kind, is_continued: false, payload };
            self.append(&mut state, &put, (), purpose)?;
            state.last_fence = Some(fence);
            let upto = state.appended;
            let waiter = waiter(upto);
            let must_wake = waiter.is_some() && state.is_syncer_idle;
            state.is_sync_asked |= waiter.is_some();
            state.waiters.extend(waiter);
            drop(state);
            if must_wake {
                self.wanted.notify_one();
            }
            return Ok(Applied::Won { fence, upto, is_alone });
        }
        Err(corrupt("swap a record: it moved without end"))
    }
}

impl<O: Owner> Engine<O> {
    /// The newest value of a key.
    pub(crate) fn load(&self, identity: &Identity) -> Result<Option<Value>, StoreError> {
        for _ in 0..MOVES_MAX {
            match self.locate(identity)? {
                Place::Archive(it) => {
                    return Ok(it.newest.map(|it| Value {
                        fence: it.fence,
                        payload: it.payload,
                        is_durable: true,
                    }));
                }
                Place::Journal(at) => {
                    // The flusher may have moved it meanwhile, and the file serve again: look once more.
                    match self.read(&at) {
                        Some((found, payload)) if found == *identity => {
                            return Ok(Some(Value {
                                fence: at.entry.fence,
                                payload,
                                is_durable: at.is_durable,
                            }));
                        }
                        Some(_) | None => {}
                    }
                }
            }
        }
        Err(corrupt(format!("the journal does not hold what it should for {identity}: {RESTORE}")))
    }

    /// The newest value of a key of which half is known, if it has not moved into SQLite.
    pub(crate) fn load_half(&self, half: u128) -> Result<Option<(Identity, Value)>, StoreError> {
        for _ in 0..MOVES_MAX {
            let state = lock(&self.state);
            state.check()?;
            let Some(entry) = state.hot.get_half(half) else { return Ok(None) };
            let at = state.at(entry, self.written.load(Ordering::Acquire));
            drop(state);
            if let Some((identity, payload)) = self.read(&at)
                && crate::hot::half(&identity) == half
            {
                let Entry { fence, .. } = at.entry;
                return Ok(Some((identity, Value { fence, payload, is_durable: at.is_durable })));
            }
        }
        Err(corrupt(format!("the journal does not hold what it should for {half:032x}: {RESTORE}")))
    }

    /// How many bytes of disk are taken, also by what is made ahead.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let files: u64 = self.archive.buckets().list.iter().map(|it| it.bytes).sum();
        let state = lock(&self.state);
        let kept: u64 = state.kept.values().map(|it| it.bytes).sum();
        let segments = state.segments.len() + usize::from(state.next.is_some()) + self.spares.count();
        files + kept + segments as u64 * u64::from(self.options.segment_bytes)
    }

    fn locate(&self, identity: &Identity) -> Result<Place<O::Note>, StoreError> {
        let mut archived: Option<Archived> = None;
        loop {
            let state = lock(&self.state);
            state.check()?;
            if let Some(entry) = state.hot.get(identity) {
                return Ok(Place::Journal(state.at(entry, self.written.load(Ordering::Acquire))));
            }
            if let Some(it) = archived.take()
                && it.version == self.archive.version()
            {
                return Ok(Place::Archive(it));
            }
            drop(state);
            archived = Some(self.archive.find(identity)?);
        }
    }

    fn read(&self, at: &At<O::Note>) -> Option<(Identity, Vec<u8>)> {
        if let Some(bytes) = &at.bytes {
            return parse(bytes, &at.segment, &at.entry);
        }
        if at.is_in_flight {
            drop(lock(&self.io));
        }
        read_frame(&at.segment, &at.entry)
    }

    /// Appends a value to the journal and points the map to it; gives what it pointed to before.
    pub(crate) fn append(
        &self,
        state: &mut State<O>,
        put: &Put<'_>,
        note: O::Note,
        purpose: Purpose,
    ) -> Result<Option<Entry<O::Note>>, StoreError> {
        self.make_room(state, [put.payload.len()].into_iter(), purpose)?;
        Ok(state.place(put, note).1)
    }

    /// Refuses new keys while the next file cannot be made or the reserve is not whole, so that what is left serves those
    /// who are under way.
    pub(crate) fn admit(&self, state: &State<O>) -> Result<(), StoreError> {
        match &state.trouble {
            Some(_) if sabotage::is_on("embedded_reserve_for_everybody") => Ok(()),
            Some(cause) if state.next.is_none() || !self.spares.is_whole() => {
                Err(refused(format!("takes no new keys while its directory cannot grow: {cause}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether what is left of a full disk is for those who are under way alone: nothing more may be begun.
    pub(crate) fn is_saving(&self, state: &State<O>) -> bool {
        state.trouble.is_some()
            && state.next.is_none()
            && self.spares.is_low()
            && !sabotage::is_on("embedded_begins_without_room")
    }

    /// How many keys are found through the journal, and how many rows stand in SQLite.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let rows = self.archive.buckets().list.iter().map(|it| it.rows).sum();
        (lock(&self.state).hot.len(), rows)
    }
}

/// The identity and the payload of an entry; `None` if something else stands there now.
pub(crate) fn read_frame<N>(segment: &Segment, entry: &Entry<N>) -> Option<(Identity, Vec<u8>)> {
    let mut bytes = vec![0; entry.length as usize];
    segment.file.read_at(&mut bytes, entry.offset.into()).ok()?;
    parse(&bytes, segment, entry)
}

/// The identity that stands in a damaged frame, which may be damaged, too.
pub(crate) fn damaged_identity<N>(segment: &Segment, entry: &Entry<N>) -> Option<Identity> {
    let mut bytes = [0; 32];
    segment.file.read_at(&mut bytes, u64::from(entry.offset) + frame::IDENTITY_AT).ok()?;
    Some(Identity::from_bytes(bytes))
}

fn parse<N>(bytes: &[u8], segment: &Segment, entry: &Entry<N>) -> Option<(Identity, Vec<u8>)> {
    match frame::read(bytes, segment.salt, entry.offset)? {
        (Frame::Put(put), _) if put.fence == entry.fence => Some((put.identity, put.payload.to_vec())),
        _ => None,
    }
}

impl<O: Owner> State<O> {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.poison.as_ref().map_or(Ok(()), |cause| Err(poisoned(cause)))
    }

    /// What a value that takes this one's place must outlive: the bucket that this one is just moving into,
    /// too.
    pub(crate) fn floor_under(&self, entry: &Entry<O::Note>) -> Timestamp {
        match self.moving {
            Some((upto, now))
                if entry.segment <= upto
                    && entry.kind == Kind::Settled
                    && !sabotage::is_on("embedded_moving_floor_ignored") =>
            {
                bucket_end(now, entry.expires_at, entry.floor)
            }
            Some(_) | None => entry.floor,
        }
    }

    /// Appends a frame to the tail, which has room for it.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) {
        let before = self.tail.pending.len();
        let offset = self.tail.end();
        frame::append(&mut self.tail.pending, self.tail.segment.salt, offset, frame);
        self.appended += (self.tail.pending.len() - before) as u64;
    }

    /// Appends what the owner has to say at the front of a file.
    pub(crate) fn push_summary(&mut self) {
        if let Some(bytes) = self.owner.summary() {
            self.push(&Frame::Own { bytes: &bytes });
        }
    }

    fn at(&self, entry: &Entry<O::Note>, written: u64) -> At<O::Note> {
        let within = |number: u32, start: u32, bytes: &[u8]| {
            let from = entry.offset.checked_sub(start).filter(|_| number == entry.segment)? as usize;
            bytes.get(from..from + entry.length as usize).map(<[u8]>::to_vec)
        };
        let retired = self.retired.iter().find_map(|it| within(it.segment.number, it.start, &it.bytes));
        let tail = || within(self.tail.segment.number, self.tail.start, &self.tail.pending);
        At {
            entry: *entry,
            segment: Arc::clone(self.segment_of(entry)),
            bytes: retired.or_else(tail),
            is_in_flight: written < self.taken,
            is_durable: self.is_durable(entry),
        }
    }

    fn segment_of(&self, entry: &Entry<O::Note>) -> &Arc<Segment> {
        let segment = if is_kept(entry.segment) {
            self.kept.get(&entry.segment).map(|it| &it.segment)
        } else {
            self.segments.get(&entry.segment)
        };
        segment.expect("the file that an entry points to is there")
    }

    /// Whether everything that was appended would survive a power cut now.
    pub(crate) fn is_all_durable(&self) -> bool {
        (self.tail.segment.number, self.tail.end()) <= self.durable
    }

    /// Whether the value would.
    pub(crate) fn is_durable(&self, entry: &Entry<O::Note>) -> bool {
        is_kept(entry.segment) || (entry.segment, entry.offset) < self.durable
    }
}
