//! A store that fails, by seed.
//!
//! 1. A call may fail before anything is written, or be carried out and lose its reply; both are the same
//!    [`StoreErrorKind::Unavailable`], because nobody could tell them apart.
//! 2. A call may take its time: it gives everybody else a few turns before and after it.
//! 3. Whatever happens follows from the seed and the order of calls, so a run on one thread can be repeated.
//! 4. Everything injected is counted: a test asserts that it met the trouble it was written for.
//! 5. A test that fails says which seed it had.
//!
//! It does not corrupt: what is stored is what was written.

use crate::join::yield_now;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A store around another, which loses calls and replies by seed. Clones share the dice and the counts.
///
/// ```
/// use semel::{Key, MemoryStore, Store};
/// use semel_testkit::ChaosStore;
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let key = Key::new("process-order", "evt-1").unwrap();
/// let chaos = ChaosStore::new(Arc::new(MemoryStore::new()), 42).fails_one_in(2).loses_one_in(0);
/// while chaos.load(&key).await.is_ok() {}
/// assert_eq!(chaos.injected().failed_before, 1);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ChaosStore {
    inner: Arc<dyn Store>,
    odds: Odds,
    shared: Arc<Shared>,
}

#[derive(Clone, Copy)]
struct Odds {
    fails_one_in: u32,
    loses_one_in: u32,
    delay_turns_max: u32,
}

struct Shared {
    seed: u64,
    dice: Mutex<fastrand::Rng>,
    is_calm: AtomicBool,
    calls: AtomicU64,
    failed_before: AtomicU64,
    lost_after: AtomicU64,
    delayed: AtomicU64,
}

/// How much trouble a [`ChaosStore`] has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Injected {
    /// Calls made in all, also those that went through.
    pub calls: u64,
    /// Calls that failed before anything was written.
    pub failed_before: u64,
    /// Calls that were carried out and whose reply was lost.
    pub lost_after: u64,
    /// Calls that gave others a turn.
    pub delayed: u64,
}

impl ChaosStore {
    /// A store around `inner` that fails one call in five before and one in five after it is carried out,
    /// and delays calls by up to two turns, twice.
    pub fn new(inner: Arc<dyn Store>, seed: u64) -> Self {
        let odds = Odds { fails_one_in: 5, loses_one_in: 5, delay_turns_max: 2 };
        let shared = Shared {
            seed,
            dice: Mutex::new(fastrand::Rng::with_seed(seed)),
            is_calm: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            failed_before: AtomicU64::new(0),
            lost_after: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
        };
        Self { inner, odds, shared: Arc::new(shared) }
    }

    /// Fails one call in so many before it is carried out; none if 0.
    #[must_use]
    pub fn fails_one_in(mut self, calls: u32) -> Self {
        self.odds.fails_one_in = calls;
        self
    }

    /// Loses the reply to one call in so many; none if 0.
    #[must_use]
    pub fn loses_one_in(mut self, calls: u32) -> Self {
        self.odds.loses_one_in = calls;
        self
    }

    /// Gives others up to so many turns before, and as many after, each call.
    #[must_use]
    pub fn delays_up_to(mut self, turns: u32) -> Self {
        self.odds.delay_turns_max = turns;
        self
    }

    /// Ends the trouble, for good or until it is called again with `false`: what heals must settle.
    pub fn calm(&self, is_calm: bool) {
        self.shared.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// What makes a run of this store happen again.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// How much trouble was made so far.
    pub fn injected(&self) -> Injected {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let shared = &*self.shared;
        Injected {
            calls: read(&shared.calls),
            failed_before: read(&shared.failed_before),
            lost_after: read(&shared.lost_after),
            delayed: read(&shared.delayed),
        }
    }

    /// Carries out a call, or not, and brings back its reply, or not.
    async fn through<T>(
        &self,
        doing: &str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        count(&self.shared.calls);
        if self.shared.is_calm.load(Ordering::Relaxed) {
            return call.await;
        }
        self.delay().await;
        if self.one_in(self.odds.fails_one_in) {
            count(&self.shared.failed_before);
            return Err(unavailable(doing));
        }
        let reply = call.await;
        self.delay().await;
        if self.one_in(self.odds.loses_one_in) {
            count(&self.shared.lost_after);
            return Err(unavailable(doing));
        }
        reply
    }

    async fn delay(&self) {
        let turns = self.roll(self.odds.delay_turns_max + 1);
        if turns > 0 {
            count(&self.shared.delayed);
        }
        for _ in 0..turns {
            yield_now().await;
        }
    }

    fn one_in(&self, calls: u32) -> bool {
        calls > 0 && self.roll(calls) == 0
    }

    fn roll(&self, sides: u32) -> u32 {
        self.shared.dice.lock().expect("no die panics").u32(0..sides)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn unavailable(doing: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "chaos", doing)
}

impl Store for ChaosStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(self.through("load a record", self.inner.load(key)))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(self.through("swap a record", self.inner.swap(key, expected, record)))
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(self.through("purge records", self.inner.purge(expired_at, limit)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
}

impl fmt::Debug for ChaosStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaosStore").field("seed", &self.seed()).field("injected", &self.injected()).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the ChaosStore of this test had the seed {}", self.seed);
        }
    }
}
