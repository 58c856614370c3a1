//! Removing what has expired, for an owner who counts.
//!
//! 1. What goes is written down first: the files that are about to be removed and what was in them, or that a
//!    value of the journal is removed. So it is counted once, whenever the power is cut.
//! 2. Only the newest value of a key counts; which it is, is looked up when its file goes. So nothing need be
//!    remembered of files while they stand.
//! 3. Who calls holds [`Engine::files`]: nothing moves into files meanwhile.

use crate::{
    bucket::{Bucket, Tally},
    engine::Engine,
    frame::{self, Frame, Kind, Put},
    hot::{Entry, SHARDS, from_half},
    lock,
    owner::Owner,
    spares::Purpose,
};
use semel_core::{fence::Fence, key::Identity, sabotage, store::StoreError, time::Timestamp};
use std::sync::Arc;

impl<O: Owner> Engine<O> {
    /// Removes the buckets of which every value has expired, and says how many values that was.
    pub(crate) fn purge_buckets(&self, expired_at: Timestamp) -> Result<usize, StoreError> {
        let expired = self.archive.expired(expired_at);
        if expired.is_empty() {
            return Ok(0);
        }
        if O::IS_COUNTING {
            self.count_out(&expired)?;
        }
        let removed = self.archive.remove(&*self.disk, &expired)?;
        lock(&self.state).owner.buckets_gone();
        Ok(removed)
    }

    /// Writes down, durably, that these go, and what with them.
    fn count_out(&self, expired: &[Arc<Bucket>]) -> Result<(), StoreError> {
        let mut tally = Tally::new();
        for bucket in expired {
            let is_newest = |identity: &Identity, fence: Fence| {
                let is_hot = lock(&self.state).hot.get(identity).is_some();
                Ok(!is_hot && !self.archive.holds_newer(identity, fence, bucket)?)
            };
            bucket.tally(O::LAYOUT.counted_by, &mut tally, is_newest)?;
        }
        let names = expired.iter().map(|it| it.name.clone()).collect();
        let mut state = lock(&self.state);
        state.check()?;
        let bytes = state.owner.buckets_go(names, tally);
        if state.tail.end() + frame::own_length(bytes.len()) as u32 > state.tail.limit {
            self.roll(&mut state, Purpose::Known)?;
        }
        // Counted after the file it goes into was begun: what stands at the front of that is what came before.
        state.push(&Frame::Own { bytes: &bytes });
        state.owner.replay_own(&bytes).expect("what an owner writes it reads");
        drop(state);
        self.sync()
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
