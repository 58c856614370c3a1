//! The engine in a simulated world: its real code, on a queue in memory that fails, with targets that fail, nodes that crash,
//! freeze and come back, nodes that are wrong about what time it is, and a queue whose clock jumps. Everything is drawn from a seed: the same seed gives the same trace.
//!
//! `SEMEL_SEED=17 cargo nextest run -p semel-runtime sim::one_seed` runs one; `SEMEL_TRACE=1` prints what happens.

mod faults;
mod functions;
mod node;
mod oracle;
mod run;
mod sync;
mod targets;
mod world;

use self::{faults::Injected, run::run};
use std::time::Duration;

/// Steps of trouble in one simulation.
const STEPS: u32 = 400;
/// Simulations in one test.
const SEEDS: u64 = 26;

/// Where the seeds begin: at `SEMEL_SEED`, if somebody looks for something.
fn first_seed() -> u64 {
    std::env::var("SEMEL_SEED").map_or(1, |it| it.parse().unwrap())
}

/// Runs these seeds one after the other: what they lived through must be worth it.
fn check(seeds: impl Iterator<Item = u64>) {
    let (mut lifecycles, mut starts, mut injected) = (0, 0, Injected::default());
    let mut drained = Duration::ZERO;
    for seed in seeds {
        println!("seed {seed}");
        let outcome = run(seed, STEPS);
        lifecycles += outcome.lifecycles;
        starts += outcome.starts;
        drained = drained.max(outcome.drained);
        injected = injected.plus(outcome.injected);
    }
    println!("{lifecycles} lifecycles, {starts} starts, all ended within {drained:?}, {injected:?}");
    assert!(lifecycles > 50_000 && starts > lifecycles / 2, "too little happened");
    injected.check_floors();
}

#[test]
fn nothing_is_lost_or_twice_and_everything_ends_first_quarter() {
    check(first_seed()..first_seed() + SEEDS);
}

#[test]
fn nothing_is_lost_or_twice_and_everything_ends_second_quarter() {
    check(first_seed() + 1_000..first_seed() + 1_000 + SEEDS);
}

#[test]
fn nothing_is_lost_or_twice_and_everything_ends_third_quarter() {
    check(first_seed() + 2_000..first_seed() + 2_000 + SEEDS);
}

#[test]
fn nothing_is_lost_or_twice_and_everything_ends_last_quarter() {
    check(first_seed() + 3_000..first_seed() + 3_000 + SEEDS);
}

#[test]
fn one_seed() {
    println!("seed {}", first_seed());
    let outcome = run(first_seed(), STEPS);
    println!("{outcome:#?}");
    assert!(outcome.lifecycles > 1_000, "{outcome:?}");
}

/// Enough for every seeded bug to show.
#[test]
fn few_seeds() {
    for seed in first_seed()..first_seed() + 4 {
        println!("seed {seed}");
        run(seed, STEPS);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [first_seed(), first_seed() + 50] {
        println!("seed {seed}");
        assert_eq!(run(seed, STEPS).trace, run(seed, STEPS).trace, "seed {seed}");
    }
}
