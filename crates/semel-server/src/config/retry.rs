//! When a function's failed attempts are made again: a preset, and the knobs that change it.

use super::{
    read::{Limit, Section},
    value::{self, Wanted, one_of},
};
use semel_core::retry::{
    ATTEMPTS_MAX, ATTEMPTS_MAX_LEAST, Backoff, DELAY_MAX, OutOfRange, RETENTION_MAX, RETENTION_MIN,
    RetryPolicy, SCHEDULE_DELAY_MAX, SCHEDULE_ENTRIES_MAX, TIMEOUT_MAX, TIMEOUT_MIN, WINDOW_MAX, WINDOW_MIN,
};
use std::time::Duration;

/// Shortest and longest age of an event; with no limit, it is left out.
const EVENT_AGE: (Duration, Duration) = (Duration::from_secs(1), RETENTION_MAX);

/// A preset by its name.
pub(crate) fn preset(text: &str) -> Result<RetryPolicy, Wanted> {
    let all = [
        ("off", RetryPolicy::default as fn() -> RetryPolicy),
        ("gen1", RetryPolicy::gen1),
        ("gen2", RetryPolicy::gen2),
        ("pubsub", RetryPolicy::pubsub),
        ("standard-webhooks", RetryPolicy::standard_webhooks),
        ("immediate", RetryPolicy::immediate),
    ];
    one_of(text, &all).map(|it| it())
}

/// The policy that a section describes.
pub(super) fn read(section: &Section<'_>) -> RetryPolicy {
    let mut policy = section.text("retry", preset).unwrap_or_default();
    let was_off = !policy.is_on();
    let window = section.duration("window", WINDOW_MIN, WINDOW_MAX);
    let backoff = backoff(section);
    let attempts = section.number_or_none("attempts_max", ATTEMPTS_MAX_LEAST.into(), ATTEMPTS_MAX.into());
    if was_off {
        for key in ["window", "backoff", "attempts_max"].into_iter().filter(|it| section.has(it)) {
            section.wrong(
                key,
                &section.found(key),
                "a `retry` that is not `off`, such as `retry = \"gen2\"`",
            );
        }
    }
    if let Some(window) = window {
        policy = checked(policy.with_window(window));
    }
    if let Some(backoff) = backoff {
        policy = checked(policy.with_backoff(backoff));
    }
    if let Some(limit) = attempts {
        let limit = match limit {
            Limit::None => None,
            Limit::Of(attempts) => Some(attempts as u32),
        };
        policy = checked(policy.with_attempts_max(limit));
    }
    if let Some(age) = section.duration("event_age_max", EVENT_AGE.0, EVENT_AGE.1) {
        policy = policy.with_event_age_max(Some(age));
    }
    if let Some(timeout) = section.duration("timeout", TIMEOUT_MIN, TIMEOUT_MAX) {
        policy = checked(policy.with_timeout(timeout));
    }
    if let Some(retention) = section.duration("retention", RETENTION_MIN, RETENTION_MAX) {
        policy = checked(policy.with_retention(retention));
    }
    policy
}

fn checked(policy: Result<RetryPolicy, OutOfRange>) -> RetryPolicy {
    policy.expect("a value out of its range was told and left out before")
}

/// `"immediate"`, `["5s", "5m"]` or `{ min = "10s", max = "10m" }`.
fn backoff(section: &Section<'_>) -> Option<Backoff> {
    const KEY: &str = "backoff";
    if section.is_table(KEY) {
        return exponential(&section.section(KEY)?);
    }
    if !section.is_list(KEY) {
        return section.text(KEY, |text| {
            let is_right = text == "immediate";
            is_right.then_some(Backoff::Immediate).ok_or_else(|| {
                "`\"immediate\"`, a list of delays such as `[\"5s\", \"5m\"]`, or `{ min = \"10s\", max = \"10m\" }`"
                    .to_owned()
            })
        });
    }
    let delays = section.list(KEY, |text| {
        let delay = value::duration(text)?;
        let longest = value::duration_text(SCHEDULE_DELAY_MAX);
        (delay <= SCHEDULE_DELAY_MAX).then_some(delay).ok_or_else(|| format!("`0ms` to `{longest}`"))
    })?;
    if (1..=SCHEDULE_ENTRIES_MAX).contains(&delays.len()) {
        return Some(Backoff::Schedule(delays));
    }
    section.wrong(KEY, &section.found(KEY), &format!("a list of 1 to {SCHEDULE_ENTRIES_MAX} delays"));
    None
}

fn exponential(section: &Section<'_>) -> Option<Backoff> {
    let Backoff::Exponential { min, max } = Backoff::DEFAULT else { unreachable!("it doubles") };
    let max = section.duration("max", Duration::ZERO, DELAY_MAX).unwrap_or(max);
    let min = section.duration("min", Duration::ZERO, DELAY_MAX).unwrap_or(min.min(max));
    section.check_unknown();
    if min <= max {
        return Some(Backoff::Exponential { min, max });
    }
    let wanted = format!("at most `max`, which is `{}`", value::duration_text(max));
    section.wrong("min", &value::duration_text(min), &wanted);
    None
}
