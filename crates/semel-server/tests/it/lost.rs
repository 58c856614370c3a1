//! An upstream that does not answer: what is known, what is not, and what is never done twice.

use super::support::{Client, Got, Proxy, Upstream, answer, post, soon};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use serde_json::json;
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

/// Sends until somebody answers something else than that it is in progress; says how often, and how long that took.
async fn until_settled(client: &Client, url: &str, key: &str) -> (Got, usize, Duration) {
    let since = Instant::now();
    for tries in 0.. {
        let got = client.send(post(url, key, "10")).await;
        if got.status != 409 || got.problem() != "in-progress" {
            return (got, tries, since.elapsed());
        }
        assert!(since.elapsed() < super::support::PATIENCE);
    }
    unreachable!("it tries for ever")
}

/// An upstream that reads a whole request and then does this with the connection; it counts the requests.
async fn reading(then: fn(TcpStream)) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut read = Vec::new();
                // With its body, or without one.
                while !read.ends_with(b"\r\n\r\n10") && !has_no_body(&read) {
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                counted.fetch_add(1, Ordering::SeqCst);
                then(stream);
            });
        }
    });
    (address, calls)
}

fn has_no_body(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read).to_ascii_lowercase();
    text.ends_with("\r\n\r\n") && !text.contains("content-length: 2")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_never_sent_releases_its_key() {
    // Nobody listens at a port that was just given back.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let proxy = Proxy::before(address);
    let client = Client::new();
    for _ in 0..2 {
        let got = client.send(post(&proxy.url("/"), "k", "10")).await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"));
    }
    let keyless = client.get(&proxy.url("/")).await;
    assert!(keyless.text().contains("got nothing of the request. Send it again later."), "{keyless:?}");
    // Somebody comes.
    let listener = TcpListener::bind(address).await.unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n10") {
            stream.read_buf(&mut read).await.unwrap();
        }
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await
            .unwrap();
        stream
    });
    let got = client.send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((got.status.as_u16(), got.text(), got.is_replayed()), (200, "ok", false));
    drop(serving.await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_was_lost_is_not_sent_again_while_its_lease_stands() {
    let (address, calls) = reading(drop).await;
    let proxy = Proxy::with(address, "[defaults]\nlease = \"4s\"\nwait = \"500ms\"\n");
    let client = Client::new();
    let got = client.send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "nothing is sent twice");
    let again = client.send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((again.status.as_u16(), again.problem().as_str()), (409, "in-progress"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    // The lease lapses: the next one is sent.
    let (got, tries, took) = until_settled(&client, &proxy.url("/"), "k").await;
    assert_eq!(got.problem(), "upstream");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(tries > 0 && took > Duration::from_millis(500), "{tries} tries in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_was_reset_is_not_sent_again_either() {
    let (address, calls) = reading(|stream| {
        // Closed with a reset, not with an end.
        stream.set_zero_linger().unwrap();
    })
    .await;
    let proxy = Proxy::with(address, "[defaults]\nwait = \"0s\"\n");
    let client = Client::new();
    assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "upstream");
    assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "in-progress");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_too_long_is_not_sent_again_either() {
    let upstream = Upstream::start(async |_| std::future::pending().await).await;
    let config = "[defaults]\nwait = \"0s\"\n[proxy.timeouts]\nresponse = \"300ms\"\n";
    let proxy = Proxy::with(upstream.address, config);
    let client = Client::new();
    let got = client.send(post(&proxy.url("/"), "k", "10")).await;
    assert_eq!((got.status.as_u16(), got.problem().as_str()), (504, "upstream-timeout"));
    assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "in-progress");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_can_be_reported_instead() {
    let (address, calls) = reading(drop).await;
    let proxy = Proxy::with(address, "[defaults]\nlease = \"2s\"\nwait = \"500ms\"\non_lost = \"report\"\n");
    let client = Client::new();
    assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "upstream");
    let (got, ..) = until_settled(&client, &proxy.url("/"), "k").await;
    assert_eq!((got.status.as_u16(), got.problem().as_str()), (409, "outcome-unknown"));
    assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "outcome-unknown");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// A proxy whose one request, under the key `k`, is of unknown outcome.
async fn in_doubt(address: SocketAddr, client: &Client) -> Proxy {
    let directory = tempfile::tempdir().unwrap();
    let config = "[defaults]\nlease = \"1s\"\nwait = \"500ms\"\non_lost = \"report\"\n";
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let proxy = Proxy::start(directory.path(), address, config, &arguments);
    assert_eq!(client.send(post(&proxy.url("/pay"), "k", "10")).await.problem(), "upstream");
    let (got, ..) = until_settled(client, &proxy.url("/pay"), "k").await;
    assert_eq!(got.problem(), "outcome-unknown");
    proxy
}

/// What an operator sends.
fn says(proxy: &Proxy, body: &serde_json::Value) -> http::Request<BoxBody<Bytes, Infallible>> {
    let url = format!("http://{}/.semel/resolve", proxy.admin.unwrap());
    let request = http::Request::post(url).header("content-type", "application/json");
    request.body(Full::new(Bytes::from(body.to_string())).boxed()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_found_out_that_it_did_not_happen_lets_the_next_one_be_sent() {
    let (address, calls) = reading(drop).await;
    let client = Client::new();
    let proxy = in_doubt(address, &client).await;
    let said = json!({
        "method": "POST", "host": proxy.address.to_string(), "path": "/pay", "caller": "Bearer ann", "key": "k",
        "happened": false, "by": "olga", "why": "it is not in the ledger",
    });
    let resolved = client.send(says(&proxy, &said)).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    let told: serde_json::Value = serde_json::from_slice(&resolved.body).unwrap();
    assert_eq!((&told["happened"], &told["by"]), (&json!(false), &json!("olga")));
    let log = proxy.event("a request of unknown outcome was resolved");
    assert_eq!((&log["record"], &log["by"]), (&told["record"], &json!("olga")));
    let audit = proxy.event("an operator changed a record");
    assert_eq!((&audit["change"], &audit["why"]), (&json!("resolved"), &json!("it is not in the ledger")));
    assert!(!proxy.log().contains("Bearer ann"), "{}", proxy.log());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(client.send(post(&proxy.url("/pay"), "k", "10")).await.problem(), "upstream");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it was sent again");
    assert_eq!(client.send(says(&proxy, &said)).await.problem(), "not-in-doubt");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_name_it_as_the_log_does_and_say_that_it_happened() {
    let (address, calls) = reading(drop).await;
    let client = Client::new();
    let proxy = in_doubt(address, &client).await;
    let lost = proxy.event("the upstream did not answer a request that it may have got");
    let name =
        "the outcome of a request is unknown: find out, then resolve it on the address of `--admin-listen`";
    let record = proxy.event(name)["record"].clone();
    assert_eq!(lost["record"], record);
    let said = json!({"record": record, "happened": true, "by": "olga", "why": "it is in the ledger"});
    assert_eq!(client.send(says(&proxy, &said)).await.status, 200);
    assert_eq!(client.send(post(&proxy.url("/pay"), "k", "10")).await.problem(), "response-not-retained");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(client.send(says(&proxy, &said)).await.problem(), "no-record", "it is not in doubt any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_an_operator_resolves_anything() {
    let (address, calls) = reading(drop).await;
    let client = Client::new();
    let proxy = in_doubt(address, &client).await;
    let said = json!({
        "method": "POST", "host": proxy.address.to_string(), "path": "/pay", "caller": "Bearer ann", "key": "k",
        "happened": false, "by": "eve", "why": "again",
    });
    let with = |name: &'static str, value: &'static str| {
        let mut request = says(&proxy, &said);
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    let mut outside = says(&proxy, &said);
    *outside.uri_mut() = proxy.url("/.semel/resolve").parse().unwrap();
    assert_eq!(client.send(outside).await.problem(), "not-found", "clients do not reach it");
    for (request, expected) in [
        (with("host", "evil.example"), "operator-only"),
        (with("origin", "http://evil.example"), "operator-only"),
        (with("sec-fetch-site", "cross-site"), "operator-only"),
        (with("content-type", "text/plain"), "media-type"),
        (with("content-type", "application/x-www-form-urlencoded"), "media-type"),
    ] {
        assert_eq!(client.send(request).await.problem(), expected);
    }
    let changed = |name: &str, value: serde_json::Value| {
        let mut said = said.clone();
        said[name] = value;
        says(&proxy, &said)
    };
    for (name, value, expected) in [
        ("caller", json!("Bearer bob"), "no-record"),
        ("key", json!("other"), "no-record"),
        ("path", json!("/pay2"), "no-record"),
        ("method", json!("PATCH"), "no-record"),
        ("method", json!("GET"), "bad-request"),
        ("key", json!(""), "key-invalid"),
        ("by", json!(" "), "bad-request"),
        ("why", json!("x".repeat(5_000)), "bad-request"),
        ("why", json!("x".repeat(20_000)), "request-too-large"),
        ("happened", json!("no"), "bad-request"),
        ("force", json!(true), "bad-request"),
        ("record", json!("5f1c"), "bad-request"),
    ] {
        assert_eq!(client.send(changed(name, value.clone())).await.problem(), expected, "{name} {value}");
    }
    assert_eq!(client.send(post(&proxy.url("/pay"), "k", "10")).await.problem(), "outcome-unknown");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_key_is_sent_once_too() {
    let (address, calls) = reading(drop).await;
    let proxy = Proxy::before(address);
    let mut request = post(&proxy.url("/"), "k", "10");
    request.headers_mut().remove("idempotency-key");
    let got = Client::new().send(request).await;
    assert_eq!(got.problem(), "upstream");
    assert!(got.text().contains("only if it may be done twice"), "it has no key to come again with: {got:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_still_gets_its_work_done_once() {
    let gate = super::support::Gate::closed();
    let held = gate.clone();
    let upstream = Upstream::start(move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            answer(200, "done")
        }
    })
    .await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nwait = \"1m\"\n");
    let mut raw = super::support::Raw::connect(proxy.address).await;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer ann\r\nIdempotency-Key: \"k\"\r\nContent-Length: 2\r\n\r\n10",
        proxy.address
    );
    raw.write(head).await;
    upstream.called(1).await;
    drop(raw);
    let again = tokio::spawn({
        let url = proxy.url("/");
        async move { Client::new().send(post(&url, "k", "10")).await }
    });
    gate.open(1);
    let again = soon("the answer", again).await.unwrap();
    assert_eq!((again.text(), again.is_replayed()), ("done", true));
    assert_eq!(upstream.calls(), 1);
}
