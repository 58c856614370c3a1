//! `semel redrive`, `cancel`, `park`, `unpark`, `resolve`: what is done to executions.
//!
//! 1. One is named by its event's id, by a key, or by the beginning of its id. If several are called so, nothing is done, and they
//!    are listed.
//! 2. Many are named by options, or by `--all`. They are changed in the background of the server; a terminal shows how far that
//!    is until it is over. For that they are counted first, which nobody else waits for.
//! 3. `--dry-run` only counts.
//! 4. `semel park --error PRINT`, with nothing else, stops that error: what is in progress and fails with it is parked, too.

use super::{
    client::{Client, Server},
    list::Which,
    text::{clean, count, grouped},
    why::{standing, unknown},
};
use crate::{
    api::{
        table::encoded,
        views::{JobView, Stage, StoryView, Verb, WhyView},
    },
    exit::Failure,
    progress::{Progress, bar, per_second},
};
use clap::Args;
use semel_core::execution::ErrorPrint;
use serde_json::{Value, json};
use std::{path::PathBuf, thread, time::Duration};

/// How often a job is looked at, at first and later.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// What was typed after a verb that takes one execution or many.
#[derive(Args, Debug)]
pub(super) struct Typed {
    /// An event's id, a key, or an execution's id
    #[arg(value_name = "WHAT", conflicts_with_all = ["function", "reason", "type", "name", "error", "from", "before", "all", "dry_run", "rate"])]
    what: Option<String>,

    #[command(flatten)]
    which: Which,

    /// All of them
    #[arg(long)]
    all: bool,

    /// Only counts
    #[arg(long)]
    dry_run: bool,

    /// Not faster than this, such as 100/s
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,

    #[command(flatten)]
    server: Server,
}

/// What was typed after `semel redrive`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel redrive order-42
  semel redrive order-42 --event edited.json
  semel redrive --function orders --dry-run
  semel redrive --function orders --reason exhausted --rate 50/s --canary 5

Without `--reason`, many are dead letters: what somebody cancelled is redriven only with `--reason cancelled`.")]
pub(super) struct Redrive {
    #[command(flatten)]
    typed: Typed,

    /// With this event instead of its own: a file of structured CloudEvents
    #[arg(long, value_name = "FILE", requires = "what")]
    event: Option<PathBuf>,

    /// So many first; the rest when all of them took effect
    #[arg(long, value_name = "COUNT", conflicts_with = "what")]
    canary: Option<u32>,
}

/// What was typed after `semel resolve`.
#[derive(Args, Debug)]
pub(super) struct Resolve {
    /// An event's id, a key, or an execution's id
    #[arg(value_name = "WHAT")]
    what: String,

    /// What somebody who has looked found out: happened, or did-not
    #[arg(value_name = "OUTCOME", value_parser = ["happened", "did-not"])]
    outcome: String,

    #[command(flatten)]
    server: Server,
}

/// Redrives one, or many.
pub(super) fn redrive(typed: &Redrive) -> Result<(), Failure> {
    let event = typed.event.as_ref().map(|path| {
        let failure = |what: &str| Failure::usage(format!("`{}` {what}", path.display()));
        let text = std::fs::read(path).map_err(|error| failure("cannot be read").because(&error))?;
        serde_json::from_slice::<Value>(&text).map_err(|error| failure("is no JSON").because(&error))
    });
    let body = event.transpose()?.map(|it| json!({ "event": it }));
    act(&typed.typed, Verb::Redrive, body.as_ref(), typed.canary)
}

/// Does this to one, or to many.
pub(super) fn run(typed: &Typed, verb: Verb) -> Result<(), Failure> {
    act(typed, verb, None, None)
}

/// Says what became of one.
pub(super) fn resolve(typed: &Resolve) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let body = json!({ "outcome": typed.outcome.replace('-', "_") });
    one(&client, &typed.what, Verb::Resolve, Some(&body))
}

fn act(typed: &Typed, verb: Verb, body: Option<&Value>, canary: Option<u32>) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    if let Some(what) = &typed.what {
        return one(&client, what, verb, body);
    }
    let pairs = typed.which.pairs();
    if pairs.is_empty() && !typed.all {
        return Err(Failure::usage(format!("`semel {}`: which executions?", verb.as_str())).hint(
            "name one, or say which: `--function NAME`, `--reason REASON`, `--all`; `--dry-run` only counts",
        ));
    }
    let filter: serde_json::Map<_, _> =
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut body = json!({ "action": verb, "filter": filter, "all": typed.all, "dry_run": typed.dry_run });
    if let Some(rate) = &typed.rate {
        body["rate"] = rate.as_str().into();
    }
    if let Some(canary) = canary {
        body["canary"] = canary.into();
    }
    let total = if typed.dry_run { None } else { counted(&client, &body) };
    let begun = match stopped(verb, &body) {
        Some(path) => client.post(&path, None)?,
        None => client.post("/v1/bulk", Some(&body))?,
    };
    let begun: JobView = client.read(begun)?;
    follow(&client, begun, &Following { verb: verb.as_str(), is_dry: typed.dry_run, total })
}

