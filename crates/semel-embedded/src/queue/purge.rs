//! Removing what has expired.
//!
//! 1. Files of which everything has expired go whole, which the housekeeper does: whoever asks waits, and nobody else. What has
//!    expired in the journal is removed by a note in the journal, so that it is counted once.
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
        if limit == 0 {
            return Ok(0);
        }
        let mut purged = self.purge_files(expired_at).await?;
        let left = (limit as usize).saturating_sub(purged);
        for _ in 0..TRIES_MAX {
            let mut idle = pin!(self.engine.idle.notified());
            idle.as_mut().enable();
            if let Some(count) = self.engine.purge_quiet_journal(expired_at, left)? {
                purged += count;
                break;
            }
            idle.await;
        }
        if purged > 0 {
            self.engine.settle().await?;
        }
        Ok(u32::try_from(purged).unwrap_or(u32::MAX))
    }

    async fn purge_files(&self, expired_at: Timestamp) -> Result<usize, StoreError> {
        self.engine.ask_to_purge(expired_at)?;
        loop {
            let mut idle = pin!(self.engine.idle.notified());
            // Enlisted before the look, so that an end in between is not missed.
            idle.as_mut().enable();
            if let Some(purged) = self.engine.purged()? {
                return Ok(purged);
            }
            if self.workers.is_none() {
                self.engine.purge_as_asked();
                continue;
            }
            idle.await;
        }
    }
}

impl Engine<Index> {
    /// How many were removed; `None` if somebody else is at the files.
    fn purge_quiet_journal(&self, expired_at: Timestamp, limit: usize) -> Result<Option<usize>, StoreError> {
        let Ok(_files) = self.files.try_lock() else { return Ok(None) };
        self.chores.notify_one();
        self.purge_journal(expired_at, limit).map(Some)
    }
}

#[cfg(test)]
mod tests;
