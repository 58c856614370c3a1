//! Ending, and beginning again.

use super::support::{Server, event, full, orders, read, told};
use crate::support::{Asked, Client, Raw, Upstream, semel, soon};
use insta::assert_snapshot;
use semel_testkit::Mount;

/// Until an execution has this status.
pub(super) async fn stands(server: &Server, id: &str, status: &str) {
    soon(status, async { while read(&server.event(id, "{}").await)["functions"][0]["status"] != status {} })
        .await;
}

/// F1: what was acknowledged is there after a kill, and is given to its function.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    let (function, gate) = Upstream::gated().await;
    let file = orders(&function, "retry = \"immediate\"\ntimeout = \"1s\"\nconcurrency = 2\n");
    let server = Server::start(tempfile::tempdir().unwrap(), &file, &[]);
    for id in 0..20 {
        assert_eq!(server.event(&format!("evt-{id}"), "{}").await.status, 202);
    }
    function.called(2).await;
    let server = server.killed(&[]);
    gate.open(10_000);
    for id in 0..20 {
        let again = server.event(&format!("evt-{id}"), "{}").await;
        assert_eq!(again.status, 200, "it is a duplicate of what was there before: {again:?}");
    }
    for id in 0..20 {
        stands(&server, &format!("evt-{id}"), "COMPLETED").await;
    }
}

/// F3: senders are told to come again, and what was acknowledged is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_nothing_more_loses_nothing_and_is_used_again_when_there_is_room() {
    let (function, directory) = (Upstream::echo().await, tempfile::tempdir().unwrap());
    let Some(mount) = Mount::memory(directory.path(), "size=124m") else { return };
    let server = Server::start(directory, &orders(&function, ""), &[]);
    let data = format!(r#"{{"text":"{}"}}"#, "x".repeat(200_000));
    let mut taken = 0;
    let refused = loop {
        let got = server.event(&format!("evt-{taken}"), &data).await;
        if got.status != 202 {
            break got;
        }
        taken += 1;
        assert!(taken < 1_000, "the disk must fill up");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    mount.change("size=168m");
    soon("room", async { while server.event(&format!("evt-{taken}"), &data).await.status != 202 {} }).await;
    for id in 0..=taken {
        let id = format!("evt-{id}");
        soon("its end", async {
            while read(&server.event(&id, &data).await)["functions"][0]["status"] != "COMPLETED" {}
        })
        .await;
    }
    assert_eq!(function.calls(), taken + 1);
    // Before the directory is removed.
    drop(mount);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_done_again_after_a_restart() {
    let function = Upstream::echo().await;
    let server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, ""), &[]);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    stands(&server, "evt-1", "COMPLETED").await;
    let server = server.killed(&[]);
    let again = server.event("evt-1", "{}").await;
    assert_eq!(read(&again)["functions"][0]["status"], "COMPLETED", "{again:?}");
    assert_eq!(function.calls(), 1);
}

/// Invariant 26.
#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_finishes_what_is_under_way() {
    let (function, gate) = Upstream::gated().await;
    let mut server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, ""), &[]);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    server.program.signal("TERM");
    assert_eq!(server.program.event("no more calls are begun: finishing those under way")["calls"], 1);
    assert_eq!(server.program.event("still finishing what is under way")["calls"], 1);
    gate.open(1);
    assert!(server.program.ended().success());
    server.program.event("stopped");
    let server = server.killed(&[]);
    let again = server.event("evt-1", "{}").await;
    assert_eq!(read(&again)["functions"][0]["status"], "COMPLETED", "{again:?}");
    assert_eq!(function.calls(), 1);
}