/// Where to ask for it, if everything is meant that fails with one error, and not only what waits after it now.
fn stopped(verb: Verb, body: &Value) -> Option<String> {
    let print = body["filter"]["error"].as_str().filter(|it| it.parse::<ErrorPrint>().is_ok())?;
    let is_alone =
        body["filter"].as_object()?.len() == 1 && body["dry_run"] == false && body["rate"].is_null();
    (verb == Verb::Park && is_alone).then(|| format!("/v1/errors/{print}/stop"))
}

/// How many there are, if anybody looks on. What goes wrong with that goes wrong again, and is told then.
fn counted(client: &Client, body: &Value) -> Option<u64> {
    if !Progress::new().is_shown() {
        return None;
    }
    let mut body = body.clone();
    body["dry_run"] = true.into();
    let begun: JobView = client.read(client.post("/v1/bulk", Some(&body)).ok()?).ok()?;
    let counted = watch(client, begun, |job, _| format!("{} counted", grouped(job.matched))).ok()?;
    (counted.state == Stage::Finished).then_some(counted.matched)
}

/// Does something to the one execution that is called this.
fn one(client: &Client, what: &str, verb: Verb, body: Option<&Value>) -> Result<(), Failure> {
    let found: WhyView = client.read(client.get(&format!("/v1/why?q={}", encoded(what)))?)?;
    let id = match &found.found[..] {
        [] => return Err(unknown(what, found.is_whole)),
        [one] => &one.execution.id,
        several => return Err(which_of(what, several, verb)),
    };
    let done = client.post(&format!("/v1/executions/{id}/{}", verb.as_str()), body)?;
    client.show(done, |it: &StoryView| {
        let execution = &it.execution;
        format!(
            "{} for {}: {}. {}\n",
            clean(&execution.event_id),
            clean(&execution.function),
            standing(execution),
            it.next
        )
    })
}

fn which_of(what: &str, several: &[StoryView], verb: Verb) -> Failure {
    let mut failure = Failure::no(format!("several executions are called `{}`", clean(what)));
    for it in several.iter().map(|it| &it.execution) {
        failure = failure.cause(format!(
            "{} for {}: {}",
            &it.id[..12.min(it.id.len())],
            clean(&it.function),
            standing(it)
        ));
    }
    failure.hint(format!("name one by its id: `semel {} ID`", verb.as_str()))
}

/// How far a job is, in a line: of so many, if that is known.
fn under_way(job: &JobView, total: Option<u64>, took: Duration) -> String {
    let (matched, abort) = (grouped(job.matched), format!("`semel abort {}` stops it", job.number));
    let canary = if job.state == Stage::Canary { ", waiting for the canary" } else { "" };
    if let Some(total) = total {
        return format!("{}  {matched} of {}{canary}; {abort}", bar(job.matched, total), grouped(total));
    }
    let (done, rate) = (grouped(job.done), grouped(per_second(job.matched, took)));
    format!("{matched} looked at, {done} done, {rate}/s{canary}; {abort}")
}

/// Shows how far a job is until it is over.
fn watch(
    client: &Client,
    begun: JobView,
    told: impl Fn(&JobView, Duration) -> String,
) -> Result<JobView, Failure> {
    let path = format!("/v1/jobs/{}", begun.number);
    let (mut job, mut wait, mut progress) = (begun, LOOKS.0, Progress::new());
    while matches!(job.state, Stage::Running | Stage::Canary) {
        thread::sleep(wait);
        wait = (wait * 2).min(LOOKS.1);
        job = client.read(client.get(&path)?)?;
        progress.show(|took| told(&job, took));
    }
    Ok(job)
}

/// What is known of a job whose end is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following<'a> {
    pub(super) verb: &'a str,
    /// Whether it only counts.
    pub(super) is_dry: bool,
    /// How many there are, if they were counted.
    pub(super) total: Option<u64>,
}

/// Tells how far a job is until it is over.
pub(super) fn follow(client: &Client, begun: JobView, following: &Following<'_>) -> Result<(), Failure> {
    let Following { verb, is_dry, total } = *following;
    let job = watch(client, begun, |job, took| under_way(job, total, took))?;
    let summary = if is_dry {
        let matched = count(job.matched.saturating_sub(job.skipped), "execution", "executions");
        format!("{verb}: {matched} would be tried, and nothing was changed\n")
    } else {
        format!("{verb}: {} done, {} skipped\n", job.done, job.skipped)
    };
    let answer = serde_json::to_value(&job).expect("shapes are JSON");
    client.show(answer, |_: &JobView| summary)?;
    ended(&job)
}

