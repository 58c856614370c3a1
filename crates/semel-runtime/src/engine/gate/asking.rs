//! When the queue is worth asking for due executions of a function.
//!
//! 1. At once, if the last answer was as much as was asked for: there may be more.
//! 2. When something is known to be due: what this node accepted, put off or handed back.
//! 3. Else every [`POLL`]: other nodes write too, and die.
//! 4. What becomes known while the queue is being asked is a reason to ask again: its answer may be older.
//!
//! What is known is bounded: of many moments, the [`KNOWN_MAX`] earliest are kept, and the poll finds the rest.

use semel_core::time::Timestamp;
use std::{collections::BTreeSet, time::Duration};

/// How often the queue is asked without a reason.
pub const POLL: Duration = Duration::from_secs(1);
/// Most moments that are known to be worth asking at.
pub const KNOWN_MAX: usize = 256;

/// What is known of the executions that wait for a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asking {
    /// Whether the last answer was as much as was asked for.
    is_full: bool,
    /// When the queue was last asked, by the monotonic clock.
    asked_at: Option<Duration>,
    /// When something is due, by the queue's clock.
    known: BTreeSet<Timestamp>,
}

impl Asking {
    /// Something is due then. Whether that is earlier than everything that was known.
    pub fn note(&mut self, due_at: Timestamp) -> bool {
        let is_earliest = self.known.first().is_none_or(|it| due_at < *it);
        self.known.insert(due_at);
        if self.known.len() > KNOWN_MAX {
            self.known.pop_last();
        }
        is_earliest
    }

    /// Whether there is a reason to think that something is due.
    pub fn has_reason(&self, now: Timestamp) -> bool {
        self.is_full || self.known.first().is_some_and(|at| *at <= now)
    }

    /// The queue is being asked at this moment: whatever is known to be due, it knows. If it does not answer, there is as
    /// much reason to ask again.
    pub fn asked(&mut self, now: Timestamp, monotonic: Duration) {
        self.is_full = self.has_reason(now);
        self.asked_at = Some(monotonic);
        self.known = self.known.split_off(&(now + Duration::from_millis(1)));
    }

    /// It was asked for so many, and gave so many.
    pub const fn answered(&mut self, asked: u32, given: u32) {
        self.is_full = given >= asked;
    }

    /// How long until it is worth asking; nothing if it is now.
    pub fn wait(&self, now: Timestamp, monotonic: Duration) -> Duration {
        if self.is_full {
            return Duration::ZERO;
        }
        let by_poll = self.asked_at.map_or(Duration::ZERO, |at| (at + POLL).saturating_sub(monotonic));
        let by_known = self.known.first().map_or(Duration::MAX, |at| at.since(now));
        by_poll.min(by_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const T: Duration = Duration::from_secs(100);

    fn asked(asked: u32, given: u32) -> Asking {
        let mut asking = Asking::default();
        asking.asked(NOW, T);
        asking.answered(asked, given);
        asking
    }

    #[test]
    fn a_new_one_asks_at_once_and_then_by_the_poll() {
        assert_eq!(Asking::default().wait(NOW, T), Duration::ZERO);
        assert_eq!(asked(10, 3).wait(NOW, T), POLL);
        assert_eq!(asked(10, 3).wait(NOW, T + POLL), Duration::ZERO);
    }

    #[test]
    fn a_full_answer_is_a_reason_to_ask_again() {
        assert_eq!(asked(10, 10).wait(NOW, T), Duration::ZERO);
    }

    #[test]
    fn what_is_known_to_be_due_shortens_the_wait() {
        let mut asking = asked(10, 0);
        assert!(asking.note(NOW + Duration::from_millis(300)));
        assert!(!asking.note(NOW + Duration::from_millis(301)));
        assert_eq!(asking.wait(NOW, T), Duration::from_millis(300));
        asking.asked(NOW + Duration::from_millis(300), T);
        asking.answered(10, 1);
        assert_eq!(asking.wait(NOW + Duration::from_millis(300), T), Duration::from_millis(1));
    }

    #[test]
    fn what_becomes_known_while_the_queue_is_asked_is_asked_for_again() {
        let mut asking = asked(10, 0);
        asking.asked(NOW, T);
        assert!(asking.note(NOW));
        asking.answered(10, 3);
        assert_eq!(asking.wait(NOW, T), Duration::ZERO);
    }

    #[test]
    fn one_that_did_not_answer_is_asked_again_at_once_if_there_was_a_reason() {
        let mut asking = asked(10, 0);
        asking.asked(NOW, T);
        assert_eq!(asking.wait(NOW, T), POLL);
        let _ = asking.note(NOW);
        asking.asked(NOW, T);
        assert_eq!(asking.wait(NOW, T), Duration::ZERO);
    }

    #[test]
    fn of_too_many_moments_the_earliest_are_kept() {
        let mut asking = asked(10, 0);
        for millis in (1..=KNOWN_MAX as u64 + 10).rev() {
            let _ = asking.note(NOW + Duration::from_millis(millis));
        }
        assert_eq!(asking.known.len(), KNOWN_MAX);
        assert_eq!(asking.wait(NOW, T), Duration::from_millis(1));
    }
}
