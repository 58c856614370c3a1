//! How many executions may wait for a queue that is slow.
//!
//! 1. What is answered within [`WAIT_WANTED`], also with an error, lets as many more wait, [`WAITING_MAX`] at most.
//! 2. When something took longer, half of what waits now may, [`WAITING_MIN`] at least. What had been waiting at that
//!    time tells the same again, and halves nothing.
//! 3. Who comes when nothing waits is let in: how slow a queue is, is learnt by asking it.
//!
//! So senders are told early to come again, instead of waiting until they give up and send twice.

use semel_core::sabotage::is_on;
use std::time::Duration;

/// Longest that an event should wait to be written. Senders give up after five seconds, or ten.
const WAIT_WANTED: Duration = Duration::from_secs(2);
/// Fewest executions that may wait.
const WAITING_MIN: usize = 64;
/// Most executions that may wait. What they weigh is bounded elsewhere.
const WAITING_MAX: usize = 65_536;

/// Lets executions in, as many as the queue is quick enough for.
#[derive(Debug)]
pub(crate) struct Admission {
    waiting: usize,
    limit: usize,
    /// When it was halved, on the monotonic clock.
    halved_at: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        Self { waiting: 0, limit: WAITING_MAX, halved_at: Duration::ZERO }
    }
}

/// How many executions wait to be written, and how many may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// So many wait now.
    pub now: usize,
    /// So many may. Fewer than [`Waiting::MAX`]: the queue is slow, and senders are told to come again.
    pub limit: usize,
}

impl Waiting {
    /// Most that may.
    pub const MAX: usize = WAITING_MAX;
}

impl Admission {
    /// How many wait.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting { now: self.waiting, limit: self.limit }
    }

    /// Whether one more may wait.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting == 0 || self.waiting < self.limit
    }

    /// So many begin to wait.
    pub(crate) fn enter(&mut self, count: usize) {
        self.waiting += count;
    }

    /// So many that had begun to wait then were answered now.
    pub(crate) fn leave(&mut self, count: usize, since: Duration, now: Duration) {
        if now.saturating_sub(since) <= WAIT_WANTED {
            self.limit = (self.limit + count).min(WAITING_MAX);
        } else if since >= self.halved_at && !is_on("admission_unhalved") {
            self.limit = (self.waiting.min(self.limit) / 2).max(WAITING_MIN);
            self.halved_at = now;
        }
        self.waiting -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(2_001);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Answers these, one by one, this long after they had come.
    fn answered(admission: &mut Admission, count: usize, since: Duration, after: Duration) {
        for _ in 0..count {
            admission.leave(1, since, since + after);
        }
    }

    #[test]
    fn a_quick_queue_is_waited_for_by_as_many_as_there_are() {
        let mut admission = Admission::default();
        for _ in 1..WAITING_MAX {
            admission.enter(1);
        }
        assert!(admission.is_open());
        admission.enter(1);
        assert!(!admission.is_open());
        answered(&mut admission, WAITING_MAX, seconds(1), WAIT_WANTED);
        assert!(admission.is_open());
    }

    #[test]
    fn what_waited_at_the_same_time_halves_once() {
        let mut admission = Admission::default();
        admission.enter(1_000);
        answered(&mut admission, 400, seconds(1), SLOW);
        assert!(!admission.is_open(), "500 may wait, and 600 do");
        answered(&mut admission, 101, seconds(1), SLOW);
        assert!(admission.is_open(), "499 do");
    }

    #[test]
    fn what_is_slow_again_and_again_halves_down_to_a_few() {
        let mut admission = Admission::default();
        admission.enter(100_000);
        for round in 0..20 {
            admission.leave(1, seconds(round * 10), seconds(round * 10) + SLOW);
        }
        assert_eq!(admission.limit, WAITING_MIN);
    }

    #[test]
    fn what_is_quick_again_lets_more_in_step_by_step() {
        let mut admission = Admission::default();
        admission.enter(WAITING_MAX);
        admission.leave(1, seconds(10), seconds(20));
        let halved = admission.limit;
        assert_eq!(halved, WAITING_MAX / 2);
        admission.leave(1, seconds(20), seconds(20));
        assert_eq!(admission.limit, halved + 1);
        answered(&mut admission, WAITING_MAX - 2, seconds(20), seconds(0));
        assert_eq!(admission.limit, WAITING_MAX);
    }

    #[test]
    fn who_comes_when_nothing_waits_is_let_in() {
        let mut admission = Admission { limit: 0, ..Admission::default() };
        assert!(admission.is_open());
        admission.enter(1);
        assert!(!admission.is_open());
    }
}
