//! The [`Queue`] over the engine.
//!
//! 1. Everything that is answered is on disk: what was accepted, because its sender forgets it; a claim, because
//!    the work is done elsewhere and its attempt must count though the power fails; and an outcome.
//! 2. A batch is decided under one short lock ([`crate::batch`]) and waits for one sync, together with everybody
//!    else's. A change and what it causes are one group in the journal, whole or not there.
//! 3. The due ones are found in memory ([`index`]), their events read when they are handed out.
//! 4. What is unfinished stays in the journal or moves into a file of those that wait ([`crate::kept`]); what is
//!    finished moves into SQLite, where it is listed from and expires by the file.
//! 5. An execution that cannot be read is left alone and told ([`EmbeddedQueue::damaged`]); the others go on.
//!
//! It does not know policies, and it wakes nobody.

mod accept;
mod card;
mod claim;
mod columns;
pub(crate) mod fuzz;
mod index;
mod list;
mod purge;
mod standing;
mod totals;
mod write;

use self::index::Index;
use crate::{
    disk::{Disk, OsDisk},
    engine::{Engine, Options, Value},
    error::{disk as disk_error, misconfigured, refused},
    home::{self, Home},
    lock,
    workers::Workers,
};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    key::Identity,
    queue::{
        Accepted, BATCH_MAX, CAUSES_MAX, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue,
        WANTS_MAX, Written,
    },
    sabotage,
    store::StoreError,
    time::{Clock, Timestamp},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What of [`QueueBuilder::bytes_max`] is left to those who are under way when no more are accepted: one part in
/// so many.
const RESERVE_PART: u64 = 16;

/// Executions in a directory of this machine, for one process at a time. Durable; see the crate's documentation.
pub struct EmbeddedQueue {
    pub(crate) engine: Arc<Engine<Index>>,
    bytes_max: u64,
    // Before the lock, so that the last bytes are on disk when another process may come.
    workers: Option<Workers<Index>>,
    _lock: Arc<File>,
}

/// How to open an [`EmbeddedQueue`].
pub struct QueueBuilder {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    options: Options,
    bytes_max: u64,
}

impl QueueBuilder {
    /// With other sizes.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// How much disk it may take; beyond that nothing is accepted, while what is under way goes on. Without a
    /// limit unless this is called.
    #[must_use]
    pub const fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Opens the directory, or makes it. Blocks while it reads the journal: well under a second.
    pub fn open(self) -> Result<EmbeddedQueue, StoreError> {
        Home::open(&self.directory)?.queue(self)
    }
}

impl EmbeddedQueue {
    /// Opens the queue of a directory, or makes it, with what is usual.
    pub fn open(directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::builder(directory, clock).open()
    }

