//! A store at whose every call a process can die: before it is carried out, and after.

use crate::join::yield_now;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use std::sync::Arc;

pub(super) struct Paced<S>(pub(super) S);

async fn paced<T>(call: BoxFuture<'_, T>) -> T {
    yield_now().await;
    let reply = call.await;
    yield_now().await;
    reply
}

impl<S: Store> Store for Paced<S> {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move { paced(self.0.load(key)).await })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move { paced(self.0.swap(key, expected, record)).await })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move { paced(self.0.purge(expired_at, limit)).await })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }
}
