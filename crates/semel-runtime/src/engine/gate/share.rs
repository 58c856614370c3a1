//! What fresh events get while a backlog drains.
//!
//! 1. Fresh is what was just accepted; backlog is what waited in the queue.
//! 2. While fresh events find no room, half of the concurrency, rounded up, is kept for them. While they come and find
//!    room, a tenth is. When none came for [`MEMORY`], nothing is.
//! 3. Where there is room for one only, they take turns.
//!
//! It limits the backlog only: fresh events may take everything that is free.

use semel_core::sabotage::is_on;
use std::time::Duration;

/// How long fresh events are remembered.
pub const MEMORY: Duration = Duration::from_secs(1);

/// Which of the two an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Just accepted.
    Fresh,
    /// It waited.
    Backlog,
}

/// What is remembered of fresh events, by the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// When one came last.
    came_at: Option<Duration>,
    /// When one found no room last.
    missed_at: Option<Duration>,
    /// Whether a backlog attempt was the last to start.
    was_backlog: bool,
}

impl Share {
    /// After a fresh event came, and found room or did not.
    #[must_use]
    pub const fn after_arrival(self, now: Duration, found_room: bool) -> Self {
        let missed_at = if found_room { self.missed_at } else { Some(now) };
        Self { came_at: Some(now), missed_at, ..self }
    }

    /// After an attempt started.
    #[must_use]
    pub const fn after_start(self, kind: Kind) -> Self {
        Self { was_backlog: matches!(kind, Kind::Backlog), ..self }
    }

    /// How many attempts of the backlog may run at once.
    pub fn backlog_max(&self, now: Duration, concurrency: u32) -> u32 {
        let is_recent = |at: Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) < MEMORY);
        if is_on("fresh_starved") {
            return concurrency;
        }
        if is_recent(self.missed_at) {
            return if concurrency == 1 { u32::from(!self.was_backlog) } else { concurrency / 2 };
        }
        if is_recent(self.came_at) { concurrency - concurrency / 10 } else { concurrency }
    }

    /// When the backlog may have more, if it may not have all now.
    pub fn relaxes_at(&self, now: Duration) -> Option<Duration> {
        let ends = [self.missed_at, self.came_at].into_iter().flatten().map(|at| at + MEMORY);
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(100);

    #[test]
    fn the_backlog_gets_what_fresh_events_leave() {
        let none = Share::default();
        let (found, missed) = (none.after_arrival(T, true), none.after_arrival(T, false));
        let table = [(none, 100, 100), (found, 100, 90), (missed, 100, 50), (missed, 3, 1), (found, 3, 3)];
        for (share, concurrency, backlog) in table {
            assert_eq!(share.backlog_max(T, concurrency), backlog, "{share:?} of {concurrency}");
            assert_eq!(share.backlog_max(T + MEMORY, concurrency), concurrency, "{share:?}, forgotten");
        }
    }

    #[test]
    fn a_single_place_is_taken_in_turns() {
        let missed = Share::default().after_arrival(T, false);
        assert_eq!(missed.backlog_max(T, 1), 1);
        let after_backlog = missed.after_start(Kind::Backlog);
        assert_eq!(after_backlog.backlog_max(T, 1), 0);
        assert_eq!(after_backlog.after_start(Kind::Fresh).backlog_max(T, 1), 1);
        assert_eq!(after_backlog.relaxes_at(T), Some(T + MEMORY));
    }
}
