//! F3: a disk that is full under a server that has something to finish.

use super::support::{Server, command, full, told};
use crate::support::{Proxy, Upstream, semel, soon};
use http::{Method, Request};
use semel_testkit::Mount;
use serde_json::Value;
use std::{fs, io::Write as _, path::Path};
use tempfile::TempDir;

const HELD: usize = 300;

/// A file with a function that is called for many events at once, and one for events that only take room.
fn functions(orders: &Upstream) -> String {
    let function = |name: &str, of: &str| {
        format!(
            "[[function]]\nname = \"{name}\"\nurl = \"http://{}/\"\nconcurrency = {HELD}\ntimeout = \"60s\"\n\
             filter = {{ type = \"{of}\" }}\n",
            orders.address
        )
    };
    function("orders", "order.created") + &function("bulk", "bulk")
}

/// Takes what is left of the disk.
fn fill(file: &Path) {
    let mut file = fs::File::create(file).unwrap();
    let zeros = vec![0; 64 << 10];
    while file.write_all(&zeros).is_ok() {}
    while file.write_all(&[0]).is_ok() {}
}

async fn bulk(server: &Server, number: usize) -> crate::support::Got {
    let request = Request::post(server.program.url("/events"))
        .header("ce-specversion", "1.0")
        .header("ce-id", format!("bulk-{number}"))
        .header("ce-source", "/shop")
        .header("ce-type", "bulk")
        .header("content-type", "text/plain");
    crate::support::Client::new().send(request.body(full("x".repeat(400_000))).unwrap()).await
}

/// How many executions of a function have completed, when these are so many.
async fn completed(server: &Server, function: &str, count: usize) {
    let is_so = |it: &Value| {
        let mut lines = it["functions"].as_array().unwrap().iter();
        let line = lines.find(|it| it["function"] == function);
        line.is_some_and(|it| it["ledger"]["completed"].as_u64() == Some(count as u64))
    };
    server.when("/v1/ledger", is_so).await;
}

