//! Removing what has expired.
//!
//! 1. Files of which everything has expired go whole; what has expired in the journal is removed by a note in
//!    the journal, so that it is counted once.
//! 2. Whoever moves executions into files at the moment is not disturbed: what has expired goes the next time.

use super::{EmbeddedQueue, index::Index};
use crate::engine::Engine;
use semel_core::{store::StoreError, time::Timestamp};

impl EmbeddedQueue {
    pub(super) async fn purge_now(&self, expired_at: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let purged = self.engine.purge_expired(expired_at, limit as usize)?;
        if purged > 0 {
            self.engine.settle().await?;
        }
        Ok(u32::try_from(purged).unwrap_or(u32::MAX))
    }
}

impl Engine<Index> {
    fn purge_expired(&self, expired_at: Timestamp, limit: usize) -> Result<usize, StoreError> {
        if limit == 0 {
            return Ok(0);
        }
        let Ok(_files) = self.files.try_lock() else { return Ok(0) };
        let purged = self.purge_buckets(expired_at)?;
        self.chores.notify_one();
        Ok(purged + self.purge_journal(expired_at, limit.saturating_sub(purged))?)
    }
}
