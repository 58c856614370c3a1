//! Records in the memory of this process.
//!
//! 1. A swap is one look and one insertion under a lock; nothing is awaited.
//! 2. Records stand in [`SHARDS`] tables, each under a lock of its own: one that grows copies all it has, and only those
//!    wait for it whose keys stand there.
//! 3. Fences come from [`Fence::next`] over the last one issued to any key of the same table, so that a key's fences go on
//!    growing after its record was purged.
//!
//! It is not durable, and no other process sees it: for tests, and for services whose duplicates all arrive
//! within one life of one process.

use crate::{clock::SystemClock, hashing::Seeded};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::{Identity, Key},
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    future::ready,
    sync::{Arc, Mutex, MutexGuard},
};

/// Records in the memory of this process.
///
/// ```
/// use semel::{Once, MemoryStore};
/// # tokio_test(async {
/// let once = Once::new(MemoryStore::new());
/// let first: u32 = once.call("answer", 1).run(async |_| Ok(42)).await?;
/// let again: u32 = once.call("answer", 1).run(async |_| Ok(43)).await?;
/// assert_eq!((first, again), (42, 42));
/// # Ok::<(), semel::Error>(())
/// # });
/// # fn tokio_test(f: impl Future<Output = Result<(), semel::Error>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(f).unwrap();
/// # }
/// ```
pub struct MemoryStore {
    shards: Box<[Shard]>,
    clock: Arc<dyn Clock>,
}

/// In how many tables records stand.
const SHARDS: usize = 16;

/// One of the tables. It shares no cache line with its neighbours, so that only those wait for it who need it.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// Boxed, so that the table stays small: it is looked up in many places, and copied when it grows.
    by_identity: HashMap<Identity, Box<Stored>, Seeded>,
    /// The last fence issued here, to whichever key.
    last: Option<Fence>,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty store on this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), clock }
    }

    /// How many records are held, expired ones included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|it| lock(it).by_identity.len()).sum()
    }

    /// Whether no record is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a key's record stands. An identity is a hash: any byte of it spreads them evenly.
    fn shard(&self, key: &Key) -> MutexGuard<'_, Records> {
        lock(&self.shards[usize::from(key.identity().as_bytes()[0]) % SHARDS])
    }
}

fn lock(shard: &Shard) -> MutexGuard<'_, Records> {
    shard.0.lock().expect("no code panics while it holds the records")
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Records {
    fn swap(&mut self, key: &Key, expected: Option<Fence>, record: Record) -> Swap {
        let entry = self.by_identity.entry(*key.identity());
        let found = match &entry {
            Entry::Occupied(found) => Some(&**found.get()),
            Entry::Vacant(_) => None,
        };
        if found.map(|it| it.fence) != expected {
            return Swap::Lost(found.cloned());
        }
        // The record says when it was written, by the same clock.
        let fence = Fence::next(self.last, record.updated_at);
        self.last = Some(fence);
        let stored = Stored { fence, record };
        match entry {
            Entry::Occupied(mut found) => **found.get_mut() = stored,
            Entry::Vacant(vacant) => {
                vacant.insert(Box::new(stored));
            }
        }
        Swap::Won(fence)
    }

    fn purge(&mut self, expired_at: Timestamp, limit: u32) -> u32 {
        let expired = self.by_identity.iter().filter(|(_, it)| it.record.is_expired(expired_at));
        let chosen: Vec<Identity> = expired.map(|(identity, _)| *identity).take(limit as usize).collect();
        for identity in &chosen {
            self.by_identity.remove(identity);
        }
        chosen.len() as u32
    }
}

impl Store for MemoryStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(ready(Ok(self.shard(key).by_identity.get(key.identity()).map(|it| (**it).clone()))))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            // Copied before the lock is taken.
            let record = record.clone();
            Ok(self.shard(key).swap(key, expected, record))
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move {
            let mut purged = 0;
            for shard in &self.shards {
                purged += lock(shard).purge(expired_at, limit - purged);
            }
            Ok(purged)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }
}
