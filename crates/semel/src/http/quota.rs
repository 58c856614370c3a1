//! How many keys of a caller are remembered.
//!
//! 1. A caller has so many places. A key that nobody knew takes one, and has it for as long as its record is remembered: for the
//!    retention of its route, counted from its claim, and up to a sixteenth of that longer, because places are given back in
//!    batches. A quota of another time has it for that.
//! 2. Duplicates are free: a claim that turns out to be none is given back.
//! 3. It is counted in this process, and forgotten with it: three nodes remember three times as many keys of a caller, and a node
//!    that was restarted begins anew. To count in the store would cost each fresh key another write, of a record that all of a
//!    caller's requests wait for.
//! 4. At most [`CALLERS_MAX`] callers are counted at once; who comes while there are so many is not limited, because whoever has
//!    so many names is not stopped by a limit for each.
//!
//! It is a guard against one caller that sweeps through keys and fills the store, not a rate limit. The layer has none unless it
//! is told to: only whoever sets it up knows whether a caller is a person or a whole company's backend.

use super::caller::CallerId;
use semel_core::{sabotage, time::Timestamp};
use std::{collections::HashMap, sync::Mutex, time::Duration};

/// Most callers that are counted at once.
pub const CALLERS_MAX: usize = 100_000;
/// In how many batches the places of one time are given back.
const BATCHES: u64 = 16;
/// Most batches that are remembered of one caller, whose keys may be for several times.
const BATCHES_MAX: usize = 32;

/// How many keys of each caller are remembered at once by this node, or how many new ones it may use in a time.
///
/// ```
/// use semel::{Once, http::{IdempotencyLayer, Quota}};
/// use std::time::Duration;
/// let layer = IdempotencyLayer::new(Once::memory()).quota(Quota::live(100_000));
/// let layer = layer.quota(Quota::within(10_000, Duration::from_secs(3_600)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    keys: u64,
    /// For how long each counts; for as long as its record is remembered, if none is said.
    time: Option<Duration>,
}

impl Quota {
    /// So many keys whose records have not expired. Each takes a place from its claim until its retention is over.
    pub const fn live(keys: u64) -> Self {
        Self { keys, time: None }
    }

    /// So many new keys in so much time, whatever their retention.
    ///
    /// # Panics
    ///
    /// If the time is less than a millisecond.
    pub const fn within(keys: u64, time: Duration) -> Self {
        assert!(time.as_millis() > 0, "a quota is for some time: this is less than a millisecond");
        Self { keys, time: Some(time) }
    }
}

/// A quota, and what was used of it.
pub(super) struct Counted {
    quota: Quota,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    callers: HashMap<CallerId, Places>,
    /// When the first place of a caller is given back, as of the last time that all were looked at.
    next: u64,
}

/// What one caller uses: batches of places, in the order in which they are given back.
#[derive(Default)]
struct Places(Vec<Batch>);

#[derive(Clone, Copy)]
struct Batch {
    /// When it is given back, in milliseconds.
    until: u64,
    count: u64,
}

/// A place that was taken, until then; none by a caller that is not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken(Option<u64>);

/// There is no place, until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UsedUp {
    pub(super) wait: Duration,
}

impl Counted {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, used: Mutex::default() }
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    /// Takes one of the caller's places, if there is one left, for a key that is remembered for so long.
    pub(super) fn take(
        &self,
        caller: CallerId,
        now: Timestamp,
        retention: Duration,
    ) -> Result<Taken, UsedUp> {
        let time = self.quota.time.unwrap_or(retention);
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let now = now.as_millis();
        let mut used = self.lock();
        if !used.callers.contains_key(&caller) && !used.has_room(now) {
            return Ok(Taken(None));
        }
        used.callers.entry(caller).or_default().take(self.quota.keys, now, time)
    }

    /// Gives one back that was not new.
    pub(super) fn give_back(&self, caller: CallerId, taken: Taken) {
        if let (Taken(Some(until)), Some(places)) = (taken, self.lock().callers.get_mut(&caller)) {
            places.give_back(until);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().expect("no code panics while it holds what was used")
    }
}

impl Used {
    /// Whether one more caller can be counted. Those that use nothing any more are let go, but not looked for in vain.
    fn has_room(&mut self, now: u64) -> bool {
        if self.callers.len() >= CALLERS_MAX && self.next <= now {
            self.callers.retain(|_, places| places.is_used(now));
            self.next = self.callers.values().filter_map(Places::next).min().unwrap_or(now);
        }
        self.callers.len() < CALLERS_MAX
    }
}

impl Places {
    fn take(&mut self, keys: u64, now: u64, time: u64) -> Result<Taken, UsedUp> {
        let over = self.0.iter().take_while(|it| it.until <= now).count();
        if !sabotage::is_on("http_quota_never_frees") {
            self.0.drain(..over);
        }
        if self.0.iter().map(|it| it.count).sum::<u64>() >= keys && !sabotage::is_on("http_quota_ignored") {
            let next = self.next().unwrap_or_else(|| now.saturating_add(time));
            return Err(UsedUp { wait: Duration::from_millis(next.saturating_sub(now)) });
        }
        // Rounded up: a place is never given back before its record has expired.
        let until = now.saturating_add(time).next_multiple_of((time / BATCHES).max(1));
        match self.0.binary_search_by_key(&until, |it| it.until) {
            Ok(at) => self.0[at].count += 1,
            Err(at) => self.0.insert(at, Batch { until, count: 1 }),
        }
        if self.0.len() > BATCHES_MAX {
            let first = self.0.remove(0);
            self.0[0].count += first.count;
        }
        Ok(Taken(Some(until)))
    }

