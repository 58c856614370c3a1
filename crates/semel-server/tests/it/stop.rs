//! How the proxy ends, and what it leaves behind.

use super::support::{Client, Proxy, Raw, Upstream, post, soon};
use std::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_finished() {
    for signal in ["TERM", "INT"] {
        let (upstream, gate) = Upstream::gated().await;
        let mut proxy = Proxy::before(upstream.address);
        let mut idle = Raw::connect(proxy.address).await;
        idle.write("GET /.semel/health HTTP/1.1\r\nHost: a\r\n\r\n").await;
        idle.until("\r\n\r\n").await;
        let sent = [(Client::new(), "one"), (Client::http2(), "two")].map(|(client, key)| {
            let url = proxy.url("/");
            tokio::spawn(async move { client.send(post(&url, key, "done")).await })
        });
        upstream.called(2).await;
        proxy.signal(signal);
        proxy.event("stopping: finishing what is under way");
        idle.rest().await;
        let nobody_is_accepted =
            async { while tokio::net::TcpStream::connect(proxy.address).await.is_ok() {} };
        soon("the end of accepting", nobody_is_accepted).await;
        gate.open(2);
        for sent in sent {
            assert_eq!(sent.await.unwrap().text(), "done");
        }
        assert_eq!(proxy.ended().code(), Some(0), "{}", proxy.log());
        assert!(proxy.log().contains("\"event\":\"stopped\""), "{}", proxy.log());
        assert_eq!(upstream.calls(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_ends_when_it_stops() {
    let (upstream, gate) = Upstream::gated().await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    upstream.called(1).await;
    // A connection of HTTP/2 that is open when it stops may still ask.
    let client = Client::http2();
    let waiting = tokio::spawn({
        let (client, url) = (client.clone(), proxy.url("/x"));
        async move { client.get(&url).await }
    });
    upstream.called(2).await;
    proxy.signal("TERM");
    proxy.event("stopping: finishing what is under way");
    gate.open(2);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert!(
        raw.rest().await.to_ascii_lowercase().contains("connection: close"),
        "its client is told not to come again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_while_it_stops_is_told_that_it_does() {
    let (upstream, gate) = Upstream::gated().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let mut proxy = Proxy::start(directory.path(), upstream.address, "", &arguments);
    let admin = proxy.admin.unwrap();
    let ask = async |path: &str| Client::new().get(&format!("http://{admin}/.semel/{path}")).await;
    assert_eq!(ask("ready").await.status, 200);
    let sent = tokio::spawn({
        let url = proxy.url("/");
        async move { Client::new().send(post(&url, "k", "done")).await }
    });
    upstream.called(1).await;
    proxy.signal("TERM");
    proxy.event("stopping: finishing what is under way");
    for _ in 0..2 {
        let ready = ask("ready").await;
        assert_eq!((ready.status.as_u16(), ready.text()), (503, "{\"status\":\"stopping\"}\n"));
        assert_eq!(ask("health").await.status, 200, "it lives");
    }
    gate.open(1);
    assert_eq!(sent.await.unwrap().text(), "done");
    assert_eq!(proxy.ended().code(), Some(0), "{}", proxy.log());
}

/// Takes the table away from a proxy whose records are in this file.
#[cfg(all(feature = "postgres", feature = "sqlite"))]
async fn without_table(file: &std::path::Path) {
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let tables: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert!(!tables.is_empty());
    for (table,) in tables {
        sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE {table}"))).execute(&pool).await.unwrap();
    }
}

#[cfg(all(feature = "postgres", feature = "sqlite"))]
#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_does_not_answer_it_is_not_ready_and_sends_nothing() {
    let upstream = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(directory.path(), upstream.address, "", &["--store", "sqlite://records.db"]);
    let client = Client::new();
    assert_eq!(client.send(post(&proxy.url("/"), "one", "10")).await.status, 200);
    without_table(&directory.path().join("records.db")).await;
    let got = client.send(post(&proxy.url("/"), "two", "10")).await;
    assert_eq!((got.status.as_u16(), got.problem().as_str()), (503, "store"));
    assert_eq!(got.header("retry-after"), Some("5"));
    let ready = client.get(&proxy.url("/.semel/ready")).await;
    let expected = "{\"status\":\"the store does not answer\"}\n";
    assert_eq!((ready.status.as_u16(), ready.text()), (503, expected));
    assert_eq!(client.get(&proxy.url("/.semel/health")).await.status, 200);
    assert_eq!(client.get(&proxy.url("/")).await.status, 200, "what has no key needs no store");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_not_waited_for() {
    let (upstream, _gate) = Upstream::gated().await;
    let mut proxy = Proxy::with(upstream.address, "[proxy.timeouts]\nshutdown = \"300ms\"\n");
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    upstream.called(1).await;
    proxy.signal("TERM");
    assert_eq!(proxy.ended().code(), Some(0));
    assert!(proxy.log().contains("stopped with requests under way"), "{}", proxy.log());
    assert!(!raw.rest().await.contains("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let (upstream, _gate) = Upstream::gated().await;
    let mut proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    upstream.called(1).await;
    proxy.signal("TERM");
    proxy.event("stopping: finishing what is under way");
    proxy.signal("INT");
    assert_eq!(proxy.ended().code(), Some(130));
}

/// For a proxy that is called by its address, and has another port each time.
const ANYWHERE: &str = "[defaults]\nper_host = false\n";

#[tokio::test(flavor = "multi_thread")]
async fn work_whose_client_has_gone_is_recorded_before_it_ends() {
    let (upstream, gate) = Upstream::gated().await;
    let directory = tempfile::tempdir().unwrap();
    let mut proxy = Proxy::start(directory.path(), upstream.address, ANYWHERE, &[]);
    let mut raw = Raw::connect(proxy.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\nIdempotency-Key: \"k\"\r\nContent-Length: 2\r\n\r\n10";
    raw.write(head).await;
    upstream.called(1).await;
    drop(raw);
    proxy.signal("TERM");
    proxy.event("stopping: finishing what is under way");
    gate.open(1);
    assert_eq!(proxy.ended().code(), Some(0), "{}", proxy.log());
    let proxy = Proxy::start(directory.path(), upstream.address, ANYWHERE, &[]);
    let again = Client::new().send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((again.text(), again.is_replayed(), upstream.calls()), ("10", true, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_replayed_after_a_kill() {
    let (upstream, gate) = Upstream::gated().await;
    gate.open(1);
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(directory.path(), upstream.address, ANYWHERE, &[]);
    assert_eq!(Client::new().send(post(&proxy.url("/"), "k", "10")).await.text(), "10");
    proxy.kill();
    let proxy = Proxy::start(directory.path(), upstream.address, ANYWHERE, &[]);
    let again = Client::new().send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((again.text(), again.is_replayed(), upstream.calls()), ("10", true, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_under_way_at_a_kill_is_not_sent_again_within_its_lease() {
    let (upstream, gate) = Upstream::gated().await;
    let directory = tempfile::tempdir().unwrap();
    let config = format!("{ANYWHERE}lease = \"6s\"\nwait = \"500ms\"\n");
    let proxy = Proxy::start(directory.path(), upstream.address, &config, &[]);
    let began = Instant::now();
    let mut raw = Raw::connect(proxy.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\nIdempotency-Key: \"k\"\r\nContent-Length: 2\r\n\r\n10";
    raw.write(head).await;
    upstream.called(1).await;
    // Between the upstream's call and its answer.
    proxy.kill();
    gate.open(10);
    let proxy = Proxy::start(directory.path(), upstream.address, &config, &[]);
    let client = Client::new();
    let mut refused = 0;
    let settled = soon("the end of the lease", async {
        loop {
            let got = client.send(post(&proxy.url("/"), "k", "10")).await;
            if got.status != 409 {
                return got;
            }
            assert_eq!(got.problem(), "in-progress");
            assert_eq!(upstream.calls(), 1, "within its lease nothing is sent again");
            refused += 1;
        }
    })
    .await;
    assert!(refused > 0, "the lease was over before anybody asked");
    assert!(
        began.elapsed() >= std::time::Duration::from_secs(6),
        "the lease stands for as long as it was given"
    );
    assert_eq!((settled.status.as_u16(), settled.text(), settled.is_replayed()), (200, "10", false));
    assert_eq!(upstream.calls(), 2);
    assert!(client.send(post(&proxy.url("/"), "k", "10")).await.is_replayed());
    assert_eq!(upstream.calls(), 2);
}
