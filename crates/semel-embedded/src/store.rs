//! The [`Store`] over the engine.
//!
//! 1. A claim by a handler of this process, to be run again if it is interrupted, need only reach the
//!    operating system: a power cut ends the handler too. Everything else waits for the disk: outcomes, claims
//!    for work done elsewhere, and claims that must be reported if they are interrupted.
//! 2. What is not durable yet is not shown as settled: whoever asks waits for the disk as its author does.
//! 3. A lease held in this directory's former process is over: the lock proves that the process is. It is
//!    shown as released, or, if it must be reported, as lapsed. Work done elsewhere keeps its lease.

use crate::{
    bucket::Tally,
    commit::settled,
    disk::{Disk, OsDisk},
    engine::{Applied, Change, Engine, Options, VALUE_BYTES_MAX, Value},
    error::{corrupt, disk as disk_error, misconfigured, too_large},
    frame::Kind,
    home::{Home, make_directory},
    hot::{Entry, Hot, SHARDS},
    lock,
    owner::{Layout, Owner},
    workers::Workers,
};
use rusqlite::types::Value as Column;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::{Identity, Key},
    record::{OnLapse, Place, Record, State, Stored},
    sabotage,
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
    wire::{self, WireError},
};
use std::{fs::File, path::Path, sync::Arc};
use tokio::sync::oneshot;

/// Records in a directory of this machine, for one process at a time. Durable; see the crate's documentation.
pub struct EmbeddedStore {
    engine: Arc<Engine<Records>>,
    // Before the lock, so that the last bytes are on disk when another process may come.
    _workers: Workers<Records>,
    _lock: Arc<File>,
}

impl EmbeddedStore {
    /// Opens the directory, or makes it. Blocks while it reads the journal: well under a second.
    pub fn open(directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_with(directory, clock, Options::default())
    }

    /// As [`EmbeddedStore::open`], with other sizes.
    pub fn open_with(
        directory: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let home = Home::open(directory)?;
        Self::on(Arc::new(OsDisk::new(home.path())), home.lock(), clock, options)
    }

    pub(crate) fn below(home: &Home, clock: Arc<dyn Clock>, options: Options) -> Result<Self, StoreError> {
        let directory = home.path().join("store");
        make_directory(&directory)?;
        Self::on(Arc::new(OsDisk::new(&directory)), home.lock(), clock, options)
    }

    fn on(
        disk: Arc<dyn Disk>,
        lock: Arc<File>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::open(disk, clock, options)?);
        let workers = Workers::start(&engine).map_err(disk_error("start its threads"))?;
        Ok(Self { engine, _workers: workers, _lock: lock })
    }

    /// How many records are found through the journal, and how many rows stand in SQLite files.
    pub fn sizes(&self) -> (usize, usize) {
        self.engine.sizes()
    }

    /// Resolves when what is to move out of the journal has moved, so that housekeeping is not measured with what is.
    pub async fn settled(&self) {
        self.engine.settled().await;
    }

    async fn swap_now(
        &self,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
    ) -> Result<Swap, StoreError> {
        let payload = wire::encode(key, record);
        if payload.len() > VALUE_BYTES_MAX {
            return Err(too_large(format!(
                "a record of {} bytes is larger than {VALUE_BYTES_MAX}: lower the limit on results",
                payload.len()
            )));
        }
        if expected.is_none() {
            self.engine.wait_for_room().await?;
        }
        let identity = key.identity();
        let change = Change {
            identity,
            expected,
            expires_at: record.expires_at,
            kind: kind(record),
            payload: &payload,
        };
        if needs_the_disk(record) {
            let (waiter, durable) = oneshot::channel();
            match self.engine.apply(&change, |_| Some(waiter))? {
                Applied::Won { fence, .. } => settled(durable).await.map(|()| Swap::Won(fence)),
                Applied::Lost(found) => self.show(key, found).await.map(Swap::Lost),
            }
        } else {
            match self.engine.apply(&change, |_| None)? {
                Applied::Won { fence, upto, is_alone } => {
                    if !is_alone {
                        // Others may be about to write, too: let them, and write for all at once.
                        yield_once().await;
                    }
                    self.engine.write_upto(upto)?;
                    Ok(Swap::Won(fence))
                }
                Applied::Lost(found) => self.show(key, found).await.map(Swap::Lost),
            }
        }
    }

    /// What was found, once it would survive a power cut.
    async fn show(&self, key: &Key, found: Option<Value>) -> Result<Option<Stored>, StoreError> {
        let Some(value) = found else { return Ok(None) };
        let stored = self.engine.stored(key, &value)?;
        if !value.is_durable && needs_the_disk(&stored.record) && !sabotage::is_on("embedded_shows_unsynced")
        {
            self.engine.settle().await?;
        }
        Ok(Some(stored))
    }
}

impl Store for EmbeddedStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move { self.show(key, self.engine.load(key.identity())?).await })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(self.swap_now(key, expected, record))
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move { self.engine.purge(expired_at, limit) })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.engine.clock)
    }
}

