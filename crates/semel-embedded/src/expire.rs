//! Removing what has expired.
//!
//! 1. What goes is written down first, for an owner who counts: the files that are about to be removed and what was in them, or
//!    that a value of the journal is removed. So it is counted once, whenever the power is cut.
//! 2. Only the newest value of a key counts; which it is, is looked up when its file goes. So nothing need be
//!    remembered of files while they stand.
//! 3. That takes a while: a microsecond for each row, and files expire by the dozen. It is the housekeeper's work, with rests, and
//!    the journal is moved in between: nobody who waits for the queue notices.
//! 4. If a value that goes was taken the place of meanwhile, by an event that came again after all, it would be counted twice:
//!    then everything is counted once more. From the note on, such an event finds nothing there.

use crate::{
    bucket::{Bucket, Row, Tally},
    engine::Engine,
    error::disk as disk_error,
    frame::{self, Frame, Kind, Put},
    hot::{Entry, SHARDS, from_half},
    lock,
    owner::Owner,
    pace::Chore,
    spares::Purpose,
};
use semel_core::{sabotage, store::StoreError, time::Timestamp};
use std::{mem, ops::ControlFlow, sync::Arc};

/// How often all is counted once more before it is left for the next time.
const COUNTS_MAX: usize = 4;

/// What the housekeeper is asked to remove, and what came of it.
#[derive(Default)]
pub(crate) struct Purging {
    /// What has expired by then is to go; nothing if nobody asks.
    asked: Option<Timestamp>,
    /// How many values went that nobody was told of yet.
    removed: usize,
    failed: Option<StoreError>,
    /// What has expired by then is being counted.
    counting: Option<Timestamp>,
    /// How many values that are counted, or were to be, were taken the place of.
    overtaken: u64,
}

impl Purging {
    /// Whether the housekeeper has been asked for something.
    pub(crate) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// A value of a file was taken the place of, which had expired then.
    pub(crate) fn overtook(&mut self, expired_at: Timestamp) {
        if self.counting.is_some_and(|upto| expired_at <= upto)
            && !sabotage::is_on("queue_purge_counts_twice")
        {
            self.overtaken += 1;
        }
    }
}

