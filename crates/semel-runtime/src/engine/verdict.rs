//! What came of a call: for its execution, and for what is thought of the target.
//!
//! 1. An answer means what the function's preset says: see [`crate::deliver::verdict`]. A function of this process says
//!    it itself.
//! 2. A successful answer's body is the result, kept for [`RESULT_RETENTION`] if it is at most [`RESULT_BYTES_MAX`] long;
//!    else only its size and hash are. Of one that was not read to its end, it is known how much was read, and no hash.
//!    A result is stored as it is: compressed it would be unpacked wherever executions are listed, many at once.
//! 3. An answer that was lost is a failure, unless the function wants it [reported](OnLost::Report): then nobody can tell what
//!    became of the event. So it is if whoever waited for an answer is gone, or has to go.
//! 4. What this machine had nothing left to send with was no attempt: it is handed back, and due again after
//!    [`EXHAUSTED_PAUSE`]. Where retry is off, it would be lost otherwise, for want of a descriptor.
//! 5. A target is alive if it answered in whichever way, except with 429 or 5xx without its own word; it is down if it did
//!    not answer. A request that the guard held back, that met a connection which had just ended, or that this machine could
//!    not send, says nothing of it.

use super::gate::breaker::Health;
use crate::{
    deliver::{Answer, Cause, Preset, Status, Trouble, Verdict, verdict},
    function::{Function, HandleError, OnLost},
};
use http::StatusCode;
use semel_core::{
    execution::{Execution, Input},
    record::{Body, NotKept},
    sabotage::is_on,
    sha256::sha256,
    time::Timestamp,
};
use std::time::Duration;

/// Longest result that is kept, in bytes.
pub(crate) const RESULT_BYTES_MAX: usize = 64 * 1024;
/// How long a result is kept; never longer than its execution.
pub(crate) const RESULT_RETENTION: Duration = Duration::from_hours(24);

/// How long it takes until what this machine could not send is due again.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_secs(1);

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The function behind a URL answered, or did not.
    Answer(Answer),
    /// The function of this process did.
    Result(Result<Vec<u8>, HandleError>),
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// For its execution.
    pub(crate) input: Input,
    /// For what is thought of its target.
    pub(crate) health: Health,
    /// Whether the function wants no more events.
    pub(crate) stops: bool,
}

impl Ended {
    /// Like this, and nothing was heard of the target.
    pub(crate) const fn unheard(input: Input) -> Self {
        Self { input, health: Health::Unknown, stops: false }
    }
}

/// What becomes of an execution that cannot be tried, because the attempt before ended without a word.
pub(crate) fn doubted(held: &Execution, on_lost: OnLost) -> Option<Input> {
    let is_doubted = on_lost == OnLost::Report && held.is_after_lapse();
    is_doubted.then(|| Input::Doubt { error: GONE.to_owned(), was_made: false })
}

/// What becomes of an attempt that is interrupted.
pub(crate) fn interrupted(on_lost: OnLost) -> Input {
    let error = "interrupted: the runtime was stopped".to_owned();
    match on_lost {
        OnLost::Retry => Input::Interrupt { error },
        OnLost::Report => Input::Doubt { error, was_made: true },
    }
}

/// The error of an execution whose attempt ended without a word.
const GONE: &str = "whoever called the function is gone: whether it took effect is not known";

/// What this means for the execution.
pub(crate) fn ended(heard: Heard, function: &Function, now: Timestamp) -> Ended {
    of_heard(heard, function.answers, function.on_lost, now)
}

