//! `semel doctor`: what is wrong with a running server.

use super::{
    client::{Client, Server, print},
    list::state,
    text::{bytes, clean, count, lasting},
};
use crate::{
    api::views::{FunctionsView, LedgersView, ServerView, StoreView},
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

/// Fewest days until the disk is full that are well.
const DAYS_MIN: u64 = 7;
/// Least room on the disk that is well, in bytes.
const LEFT_MIN: u64 = 256 << 20;

/// What was looked at, and whether it is well.
struct Finding {
    is_well: bool,
    /// Whether it could be better, though it is well.
    is_noted: bool,
    what: String,
    remedy: String,
}

impl Finding {
    fn new(is_well: bool, what: impl Into<String>, remedy: &str) -> Self {
        let remedy = if is_well { String::new() } else { remedy.to_owned() };
        Self { is_well, is_noted: false, what: what.into(), remedy }
    }

    /// It is well, and could be better.
    fn noted(what: &str, remedy: String) -> Self {
        Self { is_well: true, is_noted: true, what: what.to_owned(), remedy }
    }

    /// A line, and one for what to do. Nothing is cut: this is what somebody came for.
    fn text(&self) -> String {
        let hint =
            if self.remedy.is_empty() { String::new() } else { format!("      hint: {}\n", self.remedy) };
        format!("{}  {}\n{hint}", self.mark(), self.what)
    }

    const fn mark(&self) -> &'static str {
        match (self.is_well, self.is_noted) {
            (true, false) => "ok",
            (true, true) => "--",
            (false, _) => "!!",
        }
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
        print(&findings.iter().map(Finding::text).collect::<String>());
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
    ];
    all.extend(store(&server.store));
    all.push(Finding::new(
        !functions.functions.is_empty(),
        count(functions.functions.len() as u64, "function", "functions"),
        "add one: `semel serve --function NAME=URL`",
    ));
    for it in &functions.functions {
        let (state, name) = (state(it), clean(&it.name));
        let remedy = match (state, &it.left_out) {
            (_, Some(why)) => format!("mend it: {}", clean(why)),
            ("paused", None) => format!("`semel resume {name}`"),
            (_, None) => "see that its target is there".to_owned(),
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

/// What the store promises, and how full it is.
fn store(store: &StoreView) -> Vec<Finding> {
    let promise = match store.tier.as_str() {
        "A" => "no kill or power cut loses anything",
        "B" => "nothing is lost while most servers live",
        _ => "a restart or failover may lose events",
    };
    let mut all = vec![
        Finding::new(true, format!("its store is {}", clean(&store.place)), ""),
        Finding::new(
            store.tier != "C",
            format!("tier {}: {promise}", clean(&store.tier)),
            "keep executions in a directory on a disk, or in PostgreSQL: `semel serve --store`",
        ),
    ];
    if let Some(found) = &store.went_back {
        all.push(Finding::new(
            false,
            format!("it forgot something: {}", clean(found)),
            "look what is missing, then `semel past replay` or `semel past skip`",
        ));
    }
    all.extend(store.damaged.iter().map(|it| {
        let what = format!("an execution cannot be read: {}", clean(it));
        Finding::new(false, what, "keep a copy of the store, and look what happened to its disk")
    }));
    if let Some(cause) = &store.trouble {
        let what = format!("what is finished cannot be tidied up: {}", clean(cause));
        all.push(Finding::new(false, what, "make room on its disk"));
    }
    if let Some(cause) = &store.refuses {
        let what = format!("no new events are taken: {}", clean(cause));
        all.push(Finding::new(false, what, "make room on its disk, or raise `disk_bytes_max`"));
    }
    all.extend(store.warnings.iter().map(|it| Finding::noted("the store could promise more", clean(it))));
    if let (Some(used), Some(left)) = (store.used_bytes, store.left_bytes) {
        let what = format!("{} of the disk taken, {} left", bytes(used), bytes(left));
        all.push(Finding::new(left >= LEFT_MIN, what, "make room, or raise `disk_bytes_max`"));
    }
    if let Some(days) = store.days_to_full {
        let what = format!("the disk is full in {}, as it grows now", count(days, "day", "days"));
        all.push(Finding::new(days >= DAYS_MIN, what, "make room, or shorten `retention`"));
    }
    all
}

fn clock(theirs: Timestamp) -> Finding {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let theirs = Duration::from_millis(theirs.as_millis());
    let apart = ours.abs_diff(theirs);
    let what = if apart <= APART_MAX {
        "its clock agrees with this one".to_owned()
    } else {
        format!("its clock is {} from this one", lasting(apart))
    };
    Finding::new(apart <= APART_MAX, what, "set the clocks: NTP")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a store, a line for each finding.
    fn said(tier: &str, left_bytes: u64, days_to_full: Option<u64>) -> Vec<String> {
        lines(&view(tier, left_bytes, days_to_full))
    }

    fn lines(view: &StoreView) -> Vec<String> {
        store(view).iter().map(|it| format!("{} {}", it.mark(), it.what)).collect()
    }

    fn view(tier: &str, left_bytes: u64, days_to_full: Option<u64>) -> StoreView {
        StoreView {
            place: "./semel-data".to_owned(),
            tier: tier.to_owned(),
            promise: String::new(),
            warnings: vec!["fsync is off, wanted on: set it".to_owned()],
            used_bytes: Some(64 << 20),
            left_bytes: Some(left_bytes),
            days_to_full,
            damaged: Vec::new(),
            trouble: None,
            refuses: None,
            went_back: None,
        }
    }

    #[test]
    fn what_cannot_be_read_or_tidied_up_is_told() {
        let ill = StoreView {
            damaged: vec!["a row is damaged".to_owned()],
            trouble: Some("the disk is full".to_owned()),
            refuses: Some("it cannot grow".to_owned()),
            ..view("A", 3 << 30, None)
        };
        let wrong: Vec<_> = lines(&ill).into_iter().filter(|it| it.starts_with("!!")).collect();
        let expected = [
            "!! an execution cannot be read: a row is damaged",
            "!! what is finished cannot be tidied up: the disk is full",
            "!! no new events are taken: it cannot grow",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn a_store_is_well_if_it_keeps_what_it_promised_and_has_room() {
        assert_eq!(
            said("A", 3 << 30, Some(DAYS_MIN)),
            [
                "ok its store is ./semel-data",
                "ok tier A: no kill or power cut loses anything",
                "-- the store could promise more",
                "ok 64.0 MiB of the disk taken, 3.0 GiB left",
                "ok the disk is full in 7 days, as it grows now",
            ]
        );
        let worse = said("C", LEFT_MIN - 1, Some(1));
        let wrong: Vec<_> = worse.iter().filter(|it| it.starts_with("!!")).collect();
        assert_eq!(
            wrong,
            [
                "!! tier C: a restart or failover may lose events",
                "!! 64.0 MiB of the disk taken, 256.0 MiB left",
                "!! the disk is full in 1 day, as it grows now",
            ]
        );
    }
}
