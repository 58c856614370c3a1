//! `semel why`: what became of an event.

use super::{
    client::{Client, Server},
    text::{bytes, clean, count, lasting, moment, shortened},
};
use crate::{
    api::{
        SEARCHED_MAX,
        table::encoded,
        views::{AttemptView, ExecutionView, ResultView, StoryView, Verb, WhyView},
    },
    exit::Failure,
};
use clap::Args;
use std::fmt::Write as _;

/// So much of what a function answered is shown, in characters.
const ANSWER_CHARS_MAX: usize = 160;

const EXAMPLES: &str = "\
Examples:
  semel why order-42          an event's id, or a function's key
  semel why 3f9a27c1          the first eight or more digits of an execution's id";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Typed {
    /// An event's id, a key, or an execution's id
    #[arg(value_name = "WHAT")]
    what: String,

    #[command(flatten)]
    server: Server,
}

/// Tells what became of it.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let client = Client::new(&typed.server)?;
    let answer = client.get(&format!("/v1/why?q={}", encoded(&typed.what)))?;
    let found: WhyView = client.read(answer.clone())?;
    if found.found.is_empty() {
        return Err(unknown(&typed.what, found.is_whole));
    }
    client.show(answer, told)
}

/// Nothing was found.
pub(super) fn unknown(what: &str, is_whole: bool) -> Failure {
    let failure = Failure::no(format!("nothing is known of `{}`", clean(what)))
        .cause("no event with this id was accepted, or it was forgotten after its retention");
    if is_whole {
        return failure.hint("`semel executions` lists the latest");
    }
    failure
        .cause(format!(
            "of the ids of executions, only the latest {SEARCHED_MAX} in each status were looked at"
        ))
        .hint("name it by its event's id, or by all 64 digits of its own: `--json` lists them")
}

fn told(view: &WhyView) -> String {
    let mut text: Vec<_> = view.found.iter().map(story).collect();
    if view.has_more {
        text.push("There are more: name one by its execution's id.\n".to_owned());
    }
    text.join("\n")
}

/// The story of an execution.
fn story(story: &StoryView) -> String {
    let it = &story.execution;
    let mut text = format!("{} for {}: {}\n\n", clean(&it.event_id), clean(&it.function), standing(it));
    let mut line = |name: &str, told: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<11}{told}");
    };
    line(
        "received",
        format!("{}, from {} as {}", moment(it.accepted_at), clean(&it.source), clean(&it.r#type)),
    );
    if it.key != format!("{}:{}", it.source, it.event_id) && it.key != it.event_id {
        line("key", clean(&it.key));
    }
    if it.duplicates > 0 {
        let last = story.repeated_at.map(|at| format!(", last {}", moment(at))).unwrap_or_default();
        line(
            "again",
            format!(
                "{}{last}: duplicates of this one, not run",
                count(it.duplicates.into(), "time", "times")
            ),
        );
    }
    if it.mismatches > 0 {
        line(
            "otherwise",
            format!(
                "{} with another content under the same name, not run",
                count(it.mismatches.into(), "time", "times")
            ),
        );
    }
    let mut generation = 0;
    for attempt in &story.history {
        if attempt.generation > generation {
            generation = attempt.generation;
            line("redriven", format!("{} so far", count(generation.into(), "time", "times")));
        }
        line(&format!("attempt {}", attempt.number), outcome(attempt));
    }
    if let Some(result) = &story.result {
        line("answered", answered(result));
    }
    line("next", story.next.clone());
    line("execution", it.id.clone());
    let commands = commands(it, &story.can);
    if !commands.is_empty() {
        text.push_str("\nWhat you can do:\n");
        for (command, what) in commands {
            let _ = writeln!(text, "  {command:<40}  {what}");
        }
    }
    text
}

/// What the function answered, in a line.
fn answered(result: &ResultView) -> String {
    let size = bytes(result.size);
    match (&result.text, &result.until) {
        (_, None) if result.size == 0 => "its answer is not known".to_owned(),
        (_, None) => format!("{size}, which are not kept"),
        (Some(text), Some(_)) if text.is_empty() => "nothing".to_owned(),
        (Some(text), Some(_)) => format!("{size}: {}", shortened(&clean(text), ANSWER_CHARS_MAX)),
        (None, Some(_)) => format!("{size} that are no text: `--json` has them"),
    }
}

/// Where an execution stands, in a few words.
pub(super) fn standing(it: &ExecutionView) -> String {
    match it.reason {
        Some(reason) => format!("{} ({})", it.status.as_str(), reason.as_str()),
        None if it.is_parked => format!("{} (parked)", it.status.as_str()),
        None => it.status.as_str().to_owned(),
    }
}

fn outcome(attempt: &AttemptView) -> String {
    let took = lasting(attempt.ended_at.0.since(attempt.began_at.0));
    let end = match &attempt.error {
        None => "took effect".to_owned(),
        Some(error) => format!("failed: {}", clean(error)),
    };
    format!("{}, after {took}: {end}", moment(attempt.began_at))
}

/// What can be typed next.
fn commands(it: &ExecutionView, can: &[Verb]) -> Vec<(String, &'static str)> {
    let id = it.id.get(..12).unwrap_or(&it.id);
    let command = |verb: &Verb| match verb {
        Verb::Redrive => vec![
            (format!("semel redrive {id}"), "try it again"),
            (format!("semel redrive {id} --event FILE"), "try it again with an edited event"),
        ],
        Verb::Cancel => vec![(format!("semel cancel {id}"), "end it")],
        Verb::Park => vec![(format!("semel park {id}"), "let it wait")],
        Verb::Unpark => vec![(format!("semel unpark {id}"), "let it go on")],
        Verb::Resolve => vec![
            (format!("semel resolve {id} happened"), "it took effect: somebody has looked"),
            (format!("semel resolve {id} did-not"), "it did not: it may be tried again"),
        ],
    };
    can.iter().flat_map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::shape::Moment;
    use semel_core::time::Timestamp;

    #[test]
    fn what_was_not_found_says_how_far_was_looked() {
        insta::assert_snapshot!(unknown("0123456789", false).to_string(), @r"
        error: nothing is known of `0123456789`
          no event with this id was accepted, or it was forgotten after its retention
          of the ids of executions, only the latest 20000 in each status were looked at

        hint: name it by its event's id, or by all 64 digits of its own: `--json` lists them
        ");
    }

    #[test]
    fn what_a_function_answered_fits_into_a_line_and_moves_no_cursor() {
        let until = Some(Moment(Timestamp::from_millis(1)));
        let text = |text: &str| ResultView {
            size: text.len() as u64,
            text: Some(text.to_owned()),
            base64: None,
            is_whole: true,
            until,
        };
        let none = ResultView { size: 0, text: None, base64: None, is_whole: false, until: None };
        let bytes = ResultView { size: 3, base64: Some("/wAB".to_owned()), until, ..none.clone() };
        for (result, wanted) in [
            (text("\"done\""), "6 B: \"done\""),
            (text(""), "nothing"),
            (text("a\n\u{1b}[2J\u{202e}"), "9 B: a\\n\\u{1b}[2J\\u{202e}"),
            (bytes, "3 B that are no text: `--json` has them"),
            (ResultView { size: 70_000, ..none.clone() }, "68.4 KiB, which are not kept"),
            (none, "its answer is not known"),
        ] {
            assert_eq!(answered(&result), wanted);
        }
        let long = answered(&text(&"x".repeat(10_000)));
        assert!(long.chars().count() < 2 * ANSWER_CHARS_MAX && long.ends_with('…'), "{long}");
    }
}