/// Whether everything says that nothing new is taken, and how a sender is told.
async fn says_that_it_is_full(server: &Server) {
    let refused = server.event("one-more", "{}").await;
    assert_eq!(told(&refused), (503, "store".to_owned()), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let ready = server.ask_with(&Method::GET, "/ready", &[], "").await;
    assert_eq!(told(&ready), (503, "not-ready".to_owned()));
    assert!(ready.text().contains("Not now: the store has no room for new events."), "{ready:?}");
    let store = &server.get("/v1/server").await["store"];
    assert!(store["refuses"].is_string(), "{store}");
    let metrics = server.ask_with(&Method::GET, "/metrics", &[], "").await;
    assert!(metrics.text().contains("\nsemel_store_full 1\n"), "{}", metrics.text());
    let doctor = semel(server.directory.path(), &["doctor", "--server", &server.program.url("")]);
    assert!(doctor.stdout.contains("no new events are taken: "), "{}{}", doctor.stdout, doctor.stderr);
    assert_eq!(doctor.code, Some(1));
}

/// Purging tells what it did, and is on record.
async fn can_be_purged(server: &Server) {
    let purged = server.post("/v1/purge", "").await;
    assert_eq!(purged["purged"], 0, "{purged}");
    assert_eq!(server.last_audit().await.1, "purge");
}

/// Invariant 33: it is on a full disk that operators act.
#[tokio::test(flavor = "multi_thread")]
async fn f3_where_nothing_new_is_taken_operators_pause_cancel_and_purge_and_it_is_on_record() {
    let (function, _gate) = Upstream::gated().await;
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::memory(directory.path(), "size=240m") else { return };
    let server = Server::start(directory, &functions(&function), &[]);
    let filler = server.directory.path().join("filler");
    fill(&filler);
    let mut taken = 0;
    while bulk(&server, taken).await.status == 202 {
        taken += 1;
        assert!(taken < 1_000, "the disk must be full");
    }
    fill(&filler.with_extension("more"));
    says_that_it_is_full(&server).await;
    server.post("/v1/functions/orders/pause", "").await;
    assert_eq!(server.last_audit().await.1, "pause");
    let cancel = r#"{"action": "cancel", "filter": {"function": "orders"}}"#;
    let job = server.post("/v1/bulk", cancel).await["number"].clone();
    server
        .when("/v1/jobs", |it| it["jobs"][0]["number"] == job && it["jobs"][0]["state"] == "finished")
        .await;
    can_be_purged(&server).await;
    says_that_it_is_full(&server).await;
    let entries = server.get("/v1/audit").await["entries"].as_array().unwrap().clone();
    let whats: Vec<_> = entries.iter().rev().map(|it| it["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["pause", "job", "end of job", "purge"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_what_was_accepted_is_finished_on_a_full_disk_and_events_are_taken_again_when_there_is_room() {
    let (function, gate) = Upstream::gated().await;
    let directory = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::memory(directory.path(), "size=240m") else { return };
    let server = Server::start(directory, &functions(&function), &[]);
    let filler = server.directory.path().join("filler");
    server.post("/v1/functions/bulk/pause", "").await;
    // What is written of their ends is more than is left of the journal's file: it needs the reserve.
    let data = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    for number in 0..HELD {
        let got = server.event(&format!("evt-{number}"), &data).await;
        assert_eq!(got.status, 202, "{got:?}");
    }
    function.called(HELD).await;
    fill(&filler);
    // What was made ahead is still used.
    let mut taken = 0;
    while bulk(&server, taken).await.status == 202 {
        taken += 1;
        assert!(taken < 1_000, "the disk must be full");
    }
    fill(&filler.with_extension("more"));
    says_that_it_is_full(&server).await;
    can_be_purged(&server).await;

    gate.open(HELD);
    completed(&server, "orders", HELD).await;

    let server = server.killed(&[]);
    completed(&server, "orders", HELD).await;
    says_that_it_is_full(&server).await;
    assert_eq!(function.calls(), HELD, "nothing that was finished is called again");

    fs::remove_file(&filler).unwrap();
    fs::remove_file(filler.with_extension("more")).unwrap();
    gate.open(1);
    soon("room", async { while server.event("one-more", "{}").await.status != 202 {} }).await;
    completed(&server, "orders", HELD + 1).await;
    gate.open(taken);
    server.post("/v1/functions/bulk/resume", "").await;
    completed(&server, "bulk", taken).await;
    assert_eq!(server.ask_with(&Method::GET, "/ready", &[], "").await.status, 200);
    drop(mount);
}

/// A server in this directory, with limits that a shell sets.
fn limited(directory: TempDir, limits: &str) -> Server {
    let typed = command(directory.path(), &[]);
    let words: Vec<_> = typed.get_args().map(|it| it.to_str().unwrap()).collect();
    let line = format!("{limits}; exec {} {}", typed.get_program().to_str().unwrap(), words.join(" "));
    let program =
        Proxy::spawn(std::process::Command::new("sh").args(["-c", &line]).current_dir(directory.path()));
    Server::of(directory, program)
}

/// F19: accepting pauses, what is under way is finished, deliveries are no attempts until they can be made.
#[tokio::test(flavor = "multi_thread")]
async fn f19_out_of_descriptors_nothing_is_lost_and_no_attempt_is_used_up() {
    let ((held, gate), function) = (Upstream::gated().await, Upstream::echo().await);
    let directory = tempfile::tempdir().unwrap();
    // Retry is off: one attempt is all that there is.
    let file = format!(
        "[[function]]\nname = \"held\"\nurl = \"http://{}/\"\nfilter = {{ type = \"bulk\" }}\n\
         [[function]]\nname = \"orders\"\nurl = \"http://{}/\"\nfilter = {{ type = \"order.created\" }}\n",
        held.address, function.address
    );
    fs::write(directory.path().join("semel.toml"), file).unwrap();
    let server = limited(directory, "ulimit -n 64");
    assert_eq!(bulk(&server, 0).await.status, 202);
    held.called(1).await;
    // The store opens no more files, which would take descriptors and give them back: the reserve is whole, and the file after
    // the one that took the place of the short first one is made.
    let made = ["reserve-0000000003.tmp", "journal-0000000003.log"];
    let queue = server.directory.path().join("semel-data/queue");
    let is_made = || made.iter().all(|it| fs::metadata(queue.join(it)).is_ok_and(|it| it.len() == 16 << 20));
    soon("what is made ahead", async {
        while !is_made() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // From here on, this client has a connection.
    assert_eq!(server.ask_with(&Method::GET, "/health", &[], "").await.status, 200);

    let mut crowd = Vec::new();
    for _ in 0..128 {
        crowd.push(crate::support::Raw::connect(server.program.address).await);
    }
    server.program.event("cannot accept connections; trying again");
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    server.program.event("deliveries wait, and were no attempts: raise what this process may open");
    gate.open(1);
    completed(&server, "held", 1).await;
    assert_eq!(function.calls(), 0, "there is nothing to call it with");

    drop(crowd);
    completed(&server, "orders", 1).await;
    assert_eq!((function.calls(), function.only().header("semel-attempt")), (1, vec!["1"]));
    let why = server.why_when("evt-1", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(why["history"].as_array().map(Vec::len), Some(1), "{why}");
    // The store may have found no descriptor for its next file, and looks again before it takes new events.
    soon("room", async { while server.event("evt-2", "{}").await.status != 202 {} }).await;
    completed(&server, "orders", 2).await;
    assert!(!server.program.log().contains("panicked"), "{}", server.program.log());
}

/// F19: a soft limit is none: the server has as many descriptors as the system allows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_soft_limit_of_descriptors_does_not_count() {
    let (function, directory) = (Upstream::echo().await, tempfile::tempdir().unwrap());
    let file = format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\n", function.address);
    fs::write(directory.path().join("semel.toml"), file).unwrap();
    let server = limited(directory, "ulimit -Sn 64; ulimit -Hn 1000");
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.program.id())).unwrap();
    let line = limits.lines().find(|it| it.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().skip(3).collect::<Vec<_>>(), ["1000", "1000", "files"]);
}
