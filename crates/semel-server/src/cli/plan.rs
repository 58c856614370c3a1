//! `semel plan`: when the attempts of each function would be, if they all failed.
//!
//! 1. An attempt begins between two moments: the first if every attempt before it failed at once and every delay was the
//!    shortest, the second if each took its whole timeout and every delay was the longest.
//! 2. What the file asks for and cannot have is warned of: see [`warnings`].
//!
//! It starts nothing, and asks nobody.

use super::text::grouped;
use crate::{
    config::{self, DeadLetterSettings, FunctionSettings, human, warnings},
    exit::Failure,
};
use clap::Args;
use semel_core::retry::{Backoff, Planned, RetryPolicy, START_MARGIN};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// How many attempts are shown before the rest is told in a sentence.
const SHOWN_MAX: usize = 8;
/// How many attempts a program is told the times of.
const LISTED_MAX: usize = 100;
/// Most attempts that are counted: without a delay there is no end in sight.
const COUNTED_MAX: usize = 100_000;

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// The file to look at [default: semel.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The file to look at, as other commands name it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,

    /// Lets functions be on this machine, as `semel serve --dev` does
    #[arg(long)]
    dev: bool,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan of every function.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let file = typed.file.as_deref().or(typed.config.as_deref()).unwrap_or(Path::new("semel.toml"));
    let settings = config::parse(file, &config::read(file)?, typed.dev)?.server;
    if settings.functions.is_empty() {
        return Err(Failure::no(format!("`{}` has no functions", file.display()))
            .hint("add one: `[[function]]` with a `name` and a `url`"));
    }
    if typed.json {
        let plans: Vec<_> = settings.functions.iter().map(document).collect();
        println!("{:#}", json!({ "functions": plans, "warnings": warnings(&settings) }));
        return Ok(());
    }
    let plans: Vec<_> = settings.functions.iter().map(plan).collect();
    print!("{}", plans.join("\n"));
    for warning in warnings(&settings) {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

/// The plan of a function, for programs: times in seconds, of the first attempts.
fn document(function: &FunctionSettings) -> Value {
    let policy = &function.policy;
    let all: Vec<_> = policy.timetable().take(COUNTED_MAX).collect();
    let shown = all.iter().take(LISTED_MAX).map(|it| {
        json!({
            "attempt": it.attempt,
            "earliest_seconds": it.earliest.as_secs_f64(),
            "latest_seconds": it.latest.as_secs_f64(),
        })
    });
    json!({
        "name": function.name,
        "url": function.url.to_string(),
        "retry": policy.is_on(),
        "timeout_seconds": policy.timeout().as_secs_f64(),
        "window_seconds": policy.is_on().then(|| policy.window().as_secs_f64()),
        "retention_seconds": policy.retention().as_secs_f64(),
        "attempts_fewest": fewest(policy, &all),
        "attempts_most": (all.len() < COUNTED_MAX).then_some(all.len()),
        "attempts": shown.collect::<Vec<_>>(),
    })
}

/// The plan of a function, for people.
fn plan(function: &FunctionSettings) -> String {
    let policy = &function.policy;
    let mut text = format!("{}: {}\n", function.name, function.url);
    let mut line = |name: &str, value: &str| {
        // Nothing fails to be written to a string.
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    line("retry", &retry(policy));
    line("attempt", "begins after");
    let all: Vec<_> = policy.timetable().take(COUNTED_MAX).collect();
    for planned in all.iter().take(SHOWN_MAX) {
        line(&planned.attempt.to_string(), &between(planned));
    }
    if all.len() > SHOWN_MAX {
        line("…", &rest(policy, &all));
    }
    line("ends", &end(function));
    text
}

fn retry(policy: &RetryPolicy) -> String {
    let timeout = human(policy.timeout());
    if !policy.is_on() {
        return format!("off: one attempt of at most {timeout}; what fails is dropped");
    }
    let backoff = match policy.backoff() {
        Backoff::Exponential { min, max } => format!("{} … {}, doubling", human(*min), human(*max)),
        Backoff::Immediate => "at once".to_owned(),
        Backoff::Schedule(_) => "by a schedule".to_owned(),
    };
    let attempts = policy.attempts_max().map(|it| format!(", at most {it} attempts")).unwrap_or_default();
    format!("{backoff}; for {}{attempts}; each of at most {timeout}", human(policy.window()))
}

fn between(Planned { earliest, latest, .. }: &Planned) -> String {
    if earliest == latest { human(*earliest) } else { format!("{} … {}", human(*earliest), human(*latest)) }
}

/// How many attempts there are, at least and at most.
fn rest(policy: &RetryPolicy, all: &[Planned]) -> String {
    let (most, fewest) = (all.len(), fewest(policy, all));
    let grouped = |count: usize| grouped(count as u64);
    match (fewest, most) {
        (_, COUNTED_MAX) => {
            format!("{} or more of them, without an end in sight but the window's", grouped(most))
        }
        (fewest, most) if fewest == most => format!("{} attempts in all", grouped(most)),
        (fewest, most) => format!("{} to {} attempts in all", grouped(fewest), grouped(most)),
    }
}

/// How many attempts there are at least: those that nothing is cut short for.
fn fewest(policy: &RetryPolicy, all: &[Planned]) -> usize {
    let cut_short = policy.window().saturating_sub(START_MARGIN);
    all.iter().take_while(|it| it.latest < cut_short).count()
}

fn end(function: &FunctionSettings) -> String {
    let policy = &function.policy;
    let retention = human(policy.retention());
    let age = policy.event_age_max().map(|it| format!(", or when the event is {} old", human(it)));
    let after = if policy.is_on() {
        format!("{} after the first attempt at the latest{}", human(policy.window()), age.unwrap_or_default())
    } else {
        "after one attempt".to_owned()
    };
    let then = match &function.dead_letter {
        DeadLetterSettings::Keep => "then it is a dead letter".to_owned(),
        DeadLetterSettings::None => "then only that it failed is kept".to_owned(),
        DeadLetterSettings::Url(url) => format!("then it is a dead letter, and sent to {url}"),
        DeadLetterSettings::Function(name) => format!("then it is a dead letter, and given to `{name}`"),
    };
    let then = if policy.is_on() {
        then
    } else {
        format!("an event that failed is gone, unless the function refused it: {then}")
    };
    format!("{after}; {then}; remembered for {retention}")
}
