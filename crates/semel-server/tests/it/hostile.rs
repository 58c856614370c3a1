//! Clients that try something.

use super::support::{Client, Proxy, Raw, Upstream, answer, exchange, pieces, post, slow_and_another, soon};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends these bytes, and demands that they are refused with this status and the connection closed, unforwarded.
async fn refused(proxy: &Proxy, upstream: &Upstream, bytes: &str, status: u16, problem: &str) {
    let before = upstream.calls();
    let got = exchange(proxy.address, bytes).await;
    let shown = &bytes[..bytes.len().min(200)];
    assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {got}");
    assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {got}");
    assert!(got.contains("application/problem+json") && got.contains(problem), "{shown:?}: {got}");
    assert_eq!(upstream.calls(), before, "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_read_in_two_ways() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 0\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 5, 0\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: a\r\n Transfer-Encoding: chunked\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n",
        "X: a\r\n\tfolded\r\n",
        "X: a\0b\r\n",
        "X : a\r\n",
        "Host: b\r\n",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n{chunked}");
        refused(&proxy, &upstream, &bytes, 400, "bad_request").await;
    }
    for head in [
        "POST / HTTP/1.1\nHost: a\n\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\n\n".to_owned(),
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: u:p@a\r\nConnection: close\r\n\r\n".to_owned(),
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(),
        "GET /<> HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\r\n\r\n".to_owned(),
    ] {
        refused(&proxy, &upstream, &format!("{head}{chunked}"), 400, "bad_request").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_is_inspected_like_the_first() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    for first in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na\nb",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n",
    ] {
        let before = upstream.calls();
        let mut raw = Raw::connect(proxy.address).await;
        raw.write(first).await;
        assert!(raw.until("a\nb").await.starts_with("HTTP/1.1 200 OK\r\n"));
        raw.write("GET / HTTP/1.1\nHost: a\r\n\r\n").await;
        let got = raw.rest().await;
        assert!(got.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{got}");
        assert_eq!(upstream.calls(), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_follow_each_other_at_once_are_all_answered() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let mut bytes = String::new();
    for n in 0..5 {
        write!(bytes, "POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n{n}").unwrap();
    }
    bytes.push_str("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got = exchange(proxy.address, bytes).await;
    assert_eq!(got.matches("HTTP/1.1 200 OK").count(), 6, "{got}");
    let paths: Vec<_> = upstream.asked().iter().map(|it| it.uri.path().to_owned()).collect();
    assert_eq!(paths, ["/0", "/1", "/2", "/3", "/4", "/"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_limited() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let uri = format!("/{}", "a".repeat(8 * 1024));
    refused(&proxy, &upstream, &format!("GET {uri} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "uri_too_long").await;
    refused(&proxy, &upstream, &format!("GET {uri}{uri}"), 414, "uri_too_long").await;
    let large = format!("X: {}\r\n", "a".repeat(64 * 1024));
    refused(
        &proxy,
        &upstream,
        &format!("GET / HTTP/1.1\r\nHost: a\r\n{large}\r\n"),
        431,
        "headers_too_large",
    )
    .await;
    let many = "X: a\r\n".repeat(100);
    refused(&proxy, &upstream, &format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, "headers_too_large")
        .await;
    let just = format!(
        "GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}\r\n",
        &uri[..8 * 1024],
        "X: a\r\n".repeat(90)
    );
    assert!(exchange(proxy.address, just).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_of_http2_are_limited_too() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nheaders_max = 20\nuri_bytes_max = \"1KiB\"\n");
    let client = Client::http2();
    let send = async |path: String, name: &'static str, count: usize| {
        let mut request = Request::get(proxy.url(&path));
        for n in 0..count {
            request = request.header(name, format!("a={n}"));
        }
        client.send(request.body(Full::default().boxed()).unwrap()).await
    };
    let long = send(format!("/{}", "a".repeat(1024)), "x", 1).await;
    assert_eq!((long.status.as_u16(), long.problem().as_str()), (414, "uri-too-long"));
    let many = send("/".to_owned(), "x", 21).await;
    assert_eq!((many.status.as_u16(), many.problem().as_str()), (431, "headers-too-large"));
    assert_eq!(upstream.calls(), 0);
    assert_eq!(send(format!("/{}", "a".repeat(1023)), "x", 15).await.status, 200);
    assert_eq!(send("/".to_owned(), "cookie", 50).await.status, 200, "a cookie in many pieces is one header");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_limited() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nbody_bytes_max = \"1KiB\"\n");
    for client in [Client::new(), Client::http2()] {
        let send = async |body| client.send(Request::post(proxy.url("/")).body(body).unwrap()).await;
        assert_eq!(send(Full::new(Bytes::from(vec![0; 1024])).boxed()).await.status, 200);
        let before = upstream.calls();
        let announced = send(Full::new(Bytes::from(vec![0; 1025])).boxed()).await;
        assert_eq!((announced.status.as_u16(), announced.problem().as_str()), (413, "request-too-large"));
        assert_eq!(upstream.calls(), before, "what is too large by its own word is not forwarded");
        let cut = pieces(vec![Bytes::from(vec![0; 1024]), Bytes::from_static(b"x")], None);
        let found = send(cut).await;
        assert_eq!((found.status.as_u16(), found.problem().as_str()), (413, "request-too-large"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_of_one_address_leave_room_for_others() {
    let upstream = Upstream::echo().await;
    let config = "[proxy.limits]\nbuffer_bytes_max = \"128KiB\"\n[proxy.timeouts]\nbody_grace = \"1m\"\n\
                  [defaults]\nrequest_bytes_max = \"64KiB\"\n";
    let proxy = Proxy::with(upstream.address, config);
    let head = |key: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\nIdempotency-Key: {key}\r\n\
             Expect: 100-continue\r\nConnection: close\r\nContent-Length: 65536\r\n\r\n"
        )
    };
    let (_slow, mut other) = slow_and_another(proxy.address, head).await;
    other.write(vec![b'x'; 65_536]).await;
    assert!(other.rest().await.contains("HTTP/1.1 200 OK"));
    let since = Instant::now();
    let mut wrong = Raw::connect(proxy.address).await;
    wrong.write(head("\"no end")).await;
    let refused = wrong.until("\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(since.elapsed() < Duration::from_secs(10), "what is refused by its head waits for no room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_why_it_was_refused_while_it_still_sends() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nbody_bytes_max = \"1KiB\"\n");
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n").await;
    raw.write(vec![b'x'; 400_000]).await;
    let got = raw.rest().await;
    assert!(
        got.starts_with("HTTP/1.1 413 ") && got.contains("request_too_large") && !got.contains("(reset)"),
        "{got}"
    );
}

const HASTY: &str = "[proxy.timeouts]\nfirst_byte = \"200ms\"\nhead = \"300ms\"\nidle = \"400ms\"\nbody_grace = \"300ms\"\nwrite = \"500ms\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_is_sent_away() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, HASTY);
    assert_eq!(exchange(proxy.address, "").await, "");
    // Neither does it help to begin like HTTP/2.
    assert_eq!(exchange(proxy.address, "PRI * HTTP/2.0\r\n").await, "");
    let after_preface =
        exchange(proxy.address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0").await;
    assert!(!after_preface.contains("HTTP/1.1"), "the connection ends, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, HASTY);
    let got = exchange(proxy.address, "GET / HTTP/1.1\r\nHost: a\r\nX: ").await;
    assert!(got.starts_with("HTTP/1.1 408 Request Timeout\r\n") && got.contains("request_timeout"), "{got}");
    // Nor if it grows, byte by byte.
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\n").await;
    let (mut reader, mut writer) = raw.0.split();
    let dribble = async {
        loop {
            if writer.write_all(b"a").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut read = Vec::new();
    let ended = async {
        // It may be reset while it still sends.
        let _ = reader.read_to_end(&mut read).await;
    };
    soon("the end", async {
        tokio::select! {
            () = dribble => {}
            () = ended => {}
        }
    })
    .await;
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_http2_that_does_not_end_is_not_waited_for_either() {
    let upstream = Upstream::echo().await;
    // Nobody is sent away for being silent.
    let proxy = Proxy::with(upstream.address, "[proxy.timeouts]\nhead = \"300ms\"\nidle = \"1h\"\n");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // A head that says that it goes on.
    let begun = [0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82];
    for sent in [preface.to_vec(), [&preface[..], &begun].concat()] {
        let got = exchange(proxy.address, sent).await;
        assert!(!got.contains("HTTP/1.1"), "{got}");
    }
    assert_eq!(upstream.calls(), 0);
    let client = Client::http2();
    assert_eq!(client.get(&proxy.url("/")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_nothing_to_do_ends() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, HASTY);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let got = raw.rest().await;
    assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.matches("HTTP/1.1").count() == 1, "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_too_slowly_is_not_waited_for() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, HASTY);
    let key = "Authorization: Bearer ann\r\nIdempotency-Key: \"k\"\r\n";
    for headers in ["", key] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}Content-Length: 100\r\n\r\nabc");
        let got = exchange(proxy.address, request).await;
        assert!(
            got.starts_with("HTTP/1.1 408 Request Timeout\r\n") && got.contains("request_timeout"),
            "{got}"
        );
    }
    // Who is slow with a key has asked for nothing: the same key is free.
    assert_eq!(Client::new().send(post(&proxy.url("/"), "k", "abc")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_not_waited_for() {
    let upstream = Upstream::start(async |_| answer(200, vec![b'x'; 50_000_000])).await;
    let proxy = Proxy::with(upstream.address, HASTY);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let logged = &proxy.events("request", 1)[0];
    assert_eq!(logged["aborted"], true, "{logged}");
    drop(raw);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nconnections_per_ip_max = 2\n");
    let mut first = Raw::connect(proxy.address).await;
    let mut second = Raw::connect(proxy.address).await;
    for raw in [&mut first, &mut second] {
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        raw.until("\r\n\r\n").await;
    }
    let third = exchange(proxy.address, "").await;
    assert!(third.is_empty() || third == "(reset)", "{third}");
    drop(first);
    let got = async {
        loop {
            let got = exchange(proxy.address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            if got.starts_with("HTTP/1.1 200 OK") {
                return;
            }
        }
    };
    soon("a place", got).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_places_are_taken_the_next_one_waits() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nconnections_max = 1\n");
    let mut first = Raw::connect(proxy.address).await;
    first.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    first.until("\r\n\r\n").await;
    let mut second = Raw::connect(proxy.address).await;
    second.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    // The first one is still served.
    first.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    first.until("\r\n\r\n").await;
    assert_eq!(upstream.calls(), 2, "the second one waits");
    drop(first);
    assert!(second.rest().await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn running_out_of_descriptors_ends_nothing() {
    let upstream = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), "").unwrap();
    let program = env!("CARGO_BIN_EXE_semel");
    let line = format!(
        "ulimit -n 40; exec {program} proxy --upstream http://{} --listen 127.0.0.1:0 --store memory: --log json",
        upstream.address
    );
    let mut command = std::process::Command::new("sh");
    let proxy = Proxy::spawn(command.args(["-c", &line]).current_dir(directory.path()));
    let crowd: Vec<_> = futures(60, || Raw::connect(proxy.address)).await;
    proxy.event("cannot accept connections; trying again");
    drop(crowd);
    let got = async {
        loop {
            let got = exchange(proxy.address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            if got.starts_with("HTTP/1.1 200 OK") {
                return;
            }
        }
    };
    soon("an answer", got).await;
}

async fn futures<F: Future>(count: usize, make: impl Fn() -> F) -> Vec<F::Output> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(make().await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_opened_and_taken_back_end_their_connection() {
    let upstream = Upstream::start(async |_| std::future::pending().await).await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // GET / by index and literals: `:method GET`, `:scheme http`, `:path /`, `:authority a`.
    let headers = [0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
    for n in 0..2_000_u32 {
        let id = (2 * n + 1).to_be_bytes();
        bytes.extend([0, 0, headers.len() as u8, 1, 5]);
        bytes.extend(id);
        bytes.extend(headers);
        bytes.extend([0, 0, 4, 3, 0]);
        bytes.extend(id);
        bytes.extend([0, 0, 0, 8]);
    }
    // It may be closed before everything is written.
    let _ = raw.0.write_all(&bytes).await;
    raw.rest().await;
    assert_eq!(Client::new().get(&proxy.url("/.semel/health")).await.status, 200, "and nothing else");
}
