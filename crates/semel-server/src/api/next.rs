//! What happens to an execution next, and what can be done about it.
//!
//! Pure functions of the execution, the time, and how its function stands.

use super::{shape::Moment, views::Verb};
use semel_core::{
    call::Resolution,
    execution::{Due, Execution, Input, Phase, step},
    record::Reason,
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};

/// How the function of an execution stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Readiness {
    /// It takes what is due.
    Ready,
    /// It starts nothing.
    Paused,
    /// Its target is down, and is tried now and then.
    Down,
    /// There is none.
    Missing,
}

/// What happens next, in a sentence.
pub(super) fn next(now: Timestamp, execution: &Execution, readiness: Readiness) -> String {
    let at = |at: Timestamp| Moment(at).text();
    let attempt = execution.attempts.saturating_add(1);
    let function = &execution.function;
    match &execution.phase {
        Phase::Pending(Due::Parked { since, .. }) => {
            format!("It waits until somebody unparks it: it was parked at {}.", at(*since))
        }
        Phase::Pending(Due::At(due_at)) => match readiness {
            Readiness::Paused => {
                format!("It waits: `{function}` is paused. Attempt {attempt} begins when it is resumed.")
            }
            Readiness::Missing => format!(
                "It waits: there is no function `{function}`. Attempt {attempt} begins when there is."
            ),
            Readiness::Down => format!(
                "Attempt {attempt} is due at {}; the target of `{function}` is down, and is tried now and then.",
                at(*due_at)
            ),
            Readiness::Ready if *due_at <= now => format!("Attempt {attempt} is due since {}.", at(*due_at)),
            Readiness::Ready => format!("Attempt {attempt} begins at {}.", at(*due_at)),
        },
        Phase::InProgress { lease_until, since, .. } => format!(
            "Attempt {} runs since {}; if nothing is heard of it by {}, it is made again.",
            execution.attempts,
            at(*since),
            at(*lease_until)
        ),
        Phase::Completed(_) => "Nothing: it took effect, and does not again.".to_owned(),
        Phase::Failed { reason, .. } => failed(*reason, execution.event.is_some()).to_owned(),
    }
}

fn failed(reason: Reason, has_event: bool) -> &'static str {
    match reason {
        Reason::Cancelled => "Nothing: somebody cancelled it.",
        Reason::Dropped => "Nothing: retry is off, and its event was not kept.",
        Reason::OutcomeUnknown => "Nothing until somebody finds out whether it took effect, and says so.",
        Reason::Fatal | Reason::Exhausted | Reason::Window | Reason::TooOld if !has_event => {
            "Nothing: its event was not kept."
        }
        Reason::Fatal => "Nothing until somebody redrives it: the function said that it never will take it.",
        Reason::Exhausted => "Nothing until somebody redrives it: no attempts are left.",
        Reason::Window => "Nothing until somebody redrives it: its retry window is over.",
        Reason::TooOld => "Nothing until somebody redrives it: the event is too old.",
    }
}

