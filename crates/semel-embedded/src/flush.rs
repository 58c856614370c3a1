//! From the journal into SQLite.
//!
//! 1. What is settled moves into the bucket of its expiry; what has expired, and hides nothing older, is
//!    dropped; what is leased is appended to the journal again.
//! 2. The buckets are durable and in the archive's list before their values leave the map; a
//!    [`Frame::Moved`] note is durable before the segments go. So every value can be found at every moment,
//!    and after a crash at any.
//! 3. The lock is held for one shard at a time. Values are read, and files built, without it.
//! 4. Buckets of one end that have become many and small are merged, and the smallest of those that have become very many.

use crate::{
    archive::bucket_end,
    bucket::{Bucket, Builder, Found},
    engine::{Engine, damaged_identity, read_frame},
    error::disk as disk_error,
    frame::{Frame, Kind, Put},
    hot::{self, Entry, SHARDS},
    kept::is_kept,
    lock,
    owner::Owner,
    pace::Chore,
    segment::{self, RESTORE, Segment},
    spares::Purpose,
};
use semel_core::{fence::Fence, key::Identity, sabotage, store::StoreError, time::Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// How many small buckets of one end may stand side by side. What is merged at once takes seconds, in which nothing else is
/// moved out of the journal: no more than its backlog has room for.
const SMALL_MAX: usize = 4;
/// How many rows make a bucket large enough to be left alone. A journal of ordinary values has as many, so they are merged only
/// where their ends differ. The one without end never is large enough: its rows go only when it is merged.
const SMALL_ROWS: usize = 50_000;
/// And how many bytes: rows may be large.
const SMALL_BYTES: u64 = 512 << 20;
/// How many buckets of one end may stand side by side, whatever their size. To merge a row costs twice what it cost to move it;
/// to ask one file more, for each new key, costs a hundredth of a microsecond. As many as ten million executions that came in a few
/// minutes make a hundred files of one end, which are not worth it.
const MANY_MAX: usize = 256;
/// How many of them are then merged at once.
const MANY_MERGED: usize = 8;
/// And how many bytes, together: SQLite maps no more.
const MERGED_BYTES_MAX: u64 = 4 << 30;
/// In how many steps buckets are merged, to bound the memory it takes.
const MERGE_STEPS: u64 = 64;

/// The full segments that are being moved.
pub(crate) struct Moving {
    pub(crate) upto: u32,
    pub(crate) segments: HashMap<u32, Arc<Segment>>,
    pub(crate) now: Timestamp,
}

impl<O: Owner> Engine<O> {
    /// Moves everything in the full segments into SQLite, and frees them. Does nothing if the store closes
    /// meanwhile: the journal still has it all.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let _files = lock(&self.files);
        self.pace.begin(Chore::Flush);
        let Some(mut moving) = self.moving() else { return Ok(()) };
        let flushed = self.move_all(&mut moving);
        lock(&self.state).moving = None;
        flushed
    }

    fn move_all(&self, moving: &mut Moving) -> Result<(), StoreError> {
        if !O::IS_COUNTING {
            // What is about to be dropped must not uncover an older value in a bucket that is over, too.
            self.purge_buckets(moving.now)?;
        }
        let appended = lock(&self.state).appended;
        self.write_upto(appended)?;
        let mut builders = BTreeMap::new();
        let mut moved = Vec::new();
        for shard in 0..SHARDS {
            if lock(&self.state).is_closing {
                return Ok(());
            }
            self.flush_shard(moving, shard, &mut builders, &mut moved)?;
        }
        let keeping = self.keep(moving)?;
        let buckets = self.finish_all(builders).inspect_err(|_| self.unkeep(&keeping))?;
        self.archive.replace(buckets, &[]);
        self.forget(&moved);
        self.point_to_kept(&keeping);
        self.log_again(moving)?;
        self.bury(moving)?;
        self.note_moved(moving)?;
        self.drop_replaced(&keeping)?;
        self.free(moving)
    }

    /// Finishes these, or leaves nothing of them: what is not in the archive's list would take room, and nobody would ever
    /// remove it.
    fn finish_all(&self, builders: BTreeMap<Timestamp, Builder<'_>>) -> Result<Vec<Arc<Bucket>>, StoreError> {
        let mut finished: Vec<Arc<Bucket>> = Vec::new();
        for builder in builders.into_values() {
            match builder.finish(&[]) {
                Ok(bucket) => finished.push(Arc::new(bucket)),
                Err(error) => {
                    for bucket in finished {
                        // A start removes what is left.
                        let _ = self.disk.remove(&bucket.name);
                    }
                    return Err(error);
                }
            }
        }
        Ok(finished)
    }

    /// Removes these from the map, if they still are what they were; a few at a time, to let others in.
    pub(crate) fn forget(&self, gone: &[(u128, Fence)]) {
        const AT_A_TIME: usize = 256;
        for some in gone.chunks(AT_A_TIME) {
            let mut state = lock(&self.state);
            for (half, fence) in some {
                if let Some(entry) = state.hot.remove(*half, *fence) {
                    state.owner.forgotten(*half, &entry);
                }
            }
            drop(state);
            self.breathe();
        }
    }

    fn moving(&self) -> Option<Moving> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let upto = state.tail.segment.number.checked_sub(1)?;
        let segments: HashMap<_, _> =
            state.segments.range(..=upto).map(|(number, it)| (*number, Arc::clone(it))).collect();
        if segments.is_empty() {
            return None;
        }
        state.moving = Some((upto, now));
        Some(Moving { upto, segments, now })
    }

    fn flush_shard<'a>(
        &'a self,
        moving: &Moving,
        shard: usize,
        builders: &mut BTreeMap<Timestamp, Builder<'a>>,
        moved: &mut Vec<(u128, Fence)>,
    ) -> Result<(), StoreError> {
        let settled = |it: &Entry<O::Note>| it.segment <= moving.upto && it.kind == Kind::Settled;
        let mut entries = lock(&self.state).hot.select(shard, settled);
        entries.sort_unstable_by_key(|it| it.0);
        for (half, entry) in entries {
            moved.push((half, entry.fence));
            if !O::IS_COUNTING && entry.expires_at <= moving.now && entry.floor <= moving.now {
                continue;
            }
            let (identity, payload) = self.value_of(moving, half, &entry);
            let end = bucket_end(moving.now, entry.expires_at, entry.floor);
            let builder = match builders.entry(end) {
                std::collections::btree_map::Entry::Occupied(it) => it.into_mut(),
                std::collections::btree_map::Entry::Vacant(it) => {
                    let serial = self.archive.next_serial();
                    let builder = Builder::new(&*self.disk, &O::LAYOUT, end, moving.upto, serial)?;
                    it.insert(builder.paced(&self.pace)?)
                }
            };
            let columns = O::columns(&identity, &payload);
            let Entry { fence, expires_at, .. } = entry;
            builder.push(&Found { identity, fence, expires_at, payload }, &columns)?;
            self.breathe();
        }
        Ok(())
    }

    /// Lets others go first, and sees that the journal's next file is there: a flush takes longer than a file lasts.
    pub(crate) fn breathe(&self) {
        if self.pace.breathe() {
            // What goes wrong goes wrong again after the flush, and is told then.
            let _ = self.prepare_next();
        }
    }

    /// Appends again what is left in the moved segments.
    fn log_again(&self, moving: &Moving) -> Result<(), StoreError> {
        for shard in 0..SHARDS {
            let entries = lock(&self.state).hot.select(shard, |it| it.segment <= moving.upto);
            for (half, entry) in entries {
                let (identity, mut payload) = self.value_of(moving, half, &entry);
                O::copied(&mut payload);
                let mut state = lock(&self.state);
                if state.hot.get(&identity) == Some(&entry) {
                    let Entry { fence, expires_at, floor, kind, note, .. } = entry;
                    let is_continued = false;
                    let put =
                        Put { identity, fence, expires_at, floor, kind, is_continued, payload: &payload };
                    self.append(&mut state, &put, note, Purpose::Known)?;
                }
            }
        }
        Ok(())
    }

    /// Notes, durably, that the moved segments are not needed.
    fn note_moved(&self, moving: &Moving) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.tail.end() + 32 > state.tail.limit {
            self.roll(&mut state, Purpose::Known)?;
        }
        let fence = Fence::next(state.last_fence, moving.now);
        state.last_fence = Some(fence);
        state.push(&Frame::Moved { upto: moving.upto, fence });
        drop(state);
        if sabotage::is_on("embedded_moved_note_unsynced") {
            return Ok(());
        }
        self.sync()
    }

    /// Keeps the moved segments' files for use again, or removes them.
    fn free(&self, moving: &Moving) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        state.segments.retain(|number, _| *number > moving.upto);
        self.note_length(&state);
        drop(state);
        for (_, segment) in moving.segments.iter().filter(|it| !is_kept(*it.0)) {
            self.spares.keep(segment).map_err(disk_error("remove a file of the journal"))?;
        }
        self.room.notify_waiters();
        Ok(())
    }

    /// Merges the small buckets of one end, where they have become too many.
    pub(crate) fn merge(&self) -> Result<(), StoreError> {
        let _files = lock(&self.files);
        self.pace.begin(Chore::Merge);
        let mut by_end: BTreeMap<Timestamp, Vec<Arc<Bucket>>> = BTreeMap::new();
        for bucket in &self.archive.buckets().list {
            by_end.entry(bucket.end).or_default().push(Arc::clone(bucket));
        }
        for (end, buckets) in by_end {
            let small = to_merge(end, &buckets);
            if small.is_empty() {
                continue;
            }
            let merged = self.merged(end, &small)?;
            self.archive.replace(vec![Arc::new(merged)], &small);
            let discarded = self.archive.discard(&*self.disk, &small);
            discarded.map_err(disk_error("remove a merged file of records"))?;
        }
        Ok(())
    }

    /// One bucket with the newest row of each key.
    fn merged(&self, end: Timestamp, small: &[Arc<Bucket>]) -> Result<Bucket, StoreError> {
        let covers = small.iter().map(|it| it.covers).max().unwrap_or(0);
        let builder = Builder::new(&*self.disk, &O::LAYOUT, end, covers, self.archive.next_serial())?;
        let mut builder = builder.paced(&self.pace)?;
        let now = self.clock.now();
        for step in 0..MERGE_STEPS {
            let mut rows = Vec::new();
            small.iter().try_for_each(|it| it.collect(step, MERGE_STEPS, &mut rows))?;
            rows.sort_unstable_by_key(|it| (it.identity, Reverse(it.fence)));
            rows.dedup_by_key(|it| it.identity);
            for found in &rows {
                let is_over = end == Timestamp::NEVER && found.expires_at <= now;
                if !is_over || self.archive.holds_beside(&found.identity, small)? {
                    builder.push(found, &O::columns(&found.identity, &found.payload))?;
                    self.breathe();
                }
            }
        }
        builder.finish(small)
    }
}