/// How a job ended, if not well.
fn ended(job: &JobView) -> Result<(), Failure> {
    match job.state {
        Stage::Running | Stage::Canary | Stage::Finished => Ok(()),
        Stage::Aborted => Err(Failure::no("somebody aborted the job")
            .hint("what it has done stays done; `semel audit` says who")),
        Stage::Interrupted => Err(Failure::unavailable("the node that ran the job stopped")
            .hint("what it has done stays done; say it again for the rest")),
        Stage::CanaryFailed => Err(Failure::no("the canary failed again, and the rest was left as it is")
            .hint("`semel dead --errors` shows what is wrong")),
        Stage::Failed => Err(Failure::unavailable("the queue could not tell what happened")
            .cause(job.error.clone().unwrap_or_default())
            .hint("what it has done stays done; say it again for the rest")),
    }
}

/// What was typed after `semel abort`.
#[derive(Args, Debug)]
pub(super) struct Abort {
    /// The number of the job
    #[arg(value_name = "JOB")]
    job: u64,

    #[command(flatten)]
    server: Server,
}

/// Stops a job.
pub(super) fn abort(typed: &Abort) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let missing = Failure::no(format!("there is no job {}", typed.job)).hint("`semel jobs` lists them");
    let answer = client.post_to(&format!("/v1/jobs/{}/abort", typed.job), None, missing)?;
    client
        .show(answer, |it: &JobView| format!("job {} is told to stop; {} done so far\n", it.number, it.done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::shape::Moment;
    use insta::assert_snapshot;
    use semel_core::time::Timestamp;

    fn job(state: Stage, matched: u64) -> JobView {
        let error = (state == Stage::Failed).then(|| "memory queue: write".to_owned());
        let (action, who) = ("redrive".to_owned(), "ada".to_owned());
        let began_at = Moment(Timestamp::from_millis(0));
        JobView { number: 7, action, who, began_at, state, matched, done: matched / 2, skipped: 0, error }
    }

    #[test]
    fn an_error_that_is_parked_by_itself_is_stopped() {
        let print = "0123456789abcdef";
        let check = |verb, filter: Value, is_dry: bool, expected: Option<&str>| {
            let body = json!({ "filter": filter, "dry_run": is_dry });
            assert_eq!(stopped(verb, &body).as_deref(), expected, "{body}");
        };
        let error = json!({ "error": print });
        check(Verb::Park, error.clone(), false, Some("/v1/errors/0123456789abcdef/stop"));
        check(Verb::Park, error.clone(), true, None);
        check(Verb::Unpark, error, false, None);
        check(Verb::Park, json!({ "error": print, "function": "orders" }), false, None);
        check(Verb::Park, json!({ "error": "x/../y" }), false, None);
        check(Verb::Park, json!({ "function": "orders" }), false, None);
    }

    #[test]
    fn how_far_a_job_is_has_an_end_where_that_is_known() {
        let took = Duration::from_secs(2);
        let lines = [
            under_way(&job(Stage::Running, 1_500), None, took),
            under_way(&job(Stage::Running, 1_500), Some(6_000), took),
            under_way(&job(Stage::Canary, 5), Some(6_000), took),
            under_way(&job(Stage::Running, 6_000), Some(6_000), took),
            under_way(&job(Stage::Running, 6_100), Some(6_000), took),
            under_way(&job(Stage::Running, 0), Some(0), took),
        ];
        assert_snapshot!(lines.join("\n"), @r"
        1,500 looked at, 750 done, 750/s; `semel abort 7` stops it
        [######------------------]  25 %  1,500 of 6,000; `semel abort 7` stops it
        [------------------------]   0 %  5 of 6,000, waiting for the canary; `semel abort 7` stops it
        [########################] 100 %  6,000 of 6,000; `semel abort 7` stops it
        [########################] 100 %  6,100 of 6,000; `semel abort 7` stops it
        [########################] 100 %  0 of 0; `semel abort 7` stops it
        ");
    }

    /// Each with the exit code that a script branches on.
    #[test]
    fn every_end_of_a_job_is_told() {
        let told = Stage::WORDS.iter().map(|word| {
            let state = Stage::parse(word).unwrap();
            match ended(&job(state, 10)) {
                Ok(()) => format!("{word}: exit code 0\n"),
                Err(failure) => format!("{word}: exit code {}\n{failure}", failure.code() as u8),
            }
        });
        assert_snapshot!(told.collect::<String>(), @r"
        running: exit code 0
        canary: exit code 0
        finished: exit code 0
        aborted: exit code 1
        error: somebody aborted the job

        hint: what it has done stays done; `semel audit` says who
        interrupted: exit code 69
        error: the node that ran the job stopped

        hint: what it has done stays done; say it again for the rest
        canary_failed: exit code 1
        error: the canary failed again, and the rest was left as it is

        hint: `semel dead --errors` shows what is wrong
        failed: exit code 69
        error: the queue could not tell what happened
          memory queue: write

        hint: what it has done stays done; say it again for the rest
        ");
    }
}
