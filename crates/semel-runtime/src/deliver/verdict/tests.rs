//! Our own table, cell by cell; what it was made from is in `published`.

use super::*;
use crate::deliver::Cause;
use bytes::Bytes;
use http::HeaderValue;

const NOW: Timestamp = Timestamp::EPOCH;

pub(super) fn answered(code: u16) -> Status {
    Status::of(StatusCode::from_u16(code).unwrap())
}

pub(super) fn class(answer: Answer, preset: Preset) -> &'static str {
    match verdict(answer, preset, NOW) {
        Verdict::Done(_) => "done",
        Verdict::Retry { .. } => "retry",
        Verdict::Fatal { .. } => "fatal",
        Verdict::StopFunction { .. } => "stop",
    }
}

/// One row: statuses, and what they mean to `default`, `pubsub`, `knative`, `eventarc`, `standard-webhooks`.
type Row = (&'static [std::ops::RangeInclusive<u16>], [&'static str; 5]);

const TABLE: &[Row] = &[
    (&[200..=202, 204..=204], ["done"; 5]),
    (&[203..=203, 205..=299], ["done", "retry", "done", "done", "done"]),
    (&[300..=399], ["fatal", "retry", "fatal", "fatal", "retry"]),
    (&[400..=403, 405..=407, 411..=428, 430..=499], ["fatal", "retry", "fatal", "fatal", "retry"]),
    (&[404..=404], ["retry", "retry", "retry", "fatal", "retry"]),
    (&[408..=409, 429..=429], ["retry"; 5]),
    (&[410..=410], ["fatal", "retry", "fatal", "fatal", "stop"]),
    (&[500..=500, 502..=504], ["retry"; 5]),
    (&[501..=501, 505..=599], ["retry", "retry", "retry", "fatal", "retry"]),
    (&[102..=102], ["retry", "done", "retry", "retry", "retry"]),
    (&[100..=101, 103..=199, 600..=999], ["retry"; 5]),
];

#[test]
fn every_status_means_to_every_preset_what_the_table_says() {
    let mut cells = 0;
    for (ranges, expected) in TABLE {
        for code in ranges.iter().cloned().flatten() {
            for (preset, expected) in Preset::ALL.into_iter().zip(expected) {
                assert_eq!(class(Answer::Status(answered(code)), preset), *expected, "{code} to `{preset}`");
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 900 * 5, "the table has every status once");
}

#[test]
fn no_answer_is_retried_by_every_preset() {
    let cause = |trouble| Cause::new(trouble, "");
    for preset in Preset::ALL {
        for trouble in [
            Trouble::Unresolved,
            Trouble::Unconnected,
            Trouble::ConnectTooLate,
            Trouble::Unencrypted,
            Trouble::Stale,
            Trouble::Refused,
        ] {
            assert_eq!(class(Answer::NotSent(cause(trouble)), preset), "retry", "{trouble}");
        }
        for trouble in [Trouble::Closed, Trouble::Malformed] {
            assert_eq!(class(Answer::Broken(cause(trouble)), preset), "retry", "{trouble}");
        }
        assert_eq!(class(Answer::TimedOut(Stage::Head), preset), "retry");
        assert_eq!(class(Answer::TimedOut(Stage::Body), preset), "retry");
    }
}

#[test]
fn a_blocked_target_is_not_tried_again() {
    for preset in Preset::ALL {
        assert_eq!(class(Answer::NotSent(Cause::new(Trouble::Blocked, "")), preset), "fatal");
    }
}

#[test]
fn what_the_function_says_goes_before_its_status() {
    for preset in Preset::ALL {
        for code in [200, 302, 400, 404, 410, 429, 500, 503] {
            for (outcome, expected) in
                [(Outcome::Done, "done"), (Outcome::Retry, "retry"), (Outcome::Fatal, "fatal")]
            {
                let status = Status { outcome: Some(outcome), ..answered(code) };
                assert_eq!(class(Answer::Status(status), preset), expected, "{code} to `{preset}`");
            }
        }
    }
}

#[test]
fn retry_after_is_read_where_it_is_retried() {
    let status = Status { retry_after: Some(HeaderValue::from_static("120")), ..answered(503) };
    let Verdict::Retry { retry_after, .. } = verdict(Answer::Status(status), Preset::Default, NOW) else {
        panic!("503 is retried")
    };
    assert_eq!(retry_after, Some(Duration::from_mins(2)));
}

#[test]
fn a_success_comes_with_its_body() {
    let status = Status { body: Bytes::from("result"), ..answered(200) };
    assert_eq!(verdict(Answer::Status(status.clone()), Preset::Default, NOW), Verdict::Done(status));
}

fn error_of(status: Status) -> String {
    match verdict(Answer::Status(status), Preset::Default, NOW) {
        Verdict::Retry { error, .. } | Verdict::Fatal { error } | Verdict::StopFunction { error } => error,
        Verdict::Done(_) => panic!("it is an error"),
    }
}

#[test]
fn an_error_quotes_the_beginning_of_the_body_and_cannot_forge_a_line() {
    assert_eq!(error_of(answered(503)), "answered 503 Service Unavailable");
    assert_eq!(error_of(answered(799)), "answered 799");
    let status = Status { body: Bytes::from("no such order\r\n\u{1b}[2Jx\u{202e}"), ..answered(400) };
    assert_eq!(error_of(status), "answered 400 Bad Request: no such order   [2Jx ");
    let status = Status { body: Bytes::from(vec![b'z'; 1 << 20]), ..answered(500) };
    let quoted = error_of(status).matches('z').count();
    assert_eq!(quoted, ERROR_BODY_BYTES_MAX);
    let status = Status { body: Bytes::from(vec![0xff; 1 << 20]), ..answered(500) };
    assert!(
        error_of(status).len() < 4 * 1024,
        "bytes that are no text do not make it longer than an error may be"
    );
}

#[test]
fn presets_are_known_by_their_names() {
    for preset in Preset::ALL {
        assert_eq!(preset.to_string().parse(), Ok(preset));
    }
    assert_eq!("Default".parse::<Preset>(), Err(UnknownPreset));
    assert_eq!("".parse::<Preset>(), Err(UnknownPreset));
}
