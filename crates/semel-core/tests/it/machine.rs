//! The call machine as tables, and the promises that no other test makes.

use crate::given::{REASONS, at};
use semel_core::{
    call::{self, Call, Decision, Entry, Resolution, Terms},
    fence::Fence,
    fingerprint::Fingerprint,
    record::{Body, ERROR_BYTES_MAX, Holder, NotKept, OnLapse, Place, Reason, Record, State, Status, Stored},
    time::Timestamp,
};
use std::{fmt::Write as _, time::Duration};

/// When every row of the tables is decided.
const NOW: Timestamp = at(10_000);
const ME: Holder = Holder(1);
const OTHER: Holder = Holder(2);

fn terms() -> Terms {
    Terms {
        lease: Duration::from_millis(60),
        margin: Duration::from_millis(2),
        retention: Duration::from_millis(700),
        body_retention: Duration::from_millis(100),
    }
}

fn call(payload: &[u8], on_lapse: OnLapse) -> Call {
    Call { fingerprint: Fingerprint::of_bytes(payload), holder: ME, place: Place::Here, on_lapse }
}

fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::of_bytes(b"mine"),
        state,
        attempts: 3,
        created_at: at(9_000),
        updated_at: at(9_900),
        expires_at: Timestamp::NEVER,
    }
}

fn held(holder: Holder, lease_until: u64, on_lapse: OnLapse) -> Record {
    record(State::InProgress { holder, lease_until: at(lease_until), place: Place::Here, on_lapse })
}

fn completed() -> Record {
    let body = Body::Kept { bytes: b"result".to_vec(), until: at(10_050) };
    Record { expires_at: at(10_001), ..record(State::Completed(body)) }
}

fn failed(reason: Reason) -> Record {
    record(State::Failed { reason, error: "why".to_owned() })
}

fn stored(record: Record) -> Stored {
    Stored { fence: Fence::new(7).expect("not zero"), record }
}

/// One record for every case that the machine tells apart.
fn found() -> Vec<(String, Record)> {
    let mut found = vec![
        ("PENDING, due".to_owned(), record(State::Pending { due_at: at(9_999), error: None })),
        ("PENDING, not due yet".to_owned(), record(State::Pending { due_at: at(10_001), error: None })),
    ];
    for on_lapse in [OnLapse::Rerun, OnLapse::Report] {
        let name = format!("IN_PROGRESS, {on_lapse:?}");
        found.extend([
            (format!("{name}, leased"), held(OTHER, 10_001, on_lapse)),
            (format!("{name}, lease ends now"), held(OTHER, 10_000, on_lapse)),
            (format!("{name}, within the margin"), held(OTHER, 9_999, on_lapse)),
            (format!("{name}, margin ends now"), held(OTHER, 9_998, on_lapse)),
            (format!("{name}, my own, leased"), held(ME, 10_001, on_lapse)),
            (format!("{name}, my own, lapsed"), held(ME, 9_000, on_lapse)),
        ]);
    }
    found.push(("COMPLETED".to_owned(), completed()));
    found.extend(REASONS.map(|reason| (format!("FAILED, {reason}"), failed(reason))));
    found
}

fn rendered(decision: &Decision) -> String {
    let fence = |it: Option<Fence>| it.map_or("nothing".to_owned(), |it| format!("fence {it}"));
    match decision {
        Decision::Run { expected, record, entry } => {
            let created = if record.created_at == NOW { "now" } else { "before" };
            let expected = fence(*expected);
            format!("run: {entry:?}, attempt {}, created {created}, if {expected} is there", record.attempts)
        }
        Decision::Report { expected, record } => {
            let expected = fence(Some(*expected));
            format!("report: {}, expires {:?}, if {expected} is there", record.status(), record.expires_at)
        }
        Decision::Replay(status) => format!("replay: {status}"),
        Decision::Busy { until } => format!("busy until {until:?}"),
        Decision::Mismatch => "mismatch".to_owned(),
    }
}

