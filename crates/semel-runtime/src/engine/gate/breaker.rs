//! The circuit breaker of a function's target.
//!
//! 1. Closed: everything may go. [`FAILURES_MAX`] failures in a row open it.
//! 2. Open: nothing goes, for a time that doubles from [`OPEN_MIN`] to [`OPEN_MAX`] with every opening in a row.
//! 3. Then one probe may go at a time. If it finds the target alive, the breaker is closed; if not, it opens again.
//! 4. A probe that nobody heard of again, because its node lost it, makes room for the next one.
//! 5. Nobody needs to reset it.
//! 6. It is of one function and its target: two functions at one host have one each. A path that is broken leaves the others
//!    of its host alone, and each finds out by itself when the host is back, with a probe of its own.
//!
//! It does not know what a failure is, and draws no random number: where in the second half of its time an open
//! breaker ends is an argument, so that nodes do not probe together.

use semel_core::{retry::Jitter, sabotage::is_on};
use std::time::Duration;

/// Failures in a row after which the target counts as down.
pub const FAILURES_MAX: u32 = 10;
/// How long it is left alone at first.
pub const OPEN_MIN: Duration = Duration::from_secs(1);
/// How long it is left alone at most.
pub const OPEN_MAX: Duration = Duration::from_mins(1);

/// What an attempt says of its target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Health {
    /// It answered as something does that works, whatever it thought of the event.
    Alive,
    /// It did not, or not in time, or said that it is in trouble.
    Down,
    /// Nothing: the attempt was not made, or nobody heard of it again.
    Unknown,
}

/// Where a breaker stands. Moments are those of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breaker {
    /// The target is thought to be alive.
    Closed {
        /// Failures since it was last seen alive.
        failures: u32,
    },
    /// The target is left alone.
    Open {
        /// Until then.
        until: Duration,
        /// Openings since it was last seen alive.
        openings: u32,
    },
    /// The target is being tried.
    Probing {
        /// Openings since it was last seen alive.
        openings: u32,
        /// Whether a probe is under way.
        is_under_way: bool,
    },
}

/// How much may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// As much as there is room for.
    Free,
    /// One, as a probe.
    Probe,
    /// Nothing, until then.
    ClosedUntil(Duration),
    /// Nothing, until the probe that is under way is over.
    Awaited,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// How much may go now.
    pub fn passage(&self, now: Duration) -> Passage {
        match *self {
            Self::Closed { .. } => Passage::Free,
            Self::Open { until, .. } if now < until => Passage::ClosedUntil(until),
            Self::Open { until, .. } if is_on("breaker_never_heals") => {
                Passage::ClosedUntil(until + OPEN_MAX)
            }
            Self::Open { .. } | Self::Probing { is_under_way: false, .. } => Passage::Probe,
            Self::Probing { is_under_way: true, .. } => Passage::Awaited,
        }
    }

    /// After something went, as [`Breaker::passage`] allowed.
    #[must_use]
    pub const fn after_start(self) -> Self {
        match self {
            Self::Closed { .. } => self,
            Self::Open { openings, .. } | Self::Probing { openings, .. } => {
                Self::Probing { openings, is_under_way: true }
            }
        }
    }

    /// After something that went came back.
    #[must_use]
    pub fn after_end(self, now: Duration, health: Health, jitter: Jitter) -> Self {
        match (self, health) {
            (Self::Closed { .. } | Self::Probing { .. }, Health::Alive) => Self::default(),
            (Self::Closed { failures }, Health::Down) if failures + 1 < FAILURES_MAX => {
                Self::Closed { failures: failures + 1 }
            }
            (Self::Closed { .. }, Health::Down) => opened(now, 0, jitter),
            (Self::Probing { openings, .. }, Health::Down) => opened(now, openings, jitter),
            (Self::Probing { openings, .. }, Health::Unknown) => {
                Self::Probing { openings, is_under_way: false }
            }
            // Whoever started before it opened has nothing new to say.
            (Self::Open { .. }, _) | (Self::Closed { .. }, Health::Unknown) => self,
        }
    }

    /// Whether the target is thought to be alive.
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// As written in answers and labels.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::Probing { .. } => "probing",
        }
    }
}

fn opened(now: Duration, openings: u32, jitter: Jitter) -> Breaker {
    let whole = OPEN_MIN.saturating_mul(1 << openings.min(16)).min(OPEN_MAX);
    let share = u64::try_from((whole / 2).as_nanos()).unwrap_or(u64::MAX);
    let extra =
        Duration::from_nanos((u128::from(share) * u128::from(jitter.0) / u128::from(u32::MAX)) as u64);
    Breaker::Open { until: now + whole / 2 + extra, openings: openings + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(100);

    fn after(failures: u32) -> Breaker {
        (0..failures).fold(Breaker::default(), |it, _| it.after_end(T, Health::Down, Jitter::MOST))
    }

    #[test]
    fn it_opens_after_so_many_failures_in_a_row_and_not_one_earlier() {
        assert!(after(FAILURES_MAX - 1).is_closed());
        assert_eq!(after(FAILURES_MAX), Breaker::Open { until: T + OPEN_MIN, openings: 1 });
    }

    #[test]
    fn one_that_is_alive_makes_the_count_begin_anew() {
        let seen = after(FAILURES_MAX - 1).after_end(T, Health::Alive, Jitter::MOST);
        assert_eq!(seen, Breaker::default());
        let unheard = after(3).after_end(T, Health::Unknown, Jitter::MOST);
        assert_eq!(unheard, Breaker::Closed { failures: 3 });
    }

    #[test]
    fn an_open_one_lets_one_probe_through_when_its_time_is_over() {
        let open = after(FAILURES_MAX);
        let later = T + OPEN_MIN;
        assert_eq!(open.passage(T), Passage::ClosedUntil(later));
        assert_eq!(open.passage(later), Passage::Probe);
        let probing = open.after_start();
        assert_eq!(probing.passage(later), Passage::Awaited);
        assert!(probing.after_end(later, Health::Alive, Jitter::MOST).is_closed());
        assert_eq!(probing.after_end(later, Health::Unknown, Jitter::MOST).passage(later), Passage::Probe);
    }

    #[test]
    fn a_target_that_stays_down_is_left_alone_longer_and_longer_up_to_a_limit() {
        let mut breaker = after(FAILURES_MAX);
        let mut waits = Vec::new();
        let mut now = T;
        for _ in 0..9 {
            let Breaker::Open { until, .. } = breaker else { panic!("{breaker:?} is not open") };
            waits.push(until.saturating_sub(now).as_secs());
            now = until;
            breaker = breaker.after_start().after_end(now, Health::Down, Jitter::MOST);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn jitter_places_the_probe_in_the_second_half() {
        let open = |jitter| opened(T, 0, jitter);
        assert_eq!(open(Jitter::LEAST), Breaker::Open { until: T + OPEN_MIN / 2, openings: 1 });
        assert_eq!(open(Jitter::MOST), Breaker::Open { until: T + OPEN_MIN, openings: 1 });
    }

    #[test]
    fn whoever_started_before_it_opened_neither_closes_nor_lengthens_it() {
        let open = after(FAILURES_MAX);
        for health in [Health::Alive, Health::Down, Health::Unknown] {
            assert_eq!(open.after_end(T, health, Jitter::MOST), open);
        }
    }
}