impl Engine<Records> {
    /// A value as a record: a lease of the former process is over.
    pub(crate) fn stored(&self, key: &Key, value: &Value) -> Result<Stored, StoreError> {
        let mut record = wire::decode_record(key, &value.payload).map_err(|cause| match cause {
            WireError::Newer { .. } => misconfigured(format!("read the record of {key}")).because(cause),
            _ => corrupt(format!("read the record of {key}")).because(cause),
        })?;
        if Some(value.fence) <= self.reopened_at && !sabotage::is_on("embedded_orphans_kept") {
            orphan(&mut record);
        }
        Ok(Stored { fence: value.fence, record })
    }

    /// Removes expired buckets whole, and then expired records from the journal's map.
    pub(crate) fn purge(&self, expired_at: Timestamp, limit: u32) -> Result<u32, StoreError> {
        // Who makes files at the moment removes the expired ones, too. Until then what hides one stays.
        let (mut purged, uncovers_until) = match self.files.try_lock() {
            Ok(_files) => {
                let purged = self.purge_buckets(expired_at)?;
                self.chores.notify_one();
                (purged, expired_at)
            }
            Err(_) => (0, Timestamp::EPOCH),
        };
        for shard in 0..SHARDS {
            let is_over = |it: &Entry<()>| it.expires_at <= expired_at && it.floor <= uncovers_until;
            let gone = lock(&self.state).hot.select(shard, is_over);
            let room = (limit as usize).saturating_sub(purged);
            let gone: Vec<_> = gone.into_iter().take(room).map(|(half, it)| (half, it.fence)).collect();
            self.forget(&gone);
            purged += gone.len();
        }
        Ok(u32::try_from(purged).unwrap_or(u32::MAX))
    }
}

/// Ends the lease of a holder that died with its process.
fn orphan(record: &mut Record) {
    match &mut record.state {
        State::InProgress { place: Place::Here, on_lapse: OnLapse::Rerun, .. } => {
            let error = Some("the process ended while the call was in progress".to_owned());
            record.state = State::Pending { due_at: record.updated_at, error };
        }
        State::InProgress { place: Place::Here, on_lapse: OnLapse::Report, lease_until, .. } => {
            *lease_until = Timestamp::EPOCH;
        }
        State::InProgress { place: Place::Elsewhere, .. }
        | State::Pending { .. }
        | State::Completed(_)
        | State::Failed { .. } => {}
    }
}

/// Whether the record may be answered for only once it is on disk.
pub(crate) fn needs_the_disk(record: &Record) -> bool {
    !matches!(record.state, State::InProgress { place: Place::Here, on_lapse: OnLapse::Rerun, .. })
}

pub(crate) fn kind(record: &Record) -> Kind {
    match record.state {
        State::InProgress { .. } => Kind::Leased,
        State::Pending { .. } | State::Completed(_) | State::Failed { .. } => Kind::Settled,
    }
}

/// The store as the [owner](Owner) of an engine's values: it keeps nothing of them in memory, and counts nothing.
#[derive(Default)]
pub(crate) struct Records;

impl Owner for Records {
    type Note = ();
    const FORMAT_TEXT: &'static str = "Semel embedded store, format ";
    const LAYOUT: Layout = Layout {
        columns: "key TEXT NOT NULL, status TEXT NOT NULL",
        count: 2,
        rare_indexes: "",
        indexes: "",
        counted_by: "",
    };
    const IS_COUNTING: bool = false;
    // What runs here runs in this process, and has what is left of the journal's file; whoever adds the library wants a small
    // directory.
    const RESERVE_SEGMENTS: usize = 0;

    fn columns(identity: &Identity, payload: &[u8]) -> Vec<Column> {
        let (key, status) = match wire::decode(identity, payload) {
            Ok((key, record)) => (key.to_string(), record.status().as_str()),
            Err(_) => (identity.to_string(), "UNREADABLE"),
        };
        vec![key.into(), status.to_owned().into()]
    }

    fn replay(&mut self, _: &[u8]) -> Option<()> {
        Some(())
    }
    fn replay_own(&mut self, _: &[u8]) -> Option<()> {
        None
    }
    fn front(_: &[u8]) -> &[u8] {
        &[]
    }
    fn recall(&mut self, _: &[u8]) -> Option<()> {
        Some(())
    }
    fn damaged(&mut self, _: u128, (): &(), _: String) -> Vec<u8> {
        Vec::new()
    }
    fn replayed(&mut self, _: &Hot<()>) {}
    fn summary(&self) -> Option<Vec<u8>> {
        None
    }
    fn copied(_: &mut [u8]) {}
    fn forgotten(&mut self, _: u128, _: &Entry<()>) {}
    fn farewell(&self, (): &()) -> Vec<u8> {
        Vec::new()
    }
    fn removed(&mut self, _: u128, _: &Entry<()>) {}
    fn buckets_go(&self, _: Vec<String>, _: Tally) -> Vec<u8> {
        Vec::new()
    }
    fn buckets_gone(&mut self) {}
    fn is_gone(&self, _: &str) -> bool {
        false
    }
}

/// Lets whoever else is ready go first.
async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
