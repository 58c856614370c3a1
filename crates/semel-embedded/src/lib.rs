//! The embedded engine: a journal in front of SQLite, and the [`Store`](semel_core::store::Store) over it.

use semel_core::{BoxFuture, fence::Fence, key::Key, record::{Record, Stored}, store::{Store, StoreError, StoreErrorKind, Swap}, time::{Clock, Timestamp}};
use std::{path::Path, sync::Arc};

/// Records in a directory of this machine.
pub struct EmbeddedStore { clock: Arc<dyn Clock> }

impl EmbeddedStore {
    /// Opens the directory, or makes it.
    pub fn open(_directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> { Ok(Self { clock }) }
}

impl Store for EmbeddedStore {
    fn load<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> { Box::pin(async { Err(coming()) }) }
    fn swap<'a>(&'a self, _: &'a Key, _: Option<Fence>, _: &'a Record) -> BoxFuture<'a, Result<Swap, StoreError>> { Box::pin(async { Err(coming()) }) }
    fn purge(&self, _: Timestamp, _: u32) -> BoxFuture<'_, Result<u32, StoreError>> { Box::pin(async { Err(coming()) }) }
    fn clock(&self) -> Arc<dyn Clock> { Arc::clone(&self.clock) }
}
fn coming() -> StoreError { StoreError::new(StoreErrorKind::Misconfigured, "embedded", "is being built") }
