//! Mode `sync`: what the functions said, as an answer.
//!
//! 1. `200` means that every function took the event, now or before; their results are in the answer.
//! 2. Whatever the sender should come again for goes first: a function that failed this time, or is still at it. Then what it
//!    need not come again for: a function that refused the event for good.
//! 3. An execution that failed because its attempts are over is one to come again for: the sender's own retry starts it again.
//!    It is refused for good only if the function said so, or an operator, or the event is too old.
//! 4. Where one function decides, the sender is told the status that it answered with, if that says the same as the problem
//!    does: see [`passed_on`]. Nothing else of its answer is told.

use super::problems::{
    FUNCTION_FAILED, FUNCTION_REFUSED, IN_PROGRESS, KEY_MISSING, MISMATCH, NO_FUNCTION, OUTCOME_UNKNOWN,
    UNCONFIRMED,
};
use http::StatusCode;
use semel::http::Problem;
use semel_core::record::{Body, Reason};
use semel_events::event::Event;
use semel_runtime::{Answered, CallOutcome, Called};
use serde_json::{Value, json};
use std::time::Duration;

/// When to come again, where nobody knows better.
const SOON: Duration = Duration::from_secs(1);
/// When to come again for a function that failed: after the shortest pause of the policy that most have.
const FAILED: Duration = Duration::from_secs(10);
/// When to come again for what an operator has to decide.
const UNDECIDED: Duration = Duration::from_mins(1);

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
            Called::Answered(all) => match all.as_slice() {
                [one] => of_one(&one.outcome).passing_on(one.outcome.answered()),
                all => {
                    let all = all.iter().map(|it| of_one(&it.outcome));
                    all.min_by_key(Self::rank).unwrap_or(Self::Unmatched)
                }
            },
        }
    }

    /// With the status that the function answered, where that says the same.
    fn passing_on(self, answered: Option<StatusCode>) -> Self {
        let Some(status) = answered else { return self };
        match self {
            Self::Later(problem, wait) if problem == FUNCTION_FAILED && passed_on(status, true) => {
                Self::Later(with_status(&problem, status), wait)
            }
            Self::Refused(problem) if problem == FUNCTION_REFUSED && passed_on(status, false) => {
                Self::Refused(with_status(&problem, status))
            }
            Self::Done { .. } | Self::Unmatched | Self::Refused(_) | Self::Later(..) => self,
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

/// Whether a status says to every sender what is meant: come again, or do not. What speaks of the sender's credentials or
/// its connection is the function's to us, and not ours to the sender.
fn passed_on(status: StatusCode, is_later: bool) -> bool {
    match status.as_u16() {
        408 | 409 | 425 | 429 | 500..=599 => is_later,
        401 | 407 | 421 | 426 => false,
        400..=499 => !is_later,
        _ => false,
    }
}

/// The same problem under another status.
fn with_status(problem: &Problem, status: StatusCode) -> Problem {
    Problem::new(status, problem.slug(), problem.title(), problem.detail())
}

fn of_one(outcome: &CallOutcome) -> Said {
    match outcome {
        CallOutcome::Completed { is_replay, .. } => Said::Done { is_replay: *is_replay },
        CallOutcome::Failed { reason, .. } => match reason {
            Reason::Dropped | Reason::Exhausted | Reason::Window => Said::Later(FUNCTION_FAILED, FAILED),
            Reason::OutcomeUnknown => Said::Later(OUTCOME_UNKNOWN, UNDECIDED),
            Reason::Fatal | Reason::TooOld | Reason::Cancelled => Said::Refused(FUNCTION_REFUSED),
        },
        CallOutcome::Later { after, .. } => Said::Later(FUNCTION_FAILED, *after),
        CallOutcome::Running { after } => Said::Later(IN_PROGRESS, *after),
        CallOutcome::Mismatch { is_strict: true } => Said::Refused(MISMATCH),
        CallOutcome::Mismatch { is_strict: false } => Said::Done { is_replay: true },
        CallOutcome::Unconfirmed => Said::Later(UNCONFIRMED, SOON),
    }
}

/// Whether a function knew it with another content.
pub(super) fn has_mismatch(called: &Called) -> bool {
    let Called::Answered(all) = called else { return false };
    all.iter().any(|it| matches!(it.outcome, CallOutcome::Mismatch { .. }))
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
    use semel_core::{execution::ExecutionId, key::Identity, time::Timestamp};

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

    fn failed(reason: Reason, error: &str) -> CallOutcome {
        CallOutcome::Failed { reason, error: error.to_owned(), is_replay: false }
    }

    #[test]
    fn only_what_never_changes_is_refused_for_good() {
        for reason in Reason::ALL {
            let said = Said::of(&answered(vec![failed(reason, "no answer in time")]), || true);
            let expected = match reason {
                Reason::Dropped | Reason::Exhausted | Reason::Window => Said::Later(FUNCTION_FAILED, FAILED),
                Reason::OutcomeUnknown => Said::Later(OUTCOME_UNKNOWN, UNDECIDED),
                Reason::Fatal | Reason::TooOld | Reason::Cancelled => Said::Refused(FUNCTION_REFUSED),
            };
            assert_eq!(said, expected, "{reason:?}");
        }
    }

    #[test]
    fn the_status_of_one_function_is_passed_on_where_it_says_the_same() {
        let status = |outcomes: Vec<CallOutcome>| match Said::of(&answered(outcomes), || true) {
            Said::Later(problem, _) | Said::Refused(problem) => problem.status().as_u16(),
            other => panic!("{other:?}"),
        };
        let table = [
            (Reason::Dropped, 503, 503),
            (Reason::Dropped, 429, 429),
            (Reason::Exhausted, 500, 500),
            (Reason::Dropped, 404, 502),
            (Reason::Dropped, 302, 502),
            (Reason::Dropped, 200, 502),
            (Reason::Fatal, 400, 400),
            (Reason::Fatal, 410, 410),
            (Reason::Fatal, 401, 422),
            (Reason::Fatal, 301, 422),
            (Reason::Fatal, 503, 422),
        ];
        for (reason, answered, expected) in table {
            let one = failed(reason, &format!("answered {answered}: 204"));
            assert_eq!(status(vec![one.clone()]), expected, "{reason:?} {answered}");
            let several = if reason == Reason::Fatal { 422 } else { 502 };
            assert_eq!(status(vec![one, done(true)]), several, "{reason:?} {answered}");
        }
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