    /// Gives one back. If its batch was put to a later one, it is one of that.
    fn give_back(&mut self, until: u64) {
        if let Some(batch) = self.0.iter_mut().find(|it| it.until >= until) {
            batch.count -= 1;
        }
        self.0.retain(|it| it.count > 0);
    }

    /// When a place is given back.
    fn next(&self) -> Option<u64> {
        self.0.first().map(|it| it.until)
    }

    fn is_used(&self, now: u64) -> bool {
        self.0.last().is_some_and(|it| it.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn caller(n: u64) -> CallerId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&n.to_be_bytes());
        CallerId(id)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(9_600_000 + millis)
    }

    #[test]
    fn each_caller_has_its_own_places_and_gets_them_back_when_its_records_expire() {
        let quota = Counted::new(Quota::live(2));
        assert!(quota.take(caller(1), at(0), MINUTE).is_ok());
        assert!(quota.take(caller(1), at(30_000), MINUTE).is_ok());
        let wait = |millis| Err(UsedUp { wait: Duration::from_millis(millis) });
        assert_eq!(quota.take(caller(1), at(30_000), MINUTE), wait(30_000), "until the first one expires");
        assert!(quota.take(caller(2), at(30_000), MINUTE).is_ok(), "another caller is not concerned");
        assert_eq!(quota.take(caller(1), at(59_999), MINUTE), wait(1));
        assert!(quota.take(caller(1), at(60_000), MINUTE).is_ok(), "one place was given back, and no more");
        assert_eq!(quota.take(caller(1), at(60_000), MINUTE), wait(30_000));
    }

    #[test]
    fn a_place_is_never_given_back_early_and_at_most_a_sixteenth_late() {
        for millis in (0..120_000).step_by(977) {
            let quota = Counted::new(Quota::live(1));
            let until = quota.take(caller(1), at(millis), MINUTE).unwrap().0.unwrap();
            let expires = at(millis + 60_000).as_millis();
            assert!((expires..=expires + 3_750).contains(&until), "{millis}");
            assert!(quota.take(caller(1), Timestamp::from_millis(until - 1), MINUTE).is_err());
            assert!(quota.take(caller(1), Timestamp::from_millis(until), MINUTE).is_ok());
        }
    }

    #[test]
    fn no_more_keys_are_remembered_at_any_time_than_the_quota() {
        let quota = Counted::new(Quota::live(50));
        let mut random = fastrand::Rng::with_seed(32);
        let (mut now, mut remembered) = (0, Vec::new());
        for _ in 0..20_000 {
            now += random.u64(..2_000);
            remembered.retain(|expires| *expires > now);
            let retention = Duration::from_secs(random.u64(1..100));
            if quota.take(caller(1), at(now), retention).is_ok() {
                remembered.push(now + retention.as_millis() as u64);
            }
            assert!(remembered.len() <= 50, "seed 32, at {now}");
            assert!(quota.lock().callers[&caller(1)].0.len() <= BATCHES_MAX);
        }
    }

    #[test]
    fn a_quota_of_another_time_counts_for_that_time() {
        let quota = Counted::new(Quota::within(1, MINUTE));
        assert!(quota.take(caller(1), at(0), MINUTE * 60).is_ok());
        assert!(quota.take(caller(1), at(59_000), MINUTE * 60).is_err());
        assert!(quota.take(caller(1), at(60_000), MINUTE * 60).is_ok());
    }

    #[test]
    fn what_was_given_back_can_be_taken_again() {
        let quota = Counted::new(Quota::live(1));
        let taken = quota.take(caller(1), at(0), MINUTE).unwrap();
        quota.give_back(caller(1), taken);
        quota.give_back(caller(1), taken);
        assert!(quota.take(caller(1), at(1), MINUTE).is_ok());
        assert!(quota.take(caller(1), at(2), MINUTE).is_err(), "no more than one was ever given back");
    }

    #[test]
    fn no_more_callers_than_the_limit_are_counted_and_those_that_use_nothing_make_room() {
        let quota = Counted::new(Quota::live(1));
        for n in 0..CALLERS_MAX as u64 + 10 {
            assert!(quota.take(caller(n), at(0), MINUTE).is_ok());
        }
        assert_eq!(quota.lock().callers.len(), CALLERS_MAX);
        assert!(quota.take(caller(0), at(0), MINUTE).is_err(), "those that are counted are limited");
        let late = caller(CALLERS_MAX as u64 + 1);
        assert!(quota.take(late, at(0), MINUTE).is_ok());
        assert!(quota.take(late, at(1), MINUTE).is_ok(), "it is not counted");
        assert!(quota.take(late, at(60_000), MINUTE).is_ok());
        assert!(quota.take(late, at(60_001), MINUTE).is_err(), "now it is");
        assert_eq!(quota.lock().callers.len(), 1);
    }
}
