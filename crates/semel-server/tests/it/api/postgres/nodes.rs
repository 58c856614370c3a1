//! Two nodes on one database: what is asked of one holds on the other.

use crate::{
    api::support::{Server, orders, told},
    support::{Upstream, semel},
};
use http::Method;
use semel_testkit::servers;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// Two nodes before one function.
fn two(url: &str, function: &Upstream) -> (Server, Server) {
    let start = || Server::start(tempfile::tempdir().unwrap(), &orders(function, ""), &["--store", url]);
    (start(), start())
}

fn said(server: &Server, arguments: &[&str]) -> String {
    let address = server.program.url("");
    let ended = semel(server.directory.path(), &[arguments, &["--server", &address]].concat());
    format!("{}{}", ended.stdout, ended.stderr)
}

/// Cancels one thing at once, and the next in an hour.
const SLOWLY: &str = r#"{"action": "cancel", "filter": {"status": "PENDING"}, "rate": "1/h"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_seen_and_aborted_through_another_node_and_is_interrupted_if_its_own_dies() {
    let (database, function) = (servers::postgres().await, Upstream::echo().await);
    let (one, other) = two(&database.url, &function);
    // Drained, so that the other node does not take any of them.
    assert_eq!(one.post("/v1/functions/orders/drain", "").await["is_idle"], true);
    for id in 0..5 {
        assert_eq!(one.event(&format!("evt-{id}"), "{}").await.status, 202);
    }
    let number = one.post("/v1/bulk", SLOWLY).await["number"].as_u64().unwrap();
    let path = format!("/v1/jobs/{number}");
    let seen = other.when(&path, |it| it["done"] == 1).await;
    assert_eq!((&seen["state"], &seen["action"]), (&json!("running"), &json!("cancel")));
    let told = said(&other, &["abort", &number.to_string()]);
    assert_eq!(told, format!("job {number} is told to stop; 1 done so far\n"));
    let aborted = one.when(&path, |it| it["state"] == "aborted").await;
    assert_eq!(other.get(&path).await, aborted);
    assert!(said(&one, &["abort", &number.to_string()]).contains("The job is over."));

    assert_eq!(one.post("/v1/bulk", SLOWLY).await["number"], number + 1);
    let path = format!("/v1/jobs/{}", number + 1);
    other.when(&path, |it| it["done"] == 1).await;
    assert_eq!(other.post("/v1/bulk", SLOWLY).await["number"], number + 2);
    one.program.kill();
    let interrupted = other.when(&path, |it| it["state"] != "running").await;
    assert_eq!((&interrupted["state"], &interrupted["done"]), (&json!("interrupted"), &json!(1)));
    let listed = said(&other, &["jobs"]);
    for state in ["aborted", "interrupted", "running"] {
        assert_eq!(listed.matches(state).count(), 1, "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_drained_through_one_node_is_not_called_by_the_other() {
    let (database, function) = (servers::postgres().await, Upstream::echo().await);
    let (one, other) = two(&database.url, &function);
    let is_drained = AtomicBool::new(false);
    let sending = async {
        for number in 0.. {
            if is_drained.load(Ordering::Relaxed) {
                return;
            }
            other.event(&format!("evt-{number}"), "{}").await;
        }
    };
    let draining = async {
        function.called(1).await;
        let drained = one.post("/v1/functions/orders/drain", r#"{"within_secs": 60}"#).await;
        let calls = function.calls();
        is_drained.store(true, Ordering::Relaxed);
        (drained, calls)
    };
    let ((), (drained, calls)) = tokio::join!(sending, draining);
    assert_eq!(drained["is_idle"], true, "{drained}");
    for number in 0..20 {
        assert_eq!(other.event(&format!("late-{number}"), "{}").await.status, 202);
    }
    let standing: Value = other.get("/v1/functions/orders").await;
    assert_eq!((&standing["is_paused"], &standing["ledger"]["in_progress"]), (&json!(true), &json!(0)));
    assert!(standing["ledger"]["pending"].as_u64().unwrap() >= 20, "{standing}");
    assert_eq!(function.calls(), calls, "something was called after that");
    // Through the other, where nobody has asked for it yet, it is known already.
    assert!(said(&other, &["drain", "orders"]).starts_with("orders is paused\n"));
}

/// Each of two changes is right by itself, and both together are a loop: no node may take the second one, though it has not
/// heard of the first yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_added_to_what_other_nodes_have_written() {
    let (database, function) = (servers::postgres().await, Upstream::echo().await);
    let (one, other) = two(&database.url, &function);
    let to = |to: &str| {
        let to = if to.is_empty() { "keep".to_owned() } else { format!("function:{to}") };
        json!({"url": "http://127.0.0.1:1/", "filter": {"type": "none"}, "dead_letter": to}).to_string()
    };
    for name in ["a", "b"] {
        one.done(Method::PUT, &format!("/v1/functions/{name}"), &to("")).await;
    }
    other.when("/v1/functions", |it| it["functions"].as_array().unwrap().len() == 3).await;
    one.done(Method::PUT, "/v1/functions/a", &to("b")).await;
    let got = other.ask_with(&Method::PUT, "/v1/functions/b", &[], &to("a")).await;
    assert_eq!(told(&got), (422, "invalid".to_owned()), "{got:?}");
    assert!(got.text().contains("its dead letters would go round for ever"), "{got:?}");
    // What one node added the other one can remove at once.
    let got = other.ask_with(&Method::DELETE, "/v1/functions/b", &[], "").await;
    assert_eq!(told(&got), (409, "conflict".to_owned()), "a needs it: {got:?}");
    one.done(Method::PUT, "/v1/functions/c", &to("")).await;
    other.done(Method::DELETE, "/v1/functions/c", "").await;
}