impl<O: Owner> Engine<O> {
    /// Asks for the files of which every value has expired by then to be removed.
    pub(crate) fn ask_to_purge(&self, expired_at: Timestamp) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        state.check()?;
        if !self.archive.expired(expired_at).is_empty() {
            state.purging.asked = state.purging.asked.max(Some(expired_at));
            self.chores.notify_one();
        }
        Ok(())
    }

    /// How many values went since somebody was told, if what was asked for is done.
    pub(crate) fn purged(&self) -> Result<Option<usize>, StoreError> {
        let mut state = lock(&self.state);
        state.check()?;
        if state.purging.is_asked() {
            return Ok(None);
        }
        match state.purging.failed.take() {
            Some(error) => Err(error),
            None => Ok(Some(mem::take(&mut state.purging.removed))),
        }
    }

    /// Does what was asked for.
    pub(crate) fn purge_as_asked(&self) {
        let Some(expired_at) = lock(&self.state).purging.asked else { return };
        self.pace.begin(Chore::Purge);
        let purged = self.purge_buckets(expired_at);
        let mut state = lock(&self.state);
        let purging = &mut state.purging;
        match purged {
            Ok(count) => purging.removed += count,
            Err(error) => purging.failed = Some(error),
        }
        // Whoever asked for more meanwhile asks again.
        purging.asked = None;
    }

    /// Removes the buckets of which every value has expired, and says how many values that was.
    pub(crate) fn purge_buckets(&self, expired_at: Timestamp) -> Result<usize, StoreError> {
        let expired = self.archive.expired(expired_at);
        if expired.is_empty() {
            return Ok(0);
        }
        let removed = if O::IS_COUNTING {
            let Some(removed) = self.count_out(&expired, expired_at)? else { return Ok(0) };
            removed
        } else {
            self.archive.replace(Vec::new(), &expired);
            expired.iter().map(|it| it.rows).sum()
        };
        self.archive.discard(&*self.disk, &expired).map_err(disk_error("remove expired records"))?;
        lock(&self.state).owner.buckets_gone();
        Ok(removed)
    }

    /// Writes down, durably, that these go, and what with them; nobody finds them any more. `None` if they stay for now.
    fn count_out(&self, expired: &[Arc<Bucket>], upto: Timestamp) -> Result<Option<usize>, StoreError> {
        for _ in 0..COUNTS_MAX {
            let before = {
                let purging = &mut lock(&self.state).purging;
                purging.counting = Some(upto);
                purging.overtaken
            };
            let Some(tally) = self.tally(expired)? else { break };
            let removed: u64 = tally.values().sum();
            let names = expired.iter().map(|it| it.name.clone()).collect();
            let mut state = lock(&self.state);
            state.check()?;
            if state.purging.overtaken != before {
                continue;
            }
            state.purging.counting = None;
            let bytes = state.owner.buckets_go(names, tally);
            if state.tail.end() + frame::own_length(bytes.len()) as u32 > state.tail.limit {
                self.roll(&mut state, Purpose::Known)?;
            }
            // Counted after the file it goes into was begun: what stands at the front of that is what came before.
            state.push(&Frame::Own { bytes: &bytes });
            state.owner.replay_own(&bytes).expect("what an owner writes it reads");
            // Under the same lock: who came in between would find what is counted as gone, and count it, too. Should the note not
            // become durable, they are there again, and what was written after the note is not.
            let is_late = sabotage::is_on("queue_purged_are_found");
            if !is_late {
                self.archive.replace(Vec::new(), expired);
            }
            drop(state);
            self.sync()?;
            if is_late {
                self.archive.replace(Vec::new(), expired);
            }
            return Ok(Some(usize::try_from(removed).unwrap_or(usize::MAX)));
        }
        lock(&self.state).purging.counting = None;
        Ok(None)
    }

    /// How many values of these files no newer one has taken the place of; `None` if the engine closes meanwhile.
    fn tally(&self, expired: &[Arc<Bucket>]) -> Result<Option<Tally>, StoreError> {
        let mut tally = Tally::new();
        let mut moved = Ok(());
        for bucket in expired {
            let ended = bucket.each(O::LAYOUT.counted_by, |Row { identity, fence, text, number }| {
                let is_hot = || lock(&self.state).hot.get(&identity).is_some();
                // What cannot be read hides nothing.
                let has_newer = || self.archive.holds_newer(&identity, fence, bucket).unwrap_or(false);
                if !is_hot() && !has_newer() {
                    *tally.entry((text, number)).or_default() += 1;
                }
                self.breathe();
                moved = self.flush_if_due();
                if moved.is_err() || self.pace.is_closing() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            mem::replace(&mut moved, Ok(()))?;
            if ended.is_break() {
                return Ok(None);
            }
        }
        Ok(Some(tally))
    }

    /// Moves the journal if it has become long, in the middle of other work.
    fn flush_if_due(&self) -> Result<(), StoreError> {
        if !self.pace.is_flush_due() || sabotage::is_on("queue_purge_keeps_the_journal") {
            return Ok(());
        }
        let flushed = self.flush();
        self.pace.begin(Chore::Purge);
        flushed
    }

    /// Removes at most so many values from the journal that have expired and hide nothing, and says how many
    /// that was. It is durable with the next sync.
    pub(crate) fn purge_journal(&self, expired_at: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let mut purged = 0;
        for shard in 0..SHARDS {
            let is_over = |it: &Entry<O::Note>| it.expires_at <= expired_at && it.floor <= expired_at;
            let gone = lock(&self.state).hot.select(shard, is_over);
            for (half, entry) in gone.into_iter().take(limit - purged) {
                let mut state = lock(&self.state);
                state.check()?;
                if state.hot.get_half(half) != Some(&entry) {
                    continue;
                }
                let payload = state.owner.farewell(&entry.note);
                self.make_room(&mut state, [payload.len()].into_iter(), Purpose::Known)?;
                let put = Put {
                    identity: from_half(half),
                    fence: state.next_fence(now),
                    expires_at: entry.expires_at,
                    floor: entry.floor,
                    kind: Kind::Removed,
                    is_continued: false,
                    payload: &payload,
                };
                if !sabotage::is_on("queue_purge_not_written") {
                    state.push(&Frame::Put(put));
                }
                state.hot.remove(half, entry.fence);
                state.owner.removed(half, &entry);
                purged += 1;
            }
        }
        Ok(purged)
    }
}
