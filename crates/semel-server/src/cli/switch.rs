//! `semel pause`, `resume`, `drain`: whether a function starts anything; and `semel purge`.

use super::{
    client::{Client, Server},
    list::Only,
    text::{clean, count, grouped},
};
use crate::{
    api::views::{PurgeView, SwitchView},
    exit::Failure,
    progress::{Progress, per_second},
};
use clap::Args;
use serde_json::json;

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
    let body = json!({ "within_secs": typed.within });
    let answer = client.post_to(&path, Some(&body), missing(&typed.function))?;
    let switched: SwitchView = client.read(answer.clone())?;
    client.show(answer, |it: &SwitchView| format!("{} is paused\n", clean(&it.function)))?;
    if switched.is_idle {
        return Ok(());
    }
    Err(Failure::no(format!("something of `{}` still runs", clean(&typed.function)))
        .hint("wait longer: `--within SECONDS`; `semel functions` shows how many"))
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