impl<O: Owner> Engine<O> {
    /// The value of an entry; if it is damaged, what its owner makes of that.
    pub(crate) fn value_of(
        &self,
        moving: &Moving,
        half: u128,
        entry: &Entry<O::Note>,
    ) -> (Identity, Vec<u8>) {
        let segment = moving.segments.get(&entry.segment);
        let read = segment.and_then(|it| read_frame(it, entry)).filter(|it| hot::half(&it.0) == half);
        read.unwrap_or_else(|| {
            let name = segment::name(entry.segment);
            let cause = format!("`{name}` is damaged at byte {}: {RESTORE}", entry.offset);
            let identity = segment.and_then(|it| damaged_identity(it, entry));
            let identity = identity.filter(|it| hot::half(it) == half);
            let payload = lock(&self.state).owner.damaged(half, &entry.note, cause);
            (identity.unwrap_or_else(|| hot::from_half(half)), payload)
        })
    }
}

/// Which of the buckets of one end are to become one.
fn to_merge(end: Timestamp, buckets: &[Arc<Bucket>]) -> Vec<Arc<Bucket>> {
    let sizes: Vec<_> = buckets.iter().map(|it| Size { rows: it.rows, bytes: it.bytes }).collect();
    chosen(&sizes, end == Timestamp::NEVER).into_iter().map(|at| Arc::clone(&buckets[at])).collect()
}

/// How large a bucket is.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    bytes: u64,
}

/// The places of those that are to become one; none if all are left alone.
fn chosen(sizes: &[Size], is_endless: bool) -> Vec<usize> {
    let is_small = |it: &Size| is_endless || it.rows < SMALL_ROWS && it.bytes < SMALL_BYTES;
    let small: Vec<usize> = (0..sizes.len()).filter(|at| is_small(&sizes[*at])).collect();
    if small.len() > SMALL_MAX {
        return small;
    }
    if sizes.len() <= MANY_MAX {
        return Vec::new();
    }
    let mut smallest: Vec<usize> = (0..sizes.len()).collect();
    smallest.sort_by_key(|at| sizes[*at].bytes);
    let mut bytes = 0;
    let has_room = |at: &usize| {
        bytes += sizes[*at].bytes;
        bytes <= MERGED_BYTES_MAX
    };
    let few: Vec<usize> = smallest.into_iter().take(MANY_MERGED).take_while(has_room).collect();
    // One alone would be copied for nothing.
    if few.len() > 1 { few } else { Vec::new() }
}

#[cfg(test)]
mod tests;
