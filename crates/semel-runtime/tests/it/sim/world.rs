//! The world of a simulation: one queue, one clock, one source of chance, and what happened so far.

use super::{
    faults::{Injected, Rates},
    oracle::Oracle,
};
use crate::support::clock::PausedClock;
use semel_core::{
    queue::{Counts, Queue},
    time::Clock,
};
use semel_runtime::queue::memory::MemoryQueue;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard},
};

pub(super) struct Shared {
    pub(super) clock: PausedClock,
    pub(super) queue: MemoryQueue,
    chance: Mutex<fastrand::Rng>,
    rates: Mutex<Rates>,
    injected: Mutex<Injected>,
    oracle: Mutex<Oracle>,
    trace: Mutex<DefaultHasher>,
    /// Whether whatever happens is printed.
    is_told: bool,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let clock = PausedClock::new();
        Arc::new(Self {
            queue: MemoryQueue::new(Arc::new(clock.clone())),
            clock,
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
            rates: Mutex::default(),
            injected: Mutex::default(),
            oracle: Mutex::default(),
            trace: Mutex::default(),
            is_told: std::env::var_os("SEMEL_TRACE").is_some(),
        })
    }

    pub(super) fn chance<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.chance.lock().unwrap())
    }

    pub(super) fn set_rates(&self, rates: Rates) {
        *self.rates.lock().unwrap() = rates;
    }

    /// Whether something goes wrong now.
    pub(super) fn happens(&self, rate: impl FnOnce(&Rates) -> u32) -> bool {
        let rate = rate(&self.rates.lock().unwrap());
        rate > 0 && self.chance(|it| it.u32(0..1_000)) < rate
    }

    pub(super) fn injected(&self, count: impl FnOnce(&mut Injected)) {
        count(&mut self.injected.lock().unwrap());
    }

    pub(super) fn all_injected(&self) -> Injected {
        *self.injected.lock().unwrap()
    }

    pub(super) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap()
    }

    /// Whether nothing happened that must never happen.
    pub(super) fn check_oracle(&self) {
        let violation = self.oracle().violation.take();
        assert!(violation.is_none(), "{}", violation.unwrap_or_default());
    }

    /// Something happened.
    pub(super) fn trace(&self, what: &str) {
        if self.is_told {
            println!("{:?} {what}", self.clock.monotonic());
        }
        let mut trace = self.trace.lock().unwrap();
        self.clock.monotonic().hash(&mut *trace);
        what.hash(&mut *trace);
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.trace.lock().unwrap().finish()
    }

    /// After every step: whatever was accepted is somewhere.
    pub(super) async fn check_counts(&self) {
        for counts in self.queue.counts().await.unwrap() {
            self.oracle().check(Counts::is_balanced(&counts), || format!("something is lost: {counts:?}"));
        }
    }
}