fn of_heard(heard: Heard, preset: Preset, on_lost: OnLost, now: Timestamp) -> Ended {
    let health = health_of(&heard);
    let is_exhausted = exhausted(&heard).is_some();
    let is_lost = matches!(heard, Heard::Answer(Answer::Broken(_) | Answer::TimedOut(_)));
    let (input, stops) = match heard {
        _ if is_exhausted && !is_on("exhaustion_counts_as_an_attempt") => {
            (Input::HandBack { delay: EXHAUSTED_PAUSE }, false)
        }
        Heard::Answer(answer) => match verdict(answer, preset, now) {
            Verdict::Done(status) => (Input::Complete(body(now, status)), false),
            Verdict::Retry { error, .. } if is_lost && on_lost == OnLost::Report => {
                (Input::Doubt { error, was_made: true }, false)
            }
            Verdict::Retry { error, retry_after } => (Input::Fail { error, retry_after }, false),
            Verdict::Fatal { error } => (Input::Reject { error }, false),
            Verdict::StopFunction { error } => (Input::Reject { error }, true),
        },
        Heard::Result(Ok(bytes)) => (Input::Complete(kept(now, bytes)), false),
        Heard::Result(Err(HandleError::Retry { error, after })) => {
            (Input::Fail { error, retry_after: after }, false)
        }
        Heard::Result(Err(HandleError::Fatal { error })) => (Input::Reject { error }, false),
    };
    Ended { input, health, stops }
}

/// What this machine has run out of, if that is why nothing was sent.
pub(crate) fn exhausted(heard: &Heard) -> Option<&Cause> {
    match heard {
        Heard::Answer(Answer::NotSent(cause)) if cause.trouble == Trouble::Exhausted => Some(cause),
        Heard::Answer(_) | Heard::Result(_) => None,
    }
}

/// The status that a function answered with, by an error that tells of it: `answered 503 Service Unavailable: try later`.
pub(crate) fn answered_status(error: &str) -> Option<StatusCode> {
    let code = error.strip_prefix("answered ")?.get(..3)?;
    StatusCode::from_bytes(code.as_bytes()).ok()
}

fn body(now: Timestamp, status: Status) -> Body {
    if status.is_truncated { cut(&status.body) } else { kept(now, status.body.into()) }
}

fn kept(now: Timestamp, bytes: Vec<u8>) -> Body {
    if bytes.len() > RESULT_BYTES_MAX {
        not_kept(&bytes)
    } else {
        Body::Kept { bytes, until: now + RESULT_RETENTION }
    }
}

fn not_kept(bytes: &[u8]) -> Body {
    Body::NotKept { cause: NotKept::TooLarge, size: bytes.len() as u64, digest: sha256(bytes) }
}

/// Of an answer that was longer than is read: nobody had the whole of it.
fn cut(read: &[u8]) -> Body {
    Body::NotKept { cause: NotKept::TooLarge, size: read.len() as u64, digest: [0; 32] }
}

