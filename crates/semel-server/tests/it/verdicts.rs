//! What the command line says of a server of which everything can be said: scripted answers, one snapshot for each command.

use crate::support::{Asked, Upstream, answer, semel};
use insta::assert_snapshot;
use serde_json::{Value, json};

const THEN: &str = "2026-11-16T01:45:07.123Z";
const ID: &str = "2b8c2936ab025d49979a70ba08ba35c70434701f6703b61312c40271f219b57b";

/// A server that answers these paths with these documents, and says 503 to all others.
async fn scripted(answers: Vec<(&'static str, Value)>) -> Upstream {
    Upstream::start(move |asked: Asked| {
        let path = asked.uri.path().to_owned();
        let found = answers.iter().find(|(it, _)| *it == path).map(|(_, it)| it.to_string());
        async move {
            match found {
                Some(document) => answer(200, document),
                None => answer(503, r#"{"title": "It is not ready", "detail": "Look at its log."}"#),
            }
        }
    })
    .await
}

/// What a command says of it.
fn said(server: &Upstream, arguments: &[&str]) -> String {
    let url = &format!("http://{}", server.address);
    let directory = tempfile::tempdir().unwrap();
    let ended = semel(directory.path(), &[arguments, &["--server", url]].concat());
    let text = format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr);
    text.replace(url, "http://127.0.0.1:PORT")
}

fn ledger(dead: u64, unknown: u64, is_balanced: bool) -> Value {
    json!({
        "accepted": 9, "pending": 0, "in_progress": 0, "completed": 4, "dead": dead, "cancelled": 0, "dropped": 0,
        "unknown": unknown, "purged": 0, "is_balanced": is_balanced
    })
}

fn function(name: &str, breaker: &str, is_paused: bool, left_out: Option<&str>) -> Value {
    json!({
        "name": name, "url": null, "defined_by": "file", "is_paused": is_paused, "is_removed": false,
        "left_out": left_out, "breaker": breaker, "in_flight": 0, "concurrency": 1, "rate": null,
        "ledger": ledger(0, 0, true)
    })
}

fn execution() -> Value {
    json!({
        "id": ID, "function": "orders", "event_id": "order-17", "source": "/shop", "type": "order.created",
        "key": "/shop:order-17", "status": "PENDING", "reason": null, "is_parked": false, "attempts": 1, "generation": 1,
        "duplicates": 2, "mismatches": 1, "accepted_at": THEN, "updated_at": THEN, "due_at": THEN, "error": null,
        "error_print": null
    })
}

fn story(next: &str, can: &[&str], result: &Value) -> Value {
    let attempt = |generation: u32, error: &Value| {
        json!({
            "generation": generation, "number": 1, "began_at": THEN, "ended_at": "2026-11-16T01:45:09.123Z", "error": error
        })
    };
    json!({
        "execution": execution(), "event": null, "result": result,
        "history": [attempt(0, &json!("answered 503")), attempt(1, &Value::Null)],
        "repeated_at": THEN, "order": null, "expires_at": null, "next": next, "can": can
    })
}

/// Every remedy of the doctor stands in here, but that for a store that keeps nothing: see `cli::verbs`.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_server_with_everything_wrong_each_thing_has_its_remedy() {
    let store = json!({
        "place": "postgres://db/shop", "tier": "B", "promise": "", "warnings": ["`fsync` is `off`: set it to `on`"],
        "used_bytes": 1 << 30, "left_bytes": 1 << 20, "days_to_full": 1, "damaged": ["the row of it is damaged"],
        "trouble": "the disk is full", "refuses": "it cannot grow", "went_back": "fence 7 came after 9"
    });
    let server = json!({ "version": "0.0.1", "now": "2000-01-01T00:00:00Z", "who": "ann", "role": "viewer", "store": store });
    let functions = [
        function("audit", "closed", true, None),
        function("mails", "closed", false, Some("`url`: wanted another host")),
        function("orders", "open", false, None),
    ];
    let ill = scripted(vec![
        ("/v1/server", server.clone()),
        ("/v1/functions", json!({ "functions": functions })),
        ("/v1/ledger", json!({ "functions": [], "total": ledger(2, 1, false) })),
    ])
    .await;
    let empty = scripted(vec![
        ("/v1/server", server),
        ("/v1/functions", json!({ "functions": [] })),
        ("/v1/ledger", json!({ "functions": [], "total": ledger(0, 0, true) })),
        ("/ready", json!({})),
    ])
    .await;
    assert_snapshot!([&ill, &empty].map(|it| without_the_clock(&said(it, &["doctor"]))).join("\n"));
}

/// How far a clock that stands is from ours depends on when it is asked.
fn without_the_clock(text: &str) -> String {
    let (before, rest) = text.split_once("its clock is ").unwrap();
    let (_, after) = rest.split_once(" from this one").unwrap();
    format!("{before}its clock is LONG from this one{after}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_has_everything_that_happened_and_everything_that_can_be_done() {
    let too_large = json!({ "size": 70_000, "text": null, "base64": null, "is_whole": false, "until": null });
    let found = [
        story("It waits.", &["redrive", "cancel", "park", "unpark", "resolve"], &Value::Null),
        story("Nothing: it took effect, and does not again.", &[], &too_large),
    ];
    let server = scripted(vec![(
        "/v1/why",
        json!({ "found": found, "has_more": true, "is_whole": true, "now": THEN }),
    )])
    .await;
    assert_snapshot!(said(&server, &["why", "order-17"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_each_delivery_is_told() {
    let of = |more: Value| {
        let mut it = json!({ "function": "orders", "execution": ID, "status": "COMPLETED" });
        it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        it
    };
    let functions = [
        of(json!({ "duplicate": false })),
        of(json!({ "duplicate": true })),
        of(json!({ "duplicate": true, "mismatch": true })),
    ];
    let taken = scripted(vec![("/events", json!({ "functions": functions }))]).await;
    let not_taken = scripted(vec![("/events", json!({ "functions": [] }))]).await;
    let send = ["send", "--data", "{}", "--id", "order-17", "--type", "order.created"];
    assert_snapshot!([&taken, &not_taken].map(|it| said(it, &send)).join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_so_before_and_what_was_decided_is_told() {
    let switched = json!({ "function": "orders", "is_paused": true, "is_changed": false, "is_idle": true });
    let server = scripted(vec![
        ("/v1/functions/orders/pause", switched.clone()),
        ("/v1/functions/orders/resume", switched),
        ("/v1/past/replay", json!({ "found": "fence 7 came after 9" })),
    ])
    .await;
    let all: [&[&str]; 4] =
        [&["pause", "orders"], &["resume", "orders"], &["past", "replay"], &["past", "skip"]];
    assert_snapshot!(all.map(|it| said(&server, it)).join("\n"));
}
