//! A few that go first, and how fast the others follow.
//!
//! 1. A canary is well when each of it took effect at its first attempt after it was operated on. One that is tried again has
//!    failed: the rest would, too.
//! 2. The rate rises to its full height over the first [`RAMP`] after the beginning, and again after the canary: a target that
//!    just came back is not run over by what waited for that.

use crate::{
    engine::gate::ramp::{RAMP, ramped},
    function::Rate,
};
use semel_core::{
    execution::{Execution, ExecutionId},
    queue::PAGE_MAX,
    record::Status,
    sabotage::is_on,
};
use std::time::Duration;

/// Those that go first.
pub(super) struct Canary {
    size: usize,
    those: Vec<One>,
}

/// One of them, as it stood when it had been operated on.
struct One {
    id: ExecutionId,
    attempts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    Well,
    Waiting,
    Failed,
}

impl Canary {
    pub(super) fn new(size: u32) -> Self {
        // One page at most: they are looked at together.
        Self { size: size.clamp(1, PAGE_MAX) as usize, those: Vec::new() }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.those.len() >= self.size
    }

    /// One that was operated on.
    pub(super) fn add(&mut self, execution: &Execution) {
        self.those.push(One { id: execution.id(), attempts: execution.attempts });
    }

    pub(super) fn ids(&self) -> Vec<ExecutionId> {
        self.those.iter().map(|it| it.id).collect()
    }

    /// How it is, where its executions stand like this.
    pub(super) fn health<'a>(&self, found: impl Iterator<Item = Option<&'a Execution>>) -> Health {
        let each = self.those.iter().zip(found).filter_map(|(one, it)| Some(health(one.attempts, it?)));
        // One that failed outweighs one that waits, and that one all the others.
        each.max_by_key(|it| *it as u8).unwrap_or(Health::Well)
    }
}

/// How one is that had so many attempts when it was operated on.
fn health(attempts_before: u32, execution: &Execution) -> Health {
    let attempts = execution.attempts.saturating_sub(attempts_before);
    if attempts > 1 && !is_on("canary_may_fail_first") {
        return Health::Failed;
    }
    match execution.status() {
        Status::Completed => Health::Well,
        Status::Failed => Health::Failed,
        Status::Pending if attempts > 0 => Health::Failed,
        Status::Pending | Status::InProgress => Health::Waiting,
    }
}

/// How long to wait between two, so long after the rate began to rise: longer while it rises, but no longer than until it has
/// risen and one more is due.
pub(super) fn pause(rate: &Rate, since: Duration) -> Duration {
    let interval = rate.interval();
    let rising = interval.saturating_mul(100) / ramped(100, since);
    rising.min(RAMP.saturating_sub(since) + interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_rises_and_a_slow_one_is_not_slower_for_long() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        let often = Rate::new(10, second).expect("it is one");
        assert_eq!(pause(&often, Duration::ZERO), second);
        assert_eq!(pause(&often, RAMP), second / 10);
        let seldom = Rate::new(1, hour).expect("it is one");
        assert_eq!(pause(&seldom, Duration::ZERO), RAMP + hour);
        assert_eq!(pause(&seldom, RAMP), hour);
    }
}
