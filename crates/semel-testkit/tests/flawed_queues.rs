//! The conformance suite passes a right queue, and names the rule that a wrong one breaks.

mod flawed_queue;

use flawed_queue::{Flaw, Flawed};
use semel_testkit::conformance;
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(it) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return it;
        }
    }
}

#[test]
fn a_right_queue_passes() {
    let queue = Flawed::new(Flaw::None);
    block_on(conformance::queue::all(&queue));
    block_on(conformance::queue::all(&queue));
    block_on(conformance::queue::purge_takes_the_expired_executions_at_once(&queue));
}

#[test]
fn a_right_queue_passes_with_a_thread_for_each_caller() {
    let spawn = |task| drop(std::thread::spawn(|| block_on(task)));
    block_on(conformance::queue::contended(Arc::new(Flawed::new(Flaw::None)), spawn));
}

#[test]
fn a_queue_that_ignores_orders_is_caught_by_the_hammer() {
    let spawn = |task| drop(std::thread::spawn(|| block_on(task)));
    let queue = Arc::new(Flawed::new(Flaw::OrderIgnored));
    let hammer = || block_on(conformance::queue::contended(queue, spawn));
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(hammer)).expect_err("it went unnoticed");
    let message = panic.downcast_ref::<String>().expect("a formatted message");
    assert!(message.contains("was handed out before"), "{message}");
}

#[test]
fn every_flaw_is_caught_by_the_rule_about_it() {
    for (flaw, name) in flawed_queue::CAUGHT_BY {
        let rule = conformance::queue::RULES.iter().find(|it| it.name == *name);
        let rule = rule.unwrap_or_else(|| panic!("no rule is called `{name}`"));
        let check = || block_on((rule.check)(&Flawed::new(*flaw)));
        std::panic::catch_unwind(check).expect_err(&format!("{flaw:?} is not caught by `{name}`"));
    }
}

#[test]
fn the_suite_names_the_rules_that_do_not_hold() {
    let check = || block_on(conformance::queue::all(&Flawed::new(Flaw::ClaimIgnoresLimit)));
    let panic = std::panic::catch_unwind(check).expect_err("it went unnoticed");
    let message = panic.downcast_ref::<String>().expect("a formatted message");
    assert!(message.contains("\n  the_longest_due_are_handed_out_first: "), "{message}");
    assert!(!message.contains("\n  a_renewed_lease_is_respected: "), "{message}");
}
