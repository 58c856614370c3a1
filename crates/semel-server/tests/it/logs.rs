//! What is written, and what never is.

use super::support::{Client, Proxy, Raw, Upstream, answer, exchange, post};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_one_line() {
    let upstream = Upstream::start(async |_| answer(201, "four")).await;
    let proxy = Proxy::with(upstream.address, "[[route]]\npath = \"/payments/{id}\"\n");
    let client = Client::new();
    client.send(post(&proxy.url("/payments/7?token=x"), "k", "10")).await;
    client.send(post(&proxy.url("/payments/7?token=x"), "k", "10")).await;
    client.send(post(&proxy.url("/payments/7?token=x"), "k", "11")).await;
    client.get(&proxy.url("/other")).await;
    let lines = proxy.events("request", 4);
    assert_eq!(lines.len(), 4);
    let seen = |n: usize| {
        let line = &lines[n];
        let number = |name: &str| line[name].as_u64().unwrap();
        assert!(line["ms"].as_f64().unwrap() > 0.0 && line["peer"] == "127.0.0.1", "{line}");
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let (method, path, route, how) = (text("method"), text("path"), text("route"), text("idempotency"));
        (format!("{method} {path} {route} {how}"), number("status"), number("received"), number("sent"))
    };
    assert_eq!(seen(0), ("POST /payments/7 /payments/{id} fresh".to_owned(), 201, 2, 4));
    assert_eq!(seen(1), ("POST /payments/7 /payments/{id} replayed".to_owned(), 201, 2, 4));
    let (what, status, ..) = seen(2);
    assert_eq!((what.as_str(), status), ("POST /payments/7 /payments/{id} refused", 422));
    assert_eq!(seen(3), ("GET /other - -".to_owned(), 201, 0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_before_its_answer_is_a_line_too() {
    let (upstream, _gate) = Upstream::gated().await;
    let proxy = Proxy::with(upstream.address, "[[route]]\npath = \"/slow\"\n");
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    upstream.called(1).await;
    drop(raw);
    let line = proxy.event("request");
    assert_eq!((&line["path"], &line["route"]), (&json!("/slow"), &json!("/slow")));
    assert_eq!((&line["aborted"], line.get("status")), (&json!(true), None), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_before_it_is_a_request_is_a_line_too() {
    let upstream = Upstream::echo().await;
    let config = "[proxy.limits]\nuri_bytes_max = \"1KiB\"\n[proxy.timeouts]\nhead = \"100ms\"\n";
    let proxy = Proxy::with(upstream.address, config);
    let long = "a".repeat(1_025);
    for (sent, status, slug) in [
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), 400, "bad-request"),
        ("GET / HTTP/1.1\r\nHost:".to_owned(), 408, "request-timeout"),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "uri-too-long"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(100)), 431, "headers-too-large"),
    ] {
        let before = proxy.log().matches("request refused").count();
        exchange(proxy.address, sent).await;
        let lines = proxy.events("request refused", before + 1);
        let line = &lines[before];
        assert_eq!((&line["status"], &line["problem"]), (&json!(status), &json!(slug)), "{line}");
        assert_eq!(line["peer"], "127.0.0.1");
    }
    Client::http2().get(&proxy.url(&format!("/{long}"))).await;
    assert_eq!(proxy.events("request refused", 5)[4]["status"], 414);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_written() {
    const CANARY: &str = "c4n4ry";
    let upstream = Upstream::start(async |_| {
        let mut answer = answer(200, format!("{CANARY}-response"));
        answer.headers_mut().insert("set-cookie", format!("session={CANARY}").parse().unwrap());
        answer
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}?table=records", directory.path().join("records.db").display());
    let config = "[defaults]\nlease = \"1s\"\nwait = \"0s\"\n[proxy.timeouts]\nresponse = \"10s\"\n";
    let proxy = Proxy::start(directory.path(), upstream.address, config, &["--store", &store]);
    let client = Client::new();
    let send = async |body: &str| {
        let url = proxy.url(&format!("/pay?token={CANARY}-query"));
        let mut request = post(&url, &format!("{CANARY}-key"), body.to_owned());
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {CANARY}-token").parse().unwrap());
        headers.insert("cookie", format!("{CANARY}=cookie").parse().unwrap());
        headers.insert("x-api-key", format!("{CANARY}-header").parse().unwrap());
        client.send(request).await
    };
    send(&format!("{CANARY}-body")).await;
    send(&format!("{CANARY}-body")).await;
    assert_eq!(send("other").await.problem(), "mismatch");
    let refused = format!("GET /?{CANARY} HTTP/1.1\r\nHost: {CANARY}\r\nX: {CANARY}\n\r\n");
    let answered = exchange(proxy.address, refused).await;
    assert!(!answered.contains(CANARY), "nothing is echoed: {answered}");
    let no_host = format!("GET /{CANARY} HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(!exchange(proxy.address, no_host).await.contains(CANARY));
    proxy.events("request", 4);
    let log = proxy.log();
    let log = log.replace(&format!("\"path\":\"/{CANARY}\""), "");
    assert!(!log.contains(CANARY), "{log}");
    assert!(log.contains("call refused"), "what the library says is there, without its key: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_can_forge_a_line() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    let path = "/%0a%7b%22event%22:%22forged%22%7d\"x'\u{fc}%1b%5b2J";
    let got =
        exchange(proxy.address, format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
    assert!(got.starts_with("HTTP/1.1 "), "{got}");
    client
        .send(Request::builder().method("FORGED").uri(proxy.url("/")).body(Full::default().boxed()).unwrap())
        .await;
    let events = proxy.events("request", 1);
    assert!(events.iter().all(|it| it["event"] == "request"));
    for line in proxy.log().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        assert!(!line.contains('\u{1b}'));
    }
}
