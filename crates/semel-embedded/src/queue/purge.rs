//! Removing what has expired.
//!
//! 1. Files of which everything has expired go whole; what has expired in the journal is removed by a note in
//!    the journal, so that it is counted once.
//! 2. Whoever moves executions into files at the moment is waited for, [`TRIES_MAX`] times; then what has expired
//!    goes the next time that it is asked for.

use super::{EmbeddedQueue, index::Index};
use crate::engine::Engine;
use semel_core::{store::StoreError, time::Timestamp};
use std::pin::pin;

/// How often somebody else may be at the files first.
const TRIES_MAX: usize = 4;

impl EmbeddedQueue {
    pub(super) async fn purge_now(&self, expired_at: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let mut purged = None;
        for _ in 0..TRIES_MAX {
            let mut idle = pin!(self.engine.idle.notified());
            idle.as_mut().enable();
            purged = self.engine.purge_expired(expired_at, limit as usize)?;
            if purged.is_some() {
                break;
            }
            idle.await;
        }
        let purged = purged.unwrap_or(0);
        if purged > 0 {
            self.engine.settle().await?;
        }
        Ok(u32::try_from(purged).unwrap_or(u32::MAX))
    }
}

impl Engine<Index> {
    /// How many were removed; `None` if somebody else is at the files.
    fn purge_expired(&self, expired_at: Timestamp, limit: usize) -> Result<Option<usize>, StoreError> {
        if limit == 0 {
            return Ok(Some(0));
        }
        let Ok(_files) = self.files.try_lock() else { return Ok(None) };
        let purged = self.purge_buckets(expired_at)?;
        self.chores.notify_one();
        Ok(Some(purged + self.purge_journal(expired_at, limit.saturating_sub(purged))?))
    }
}
