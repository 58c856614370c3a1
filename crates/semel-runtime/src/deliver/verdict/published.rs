//! What others have published, row by row, and where we differ on purpose.

use super::{
    tests::{answered, class},
    *,
};

/// Statuses, and what the text says of them.
type Row = (&'static [std::ops::RangeInclusive<u16>], &'static str);

/// Goes through every status of a published table. What is in `ours` differs on purpose.
#[track_caller]
fn check(preset: Preset, published: &[Row], ours: &[Row]) {
    let find = |table: &[Row], code: u16| {
        let mut found = table.iter().filter(|(ranges, _)| ranges.iter().any(|it| it.contains(&code)));
        let first = found.next().map(|(_, means)| *means);
        assert!(found.next().is_none(), "{code} is there twice");
        first
    };
    for code in 100..=999 {
        let published = find(published, code);
        let differs = find(ours, code);
        assert!(differs.is_none() || differs != published, "{code} does not differ");
        let expected = differs.or(published).unwrap_or_else(|| panic!("nothing is said of {code}"));
        assert_eq!(class(Answer::Status(answered(code)), preset), expected, "{code} to `{preset}`");
    }
}

/// Google Cloud, Pub/Sub documentation, *Push subscriptions*, section *Receive messages*: the endpoint acknowledges with
/// 102, 200, 201, 202 or 204. Every other code is a negative acknowledgement, and the message is sent again.
#[test]
fn pubsub_push_is_as_published() {
    let published: &[Row] = &[
        (&[102..=102, 200..=202, 204..=204], "done"),
        (&[100..=101, 103..=199, 203..=203, 205..=999], "retry"),
    ];
    check(Preset::PubSub, published, &[]);
}

/// Knative, *Eventing Data Plane Contract*, section *Event Acknowledgement and Delivery Retry*: its table, and "a response
/// code not in this table should be treated as a retriable error".
const KNATIVE: &[Row] = &[
    (&[100..=199], "fatal"),
    // 200, 202, and "other 2xx".
    (&[200..=299], "done"),
    (&[300..=399], "fatal"),
    // "Unparsable event".
    (&[400..=400], "fatal"),
    // "Endpoint does not exist".
    (&[404..=404], "retry"),
    // "Conflict / processing in progress".
    (&[409..=409], "retry"),
    // "Too many requests / overloaded".
    (&[429..=429], "retry"),
    // "Other 4xx".
    (&[401..=403, 405..=408, 410..=428, 430..=499], "fatal"),
    (&[500..=599], "retry"),
    (&[600..=999], "retry"),
];

/// A target that timed out says so with 408, as RFC 9110 (section 15.5.9) has it: a client may repeat the request. Knative's own
/// implementation (`SelectiveRetry`) repeats it, too. The contract reserves 1xx; by RFC 9110 (section 15.2) such an answer is no
/// final one, so nobody knows what became of the event.
const KNATIVE_OURS: &[Row] = &[(&[408..=408], "retry"), (&[100..=199], "retry")];

#[test]
fn knative_is_as_published_but_for_what_is_no_final_answer() {
    check(Preset::Knative, KNATIVE, KNATIVE_OURS);
}

/// Semel's own is Knative's.
#[test]
fn the_default_is_knatives() {
    check(Preset::Default, KNATIVE, KNATIVE_OURS);
}

/// Google Cloud, Eventarc Advanced documentation, *Retry events*, sections *Transient errors* and *Persistent errors*: 408, 409,
/// 429, 500, 502, 503 and 504 are retried, every other error is not. What is neither a success nor an error of HTTP is not told
/// of there: no final answer, or none at all, so it is sent again.
#[test]
fn eventarc_is_as_published() {
    let published: &[Row] = &[
        (&[200..=299], "done"),
        (&[408..=409, 429..=429, 500..=500, 502..=504], "retry"),
        (&[300..=407, 410..=428, 430..=499, 501..=501, 505..=599], "fatal"),
    ];
    let ours: &[Row] = &[(&[100..=199, 600..=999], "retry")];
    check(Preset::Eventarc, published, ours);
}

/// *Standard Webhooks*, section *Delivery success and failure*: 2xx is a success, everything else is a failure, also 3xx,
/// because redirects are not followed; after 410 the endpoint is disabled. By *Deliverability and reliability* a failure is
/// retried.
#[test]
fn standard_webhooks_are_as_published() {
    let published: &[Row] =
        &[(&[200..=299], "done"), (&[410..=410], "stop"), (&[100..=199, 300..=409, 411..=999], "retry")];
    check(Preset::StandardWebhooks, published, &[]);
}