fn begun(found: &Record, payload: &[u8]) -> Decision {
    call::begin(NOW, Some(&stored(found.clone())), &call(payload, OnLapse::Rerun), &terms())
}

#[test]
fn begin_as_a_table() {
    let absent = call::begin(NOW, None, &call(b"mine", OnLapse::Rerun), &terms());
    let mut table = format!("at {NOW:?}, margin 2 ms\n\nnothing stored: {}\n", rendered(&absent));
    for (name, record) in found() {
        let expired = Record { expires_at: NOW, ..record.clone() };
        writeln!(table, "\n{name}").unwrap();
        writeln!(table, "  same payload:  {}", rendered(&begun(&record, b"mine"))).unwrap();
        writeln!(table, "  other payload: {}", rendered(&begun(&record, b"other"))).unwrap();
        writeln!(table, "  expired:       {}", rendered(&begun(&expired, b"mine"))).unwrap();
        writeln!(table, "  expired, other payload: {}", rendered(&begun(&expired, b"other"))).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_an_operator_may_do_as_a_table() {
    let shown = |result: Result<Record, call::Refused>| match result {
        Ok(record) => {
            let body = match &record.state {
                State::Completed(Body::Kept { until, .. }) => format!(", result kept until {until:?}"),
                State::Completed(Body::NotKept { cause, .. }) => format!(", result not kept: {cause:?}"),
                State::Failed { reason, .. } => format!(" ({reason})"),
                State::Pending { .. } | State::InProgress { .. } => String::new(),
            };
            format!(
                "{}{body}, attempts {}, expires {:?}",
                record.status(),
                record.attempts,
                record.expires_at
            )
        }
        Err(refused) => format!("refused: {refused}"),
    };
    let mut table = format!("at {NOW:?}\n");
    for (name, record) in found() {
        let resolve = |resolution| shown(call::resolve(NOW, &record, resolution, &terms()));
        writeln!(table, "\n{name}").unwrap();
        writeln!(table, "  it happened:          {}", resolve(Resolution::Happened(None))).unwrap();
        writeln!(table, "  it happened, like so: {}", resolve(Resolution::Happened(Some(vec![1])))).unwrap();
        writeln!(table, "  it did not:           {}", resolve(Resolution::DidNot)).unwrap();
        writeln!(table, "  forget it:            {}", shown(call::forget(NOW, &record, &terms()))).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn another_payload_is_a_mismatch_in_every_status() {
    for (name, record) in found() {
        assert_eq!(begun(&record, b"other"), Decision::Mismatch, "{name}");
    }
}

#[test]
fn an_expired_record_counts_as_absent_but_its_fence_is_named() {
    for (name, record) in found() {
        let expired = Record { expires_at: NOW, ..record };
        for payload in [&b"mine"[..], b"other"] {
            let Decision::Run { expected, record, entry } = begun(&expired, payload) else {
                panic!("{name}: not run");
            };
            assert_eq!((expected, entry), (Fence::new(7), Entry::Fresh), "{name}");
            assert_eq!((record.attempts, record.created_at), (1, NOW), "{name}");
        }
    }
}

#[test]
fn a_lease_is_left_alone_until_its_margin_has_passed() {
    let until = |lease_until| match begun(&held(OTHER, lease_until, OnLapse::Rerun), b"mine") {
        Decision::Busy { until } => Some(until),
        Decision::Run { .. } => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(until(10_001), Some(at(10_003)));
    assert_eq!(until(9_999), Some(at(10_001)));
    assert_eq!(until(9_998), None);
}

#[test]
fn whoever_vanished_decides_what_a_lapse_means_not_whoever_finds_it() {
    let found = stored(held(OTHER, 9_000, OnLapse::Report));
    for on_lapse in [OnLapse::Rerun, OnLapse::Report] {
        let decision = call::begin(NOW, Some(&found), &call(b"mine", on_lapse), &terms());
        let Decision::Report { expected, record } = decision else { panic!("{decision:?}") };
        assert_eq!(Some(expected), Fence::new(7));
        assert_eq!(
            record.state,
            State::Failed { reason: Reason::OutcomeUnknown, error: call::LAPSED.to_owned() }
        );
    }
}

#[test]
fn what_is_unfinished_or_in_doubt_never_expires() {
    let Decision::Run { record: begun, .. } = begun(&held(OTHER, 9_000, OnLapse::Rerun), b"mine") else {
        panic!("a lapsed call is taken over");
    };
    let renewed = call::renew(NOW, &begun, &terms());
    let released = call::release(NOW, &begun, Some("try again".to_owned()));
    let doubted = call::fail(NOW, &begun, Reason::OutcomeUnknown, String::new(), &terms());
    for record in [begun, renewed, released, doubted] {
        assert_eq!(record.expires_at, Timestamp::NEVER, "{record:?}");
    }
}

#[test]
fn retention_begins_when_a_call_ends() {
    let held = held(ME, 10_050, OnLapse::Rerun);
    let body = Body::NotKept { cause: NotKept::TooLarge, size: 1, digest: [0; 32] };
    assert_eq!(call::complete(NOW, &held, body, &terms()).expires_at, at(10_700));
    for reason in REASONS.into_iter().filter(|it| *it != Reason::OutcomeUnknown) {
        assert_eq!(
            call::fail(NOW, &held, reason, String::new(), &terms()).expires_at,
            at(10_700),
            "{reason}"
        );
    }
}

#[test]
fn a_result_is_never_kept_longer_than_its_record() {
    let body = Body::Kept { bytes: vec![1], until: Timestamp::NEVER };
    let record = call::complete(NOW, &held(ME, 10_050, OnLapse::Rerun), body, &terms());
    let State::Completed(Body::Kept { until, .. }) = record.state else { panic!("completed") };
    assert_eq!(until, record.expires_at);
}

#[test]
fn a_holders_changes_keep_what_is_not_theirs_to_change() {
    let before = held(ME, 10_050, OnLapse::Rerun);
    let body = Body::Kept { bytes: vec![1], until: NOW };
    for after in [
        call::renew(NOW, &before, &terms()),
        call::complete(NOW, &before, body, &terms()),
        call::fail(NOW, &before, Reason::Fatal, "why".to_owned(), &terms()),
        call::release(NOW, &before, None),
    ] {
        assert_eq!(after.fingerprint, before.fingerprint);
        assert_eq!((after.attempts, after.created_at), (before.attempts, before.created_at));
        assert_eq!(after.updated_at, NOW);
    }
}

#[test]
fn only_a_call_of_unknown_outcome_can_be_resolved() {
    for (name, record) in found() {
        let is_unknown = record.state == failed(Reason::OutcomeUnknown).state;
        for resolution in [Resolution::Happened(None), Resolution::Happened(Some(vec![])), Resolution::DidNot]
        {
            let resolved = call::resolve(NOW, &record, resolution, &terms());
            assert_eq!(resolved.is_ok(), is_unknown, "{name}");
        }
    }
}

#[test]
fn what_is_forgotten_is_absent_at_once() {
    for (name, record) in found() {
        match call::forget(NOW, &record, &terms()) {
            Ok(forgotten) => assert!(forgotten.is_expired(NOW), "{name}"),
            Err(refused) => {
                assert_eq!(refused.to_string(), "a call that is IN_PROGRESS cannot be forgotten");
                assert_eq!(record.status(), Status::InProgress, "{name}");
            }
        }
    }
}

#[test]
fn a_long_error_is_cut_at_a_character() {
    let held = held(ME, 10_050, OnLapse::Rerun);
    let error = "é".repeat(ERROR_BYTES_MAX);
    let record = call::fail(NOW, &held, Reason::Fatal, format!("x{error}"), &terms());
    let State::Failed { error, .. } = record.state else { panic!("failed") };
    assert_eq!(error.len(), ERROR_BYTES_MAX - 1);
}