    /// What can be said before it is opened. The queue is kept in the directory `queue` below this one, which
    /// may hold a store, too: see [`Home`].
    pub fn builder(directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> QueueBuilder {
        let directory = directory.as_ref().to_owned();
        QueueBuilder { directory, clock, options: Options::default(), bytes_max: u64::MAX }
    }

    pub(crate) fn below(home: &Home, builder: QueueBuilder) -> Result<Self, StoreError> {
        let directory = home.path().join("queue");
        home::make_directory(&directory)?;
        let QueueBuilder { clock, options, bytes_max, .. } = builder;
        Self::on(Arc::new(OsDisk::new(&directory)), home.lock(), clock, options, bytes_max)
    }

    fn on(
        disk: Arc<dyn Disk>,
        lock: Arc<File>,
        clock: Arc<dyn Clock>,
        options: Options,
        bytes_max: u64,
    ) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::open(disk, clock, options)?);
        let workers = Workers::start(&engine).map_err(disk_error("start its threads"))?;
        Ok(Self { engine, bytes_max, workers: Some(workers), _lock: lock })
    }

    /// Without threads: nothing is synced or moved but by whoever tests it.
    #[cfg(test)]
    pub(crate) fn idle(
        disk: Arc<dyn Disk>,
        lock: Arc<File>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::open(disk, clock, options)?);
        Ok(Self { engine, bytes_max: u64::MAX, workers: None, _lock: lock })
    }

    /// How many executions are found through the journal, and how many rows stand in SQLite files.
    pub fn sizes(&self) -> (usize, usize) {
        self.engine.sizes()
    }

    /// Resolves when what is to move out of the journal has moved, so that housekeeping is not measured with what is.
    pub async fn settled(&self) {
        self.engine.settled().await;
    }

    /// How many bytes of disk it takes.
    pub fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }

    /// Why it stopped for good, if it did: the disk no longer keeps what it is given, and every call is refused.
    pub fn stopped(&self) -> Option<String> {
        lock(&self.engine.state).poison.clone()
    }

    /// Why what is finished cannot leave the journal at the moment, if it cannot: the disk is full, most likely.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.engine.state).trouble.clone()
    }

    /// Why nothing new is accepted at the moment, if nothing is: for the operator. What is under way goes on.
    pub fn refuses(&self) -> Option<String> {
        let capped = self.check_cap().err();
        let crowded = || self.engine.check_backlog().err();
        let refused = || self.engine.admit(&lock(&self.engine.state)).err();
        capped.or_else(crowded).or_else(refused).map(|it| it.to_string())
    }

    /// The causes for which executions are left alone, because they could not be read: for the operator.
    pub fn damaged(&self) -> Vec<String> {
        lock(&self.engine.state).owner.damaged.values().cloned().collect()
    }

    /// Waits while the journal is so far ahead of SQLite that new executions would only make it worse; refuses
    /// them where there is no room.
    async fn wait_for_room(&self) -> Result<(), StoreError> {
        self.check_cap()?;
        self.engine.wait_for_room().await
    }

    /// Refuses what would be beyond what may be taken of the disk.
    fn check_cap(&self) -> Result<(), StoreError> {
        // Asked only where it matters: it takes the lock.
        let bytes = if self.bytes_max == u64::MAX { 0 } else { self.disk_bytes() };
        if bytes > self.bytes_max - self.bytes_max / RESERVE_PART {
            return Err(refused(format!(
                "takes no new events: {bytes} bytes of the {} it may take are in use; what is under way goes on",
                self.bytes_max
            )));
        }
        Ok(())
    }

    /// What was found, as an execution.
    pub(crate) fn shown(identity: &Identity, value: &Value) -> Result<Fenced<Execution>, StoreError> {
        Ok(Fenced { fence: value.fence, value: card::decode(identity, &value.payload)? })
    }

    async fn get_now(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Fenced<Execution>>>, StoreError> {
        check_batch(ids.len(), BATCH_MAX, "executions")?;
        let mut found = Vec::with_capacity(ids.len());
        let mut must_sync = false;
        for id in ids {
            let value = self.engine.load(id.identity())?;
            must_sync |= value.as_ref().is_some_and(|it| !it.is_durable);
            found.push(value.map(|it| Self::shown(id.identity(), &it)).transpose()?);
        }
        if must_sync {
            self.engine.settle().await?;
        }
        Ok(found)
    }
}

/// A batch that is too large is the caller's mistake.
fn check_batch(count: usize, max: usize, what: &str) -> Result<(), StoreError> {
    if count > max {
        return Err(misconfigured(format!("a batch has {count} {what}, and at most {max} are taken")));
    }
    Ok(())
}

impl Queue for EmbeddedQueue {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        Box::pin(async move {
            check_batch(new.len(), BATCH_MAX, "executions")?;
            self.accept_now(new).await
        })
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            check_batch(demand.wants.len(), WANTS_MAX, "functions")?;
            self.claim_now(demand).await
        })
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            check_batch(changes.len(), BATCH_MAX, "changes")?;
            changes.iter().try_for_each(|it| check_batch(it.causes.len(), CAUSES_MAX, "causes"))?;
            self.write_now(changes).await
        })
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        Box::pin(self.get_now(ids))
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        Box::pin(self.list_now(filter, from, limit))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        Box::pin(async move {
            let (counts, is_durable) = {
                let state = lock(&self.engine.state);
                state.check()?;
                (state.owner.counts(), state.is_all_durable())
            };
            if !is_durable && !sabotage::is_on("embedded_counts_what_is_not_durable") {
                self.engine.settle().await?;
            }
            Ok(counts)
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(self.purge_now(expired_at, limit))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.engine.clock)
    }
}

/// Runs it to its end, syncing when it waits for that, on a queue without threads.
#[cfg(test)]
pub(crate) fn done<T>(queue: &EmbeddedQueue, future: impl Future<Output = T>) -> T {
    use std::task::{Context, Poll, Waker};
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return value,
            Poll::Pending => queue.engine.sync().unwrap(),
        }
    }
}
