//! `semel demo`: what was typed, and what it means.

use crate::{demo, exit::Failure};
use clap::Args;
use std::path::PathBuf;

/// Most deliveries, and most events.
pub(super) const DELIVERIES_MAX: u32 = 1_000_000;

const EXAMPLES: &str = "\
Everything runs in this process: a server on a free port, with its data in a directory that is removed in the end; a
function that charges an account, and fails, is slow or crashes by choice; and senders that deliver events again and again,
also at the same time. In the middle the server crashes and is opened again.

Exit codes: 0 every event took effect once, 1 not so, 2 called wrongly, 69 something is not there, 70 a bug.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Typed {
    /// How many events there are [default: two for every five deliveries]
    #[arg(long, value_name = "N")]
    events: Option<u32>,

    /// How many deliveries are made of them, at least one each [default: 10000]
    #[arg(long, value_name = "N")]
    deliveries: Option<u32>,

    /// Where the random numbers begin [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Keeps what the server kept in this directory, which must be empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Shows that every event takes effect once.
pub(super) fn run(typed: Typed) -> Result<(), Failure> {
    let deliveries = typed.deliveries.unwrap_or(10_000);
    let events = typed.events.unwrap_or_else(|| (deliveries / 5 * 2).max(1));
    check("--events", events, DELIVERIES_MAX)?;
    check("--deliveries", deliveries, DELIVERIES_MAX)?;
    if deliveries < events {
        return Err(Failure::usage(format!(
            "`--deliveries` is `{deliveries}`: wanted at least `--events`, `{events}`"
        ))
        .hint("every event is delivered at least once"));
    }
    let seed = typed.seed.unwrap_or_else(|| crate::bench::traffic::nanos() % 1_000_000);
    demo::run(&demo::Asked { events, deliveries, seed, keep: typed.keep })
}

fn check(flag: &str, number: u32, most: u32) -> Result<(), Failure> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    Err(Failure::usage(format!("`{flag}` is `{number}`: wanted 1 to {most}"))
        .hint("`semel demo --help` says more"))
}
