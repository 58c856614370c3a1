//! Mode `sync`: what the functions said, as an answer.
//!
//! 1. `200` means that every function took the event, now or before; their results are in the answer.
//! 2. Whatever the sender should come again for goes first: a function that failed this time, or is still at it. Then what it
//!    need not come again for: a function that refused the event for good.

use super::problems::{
    FUNCTION_FAILED, FUNCTION_REFUSED, IN_PROGRESS, KEY_MISSING, MISMATCH, NO_FUNCTION, UNCONFIRMED,
};
use semel::http::Problem;
use semel_core::record::Body;
use semel_events::event::Event;
use semel_runtime::{Answered, CallOutcome, Called};
use serde_json::{Value, json};
use std::time::Duration;

/// When to come again, where nobody knows better.
const SOON: Duration = Duration::from_secs(1);

/// What the functions said, all in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// They took it; all of them before, perhaps.
    Done { is_replay: bool },
    /// No function takes it.
    Unmatched,
    /// Never.
    Refused(Problem),
    /// Not now.
    Later(Problem, Duration),
}

impl Said {
    /// What the functions said, where there are functions or not.
    pub(super) fn of(called: &Called, has_functions: impl FnOnce() -> bool) -> Self {
        match called {
            Called::Unmatched if has_functions() => Self::Unmatched,
            Called::Unmatched => Self::Refused(NO_FUNCTION),
            Called::Refused(_) => Self::Refused(KEY_MISSING),
            Called::Answered(all) => {
                let mut all: Vec<_> = all.iter().map(|it| of_one(&it.outcome)).collect();
                all.sort_by_key(Self::rank);
                all.first().copied().unwrap_or(Self::Unmatched)
            }
        }
    }

    /// What goes first.
    const fn rank(&self) -> u8 {
        match self {
            Self::Later(..) => 0,
            Self::Refused(_) => 1,
            Self::Done { is_replay: false } => 2,
            Self::Done { is_replay: true } => 3,
            Self::Unmatched => 4,
        }
    }
}

fn of_one(outcome: &CallOutcome) -> Said {
    match outcome {
        CallOutcome::Completed { is_replay, .. } => Said::Done { is_replay: *is_replay },
        CallOutcome::Failed { .. } => Said::Refused(FUNCTION_REFUSED),
        CallOutcome::Later { after, .. } => Said::Later(FUNCTION_FAILED, *after),
        CallOutcome::Running { after } => Said::Later(IN_PROGRESS, *after),
        CallOutcome::Mismatch { is_strict: true } => Said::Refused(MISMATCH),
        CallOutcome::Mismatch { is_strict: false } => Said::Done { is_replay: true },
        CallOutcome::Unconfirmed => Said::Later(UNCONFIRMED, SOON),
    }
}

/// What every function said, as JSON.
pub(super) fn said_json(event: &Event, called: &Called) -> Vec<u8> {
    let all: &[Answered] = match called {
        Called::Answered(all) => all,
        Called::Unmatched | Called::Refused(_) => &[],
    };
    let functions: Vec<Value> = all.iter().map(one_json).collect();
    let is_replay = !functions.is_empty() && functions.iter().all(|it| it["duplicate"] == true);
    let body =
        json!({"id": event.id(), "source": event.source(), "duplicate": is_replay, "functions": functions});
    body.to_string().into_bytes()
}

fn one_json(answered: &Answered) -> Value {
    let mut said = json!({"function": &*answered.function, "execution": answered.id.to_string()});
    match &answered.outcome {
        CallOutcome::Completed { body, is_replay } => {
            said["duplicate"] = (*is_replay).into();
            said["status"] = "COMPLETED".into();
            if let Body::Kept { bytes, .. } = body
                && let Some(result) = result_json(bytes)
            {
                said["result"] = result;
            }
        }
        CallOutcome::Mismatch { .. } => {
            said["duplicate"] = true.into();
            said["mismatch"] = true.into();
        }
        CallOutcome::Failed { .. }
        | CallOutcome::Later { .. }
        | CallOutcome::Running { .. }
        | CallOutcome::Unconfirmed => said["duplicate"] = false.into(),
    }
    said
}

/// A result as JSON if it is JSON, as text if it is text; nothing if it is neither, or empty.
fn result_json(bytes: &[u8]) -> Option<Value> {
    if bytes.is_empty() {
        return None;
    }
    serde_json::from_slice(bytes).ok().or_else(|| std::str::from_utf8(bytes).ok().map(Value::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{execution::ExecutionId, key::Identity, record::Reason, time::Timestamp};

    fn answered(outcomes: Vec<CallOutcome>) -> Called {
        let id = ExecutionId::from_identity(Identity::from_bytes([7; 32]));
        let one = |outcome| Answered { function: "orders".into(), id, outcome };
        Called::Answered(outcomes.into_iter().map(one).collect())
    }

    fn done(is_replay: bool) -> CallOutcome {
        let body = Body::Kept { bytes: br#"{"n":1}"#.to_vec(), until: Timestamp::from_millis(1) };
        CallOutcome::Completed { body, is_replay }
    }

    #[test]
    fn what_the_sender_should_come_again_for_goes_first() {
        let failed = CallOutcome::Failed { reason: Reason::Fatal, error: String::new(), is_replay: false };
        let later = CallOutcome::Later { error: None, after: Duration::from_secs(9) };
        let check = |outcomes: &[&CallOutcome], expected: Said| {
            let called = answered(outcomes.iter().map(|it| (*it).clone()).collect());
            assert_eq!(Said::of(&called, || true), expected, "{outcomes:?}");
        };
        check(&[&done(false)], Said::Done { is_replay: false });
        check(&[&done(true), &done(true)], Said::Done { is_replay: true });
        check(&[&done(true), &done(false)], Said::Done { is_replay: false });
        check(&[&done(true), &failed], Said::Refused(FUNCTION_REFUSED));
        check(&[&failed, &later, &done(false)], Said::Later(FUNCTION_FAILED, Duration::from_secs(9)));
        check(&[&CallOutcome::Mismatch { is_strict: false }], Said::Done { is_replay: true });
        check(&[&CallOutcome::Mismatch { is_strict: true }], Said::Refused(MISMATCH));
        assert_eq!(Said::of(&Called::Unmatched, || false), Said::Refused(NO_FUNCTION));
    }

    #[test]
    fn results_are_in_the_answer() {
        let event = Event::builder("evt-1", "/shop", "t").build().unwrap();
        let said: Value = serde_json::from_slice(&said_json(&event, &answered(vec![done(true)]))).unwrap();
        assert_eq!((&said["duplicate"], &said["functions"][0]["result"]["n"]), (&true.into(), &1.into()));
        assert_eq!(result_json(b"text"), Some("text".into()));
        assert_eq!(result_json(&[0xff]), None);
    }
}
