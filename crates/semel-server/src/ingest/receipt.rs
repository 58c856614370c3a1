//! What became of events, as answers.
//!
//! 1. An event is told by its own id and source, and for each function: the execution that stands for it, whether it is a
//!    duplicate, and then where the original stands and since when.
//! 2. `202` if anything is new, `200` if not.
//! 3. What a function that is strict does not take is refused.
//!
//! It only reads receipts: see [`semel_runtime::Receipt`].

use super::problems::{self, KEY_MISSING, MISMATCH, NO_FUNCTION};
use crate::log::moment;
use http::StatusCode;
use semel::http::{Problem, ProblemBase};
use semel_core::{hex::Hex, record::Status, time::Timestamp};
use semel_events::event::Event;
use semel_runtime::{Entry, Receipt, Taken};
use std::time::{Duration, UNIX_EPOCH};

/// What is answered for one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Some function has it now that did not have it before.
    New,
    /// Every function knew it; whether one of them with another content.
    Duplicate { is_mismatch: bool },
    /// No function takes it.
    Unmatched,
    /// It is refused.
    Refused(Problem),
}

impl Verdict {
    /// What a receipt means, where there are functions or not.
    pub(super) fn of(receipt: &Receipt, has_functions: impl FnOnce() -> bool) -> Self {
        match receipt {
            Receipt::Unmatched if has_functions() => Self::Unmatched,
            Receipt::Unmatched => Self::Refused(NO_FUNCTION),
            Receipt::Refused(_) => Self::Refused(KEY_MISSING),
            Receipt::Taken(taken) => Self::of_taken(taken),
        }
    }

    fn of_taken(taken: &[Taken]) -> Self {
        let is_strict = |it: &Taken| matches!(it.entry, Entry::Mismatch { is_strict: true, .. });
        if taken.iter().any(is_strict) {
            return Self::Refused(MISMATCH);
        }
        if taken.iter().any(|it| it.entry == Entry::New) {
            return Self::New;
        }
        Self::Duplicate { is_mismatch: taken.iter().any(|it| matches!(it.entry, Entry::Mismatch { .. })) }
    }

    /// The status of an answer about this event alone.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::New => StatusCode::ACCEPTED,
            Self::Duplicate { .. } | Self::Unmatched => StatusCode::OK,
            Self::Refused(problem) => problem.status(),
        }
    }
}

