//! The lease of an invocation.
//!
//! 1. Lambda ends an invocation at its deadline, with everything that it does. The lease ends a little later
//!    ([`MARGIN`]), so that nobody takes over while the platform is about to; and not much later, so that the
//!    next attempt does not find the key busy.
//! 2. Nothing is renewed, and nothing is left to do when the answer is out: what runs between invocations is
//!    frozen.
//! 3. A context without a deadline is not Lambda's but somebody's test: the call then has the lease that it has
//!    everywhere, and is renewed.

use lambda_runtime::Context;
use semel_core::sabotage;
use std::time::{Duration, SystemTime};

/// How long after the deadline the lease ends.
pub const MARGIN: Duration = Duration::from_secs(1);
/// Longest time that an invocation can have left: Lambda's longest timeout.
pub const LEFT_MAX: Duration = Duration::from_mins(15);

/// How long the lease of a call that begins now lasts; nothing if there is no deadline.
pub(super) fn lease(context: &Context, now: SystemTime) -> Option<Duration> {
    if context.deadline == 0 || sabotage::is_on("lambda_lease_ignores_deadline") {
        return None;
    }
    let left = context.deadline().duration_since(now).unwrap_or_default();
    Some(left.min(LEFT_MAX) + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const NOW_MS: u64 = 1_767_225_600_000;

    fn lease_at(deadline: u64) -> Option<Duration> {
        let mut context = Context::default();
        context.deadline = deadline;
        lease(&context, UNIX_EPOCH + Duration::from_millis(NOW_MS))
    }

    #[test]
    fn a_lease_ends_a_margin_after_the_deadline() {
        assert_eq!(lease_at(NOW_MS + 3_000), Some(Duration::from_secs(3) + MARGIN));
        assert_eq!(lease_at(NOW_MS), Some(MARGIN));
        assert_eq!(lease_at(NOW_MS - 60_000), Some(MARGIN), "the clocks disagree, or it is over");
    }

    #[test]
    fn no_lease_is_longer_than_an_invocation_can_be() {
        assert_eq!(lease_at(u64::MAX / 2_000), Some(LEFT_MAX + MARGIN));
        assert_eq!(lease_at(NOW_MS + 15 * 60 * 1_000), Some(LEFT_MAX + MARGIN));
    }

    #[test]
    fn without_a_deadline_the_lease_is_left_alone() {
        assert_eq!(lease_at(0), None);
    }
}
