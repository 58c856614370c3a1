//! A queue in memory that counts its calls, and fails when it is told to.

use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue, Written},
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use semel_runtime::queue::memory::MemoryQueue;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A method of the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Method {
    Accept,
    Claim,
    Write,
    Get,
    List,
}

/// When a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// Before it takes effect.
    Before,
    /// After it took effect: only the answer is lost.
    After,
    /// It panics, before it takes effect.
    Panics,
}

/// A queue in memory that counts its calls, and fails when it is told to.
pub(crate) struct SpyQueue {
    pub(crate) inner: MemoryQueue,
    calls: Mutex<BTreeMap<Method, u32>>,
    failures: Mutex<BTreeMap<Method, (When, u32)>>,
    late: Mutex<BTreeMap<Method, Duration>>,
    /// Another node left something that is due.
    pub(crate) left: tokio::sync::Notify,
}

impl SpyQueue {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: MemoryQueue::new(clock),
            calls: Mutex::default(),
            failures: Mutex::default(),
            late: Mutex::default(),
            left: tokio::sync::Notify::new(),
        }
    }

    /// The next so many calls of this method fail.
    pub(crate) fn fail(&self, method: Method, when: When, times: u32) {
        self.failures.lock().unwrap().insert(method, (when, times));
    }

    /// Answers to this method come so much later than it takes effect.
    pub(crate) fn delay(&self, method: Method, by: Duration) {
        self.late.lock().unwrap().insert(method, by);
    }

    /// How often a method was called.
    pub(crate) fn calls(&self, method: Method) -> u32 {
        self.calls.lock().unwrap().get(&method).copied().unwrap_or_default()
    }

    fn failure(&self, method: Method) -> Option<When> {
        *self.calls.lock().unwrap().entry(method).or_default() += 1;
        let mut failures = self.failures.lock().unwrap();
        let (when, left) = failures.get_mut(&method).filter(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(*when)
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        method: Method,
        call: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            let failure = self.failure(method);
            let error = || StoreError::new(StoreErrorKind::Unavailable, "spy", "told to fail");
            assert_ne!(failure, Some(When::Panics), "the queue is broken");
            if failure == Some(When::Before) {
                return Err(error());
            }
            let answer = call.await;
            let late = self.late.lock().unwrap().get(&method).copied();
            if let Some(late) = late {
                self.clock().sleep(late).await;
            }
            if failure == Some(When::After) { Err(error()) } else { answer }
        })
    }
}

impl Queue for SpyQueue {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        self.call(Method::Accept, self.inner.accept(new))
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        self.call(Method::Claim, self.inner.claim(demand))
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        self.call(Method::Write, self.inner.write(changes))
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        self.call(Method::Get, self.inner.get(ids))
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        self.call(Method::List, self.inner.list(filter, from, limit))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        self.inner.counts()
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.inner.purge(expired_at, limit)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.left.notified())
    }
}
