//! How many new keys a caller may use.
//!
//! 1. Time is cut into windows of equal length. In each, a caller may claim so many keys that nobody knew.
//! 2. Duplicates are free: a claim that turns out to be none is given back.
//! 3. It is counted in this process, and forgotten with it. At most [`CALLERS_MAX`] callers are counted in one window; who
//!    comes after them is not limited, because whoever has so many names is not stopped by a limit for each.
//!
//! It is a guard against one caller that sweeps through keys, not a rate limit.

use super::caller::CallerId;
use semel_core::{sabotage, time::Timestamp};
use std::{collections::HashMap, sync::Mutex, time::Duration};

/// Most callers that are counted in one window.
pub const CALLERS_MAX: usize = 100_000;

/// How many new keys each caller may use on this node, and in what time.
///
/// ```
/// use semel::{Once, http::{IdempotencyLayer, Quota}};
/// use std::time::Duration;
/// let layer = IdempotencyLayer::new(Once::memory()).quota(Quota { keys: 10_000, per: Duration::from_secs(3_600) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// So many new keys.
    pub keys: u64,
    /// In so much time.
    pub per: Duration,
}

/// A quota, and what was used of it.
pub(super) struct Counted {
    quota: Quota,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// Its number, counted from the epoch.
    number: u64,
    used: HashMap<CallerId, u64>,
}

/// The window, until which there is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UsedUp {
    pub(super) wait: Duration,
}

impl Counted {
    pub(super) fn new(quota: Quota) -> Self {
        assert!(quota.per.as_millis() > 0, "a quota is for some time: `per` is less than a millisecond");
        Self { quota, window: Mutex::default() }
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    /// Takes one of the caller's keys, if there is one left.
    pub(super) fn take(&self, caller: CallerId, now: Timestamp) -> Result<(), UsedUp> {
        let per = u64::try_from(self.quota.per.as_millis()).unwrap_or(u64::MAX);
        let number = now.as_millis() / per;
        let mut window = self.lock();
        if window.number != number {
            *window = Window { number, used: HashMap::new() };
        }
        let is_full = window.used.len() >= CALLERS_MAX;
        if is_full && !window.used.contains_key(&caller) {
            return Ok(());
        }
        let used = window.used.entry(caller).or_default();
        if *used >= self.quota.keys && !sabotage::is_on("http_quota_ignored") {
            return Err(UsedUp { wait: Duration::from_millis(per - now.as_millis() % per) });
        }
        *used += 1;
        Ok(())
    }

    /// Gives one back that was not new.
    pub(super) fn give_back(&self, caller: CallerId) {
        if let Some(used) = self.lock().used.get_mut(&caller) {
            *used = used.saturating_sub(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Window> {
        self.window.lock().expect("no code panics while it holds the window")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn caller(n: u64) -> CallerId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&n.to_be_bytes());
        CallerId(id)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn each_caller_has_its_own_and_gets_it_again_in_the_next_window() {
        let quota = Counted::new(Quota { keys: 2, per: SECOND });
        for _ in 0..2 {
            assert_eq!(quota.take(caller(1), at(0)), Ok(()));
        }
        assert_eq!(quota.take(caller(1), at(250)), Err(UsedUp { wait: Duration::from_millis(750) }));
        assert_eq!(quota.take(caller(2), at(250)), Ok(()), "another caller is not concerned");
        assert_eq!(quota.take(caller(1), at(1_000)), Ok(()), "a new window");
    }

    #[test]
    fn what_was_given_back_can_be_taken_again() {
        let quota = Counted::new(Quota { keys: 1, per: SECOND });
        assert_eq!(quota.take(caller(1), at(0)), Ok(()));
        quota.give_back(caller(1));
        quota.give_back(caller(1));
        assert_eq!(quota.take(caller(1), at(1)), Ok(()));
        assert!(quota.take(caller(1), at(2)).is_err(), "no more than one was ever given back");
    }

    #[test]
    fn no_more_callers_than_the_limit_are_remembered() {
        let quota = Counted::new(Quota { keys: 1, per: SECOND });
        for n in 0..CALLERS_MAX as u64 + 10 {
            assert_eq!(quota.take(caller(n), at(0)), Ok(()));
        }
        assert_eq!(quota.lock().used.len(), CALLERS_MAX);
        assert!(quota.take(caller(0), at(0)).is_err(), "those that are remembered are limited");
        assert_eq!(quota.take(caller(CALLERS_MAX as u64 + 1), at(0)), Ok(()));
    }
}
