//! Waiting for a call that somebody else runs.
//!
//! 1. All waiters of a key in this process share one wait: one of them looks into the store now and then, with
//!    growing pauses, and tells the others.
//! 2. A holder in this process tells them all when it finishes, with what it wrote, so that none of them needs
//!    to ask the store.
//! 3. Who joins enlists first and looks after that, so no news falls in between.
//! 4. When the one that looks gives up or is dropped, another takes its place.
//!
//! It does not decide what a waiter may do with the news: it claims again, and the swap decides.

use crate::race::{First, first};
use semel_core::{
    key::{Identity, Key},
    record::Stored,
    sabotage,
    time::Clock,
};
use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Most keys of one `Once` that are waited for at a time; beyond that a busy key is reported as such at once.
const KEYS_MAX: usize = 65_536;
/// First pause between two looks into the store; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause between two looks into the store.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Everybody who waits.
#[derive(Default)]
pub(crate) struct Waits {
    by_identity: Mutex<HashMap<Identity, Arc<Wait>>>,
    /// How many wait, so that a holder for whom nobody waits takes no lock.
    waiting: AtomicUsize,
}

/// One key's wait.
#[derive(Default)]
struct Wait {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiters: usize,
    /// Whether one of them looks into the store.
    has_scout: bool,
    /// Counts the news.
    version: u64,
    news: Option<Stored>,
}

/// One who waits.
pub(crate) struct Waiter<'a> {
    waits: &'a Waits,
    wait: Arc<Wait>,
    key: &'a Key,
    is_scout: bool,
    /// The news it knows already.
    seen: u64,
}

impl Waits {
    /// Joins the wait for this key; `None` if too many keys are waited for.
    pub(crate) fn join<'a>(&'a self, key: &'a Key) -> Option<Waiter<'a>> {
        let mut by_identity = lock(&self.by_identity);
        if by_identity.len() >= KEYS_MAX && !by_identity.contains_key(key.identity()) {
            return None;
        }
        let wait = Arc::clone(by_identity.entry(*key.identity()).or_default());
        let mut state = lock(&wait.state);
        state.waiters += 1;
        let seen = state.version;
        drop(state);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Some(Waiter { waits: self, wait, key, is_scout: false, seen })
    }

    /// Tells whoever waits for this key what stands there now.
    pub(crate) fn tell(&self, key: &Key, stored: impl FnOnce() -> Stored) {
        if self.waiting.load(Ordering::SeqCst) == 0 || sabotage::is_on("waiter_not_woken") {
            return;
        }
        let wait = lock(&self.by_identity).get(key.identity()).cloned();
        if let Some(wait) = wait {
            wait.tell(stored());
        }
    }

    /// How many keys are waited for.
    #[cfg(test)]
    fn keys(&self) -> usize {
        lock(&self.by_identity).len()
    }
}

impl Wait {
    fn tell(&self, stored: Stored) {
        let mut state = lock(&self.state);
        state.version += 1;
        state.news = Some(stored);
        drop(state);
        self.changed.notify_waiters();
    }
}

impl Waiter<'_> {
    /// What stands under the key as soon as `is_busy` no longer holds of it; `None` when `until` is reached
    /// first. `look` asks the store.
    pub(crate) async fn news<L, E>(
        &mut self,
        clock: &dyn Clock,
        until: Duration,
        look: impl Fn() -> L,
        is_busy: impl Fn(&Option<Stored>) -> bool,
    ) -> Result<Option<Option<Stored>>, E>
    where
        L: Future<Output = Result<Option<Stored>, E>>,
    {
        let wait = Arc::clone(&self.wait);
        let mut pause = PAUSE_MIN;
        let mut is_new = true;
        loop {
            let mut changed = pin!(wait.changed.notified());
            changed.as_mut().enable();
            if let Some(stored) = self.unseen() {
                return Ok(Some(Some(stored)));
            }
            if self.scouts() || is_new {
                let found = look().await?;
                if !is_busy(&found) {
                    if let Some(stored) = &found {
                        wait.tell(stored.clone());
                    }
                    return Ok(Some(found));
                }
            }
            is_new = false;
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return Ok(None);
            }
            let nap = if self.is_scout { pause.min(left) } else { left };
            match first(changed, clock.sleep(nap)).await {
                First::Left(()) => {}
                First::Right(()) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }

    /// Whether this one looks into the store: the first one does, and whoever comes after it left.
    fn scouts(&mut self) -> bool {
        let mut state = lock(&self.wait.state);
        if !self.is_scout && !state.has_scout {
            state.has_scout = true;
            self.is_scout = true;
        }
        self.is_scout
    }

    fn unseen(&mut self) -> Option<Stored> {
        let state = lock(&self.wait.state);
        if state.version == self.seen {
            return None;
        }
        self.seen = state.version;
        state.news.clone()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waits.waiting.fetch_sub(1, Ordering::SeqCst);
        let mut by_identity = lock(&self.waits.by_identity);
        let mut state = lock(&self.wait.state);
        state.waiters -= 1;
        if state.waiters == 0 {
            by_identity.remove(self.key.identity());
        }
        if self.is_scout {
            state.has_scout = false;
            drop(state);
            self.wait.changed.notify_waiters();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds the lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_forgotten_when_the_last_waiter_leaves() {
        let waits = Waits::default();
        let keys: Vec<Key> = (0..3).map(|id| Key::new("wait", id).unwrap()).collect();
        let waiters: Vec<_> = keys.iter().chain(&keys).map(|key| waits.join(key).unwrap()).collect();
        assert_eq!(waits.keys(), 3);
        for waiter in waiters {
            assert!(waits.keys() > 0);
            drop(waiter);
        }
        assert_eq!((waits.keys(), waits.waiting.load(Ordering::SeqCst)), (0, 0));
    }

    #[test]
    fn more_keys_than_the_limit_are_not_waited_for() {
        let waits = Waits::default();
        let keys: Vec<Key> = (0..=KEYS_MAX).map(|id| Key::new("wait", id).unwrap()).collect();
        let waiters: Vec<_> = keys[..KEYS_MAX].iter().map(|key| waits.join(key).unwrap()).collect();
        assert!(waits.join(&keys[KEYS_MAX]).is_none());
        assert!(waits.join(&keys[0]).is_some(), "a key that is waited for already takes no more room");
        drop(waiters);
        assert!(waits.join(&keys[KEYS_MAX]).is_some());
    }
}
