//! What fresh events get while a backlog drains.
//!
//! 1. Fresh is what was just accepted; backlog is what waited in the queue.
//! 2. While fresh events find no room, half of what can be held, rounded up, is kept for them. While they come and find
//!    room, a tenth is. When none came for [`MEMORY`], nothing is.
//! 3. Where there is room for one only, they take turns.
//! 4. What can be held is the least of what the function's concurrency, the node's budget and its memory allow.
//! 5. Tokens of a rate are given in turns: for each that the backlog takes, the next one is kept for a fresh event, if one found
//!    none of late. The bucket's last place is not kept: what would not fit into it is the backlog's. A bucket of one token
//!    keeps it for as long as two take to come.
//!
//! It limits the backlog only: fresh events may take everything that is free.

use crate::function::Rate;
use semel_core::sabotage::is_on;
use std::time::Duration;

/// How long fresh events are remembered.
pub const MEMORY: Duration = Duration::from_secs(1);

/// The tokens that fresh events are owed, of a function that has a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owed {
    tokens: u32,
    /// When a fresh event found no token last, by the monotonic clock.
    missed_at: Option<Duration>,
}

impl Owed {
    /// After a fresh event found no token.
    #[must_use]
    pub const fn after_miss(self, now: Duration) -> Self {
        Self { missed_at: Some(now), ..self }
    }

    /// After so many tokens were taken.
    #[must_use]
    pub fn after_start(self, rate: &Rate, kind: Kind, tokens: u32) -> Self {
        let kept_max = rate.burst().saturating_sub(1).max(1);
        let tokens = match kind {
            Kind::Fresh => self.tokens.saturating_sub(tokens),
            Kind::Backlog => self.tokens.saturating_add(tokens).min(kept_max),
        };
        Self { tokens, ..self }
    }

    /// How many tokens are kept from the backlog.
    pub fn kept(&self, rate: &Rate, now: Duration) -> u32 {
        let is_wanted = self.lapses_at(rate).is_some_and(|at| now < at);
        if is_wanted && !is_on("fresh_without_tokens") { self.tokens } else { 0 }
    }

    /// When they are not kept any more, unless another fresh event finds none.
    pub fn lapses_at(&self, rate: &Rate) -> Option<Duration> {
        let two = rate.spacing().saturating_mul(2);
        let memory = if rate.burst() > 1 { two.max(MEMORY) } else { two };
        self.missed_at.map(|at| at.saturating_add(memory))
    }
}

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

    /// How many attempts of the backlog may be held where so many can be held of both.
    pub fn backlog_max(&self, now: Duration, held_max: u32) -> u32 {
        let is_recent = |at: Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) < MEMORY);
        if is_on("fresh_starved") {
            return held_max;
        }
        if is_recent(self.missed_at) {
            return if held_max == 1 { u32::from(!self.was_backlog) } else { held_max / 2 };
        }
        if is_recent(self.came_at) { held_max - held_max / 10 } else { held_max }
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

    fn rate(count: u32) -> Rate {
        Rate::new(count, Duration::from_secs(1)).expect("a rate")
    }

    #[test]
    fn a_single_token_is_taken_in_turns_and_not_kept_for_long() {
        let rate = rate(10);
        let owed = Owed::default().after_start(&rate, Kind::Backlog, 1);
        assert_eq!(owed.kept(&rate, T), 0, "nobody missed it");
        let owed = owed.after_miss(T);
        assert_eq!(owed.kept(&rate, T), 1);
        assert_eq!(owed.after_start(&rate, Kind::Fresh, 1).kept(&rate, T), 0, "the next is the backlog's");
        assert_eq!(owed.kept(&rate, T + rate.spacing() * 2), 0, "nobody came for it");
    }

    #[test]
    fn a_bucket_that_is_full_gives_to_the_backlog() {
        let rate = rate(200);
        let owed = Owed::default().after_start(&rate, Kind::Backlog, 100).after_miss(T);
        assert_eq!(owed.kept(&rate, T), rate.burst() - 1);
        assert_eq!(owed.kept(&rate, T + MEMORY), 0);
    }
}