fn health_of(heard: &Heard) -> Health {
    match heard {
        Heard::Answer(Answer::Status(status)) if status.outcome.is_some() => Health::Alive,
        Heard::Answer(Answer::Status(status)) => {
            let is_down = status.code.is_server_error() || status.code == StatusCode::TOO_MANY_REQUESTS;
            if is_down { Health::Down } else { Health::Alive }
        }
        Heard::Answer(Answer::NotSent(cause))
            if matches!(cause.trouble, Trouble::Blocked | Trouble::Stale | Trouble::Exhausted) =>
        {
            Health::Unknown
        }
        Heard::Answer(Answer::NotSent(_) | Answer::Broken(_) | Answer::TimedOut(_)) => Health::Down,
        Heard::Result(_) => Health::Alive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::{Outcome, Stage};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_target_is_down_if_it_does_not_answer_or_says_that_it_is() {
        let status = |code: u16| Answer::Status(Status::of(StatusCode::from_u16(code).expect("a status")));
        let said = Status { outcome: Some(Outcome::Retry), ..Status::of(StatusCode::SERVICE_UNAVAILABLE) };
        let table = [
            (status(200), Health::Alive),
            (status(404), Health::Alive),
            (status(409), Health::Alive),
            (status(429), Health::Down),
            (status(500), Health::Down),
            (status(503), Health::Down),
            (Answer::Status(said), Health::Alive),
            (Answer::NotSent(Cause::new(Trouble::Unconnected, "")), Health::Down),
            (Answer::NotSent(Cause::new(Trouble::Blocked, "")), Health::Unknown),
            (Answer::NotSent(Cause::new(Trouble::Stale, "")), Health::Unknown),
            (Answer::NotSent(Cause::new(Trouble::Exhausted, "")), Health::Unknown),
            (Answer::NotSent(Cause::new(Trouble::Refused, "")), Health::Down),
            (Answer::Broken(Cause::new(Trouble::Closed, "")), Health::Down),
            (Answer::TimedOut(Stage::Head), Health::Down),
        ];
        for (answer, health) in table {
            assert_eq!(health_of(&Heard::Answer(answer.clone())), health, "{answer:?}");
        }
    }

    #[test]
    fn an_error_tells_the_status_that_was_answered() {
        for code in [302, 404, 422, 429, 500, 503, 599] {
            let code = StatusCode::from_u16(code).expect("a status");
            let status = Status { body: "try 200 later".into(), ..Status::of(code) };
            let said = Status { outcome: Some(Outcome::Retry), ..status };
            let heard = Heard::Answer(Answer::Status(said));
            let ended = of_heard(heard, Preset::Default, OnLost::Report, NOW);
            let Input::Fail { error, .. } = ended.input else { panic!("{ended:?}") };
            assert_eq!(answered_status(&error), Some(code), "{error}");
        }
        for error in ["no answer in time", "answered ", "answered 9", "answered ünklar", ""] {
            assert_eq!(answered_status(error), None, "{error}");
        }
    }

    #[test]
    fn a_result_is_kept_up_to_its_limit_and_only_noted_beyond() {
        let result =
            |len: usize| of_heard(Heard::Result(Ok(vec![7; len])), Preset::Default, OnLost::Retry, NOW).input;
        assert!(matches!(result(RESULT_BYTES_MAX), Input::Complete(Body::Kept { .. })));
        let size = RESULT_BYTES_MAX as u64 + 1;
        let Input::Complete(Body::NotKept { cause, size: noted, .. }) = result(RESULT_BYTES_MAX + 1) else {
            panic!("it was kept");
        };
        assert_eq!((cause, noted), (NotKept::TooLarge, size));
    }

    #[test]
    fn only_what_may_have_been_received_is_lost() {
        let cause = || Cause::new(Trouble::Closed, "");
        let table = [
            (Answer::Broken(cause()), true),
            (Answer::TimedOut(Stage::Head), true),
            (Answer::TimedOut(Stage::Body), true),
            (Answer::NotSent(cause()), false),
            (Answer::Status(Status::of(StatusCode::SERVICE_UNAVAILABLE)), false),
        ];
        for (answer, is_lost) in table {
            for on_lost in [OnLost::Retry, OnLost::Report] {
                let heard = Heard::Answer(answer.clone());
                let is_doubted =
                    matches!(of_heard(heard, Preset::Default, on_lost, NOW).input, Input::Doubt { .. });
                assert_eq!(is_doubted, is_lost && on_lost == OnLost::Report, "{answer:?} {on_lost:?}");
            }
        }
    }

    #[test]
    fn a_body_that_was_not_read_to_its_end_is_no_result() {
        let read = Status { body: "the beginning".into(), ..Status::of(StatusCode::OK) };
        let cut = Status { is_truncated: true, ..read };
        let ended = of_heard(Heard::Answer(Answer::Status(cut)), Preset::Default, OnLost::Retry, NOW);
        // So much was read, and of what was not nobody has a digest.
        let expected = Body::NotKept { cause: NotKept::TooLarge, size: 13, digest: [0; 32] };
        assert_eq!(ended.input, Input::Complete(expected));
    }
}
