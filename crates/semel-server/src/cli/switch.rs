//! `semel pause`, `resume`, `drain`: whether a function starts anything; and `semel purge`.

use super::{
    client::{Client, Server},
    list::Only,
    text::{clean, count, grouped},
};
use crate::{
    api::views::{FunctionView, PurgeView, SwitchView},
    exit::Failure,
    progress::{Progress, bar, per_second},
};
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// How long one step of draining takes at most, in seconds.
const STEP_SECS: u32 = 2;

/// What was typed after `semel pause` or `semel resume`.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// The function
    #[arg(value_name = "FUNCTION")]
    function: String,

    #[command(flatten)]
    server: Server,
}

/// What was typed after `semel drain`.
#[derive(Args, Debug)]
pub(super) struct Drain {
    /// The function
    #[arg(value_name = "FUNCTION")]
    function: String,

    /// How long to wait until nothing of it runs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    within: u32,

    #[command(flatten)]
    server: Server,
}

/// Pauses a function.
pub(super) fn pause(typed: &Typed) -> Result<(), Failure> {
    switch(typed, "pause", "is paused: what comes for it waits; `semel resume` lets it go on")
}

/// Resumes a function.
pub(super) fn resume(typed: &Typed) -> Result<(), Failure> {
    switch(typed, "resume", "goes on")
}

fn switch(typed: &Typed, verb: &str, so: &str) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let path = format!("/v1/functions/{}/{verb}", named(&typed.function)?);
    let answer = client.post_to(&path, None, missing(&typed.function))?;
    client.show(answer, |it: &SwitchView| {
        let already = if it.is_changed { "" } else { " (it was so before)" };
        format!("{} {so}{already}\n", clean(&it.function))
    })
}

/// Pauses a function, and waits until nothing of it runs.
pub(super) fn drain(typed: &Drain) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let path = format!("/v1/functions/{}/drain", named(&typed.function)?);
    let (mut progress, mut left, mut is_changed, mut most) = (Progress::new(), typed.within, None, 0);
    // In short steps, to tell how far it is. What others know by now they still know at the next. It is paused by the first
    // alone: whoever resumes it meanwhile means that.
    let switched = loop {
        let step = left.min(STEP_SECS);
        let body = match is_changed {
            None => json!({ "within_secs": step }),
            Some(_) => json!({ "within_secs": step, "only_wait": true }),
        };
        let answer = client.post_to(&path, Some(&body), missing(&typed.function))?;
        let switched: SwitchView = client.read(answer)?;
        left -= step;
        let is_changed = *is_changed.get_or_insert(switched.is_changed);
        if switched.is_idle || !switched.is_paused || left == 0 {
            break SwitchView { is_changed, ..switched };
        }
        let running = client.get(&format!("/v1/functions/{}", typed.function))?;
        let running: FunctionView = client.read(running)?;
        most = most.max(running.ledger.in_progress);
        progress.show(|took| waiting(running.ledger.in_progress, most, took));
    };
    drop(progress);
    let answer = serde_json::to_value(&switched).expect("shapes are JSON");
    client.show(answer, |it: &SwitchView| {
        let so = if it.is_paused { "is paused" } else { "goes on" };
        format!("{} {so}\n", clean(&it.function))
    })?;
    if !switched.is_paused {
        let function = clean(&typed.function);
        return Err(Failure::no(format!("somebody resumed `{function}` before it was drained"))
            .hint(format!("`semel audit {function}` says who")));
    }
    if switched.is_idle {
        return Ok(());
    }
    Err(Failure::no(format!(
        "something of `{}` may still run, here or on a node that has not heard of it",
        clean(&typed.function)
    ))
    .hint("wait longer: `--within SECONDS`; `semel functions` shows how many"))
}

/// What draining waits for, in a line: so many still run, and so many did.
fn waiting(running: u64, most: u64, took: Duration) -> String {
    let seconds = took.as_secs();
    if running == 0 {
        return format!("waiting until every node knows that it is paused, {seconds} s");
    }
    let bar = bar(most.saturating_sub(running), most);
    format!("{bar}  waiting for {}, {seconds} s", count(running, "execution", "executions"))
}

fn missing(function: &str) -> Failure {
    Failure::no(format!("there is no function `{}`", clean(function))).hint("`semel functions` lists them")
}

/// The name of a function stands in an address.
fn named(name: &str) -> Result<&str, Failure> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-' | b'$');
    if !name.is_empty() && name.bytes().all(is_plain) {
        return Ok(name);
    }
    Err(Failure::usage(format!("`{}` is no name of a function", clean(name)))
        .hint("`semel functions` lists them"))
}

/// Removes what has outlived its retention.
pub(super) fn purge(typed: &Only) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let (mut all, mut progress) = (0, Progress::new());
    loop {
        let answer: PurgeView = client.read(client.post("/v1/purge", None)?)?;
        all += answer.purged;
        if !answer.has_more {
            drop(progress);
            let whole =
                serde_json::to_value(PurgeView { purged: all, has_more: false }).expect("shapes are JSON");
            return client.show(whole, |it: &PurgeView| {
                format!("{} purged: their retention was over\n", count(it.purged, "execution", "executions"))
            });
        }
        progress.show(|took| format!("{} purged, {}/s", grouped(all), grouped(per_second(all, took))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_draining_waits_for_is_shown() {
        let waiting = |running, most| waiting(running, most, Duration::from_secs(4));
        assert_eq!(waiting(6, 8), "[######------------------]  25 %  waiting for 6 executions, 4 s");
        assert_eq!(waiting(1, 8), "[#####################---]  87 %  waiting for 1 execution, 4 s");
        assert_eq!(waiting(0, 8), "waiting until every node knows that it is paused, 4 s");
    }
}
