//! The port that every backend implements.
//!
//! 1. A store keeps one record under a key, with the fence it gave the last write.
//! 2. It writes only if the stored fence is the expected one, atomically, and shows what is there if not.
//! 3. Losing is a value. An error means that nobody could tell what happened.
//! 4. It knows no policy: expiry, leases and takeover are decided in [`crate::call`].

use crate::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    time::{Clock, Timestamp},
};
use std::{error::Error as StdError, sync::Arc};

/// Where records live. Four methods, for ever; convenience goes elsewhere.
pub trait Store: Send + Sync + 'static {
    /// What stands under the key, expired or not.
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    /// Writes the record if the stored fence is the expected one (`None`: if nothing is stored), and gives
    /// the write a fence higher than any the key ever had.
    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>>;

    /// Removes at most `limit` records (or the store's own unit of removal, if that is larger) that expired
    /// at or before this moment, and says how many.
    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>>;

    /// The clock by which leases and retention are judged.
    fn clock(&self) -> Arc<dyn Clock>;
}

/// What became of a swap.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a swap may be lost"]
pub enum Swap {
    /// Written, under this fence.
    Won(Fence),
    /// Not written, because this is there instead.
    Lost(Option<Stored>),
}

/// What kind of trouble a store is in; each has one remedy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It did not answer, or not in time: try again.
    Unavailable,
    /// It will not (permissions, read-only replica, disk full): tell the operator. It may pass, as a failover does: who
    /// holds a lease asks again while it lasts.
    Refused,
    /// The record is larger than what it takes, and always will be: leave out the result, or raise the limit.
    TooLarge,
    /// What it holds cannot be right: stop, and look.
    Corrupt,
    /// It was set up wrongly: mend the configuration.
    Misconfigured,
}

/// A store could not tell what happened.
#[derive(Debug, thiserror::Error)]
#[error("{store} store: {context}")]
pub struct StoreError {
    kind: StoreErrorKind,
    store: &'static str,
    context: String,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind; `context` says what was being done, and what to do about it if that is known.
    pub fn new(kind: StoreErrorKind, store: &'static str, context: impl Into<String>) -> Self {
        Self { kind, store, context: context.into(), source: None }
    }

    /// With what caused it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of trouble.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether trying again may help.
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable)
    }
}
