//! Every interleaving of a few callers of one key, on the real call machine.
//!
//! 1. Callers decide, swap, take effect and complete, one step at a time, in every order; between any two
//!    steps the clock may tick, a caller may crash, the store may purge what expired.
//! 2. A reply may be lost after the write landed, and a write may land after its caller is dead.
//! 3. After every step the promises are checked ([`World::broken`]); a broken one comes with the shortest way
//!    to it.
//! 4. Each weaker store that people build, and each weaker rule, is walked too, and must break a promise.
//!
//! It does not sample: what it prints is all the worlds there are, within the bounds of [`Setup`].

mod setup;
mod world;

use semel_core::record::OnLapse;
use setup::{Broken, Guard, Operator, Setup, Step};
use std::collections::HashMap;
use world::{Interned, World};

/// Walks every world that can be reached, breadth first; a broken promise comes with the steps to it.
fn explore(setup: &Setup) -> Result<String, String> {
    let mut records = Interned::default();
    let start = World::start(setup);
    let mut seen = HashMap::from([(start.clone(), 0_u32)]);
    let mut worlds: Vec<(World, u32, Step)> = vec![(start, 0, Step::Start)];
    let (mut at, mut transitions) = (0, 0_usize);
    while at < worlds.len() {
        let world = worlds[at].0.clone();
        for (step, next) in world.steps(setup, &mut records) {
            transitions += 1;
            let next = next.map_err(|broken| told(&worlds, at, step, broken))?;
            next.broken(&world, setup, &records).map_err(|broken| told(&worlds, at, step, broken))?;
            let index = worlds.len() as u32;
            if *seen.entry(next.clone()).or_insert(index) == index {
                worlds.push((next, at as u32, step));
            }
        }
        at += 1;
    }
    Ok(format!("{} worlds, {transitions} transitions, {} records", worlds.len(), records.len()))
}

/// The broken promise, and the way to it.
fn told(worlds: &[(World, u32, Step)], mut at: usize, last: Step, broken: Broken) -> String {
    let mut steps = vec![last];
    while at > 0 {
        steps.push(worlds[at].2);
        at = worlds[at].1 as usize;
    }
    let steps: Vec<_> = steps.iter().rev().map(ToString::to_string).collect();
    format!("{broken}: {}", steps.join(", "))
}

/// Three callers who run again what lapsed.
const RERUN: Setup = Setup {
    callers: 3,
    on_lapse: OnLapse::Rerun,
    guard: Guard::Fence,
    operator: None,
    lease: 1,
    retention: 1,
    time_max: 3,
    losses: 1,
    renewals: 0,
    failures: 0,
};

/// Two callers who also renew their leases, fail and are tried again.
const RENEW: Setup =
    Setup { callers: 2, lease: 2, retention: 2, time_max: 5, losses: 2, renewals: 1, failures: 1, ..RERUN };

/// Two callers who report what lapsed, and an operator who finds out.
const REPORT: Setup = Setup {
    callers: 2,
    on_lapse: OnLapse::Report,
    operator: Some(Operator::Truthful),
    retention: 100,
    ..RENEW
};

fn check_safe(name: &str, setup: &Setup) {
    match explore(setup) {
        Ok(size) => println!("{name}: {size}"),
        Err(broken) => panic!("{name}: {broken}"),
    }
}

fn check_caught(name: &str, setup: &Setup, promise: Broken) {
    match explore(setup) {
        Ok(size) => panic!("{name}: nothing was noticed in {size}"),
        Err(broken) => {
            println!("{name}: {broken}");
            assert!(
                broken.starts_with(&promise.to_string()),
                "{name} was caught for another reason: {broken}"
            );
        }
    }
}

#[test]
fn fenced_swaps_keep_every_promise_in_every_interleaving() {
    check_safe("three callers", &RERUN);
}

#[test]
fn renewals_and_retries_keep_every_promise_in_every_interleaving() {
    check_safe("two callers who renew and fail", &RENEW);
}

#[test]
fn a_call_in_doubt_is_never_run_again_in_any_interleaving() {
    check_safe("two callers and an operator", &REPORT);
}

#[test]
fn a_store_without_a_guard_is_caught() {
    check_caught("no guard", &Setup { guard: Guard::Nothing, ..RERUN }, Broken::TwoHolders);
}

#[test]
fn a_store_that_completes_by_key_alone_is_caught() {
    check_caught("key only", &Setup { guard: Guard::KeyOnly, ..RERUN }, Broken::StaleOutcome);
}

#[test]
fn a_store_that_completes_whatever_is_running_is_caught() {
    check_caught("still running", &Setup { guard: Guard::StillRunning, ..RERUN }, Broken::StaleOutcome);
}

#[test]
fn a_store_whose_fences_restart_after_a_purge_is_caught() {
    check_caught("reused fence", &Setup { guard: Guard::ReusedFence, ..RERUN }, Broken::StaleOutcome);
}

#[test]
fn a_store_that_forgets_a_call_when_its_lease_ends_is_caught() {
    check_caught(
        "lease by expiry",
        &Setup { guard: Guard::LeaseByExpiry, ..RERUN },
        Broken::SupersededByNobody,
    );
    check_caught(
        "lease by expiry, in doubt",
        &Setup { guard: Guard::LeaseByExpiry, ..REPORT },
        Broken::SupersededByNobody,
    );
}

#[test]
fn an_operator_who_is_wrong_is_the_only_way_to_a_second_effect() {
    check_caught(
        "an operator who guesses",
        &Setup { operator: Some(Operator::Guessing), ..REPORT },
        Broken::SecondEffect,
    );
}
