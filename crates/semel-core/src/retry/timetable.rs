//! A policy as a plan: when its attempts would be, if they all failed.

use super::{RetryPolicy, START_MARGIN};
use std::time::Duration;

/// One attempt of a plan, relative to the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it begins if every attempt before it failed at once and every delay was the shortest.
    pub earliest: Duration,
    /// When it begins if every attempt before it took the whole timeout and every delay was the longest; cut short to
    /// begin within the window.
    pub latest: Duration,
}

/// The attempts of a policy, until its last one or the end of its window. With neither a delay nor a limit
/// of attempts there is no end in sight: take as many as are wanted.
#[derive(Clone, Debug)]
pub struct Timetable<'a> {
    policy: &'a RetryPolicy,
    next: Option<Planned>,
}

impl RetryPolicy {
    /// When the attempts would be, if they all failed.
    ///
    /// ```
    /// use semel_core::retry::RetryPolicy;
    /// let policy = RetryPolicy::gen2();
    /// let third = policy.timetable().nth(2).expect("retry is on");
    /// assert_eq!((third.attempt, third.earliest.as_secs(), third.latest.as_secs()), (3, 20, 180));
    /// ```
    pub const fn timetable(&self) -> Timetable<'_> {
        let first = Planned { attempt: 1, earliest: Duration::ZERO, latest: Duration::ZERO };
        Timetable { policy: self, next: Some(first) }
    }
}

impl Iterator for Timetable<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let current = self.next?;
        self.next = self.after(current);
        Some(current)
    }
}

impl Timetable<'_> {
    fn after(&self, Planned { attempt, earliest, latest }: Planned) -> Option<Planned> {
        if self.policy.spent(attempt).is_some() {
            return None;
        }
        let (shortest, longest) = self.policy.band(attempt).into_inner();
        let earliest = earliest + shortest;
        if earliest > self.policy.window() {
            return None;
        }
        let cut_short = self.policy.window().saturating_sub(START_MARGIN);
        let latest = (latest + self.policy.timeout() + longest).min(cut_short).max(earliest);
        Some(Planned { attempt: attempt.checked_add(1)?, earliest, latest })
    }
}
