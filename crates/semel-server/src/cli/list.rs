//! `semel executions`, `semel dead`, `semel functions`, `semel jobs`, `semel audit`: what there is.

use super::{
    client::{Client, Server, say},
    text::{Table, count, moment},
    why::standing,
};
use crate::{
    api::{
        table::encoded,
        views::{
            AuditsView, DefinedBy, ErrorsView, ExecutionView, ExecutionsView, FunctionView, FunctionsView,
            JobsView, Standing, Why, WhyView,
        },
    },
    exit::Failure,
};
use clap::Args;
use semel_core::queue::PAGE_MAX;
use serde_json::Value;

/// Most items that one command lists.
const LISTED_MAX: i64 = 10_000;
/// Most pages that they are looked for on: some have few, because the rest is the server's own.
const PAGES_MAX: u32 = 1_000;

/// Which executions.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Which {
    /// Of this function
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,

    /// Failed for this reason: fatal, exhausted, window, too_old, cancelled, dropped or outcome_unknown
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub(super) reason: Option<String>,

    /// Whose event has this type
    #[arg(long, value_name = "TYPE")]
    pub(super) r#type: Option<String>,

    /// Whose event has this id, or whose key is this
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Whose last error has this print: `semel dead --errors` shows them
    #[arg(long, value_name = "PRINT")]
    pub(super) error: Option<String>,

    /// Accepted at this moment or later, such as 2026-11-16T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(super) from: Option<String>,

    /// Accepted before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) before: Option<String>,
}

fn reason(text: &str) -> Result<String, String> {
    Why::parse(text).map(|_| text.to_owned()).ok_or_else(|| format!("one of {}", Why::WORDS.join(", ")))
}

fn status(text: &str) -> Result<String, String> {
    let text = text.to_ascii_uppercase().replace('-', "_");
    Standing::parse(&text)
        .map(|it| it.as_str().to_owned())
        .ok_or_else(|| format!("one of {}", Standing::WORDS.join(", ")))
}

impl Which {
    /// As the API has it.
    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("function", &self.function),
            ("reason", &self.reason),
            ("type", &self.r#type),
            ("name", &self.name),
            ("error", &self.error),
            ("accepted_from", &self.from),
            ("accepted_before", &self.before),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

/// What was typed after `semel executions`.
#[derive(Args, Debug)]
pub(super) struct Executions {
    #[command(flatten)]
    which: Which,

    /// In this status: pending, in-progress, completed or failed
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<String>,

    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=LISTED_MAX))]
    limit: u32,

    #[command(flatten)]
    server: Server,
}

/// What was typed after `semel dead`.
#[derive(Args, Debug)]
pub(super) struct Dead {
    #[command(flatten)]
    which: Which,

    /// Groups them by what went wrong
    #[arg(long)]
    errors: bool,

    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=LISTED_MAX))]
    limit: u32,

    #[command(flatten)]
    server: Server,
}

/// What was typed after a command that only asks.
#[derive(Args, Debug)]
pub(super) struct Only {
    #[command(flatten)]
    pub(super) server: Server,
}

/// Lists executions.
pub(super) fn executions(typed: &Executions) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let mut pairs = typed.which.pairs();
    pairs.extend(typed.status.as_deref().map(|it| ("status", it)));
    let answer = pages(&client, &path("/v1/executions", &pairs), "executions", typed.limit)?;
    client.show(answer, |view: &ExecutionsView| {
        let mut table = Table::new(&[
            "ACCEPTED",
            "EVENT",
            "TYPE",
            "FUNCTION",
            "STATUS",
            "ATTEMPTS",
            "AGAIN",
            "EXECUTION",
        ]);
        for it in &view.executions {
            table.add(vec![
                moment(it.accepted_at),
                it.event_id.clone(),
                it.r#type.clone(),
                it.function.clone(),
                standing(it),
                it.attempts.to_string(),
                (it.duplicates + it.mismatches).to_string(),
                short(it),
            ]);
        }
        told(&table, "executions", view.next.is_some())
    })
}

