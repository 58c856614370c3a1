//! A queue whose panics are errors.
//!
//! 1. A call that panics could not tell what happened, as one whose answer was lost: everybody who asks a queue is ready for
//!    that. A task that ended with it would leave its callers waiting.
//! 2. Nothing else is changed, and nothing is asked again here.

use super::caught::caught;
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, GoOn, Page, Queue, Written},
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use std::sync::Arc;

/// A queue whose panics are errors.
pub(crate) struct Guarded(pub(crate) Arc<dyn Queue>);

/// The answer of a call, also if it panics.
fn guarded<'a, T: Send + 'a>(
    call: impl FnOnce() -> BoxFuture<'a, Result<T, StoreError>> + Send + 'a,
) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(async move {
        caught(async { call().await }).await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "the queue panicked");
            let context = format!("it panicked, which is a defect to be reported: {panic}");
            Err(StoreError::new(StoreErrorKind::Unavailable, "queue", context))
        })
    })
}

impl Queue for Guarded {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        guarded(|| self.0.accept(new))
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        guarded(|| self.0.claim(demand))
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        guarded(|| self.0.write(changes))
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        guarded(|| self.0.get(ids))
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        guarded(move || self.0.list(filter, from, limit))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        guarded(|| self.0.counts())
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        guarded(move || self.0.purge(expired_at, limit))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    fn went_back(&self) -> Option<String> {
        self.0.went_back()
    }

    fn go_on(&self, how: GoOn) -> BoxFuture<'_, Result<(), StoreError>> {
        guarded(move || self.0.go_on(how))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.0.hint()
    }
}
