//! Seeing: the one place that traces and counts.

use semel_core::{
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::Timestamp,
};
use std::sync::Arc;

/// A store, watched.
pub(crate) struct Observed {
    store: Arc<dyn Store>,
}

impl Observed {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub(crate) async fn load(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.store.load(key).await
    }

    pub(crate) async fn swap(
        &self,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
    ) -> Result<Swap, StoreError> {
        self.store.swap(key, expected, record).await
    }

    pub(crate) async fn purge(&self, expired_at: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.store.purge(expired_at, limit).await
    }
}