/// A sender whose event is not whole yet.
async fn slow(server: &Server, id: &str) -> Raw {
    let mut raw = Raw::connect(server.program.address).await;
    raw.write(format!(
        "POST /events HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nCe-Specversion: 1.0\r\nCe-Id: {id}\r\n\
         Ce-Source: /shop\r\nCe-Type: order.created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    ))
    .await;
    raw.until("100 Continue").await;
    raw
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_takes_what_is_being_sent_begins_no_call_and_says_that_it_stops() {
    let (function, gate) = Upstream::gated().await;
    let arguments = ["--admin-listen", "127.0.0.1:0"];
    let mut server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, ""), &arguments);
    let admin = server.program.admin.unwrap();
    let ready = async || Client::new().get(&format!("http://{admin}/ready")).await;
    assert_eq!(ready().await.status, 200);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    let mut slow = slow(&server, "evt-2").await;
    server.program.signal("TERM");
    let begun = server.program.event("no more calls are begun: finishing those under way");
    assert_eq!(begun["calls"], 1, "it is said while a sender is still waited for");
    slow.write("{}").await;
    let taken = slow.rest().await;
    assert!(taken.starts_with("HTTP/1.1 202 "), "{taken}");
    for _ in 0..2 {
        let ready = ready().await;
        assert_eq!(told(&ready), (503, "not-ready".to_owned()));
        assert!(ready.text().contains("Not now: it is stopping."), "{ready:?}");
    }
    gate.open(1);
    assert!(server.program.ended().success());
    server.program.event("stopped");
    assert_eq!(function.calls(), 1, "what is begun now would be cut off");
    let server = server.killed(&[]);
    gate.open(1);
    stands(&server, "evt-2", "COMPLETED").await;
    assert_eq!(function.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_cut_off_is_no_call_under_way() {
    let function = Upstream::echo().await;
    let file = orders(&function, "[server.timeouts]\nshutdown = \"300ms\"\n");
    let mut server = Server::start(tempfile::tempdir().unwrap(), &file, &[]);
    let mut slow = slow(&server, "evt-1").await;
    server.program.signal("TERM");
    server.program.event("stopped with requests under way: who sent them is to send them again");
    assert!(server.program.ended().success());
    assert!(!slow.rest().await.contains("HTTP/1.1 2"));
    assert!(!server.program.log().contains("leases lapse"), "{}", server.program.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_waits_for_so_long_and_no_longer() {
    let function = Upstream::start(async |_: Asked| std::future::pending().await).await;
    let file = orders(&function, "[server.timeouts]\nshutdown = \"300ms\"\n");
    let mut server = Server::start(tempfile::tempdir().unwrap(), &file, &[]);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    server.program.signal("INT");
    assert!(server.program.ended().success());
    let server = server.killed(&[]);
    let again = server.event("evt-1", "{}").await;
    assert_eq!(again.status, 200, "it is still there: {again:?}");
}

/// Semantics 4: one attempt, and what came of it is logged and counted.
#[tokio::test(flavor = "multi_thread")]
async fn where_retry_is_off_an_event_that_the_stop_cut_off_is_told() {
    let function = Upstream::start(async |_: Asked| std::future::pending().await).await;
    let file = orders(&function, "retry = \"off\"\n[server.timeouts]\nshutdown = \"300ms\"\n");
    let mut server = Server::start(tempfile::tempdir().unwrap(), &file, &[]);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    server.program.signal("TERM");
    let told = server.program.event("an event failed for good");
    let field = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{name}: {told}")).to_owned();
    let fields = ["function", "event_id", "source", "reason", "error"].map(field);
    let expected = ["orders", "evt-1", "/shop", "dropped", "interrupted: the runtime was stopped"];
    assert_eq!(fields, expected, "{told}");
    assert!(server.program.ended().success());
    let server = server.killed(&[]);
    let again = server.event("evt-1", "{}").await;
    assert_eq!(read(&again)["functions"][0]["status"], "FAILED", "{again:?}");
    assert_eq!(function.calls(), 1);
    let got = server.get("/metrics").await;
    let counted = got.text();
    let line = "semel_executions_failed{function=\"orders\",reason=\"dropped\"} 1\n";
    assert!(counted.contains(line), "{counted}");
}

/// F21.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_do_not_share_a_directory() {
    let function = Upstream::echo().await;
    let server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, ""), &[]);
    let ended = semel(server.directory.path(), &["serve", "--listen", "127.0.0.1:0", "--log", "off"]);
    assert_snapshot!(format!("exit code {}\n{}", ended.code.unwrap(), ended.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_ends_with_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let ended =
        semel(directory.path(), &["serve", "--listen", &address, "--log", "off", "--store", "memory:"]);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot listen there"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_alone_starts_with_its_events_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "json"]).current_dir(directory.path());
    let program = crate::support::Proxy::spawn(&mut command);
    assert!(directory.path().join("semel-data").is_dir());
    let got = Client::new().send(event(&program, "evt-1").body(full("{}")).unwrap()).await;
    assert_eq!(got.status, 422, "it has no functions yet: {got:?}");
}
