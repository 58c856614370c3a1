//! Whether a node knows which functions are paused, and whether all of them do.
//!
//! 1. What a node has read is believed for [`BELIEVED`], counted from before it asked. A node that could not read for so long
//!    starts nothing: somebody may have paused a function since.
//! 2. So, [`BELIEVED`] after a node has seen that a function is paused, no node starts anything of it: whoever had read before
//!    that has read again, or believes nothing.
//! 3. Time is counted by the monotonic clock and by the wall's, whichever says that more has passed: the first stands still
//!    while a machine sleeps, the second is set by people.
//!
//! It is told what was read in the order in which that was asked for. It says nothing of calls that were begun before: they are leased in the queue.

use semel_core::{fence::Fence, sabotage::is_on, time::Timestamp};
use std::time::Duration;

/// How long a node believes what it has read.
pub(crate) const BELIEVED: Duration = Duration::from_secs(5);

/// A moment by the clocks that no store keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Here {
    pub(crate) monotonic: Duration,
    pub(crate) wall: Timestamp,
}

/// What a node knows of what is paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Informed {
    /// When it asked for what it knows.
    asked: Option<Here>,
    /// Which edition it knows, and since when by the monotonic clock.
    edition: Option<Fence>,
    since: Duration,
}

impl Informed {
    /// A node that has read nothing yet.
    pub(crate) const fn new() -> Self {
        Self { asked: None, edition: None, since: Duration::ZERO }
    }

    /// It has read this edition, which it had asked for at that moment. Whether that is news.
    pub(crate) fn read(&mut self, asked: Here, now: Here, edition: Option<Fence>) -> bool {
        let was_informed = self.is_informed(now);
        let is_new = self.asked.is_none() || self.edition != edition;
        if is_new {
            (self.edition, self.since) = (edition, now.monotonic);
        }
        self.asked = Some(asked);
        is_new || !was_informed
    }

    /// Whether it may start anything.
    pub(crate) fn is_informed(&self, now: Here) -> bool {
        let age = |asked: Here| now.monotonic.saturating_sub(asked.monotonic).max(now.wall.since(asked.wall));
        is_on("stale_nodes_start") || self.asked.is_some_and(|asked| age(asked) < BELIEVED)
    }

    /// When all nodes know this edition or start nothing, by the monotonic clock.
    pub(crate) fn all_know_at(&self) -> Duration {
        if is_on("drain_answers_at_once") { self.since } else { self.since + BELIEVED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Here {
        let time = Duration::from_secs(seconds);
        Here { monotonic: time, wall: Timestamp::EPOCH + time }
    }

    fn edition(number: u64) -> Option<Fence> {
        Fence::new(number)
    }

    #[test]
    fn what_was_read_is_believed_from_when_it_was_asked_for() {
        let mut node = Informed::new();
        assert!(!node.is_informed(at(10)));
        assert!(node.read(at(10), at(13), edition(1)));
        assert!(node.is_informed(at(14)));
        assert!(!node.is_informed(at(15)));
        assert!(node.read(at(16), at(17), edition(1)), "it may go on, and that is news");
        assert!(!node.read(at(18), at(18), edition(1)));
        assert!(node.is_informed(at(22)));
    }

    #[test]
    fn all_know_when_nobody_believes_what_was_before() {
        let mut node = Informed::new();
        node.read(at(10), at(10), edition(1));
        node.read(at(20), at(21), edition(2));
        assert_eq!(node.all_know_at(), at(26).monotonic);
        node.read(at(23), at(24), edition(2));
        assert_eq!(node.all_know_at(), at(26).monotonic, "it is the same edition");
        node.read(at(25), at(25), edition(3));
        assert_eq!(node.all_know_at(), at(30).monotonic);
    }

    #[test]
    fn a_machine_that_slept_believes_nothing_and_a_clock_that_was_set_back_changes_nothing() {
        let mut node = Informed::new();
        node.read(at(10), at(10), edition(1));
        let slept = Here { wall: at(3_600).wall, ..at(11) };
        assert!(!node.is_informed(slept));
        let set_back = Here { wall: at(1).wall, ..at(11) };
        assert!(node.is_informed(set_back));
    }
}