/// What became of an event, as JSON.
pub(super) fn write(body: &mut Vec<u8>, event: &Event, receipt: &Receipt, verdict: &Verdict) {
    body.extend_from_slice(br#"{"id":"#);
    quote(body, event.id());
    body.extend_from_slice(br#","source":"#);
    quote(body, event.source());
    let is_duplicate = matches!(verdict, Verdict::Duplicate { .. });
    body.extend_from_slice(if is_duplicate { br#","duplicate":true"# } else { br#","duplicate":false"# });
    body.extend_from_slice(br#","functions":["#);
    let taken: &[Taken] = match receipt {
        Receipt::Taken(taken) => taken,
        Receipt::Unmatched | Receipt::Refused(_) => &[],
    };
    for (index, taken) in taken.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write_taken(body, taken);
    }
    body.extend_from_slice(b"]}");
}

/// One item of a batch, as JSON: with its status, and with a problem if it was refused.
pub(super) fn write_item(
    body: &mut Vec<u8>,
    event: &Event,
    receipt: &Receipt,
    verdict: &Verdict,
    base: &ProblemBase,
) {
    if let Verdict::Refused(problem) = verdict {
        return write_refused(body, problem, base, problem.detail());
    }
    body.extend_from_slice(format!(r#"{{"status":{},"#, verdict.status().as_u16()).as_bytes());
    let start = body.len();
    write(body, event, receipt, verdict);
    // The two objects are one.
    body.remove(start);
}

/// One item of a batch that was refused, as JSON.
pub(super) fn write_refused(body: &mut Vec<u8>, problem: &Problem, base: &ProblemBase, detail: &str) {
    body.extend_from_slice(format!(r#"{{"status":{},"problem":"#, problem.status().as_u16()).as_bytes());
    body.extend_from_slice(&problems::json(problem, base, detail, None));
    body.push(b'}');
}

fn write_taken(body: &mut Vec<u8>, taken: &Taken) {
    body.extend_from_slice(br#"{"function":"#);
    quote(body, &taken.function);
    body.extend_from_slice(br#","execution":""#);
    body.extend_from_slice(Hex::of(taken.id.identity().as_bytes()).as_str().as_bytes());
    body.push(b'"');
    match taken.entry {
        Entry::New => body.extend_from_slice(br#","duplicate":false}"#),
        Entry::Duplicate { status, since } => write_original(body, status, since, ""),
        Entry::Mismatch { status, since, .. } => write_original(body, status, since, r#","mismatch":true"#),
    }
}

fn write_original(body: &mut Vec<u8>, status: Status, since: Timestamp, more: &str) {
    let since = moment(UNIX_EPOCH + Duration::from_millis(since.as_millis()));
    body.extend_from_slice(
        format!(r#","duplicate":true{more},"status":"{status}","since":"{since}"}}"#).as_bytes(),
    );
}

/// A text as JSON.
fn quote(body: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(body, text).expect("a text can be written into memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{execution::ExecutionId, key::Key};

    fn taken(function: &str, entry: Entry) -> Taken {
        let key = Key::of_refs(
            &[semel_core::key::PartRef::Text(function)],
            &[semel_core::key::PartRef::Text("evt-1")],
        );
        Taken { function: function.into(), id: ExecutionId::of(&key.unwrap()), entry }
    }

    fn duplicate() -> Entry {
        Entry::Duplicate { status: Status::Completed, since: Timestamp::from_millis(1_794_793_507_123) }
    }

    fn mismatch(is_strict: bool) -> Entry {
        Entry::Mismatch { status: Status::Pending, since: Timestamp::from_millis(0), is_strict }
    }

    #[test]
    fn one_new_execution_makes_an_event_new_and_one_strict_function_refuses_it() {
        let check = |entries: &[Entry], expected: Verdict| {
            let receipt = Receipt::Taken(entries.iter().map(|it| taken("f", *it)).collect());
            assert_eq!(Verdict::of(&receipt, || true), expected, "{entries:?}");
        };
        check(&[Entry::New], Verdict::New);
        check(&[duplicate(), Entry::New], Verdict::New);
        check(&[duplicate(), duplicate()], Verdict::Duplicate { is_mismatch: false });
        check(&[duplicate(), mismatch(false)], Verdict::Duplicate { is_mismatch: true });
        check(&[Entry::New, mismatch(true)], Verdict::Refused(MISMATCH));
        assert_eq!(Verdict::of(&Receipt::Unmatched, || true), Verdict::Unmatched);
        assert_eq!(Verdict::of(&Receipt::Unmatched, || false), Verdict::Refused(NO_FUNCTION));
    }

    #[test]
    fn a_receipt_is_json_that_can_be_read() {
        let event = Event::builder("evt-\"1\"", "/orders", "order.created").build().unwrap();
        let receipt = Receipt::Taken(vec![
            taken("a", Entry::New),
            taken("b", duplicate()),
            taken("c", mismatch(false)),
        ]);
        let verdict = Verdict::of(&receipt, || true);
        let (mut body, mut item) = (Vec::new(), Vec::new());
        write(&mut body, &event, &receipt, &verdict);
        write_item(&mut item, &event, &receipt, &verdict, &ProblemBase::default());
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&read["id"], &read["duplicate"]), (&"evt-\"1\"".into(), &false.into()));
        assert_eq!(read["functions"][1]["since"], "2026-11-16T01:45:07.123Z");
        assert_eq!(read["functions"][1]["status"], "COMPLETED");
        assert_eq!(read["functions"][2]["mismatch"], true);
        assert_eq!(read["functions"][0]["execution"].as_str().unwrap().len(), 64);
        let item: serde_json::Value = serde_json::from_slice(&item).unwrap();
        assert_eq!((&item["status"], &item["functions"]), (&202.into(), &read["functions"]));
    }
}
