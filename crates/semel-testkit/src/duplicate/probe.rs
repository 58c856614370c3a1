//! Counts effects, where the outside world would have had them.

use crate::join::yield_now;
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The outside world of one check: counts what happens in it. Clones count together.
///
/// ```
/// use semel_testkit::Probe;
/// # let mut done = std::pin::pin!(async {
/// let probe = Probe::new();
/// probe.record("e-mail").await;
/// probe.record_keyed("charge", "key-1").await;
/// probe.record_keyed("charge", "key-1").await; // the provider knows this key
/// assert_eq!((probe.count("e-mail"), probe.count("charge")), (1, 1));
/// # });
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # while done.as_mut().poll(&mut context).is_pending() {}
/// ```
#[derive(Clone, Default)]
pub struct Probe {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    counts: BTreeMap<String, u32>,
    /// The keys that a provider has seen, for each effect.
    keys: HashSet<(String, String)>,
}

impl Seen {
    fn add(&mut self, effect: &str, times: u32) -> u32 {
        let count = self.counts.entry(effect.to_owned()).or_default();
        *count += times;
        *count
    }
}

impl Probe {
    /// A world in which nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The effect happens, and it is told how often it has by now. An await point before and after: a process
    /// can die at both.
    pub async fn record(&self, effect: &str) -> u32 {
        yield_now().await;
        let count = self.lock().add(effect, 1);
        yield_now().await;
        count
    }

    /// The effect happens at a provider that honours idempotency keys: a key it has seen does nothing again.
    pub async fn record_keyed(&self, effect: &str, key: impl fmt::Display) -> u32 {
        let key = (effect.to_owned(), key.to_string());
        yield_now().await;
        let count = {
            let mut seen = self.lock();
            let is_new = seen.keys.insert(key);
            seen.add(effect, is_new.into())
        };
        yield_now().await;
        count
    }

    /// How often the effect happened.
    pub fn count(&self, effect: &str) -> u32 {
        self.lock().counts.get(effect).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u32> {
        self.lock().counts.clone()
    }

    /// A handler that panicked elsewhere has still done what it has done.
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Probe").field(&self.lock().counts).finish()
    }
}
