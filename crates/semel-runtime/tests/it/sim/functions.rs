//! The functions of the simulation, each with a target of its own kind.

use crate::support::targets::at;
use semel_core::retry::{Backoff, RETENTION_MIN, RetryPolicy};
use semel_events::filter::{Compare, Filter};
use semel_runtime::{DeadLetter, Function, Rate};
use std::time::Duration;

/// The names of those that take events.
pub(super) const NAMES: [&str; 9] =
    ["fine", "slow", "flaky", "fatal", "hanging", "poison", ORDERED, "paced", "direct"];
/// What the policy of all of them says.
pub(super) const BACKOFF_MIN: Duration = Duration::from_secs(1);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(10);
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Is called in order.
pub(super) const ORDERED: &str = "ordered";
/// Takes the dead letters of `fatal`.
pub(super) const UNDERTAKER: &str = "undertaker";

fn policy() -> RetryPolicy {
    let backoff = Backoff::Exponential { min: BACKOFF_MIN, max: BACKOFF_MAX };
    let policy = RetryPolicy::gen2().with_backoff(backoff).unwrap();
    policy.with_timeout(TIMEOUT).unwrap().with_attempts_max(Some(8)).unwrap()
}

/// What is soon forgotten, and may come again then.
pub(super) const FORGETFUL: [&str; 2] = ["fine", "slow"];

/// Remembers what finished for as short as may be.
fn forgetful(function: Function) -> Function {
    let policy = function.policy.clone().with_retention(RETENTION_MIN).unwrap();
    Function { policy, ..function }
}

fn function(name: &str, concurrency: u32) -> Function {
    Function {
        filter: Some(Filter::compare(Compare::Exact, "type", name).unwrap()),
        policy: policy(),
        concurrency: concurrency.try_into().unwrap(),
        ..Function::new(name.parse().unwrap(), at(name))
    }
}

/// All of them.
pub(super) fn all() -> Vec<Function> {
    let undertaker = UNDERTAKER.parse().unwrap();
    vec![
        forgetful(function(FORGETFUL[0], 16)),
        forgetful(function(FORGETFUL[1], 8)),
        function("flaky", 8),
        Function { dead_letter: DeadLetter::Function(undertaker), ..function("fatal", 8) },
        function("hanging", 4),
        function("poison", 4),
        Function { order: Some("subject".parse().unwrap()), ..function(ORDERED, 8) },
        Function { rate: Rate::new(20, Duration::from_secs(1)), ..function("paced", 8) },
        // Is tried once: what comes after is its sender's to try.
        Function { policy: policy().with_retry(false), ..function("direct", 8) },
        function(UNDERTAKER, 4),
    ]
}