/// Lists dead letters.
pub(super) fn dead(typed: &Dead) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    if typed.errors {
        return errors(&client, typed);
    }
    let mut pairs = typed.which.pairs();
    // Whoever names a reason wants what failed for it, also what is no dead letter.
    pairs.push(if typed.which.reason.is_none() { ("dead", "true") } else { ("status", "FAILED") });
    let answer = pages(&client, &path("/v1/executions", &pairs), "executions", typed.limit)?;
    client.show(answer, |view: &ExecutionsView| {
        let mut table =
            Table::new(&["FAILED", "EVENT", "FUNCTION", "REASON", "ATTEMPTS", "EXECUTION", "ERROR"]);
        for it in &view.executions {
            table.add(vec![
                moment(it.updated_at),
                it.event_id.clone(),
                it.function.clone(),
                it.reason.map(|it| it.as_str().to_owned()).unwrap_or_default(),
                it.attempts.to_string(),
                short(it),
                it.error.clone().unwrap_or_default(),
            ]);
        }
        told(&table, "dead letters", view.next.is_some())
    })
}

fn errors(client: &Client, typed: &Dead) -> Result<(), Failure> {
    // The server's groups are as many as a page has, and no more.
    let limit = typed.limit.min(PAGE_MAX);
    let answer = client.get(&format!("{}limit={limit}", path("/v1/errors", &typed.which.pairs())))?;
    client.show(answer, |view: &ErrorsView| {
        let mut table = Table::new(&["PRINT", "DEAD", "WAITING", "LAST", "FUNCTIONS", "FOR EXAMPLE"]);
        for it in &view.errors {
            table.add(vec![
                it.print.clone(),
                it.dead.to_string(),
                it.waiting.to_string(),
                moment(it.last_at),
                it.functions.join(", "),
                it.example.clone(),
            ]);
        }
        if !view.is_whole {
            say(&partial(view.looked_at));
        }
        told(&table, "errors", view.has_more)
    })
}

/// Not all executions were looked at.
fn partial(looked_at: u64) -> String {
    format!("only the latest were looked at: {}", count(looked_at, "execution", "executions"))
}

/// Lists functions.
pub(super) fn functions(typed: &Only) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let answer = client.get("/v1/functions")?;
    client.show(answer, |view: &FunctionsView| {
        let mut table =
            Table::new(&["FUNCTION", "STATE", "RUNNING", "PENDING", "COMPLETED", "DEAD", "BY", "TARGET"]);
        for it in &view.functions {
            table.add(vec![
                it.name.clone(),
                state(it).to_owned(),
                format!("{}/{}", it.in_flight, it.concurrency),
                it.ledger.pending.to_string(),
                it.ledger.completed.to_string(),
                it.ledger.dead.to_string(),
                it.defined_by.as_str().to_owned(),
                it.url.clone().unwrap_or_default(),
            ]);
        }
        told(&table, "functions", false)
    })
}

/// How a function stands, in a word.
pub(super) fn state(it: &FunctionView) -> &'static str {
    if it.left_out.is_some() {
        return "left out";
    }
    match (it.is_removed, it.is_paused, it.breaker.as_str(), it.defined_by) {
        (true, ..) => "removed",
        (_, true, ..) => "paused",
        (.., "closed", DefinedBy::File | DefinedBy::Api | DefinedBy::Server) => "ready",
        _ => "target down",
    }
}

/// Lists jobs.
pub(super) fn jobs(typed: &Only) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let answer = client.get("/v1/jobs")?;
    client.show(answer, |view: &JobsView| {
        let mut table = Table::new(&["JOB", "BEGAN", "BY", "ACTION", "STATE", "MATCHED", "DONE", "SKIPPED"]);
        for it in &view.jobs {
            let numbers = [it.matched, it.done, it.skipped].map(|it| it.to_string());
            let mut row = vec![it.number.to_string(), moment(it.began_at), it.who.clone()];
            row.extend([it.action.clone(), it.state.as_str().to_owned()]);
            row.extend(numbers);
            table.add(row);
        }
        told(&table, "jobs", false)
    })
}

