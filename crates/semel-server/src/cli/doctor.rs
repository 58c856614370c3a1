//! `semel doctor`: what is wrong with a running server.

use super::{
    client::{Client, Server, print},
    list::state,
    text::{Table, clean, count, lasting},
};
use crate::{
    api::views::{FunctionsView, LedgersView, ServerView},
    exit::Failure,
};
use clap::Args;
use semel_core::time::Timestamp;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far two clocks may be apart.
const APART_MAX: Duration = Duration::from_secs(5);

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Typed {
    #[command(flatten)]
    server: Server,
}

/// What was looked at, and whether it is well.
struct Finding {
    is_well: bool,
    what: String,
    remedy: String,
}

impl Finding {
    fn new(is_well: bool, what: impl Into<String>, remedy: &str) -> Self {
        let remedy = if is_well { String::new() } else { remedy.to_owned() };
        Self { is_well, what: what.into(), remedy }
    }
}

/// Looks at everything that can be asked for. Something that is not well is the answer no.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let findings = look(&client)?;
    if client.is_json() {
        let finding = |it: &Finding| json!({ "is_well": it.is_well, "what": it.what, "remedy": it.remedy });
        print(&format!("{:#}\n", findings.iter().map(finding).collect::<Value>()));
    } else {
        let mut table = Table::new(&["", "WHAT", "REMEDY"]);
        for it in &findings {
            table.add(vec![
                if it.is_well { "ok" } else { "!!" }.to_owned(),
                it.what.clone(),
                it.remedy.clone(),
            ]);
        }
        print(&table.text());
    }
    match findings.iter().filter(|it| !it.is_well).count() as u64 {
        0 => Ok(()),
        wrong => Err(Failure::no(format!("{} not well", count(wrong, "thing is", "things are")))),
    }
}

fn look(client: &Client) -> Result<Vec<Finding>, Failure> {
    let server: ServerView = client.read(client.get("/v1/server")?)?;
    let ready = client.ask(http::Method::GET, "/ready", None, &[])?;
    let functions: FunctionsView = client.read(client.get("/v1/functions")?)?;
    let ledgers: LedgersView = client.read(client.get("/v1/ledger")?)?;
    let mut all = vec![
        Finding::new(true, format!("{} answers to {}", client.address(), clean(&server.who)), ""),
        Finding::new(
            server.version == env!("CARGO_PKG_VERSION"),
            format!("it is of version {}", clean(&server.version)),
            "use a command line of the same version",
        ),
        Finding::new(
            ready.0.is_success(),
            if ready.0.is_success() { "it takes events" } else { "it takes no events" },
            "look at its log",
        ),
        clock(server.now.0),
        Finding::new(
            !functions.functions.is_empty(),
            count(functions.functions.len() as u64, "function", "functions"),
            "add one: `semel serve --function NAME=URL`",
        ),
    ];
    for it in &functions.functions {
        let (state, name) = (state(it), clean(&it.name));
        let remedy = match state {
            "paused" => format!("`semel resume {name}`"),
            _ => "see that its target is there".to_owned(),
        };
        all.push(Finding::new(matches!(state, "ready" | "removed"), format!("{name} is {state}"), &remedy));
    }
    let total = &ledgers.total;
    let books = if total.is_balanced { "the books are balanced" } else { "the books are not balanced" };
    all.push(Finding::new(total.is_balanced, books, "keep a copy of the store, and report it"));
    all.push(Finding::new(
        total.dead == 0,
        count(total.dead, "dead letter", "dead letters"),
        "`semel dead --errors`",
    ));
    all.push(Finding::new(
        total.unknown == 0,
        format!("{} of unknown outcome", count(total.unknown, "execution", "executions")),
        "`semel executions --reason outcome_unknown`, then `semel resolve`",
    ));
    Ok(all)
}

fn clock(theirs: Timestamp) -> Finding {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let theirs = Duration::from_millis(theirs.as_millis());
    let apart = ours.abs_diff(theirs);
    let what = match apart <= APART_MAX {
        true => "its clock agrees with this one".to_owned(),
        false => format!("its clock is {} from this one", lasting(apart)),
    };
    Finding::new(apart <= APART_MAX, what, "set the clocks: NTP")
}
