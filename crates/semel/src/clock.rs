//! The clock of this process.
//!
//! 1. Wall time is read once; after that it advances with the monotonic clock. So a jump of the machine's
//!    wall clock expires no lease of this process and revives none.
//! 2. A platform that freezes processes stops the monotonic clock with them, or starts them from a snapshot. It
//!    tells when it wakes one up, and then [`SystemClock::catch_up`] adds what was missed, to both clocks: what
//!    was written before the freeze is as old as it is.
//! 3. Sleeping is tokio's. Nothing else in this crate touches tokio's time.
//! 4. What others sign by their clocks is judged by the wall clock as it is now: after a suspend, or a start before the clock
//!    was set, ours would refuse all of it until the next start.
//!
//! It does not follow other corrections of the wall clock: a process that runs for months drifts with its
//! oscillator. Records are judged by durations, and fences never go back, so a drift of seconds is harmless.

use semel_core::{
    BoxFuture, sabotage,
    time::{Clock, Timestamp},
};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Shortest time that counts as having been frozen: less is the wall clock being set right.
const FROZEN_MIN: Duration = Duration::from_millis(500);

/// Wall time, anchored to the monotonic clock when it was first read.
///
/// ```
/// use semel::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// The process-wide anchor: all system clocks of a process tell one time.
    anchor: &'static Anchor,
}

#[derive(Debug)]
struct Anchor {
    wall: Timestamp,
    monotonic: Instant,
    /// For how long the process was frozen, in milliseconds. It only grows.
    frozen_ms: AtomicU64,
}

impl SystemClock {
    /// The clock of this process.
    pub fn new() -> Self {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        Self { anchor: ANCHOR.get_or_init(Anchor::read) }
    }

    /// The platform says that the process was frozen, and runs again: whatever the wall clock is ahead by is the
    /// time that was missed. A wall clock that is behind changes nothing.
    ///
    /// `semel::lambda` calls this at the beginning of each invocation. It is for runtimes of other platforms; on
    /// a machine whose wall clock is set by people, it would let leases lapse that should not.
    pub fn catch_up(self) {
        self.catch_up_with(wall());
    }

    fn catch_up_with(self, wall: Timestamp) {
        let missed = wall.since(self.now());
        if missed < FROZEN_MIN || sabotage::is_on("frozen_time_is_ignored") {
            return;
        }
        let ticked = self.anchor.wall + self.anchor.monotonic.elapsed();
        // The whole, not what was missed this time: two that catch up at once must not add it twice.
        self.anchor.frozen_ms.fetch_max(millis(wall.since(ticked)), Ordering::Relaxed);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Anchor {
    fn read() -> Self {
        Self { wall: wall(), monotonic: Instant::now(), frozen_ms: AtomicU64::new(0) }
    }
}

fn wall() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.both().0
    }

    fn both(&self) -> (Timestamp, Duration) {
        let monotonic = self.monotonic();
        (self.anchor.wall + monotonic, monotonic)
    }

    fn monotonic(&self) -> Duration {
        let frozen = Duration::from_millis(self.anchor.frozen_ms.load(Ordering::Relaxed));
        self.anchor.monotonic.elapsed() + frozen
    }

    fn wall(&self) -> Timestamp {
        if sabotage::is_on("signatures_by_the_clock_of_the_start") { self.now() } else { wall() }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// A clock that no other test has.
    fn clock() -> SystemClock {
        SystemClock { anchor: Box::leak(Box::new(Anchor::read())) }
    }

    #[test]
    fn a_clock_that_was_frozen_catches_up_and_counts_the_time_once() {
        let clock = clock();
        let (now, monotonic) = (clock.now(), clock.monotonic());
        for _wake_up in 0..3 {
            clock.catch_up_with(now + HOUR);
            assert!(clock.now() >= now + HOUR && clock.now() < now + HOUR + SECOND * 30);
            assert!(clock.monotonic() >= monotonic + HOUR, "a lease of before the freeze is an hour older");
        }
        clock.catch_up_with(now + HOUR * 3);
        assert!(clock.now() >= now + HOUR * 3 && clock.now() < now + HOUR * 3 + SECOND * 30);
    }

    #[test]
    fn a_wall_clock_that_was_set_back_or_right_changes_nothing() {
        let clock = clock();
        let now = clock.now();
        for wall in [Timestamp::EPOCH, now - HOUR, now, now + FROZEN_MIN / 2] {
            clock.catch_up_with(wall);
            assert_eq!(clock.anchor.frozen_ms.load(Ordering::Relaxed), 0);
        }
        clock.catch_up();
        assert_eq!(clock.anchor.frozen_ms.load(Ordering::Relaxed), 0, "this process was not frozen");
    }

    #[test]
    fn signatures_are_judged_by_the_clock_as_it_is_set_now() {
        // Started an hour before somebody set the clock right.
        let anchor = Anchor { wall: wall() - HOUR, ..Anchor::read() };
        let clock = SystemClock { anchor: Box::leak(Box::new(anchor)) };
        assert!(clock.now() < wall() - HOUR / 2, "leases are judged by a clock that nobody sets");
        assert!(wall().since(clock.wall()) < SECOND * 30);
    }

    #[test]
    fn time_that_was_caught_up_with_is_never_given_back() {
        let clock = clock();
        let now = clock.now();
        clock.catch_up_with(now + HOUR);
        clock.catch_up_with(now - HOUR);
        assert!(clock.now() >= now + HOUR);
    }
}