/// What makes sense where the execution stands.
pub(super) fn can(now: Timestamp, execution: &Execution) -> Vec<Verb> {
    let all = [
        (Verb::Redrive, Input::Redrive { event: None }),
        (Verb::Resolve, Input::Resolve(Resolution::DidNot)),
        (Verb::Unpark, Input::Unpark),
        (Verb::Park, Input::Park),
        (Verb::Cancel, Input::Cancel),
    ];
    let policy = RetryPolicy::default();
    let makes_sense = |input| step(now, execution, input, &policy, Jitter::LEAST).is_ok();
    all.into_iter().filter_map(|(verb, input)| makes_sense(input).then_some(verb)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{
        execution::{Arrival, Origin, claimed},
        fingerprint::Fingerprint,
        key::Key,
        record::{Body, Holder},
    };
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_millis(1_794_793_507_123);

    fn execution() -> Execution {
        let arrival = Arrival {
            key: Key::new("orders", "evt-1").unwrap(),
            function: "orders".into(),
            origin: Origin { source: "/shop".into(), id: "evt-1".into(), kind: "order.created".into() },
            order: None,
            fingerprint: Fingerprint::of_bytes(b""),
            event: [1].into(),
            event_time: None,
            event_expires_at: None,
        };
        Execution::accepted(NOW, arrival, NOW)
    }

    fn running() -> Execution {
        claimed(NOW, &execution(), Holder(1), NOW + Duration::from_mins(1)).unwrap()
    }

    fn after(input: Input) -> Execution {
        step(NOW, &running(), input, &RetryPolicy::gen2(), Jitter::LEAST).unwrap()
    }

    #[test]
    fn every_reason_says_what_is_next_whether_its_event_was_kept_or_not() {
        let said = |reason: Reason| {
            format!("{}\n  kept: {}\n  not: {}", reason.as_str(), failed(reason, true), failed(reason, false))
        };
        insta::assert_snapshot!(Reason::ALL.map(said).join("\n"), @r"
        fatal
          kept: Nothing until somebody redrives it: the function said that it never will take it.
          not: Nothing: its event was not kept.
        exhausted
          kept: Nothing until somebody redrives it: no attempts are left.
          not: Nothing: its event was not kept.
        window
          kept: Nothing until somebody redrives it: its retry window is over.
          not: Nothing: its event was not kept.
        too_old
          kept: Nothing until somebody redrives it: the event is too old.
          not: Nothing: its event was not kept.
        cancelled
          kept: Nothing: somebody cancelled it.
          not: Nothing: somebody cancelled it.
        dropped
          kept: Nothing: retry is off, and its event was not kept.
          not: Nothing: retry is off, and its event was not kept.
        outcome_unknown
          kept: Nothing until somebody finds out whether it took effect, and says so.
          not: Nothing until somebody finds out whether it took effect, and says so.
        ");
    }

    #[test]
    fn every_standing_says_what_is_next_and_what_can_be_done() {
        let failed = after(Input::Fail { error: "503".to_owned(), retry_after: None });
        let dead = after(Input::Reject { error: "422".to_owned() });
        let doubt = after(Input::Doubt { error: "lost".to_owned(), was_made: true });
        let parked = step(NOW, &execution(), Input::Park, &RetryPolicy::gen2(), Jitter::LEAST).unwrap();
        let ready = Readiness::Ready;
        let table = [
            (execution(), ready, "Attempt 1 is due since 2026-11-16T01:45:07.123Z.", "park cancel"),
            (
                execution(),
                Readiness::Paused,
                "It waits: `orders` is paused. Attempt 1 begins when it is resumed.",
                "park cancel",
            ),
            (
                execution(),
                Readiness::Missing,
                "It waits: there is no function `orders`. Attempt 1 begins when there is.",
                "park cancel",
            ),
            (
                execution(),
                Readiness::Down,
                "Attempt 1 is due at 2026-11-16T01:45:07.123Z; the target of `orders` is down, and is tried now and then.",
                "park cancel",
            ),
            (
                running(),
                ready,
                "Attempt 1 runs since 2026-11-16T01:45:07.123Z; if nothing is heard of it by 2026-11-16T01:46:07.123Z, it is made again.",
                "cancel",
            ),
            (
                after(Input::Complete(Body::Kept { bytes: Vec::new(), until: NOW })),
                ready,
                "Nothing: it took effect, and does not again.",
                "",
            ),
            (failed, ready, "Attempt 2 begins at 2026-11-16T01:45:17.123Z.", "park cancel"),
            (
                parked,
                ready,
                "It waits until somebody unparks it: it was parked at 2026-11-16T01:45:07.123Z.",
                "unpark cancel",
            ),
            (
                dead,
                ready,
                "Nothing until somebody redrives it: the function said that it never will take it.",
                "redrive",
            ),
            (
                doubt,
                ready,
                "Nothing until somebody finds out whether it took effect, and says so.",
                "resolve",
            ),
        ];
        for (execution, readiness, wanted, verbs) in table {
            assert_eq!(next(NOW, &execution, readiness), wanted);
            let found: Vec<_> = can(NOW, &execution).into_iter().map(Verb::as_str).collect();
            assert_eq!(found.join(" "), verbs, "{wanted}");
        }
    }
}
