//! How long the calls of a function take, and what may be held for it.
//!
//! 1. What counts is the longest call of late: every shorter one makes it a little shorter.
//! 2. A function whose calls are [`QUICK`] may have [`HELD_PER_CALL`] times its concurrency in hand: what is being written
//!    before its call or after it takes nobody's place at the target, and lasts as long as a quick call.
//! 3. Of a slower one, or one that was never called, no more is held than is called at once: the rest would wait here,
//!    where no other node can take it.

use std::time::Duration;

/// Calls that take no longer than this are quick.
pub const QUICK: Duration = Duration::from_millis(100);
/// What may be held of a quick function, for each of its calls at once.
pub const HELD_PER_CALL: u32 = 4;

/// How long calls took of late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    longest: Option<Duration>,
}

impl Pace {
    /// After a call that took so long, or longer. That of a target which is down says nothing good of it.
    #[must_use]
    pub fn after_call(self, took: Duration, is_alive: bool) -> Self {
        let faded = self.longest.map_or(Duration::ZERO, |it| if is_alive { it / 8 * 7 } else { it });
        let is_known = is_alive || self.longest.is_some();
        Self { longest: is_known.then(|| faded.max(took)) }
    }

    /// How many may be held where so many may be called at once.
    pub fn held_max(&self, concurrency: u32) -> u32 {
        let is_quick = self.longest.is_some_and(|it| it <= QUICK);
        if is_quick { concurrency.saturating_mul(HELD_PER_CALL) } else { concurrency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(1);

    #[test]
    fn more_is_held_of_a_function_that_is_known_to_be_quick() {
        assert_eq!(Pace::default().held_max(10), 10);
        assert_eq!(Pace::default().after_call(QUICK, true).held_max(10), 40);
        assert_eq!(Pace::default().after_call(QUICK * 2, true).held_max(10), 10);
        assert_eq!(Pace::default().after_call(QUICK, true).held_max(u32::MAX), u32::MAX);
    }

    #[test]
    fn one_slow_call_is_remembered_for_a_while() {
        let slow = Pace::default().after_call(QUICK / 2, true).after_call(SLOW, true);
        assert_eq!(slow.held_max(10), 10);
        let after = |calls| (0..calls).fold(slow, |it, _| it.after_call(QUICK / 2, true));
        assert_eq!(after(17).held_max(10), 10);
        assert_eq!(after(18).held_max(10), 40);
    }

    #[test]
    fn a_target_that_is_down_can_only_seem_slower() {
        assert_eq!(Pace::default().after_call(Duration::ZERO, false), Pace::default());
        let slow = Pace::default().after_call(SLOW, true);
        assert_eq!(slow.after_call(Duration::ZERO, false), slow);
        let quick = Pace::default().after_call(QUICK, true);
        assert_eq!(quick.after_call(SLOW, false).held_max(10), 10);
    }
}
