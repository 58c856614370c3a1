//! A database that was restored from a backup, and what somebody decides about it.

mod nodes;

use super::{
    document,
    support::{Server, orders},
};
use crate::support::{Asked, Upstream, semel};
use http::Method;
use semel_testkit::servers;
use std::process::Command;

fn tool(name: &str, url: &str, more: &[&str]) {
    let done = Command::new(name).args(["--dbname", url]).args(more).output().unwrap();
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A server on tables that were restored: they hold one event, `old`, that had not been delivered at the time.
async fn restored(url: &str, function: &Upstream) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.sql").to_str().unwrap().to_owned();
    let server = Server::start(directory, &orders(function, ""), &["--store", url]);
    // Drained, so that no claim is under way, either.
    let drained = server.post("/v1/functions/orders/drain", r#"{"within_secs": 20}"#).await;
    assert_eq!(drained["is_idle"], true, "{drained}");
    assert_eq!(server.event("old", "{}").await.status, 202);
    tool("pg_dump", url, &["--clean", "--file", &file, "--table", "semel_queue*"]);
    assert_eq!(function.calls(), 0, "it is paused");
    server.post("/v1/functions/orders/resume", "").await;
    function.called(1).await;
    let Server { program, directory, .. } = server;
    program.kill();
    tool("psql", url, &["--set", "ON_ERROR_STOP=1", "--quiet", "--file", &file]);
    Server::start(directory, &orders(function, ""), &["--store", url])
}

fn decide(server: &Server, choice: &str) -> String {
    let address = server.program.url("");
    let ended = semel(server.directory.path(), &["past", choice, "--server", &address]);
    format!("{}{}", ended.stdout, ended.stderr)
}

async fn is_stopped(server: &Server, function: &Upstream) {
    assert_eq!(server.ask_with(&Method::GET, "/ready", &[], "").await.status, 503);
    assert_eq!(server.event("new", "{}").await.status, 503, "nothing is taken");
    assert_eq!(function.calls(), 1, "nothing is delivered");
    let store = server.get("/v1/server").await["store"].clone();
    assert!(store["went_back"].as_str().unwrap().contains("dump"), "{store}");
    let address = server.program.url("");
    let doctor = semel(server.directory.path(), &["doctor", "--server", &address]);
    assert!(doctor.stdout.contains("semel past skip"), "{}", doctor.stdout);
    counts_as_gone_back(server, 1).await;
}

async fn counts_as_gone_back(server: &Server, value: u8) {
    let metrics = server.ask_with(&Method::GET, "/metrics", &[], "").await;
    let line = format!("\nsemel_store_went_back {value}\n");
    assert!(metrics.text().contains(&line), "{}", metrics.text());
}

/// Invariant 7, as a function sees it that refuses older fences.
fn are_in_order(asked: &[Asked]) {
    let fences: Vec<u64> =
        asked.iter().map(|it| it.header("semel-fence").join("").parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

async fn is_noted(server: &Server, what: &str) {
    let entries = server.get("/v1/audit?subject=queue").await["entries"].clone();
    assert_eq!(entries[0]["what"], what, "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_backup_brought_back_is_skipped_if_somebody_says_so() {
    let (database, function) = (servers::postgres().await, Upstream::echo().await);
    let server = restored(&database.url, &function).await;
    is_stopped(&server, &function).await;
    assert_eq!(decide(&server, "skip"), "cancel: 1 done, 0 skipped\n");
    is_noted(&server, "skip the past").await;
    assert_eq!(server.ask_with(&Method::GET, "/ready", &[], "").await.status, 200);
    server.post("/v1/functions/orders/resume", "").await;
    assert_eq!(server.event("new", "{}").await.status, 202);
    let asked = function.heard(2).await;
    assert_eq!(asked[1].header("ce-id"), ["new"]);
    let old = server.get("/v1/why?q=old").await;
    assert_eq!(old["found"][0]["execution"]["reason"], "cancelled", "{old}");
    assert!(decide(&server, "skip").contains("forgot nothing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_backup_brought_back_is_delivered_again_if_somebody_says_so() {
    let (database, function) = (servers::postgres().await, Upstream::echo().await);
    let server = restored(&database.url, &function).await;
    is_stopped(&server, &function).await;
    assert!(decide(&server, "replay").starts_with("Goes on with what is there."));
    is_noted(&server, "replay the past").await;
    server.post("/v1/functions/orders/resume", "").await;
    let asked = function.heard(2).await;
    assert_eq!(asked[1].header("ce-id"), ["old"]);
    are_in_order(&asked);
    counts_as_gone_back(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_about_the_past_is_answered_as_the_document_says() {
    for (operation, wanted) in [("replayPast", "found"), ("skipPast", "number")] {
        let (database, function) = (servers::postgres().await, Upstream::echo().await);
        let server = restored(&database.url, &function).await;
        let answered = document::done(&server, operation, "", "").await;
        assert!(!answered[wanted].is_null(), "{answered}");
    }
}
