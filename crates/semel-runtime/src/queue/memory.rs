//! Executions in the memory of this process.
//!
//! 1. Every method is one step under a lock; nothing is awaited.
//! 2. Fences come from [`Fence::next`](semel_core::fence::Fence::next) over the last one issued to any execution,
//!    so that an execution's fences go on growing after it was purged.
//! 3. What can be handed out stands in an index of its function, by due time and then by fence: of those that
//!    are due at once, the one that was written first goes first. Of the executions under one order, only the
//!    head is in it.
//! 4. It is deterministic: the same calls at the same times give the same answers.
//!
//! It is not durable, and no other process sees it: for tests and simulations, which take it for the truth.

mod table;

use self::table::Table;
use super::{cursor::Place, limits};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue, Written},
    store::StoreError,
    time::{Clock, Timestamp},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

const QUEUE: &str = "memory";

/// Executions in the memory of this process.
///
/// ```
/// use semel_core::{execution::{Arrival, Execution, Origin}, fingerprint::Fingerprint, key::Key};
/// use semel_core::{queue::{Accepted, Queue}, time::Clock};
/// use semel_runtime::queue::memory::MemoryQueue;
/// use semel_testkit::ManualClock;
///
/// let clock = ManualClock::new();
/// let queue = MemoryQueue::new(clock.arc());
/// let arrival = Arrival {
///     key: Key::new("process-order", ("/shop", "evt-1"))?,
///     function: "process-order".into(),
///     origin: Origin { source: "/shop".into(), id: "evt-1".into(), kind: "order.created".into() },
///     order: None,
///     fingerprint: Fingerprint::of_bytes(b"{}"),
///     event: b"{}".as_slice().into(),
///     event_time: None,
///     event_expires_at: None,
/// };
/// let execution = Execution::accepted(clock.now(), arrival, clock.now());
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let twice = queue.accept(&[execution.clone(), execution]).await?;
/// assert!(matches!(twice[..], [Accepted::New(_), Accepted::Duplicate(_)]));
/// # Ok::<(), semel_core::store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryQueue {
    table: Mutex<Table>,
    clock: Arc<dyn Clock>,
}

impl MemoryQueue {
    /// An empty queue on this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { table: Mutex::default(), clock }
    }

    /// How many executions are held, finished and expired ones included.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Whether no execution is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no code panics while it holds the executions")
    }
}

impl Queue for MemoryQueue {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        Box::pin(async move {
            limits::accept(QUEUE, new)?;
            let (mut table, now) = (self.table(), self.clock.now());
            Ok(new.iter().map(|it| table.accept(now, it)).collect())
        })
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            limits::claim(QUEUE, demand)?;
            let (mut table, now) = (self.table(), self.clock.now());
            Ok(demand.wants.iter().flat_map(|want| table.claim(now, demand.holder, want)).collect())
        })
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            limits::write(QUEUE, changes)?;
            let (mut table, now) = (self.table(), self.clock.now());
            Ok(changes.iter().map(|it| table.write(now, it)).collect())
        })
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        Box::pin(async move {
            limits::get(QUEUE, ids)?;
            let table = self.table();
            Ok(ids.iter().map(|id| table.get(id).cloned()).collect())
        })
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            let from = from.map(|it| Place::read(QUEUE, it)).transpose()?;
            Ok(self.table().list(filter, from, limits::page(limit)))
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        Box::pin(async move { Ok(self.table().counts()) })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move { Ok(self.table().purge(expired_at, limit)) })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }
}

impl fmt::Debug for MemoryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryQueue").field("executions", &self.len()).finish_non_exhaustive()
    }
}