/// What was typed after `semel audit`.
#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Of this function, or of this execution: its id, or the first eight or more digits of it
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,

    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=LISTED_MAX))]
    limit: u32,

    #[command(flatten)]
    server: Server,
}

/// Lists who changed what.
pub(super) fn audit(typed: &Audit) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let subject = typed.subject.as_deref().map(|it| whole_id(&client, it)).transpose()?;
    let subject = subject.map(|it| format!("subject={}&", encoded(&it))).unwrap_or_default();
    let answer = pages(&client, &format!("/v1/audit?{subject}"), "entries", typed.limit)?;
    client.show(answer, |view: &AuditsView| {
        let mut table = Table::new(&["WHEN", "WHO", "WHAT", "OF", "DETAIL"]);
        for it in &view.entries {
            let subject =
                if it.subject.len() == 64 { it.subject[..12].to_owned() } else { it.subject.clone() };
            table.add(vec![moment(it.at), it.who.clone(), it.what.clone(), subject, it.detail.clone()]);
        }
        told(&table, "changes", view.next.is_some())
    })
}

/// The id that begins like this, as lists show it; what is no such beginning stays as it is.
fn whole_id(client: &Client, text: &str) -> Result<String, Failure> {
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    if (8..64).contains(&text.len()) && text.bytes().all(is_digit) {
        let found: WhyView = client.read(client.get(&format!("/v1/why?q={}", encoded(text)))?)?;
        if let [one] = &found.found[..] {
            return Ok(one.execution.id.clone());
        }
    }
    Ok(text.to_owned())
}

fn path(list: &str, pairs: &[(&str, &str)]) -> String {
    let mut path = format!("{list}?");
    for (name, value) in pairs {
        path.extend([name, "=", &encoded(value), "&"]);
    }
    path
}

/// So many items of a list, from as many pages as they are on, and no more than [`PAGES_MAX`].
fn pages(client: &Client, path: &str, items: &str, limit: u32) -> Result<Value, Failure> {
    let (limit, mut all, mut from) = (limit as usize, Vec::new(), String::new());
    for page_number in 1.. {
        let wanted = (limit - all.len()).min(PAGE_MAX as usize);
        let mut page = client.get(&format!("{path}limit={wanted}{from}"))?;
        let found = page.get_mut(items).map(Value::take);
        // What is no page is told by whoever reads it.
        let Some(Value::Array(found)) = found else { return Ok(page) };
        all.extend(found.into_iter().take(wanted));
        match page["next"].as_str() {
            Some(next) if all.len() < limit && page_number < PAGES_MAX => {
                from = format!("&cursor={}", encoded(next));
            }
            Some(_) | None => {
                page[items] = all.into();
                return Ok(page);
            }
        }
    }
    unreachable!("the last page is the last")
}

/// Enough of an id to name an execution by.
fn short(it: &ExecutionView) -> String {
    it.id.get(..12).unwrap_or(&it.id).to_owned()
}

/// The list ends before what there is does.
const MORE: &str = "there are more: `--limit COUNT` shows them";

/// A table, or that there is nothing to put into it.
fn told(table: &Table, what: &str, has_more: bool) -> String {
    if table.is_empty() {
        say(&format!("there are no {what}"));
        return String::new();
    }
    if has_more {
        say(MORE);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_all_says_so() {
        insta::assert_snapshot!([partial(10_000).as_str(), partial(1).as_str(), MORE].join("\n"), @r"
        only the latest were looked at: 10000 executions
        only the latest were looked at: 1 execution
        there are more: `--limit COUNT` shows them
        ");
    }
}
