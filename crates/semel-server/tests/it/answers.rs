//! Upstreams that try something, or do not know better; and what of an answer is passed on, kept and given again.

use super::support::{Asked, Client, Proxy, Upstream, answer, bytes, exchange, json, pieces, post};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderName, Request};
use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// An upstream that answers a request for `/n` with the nth of these, byte for byte, and ends the connection; it counts the
/// requests. Each has the body `10`.
async fn saying(answers: Vec<Vec<u8>>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (calls, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(answers));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (counted, answers) = (Arc::clone(&counted), Arc::clone(&answers));
            tokio::spawn(async move {
                let mut read = Vec::new();
                while !read.ends_with(b"\r\n\r\n10") {
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let text = String::from_utf8_lossy(&read).into_owned();
                let n: usize = text.split(' ').nth(1).unwrap()[1..].parse().unwrap();
                // The proxy may have seen enough before everything is written.
                let _ = stream.write_all(&answers[n]).await;
            });
        }
    });
    (address, calls)
}

/// An answer with these lines in its head, and this behind it.
fn whole(lines: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 201 Created\r\nX-Evil: 1\r\n{lines}\r\n{body}").into_bytes()
}

/// Those that have no way, or more than one, to be read.
fn bad_answers() -> Vec<Vec<u8>> {
    let chunked = "2\r\nok\r\n0\r\n\r\n";
    let mut all: Vec<_> = [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    ]
    .map(|it| whole(it, chunked))
    .into();
    all.extend(
        [
            "Content-Length: 2\r\nContent-Length: 3\r\n",
            "Content-Length: 2\r\nContent-Length: 2\r\n",
            "Content-Length: 2, 2\r\n",
            "Content-Length: 2, 3\r\n",
            "Content-Length: +2\r\n",
            "Content-Length: 0x2\r\n",
            "Content-Length: \r\n",
            "Content-Length: 2\r\nX: a\0b\r\n",
            "Content-Length: 2\r\nX: a\rb\r\n",
            "Content-Length: 2\r\nX: a\rSet-Cookie: evil=1\r\n",
            "Content-Length: 2\r\nX: a\r\n folded\r\n",
            "Content-Length: 2\r\nX: a\r\n\tfolded\r\n",
            "Content-Length: 2\r\nX : a\r\n",
            "Content-Length: 2\r\nno colon\r\n",
            "Content-Length: 2\r\n: nameless\r\n",
        ]
        .map(|it| whole(it, "ok")),
    );
    all.push(whole(&format!("Content-Length: 2\r\nX: {}\r\n", "a".repeat(1_000_000)), "ok"));
    all.push(whole(&format!("Content-Length: 2\r\n{}", "X: a\r\n".repeat(200)), "ok"));
    for first in
        ["HTTP/1.1 2000 OK", "HTTP/1.1 20 OK", "HTTP/3.7 200 OK", "ICY 200 OK", "200 OK", "\u{16}\u{3}\u{1}"]
    {
        all.push(format!("{first}\r\nContent-Length: 2\r\n\r\nok").into_bytes());
    }
    all.push(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_vec());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_be_read_in_two_ways_or_in_none_is_neither_passed_on_nor_kept() {
    let bad = bad_answers();
    let count = bad.len();
    let (upstream, calls) = saying(bad.clone()).await;
    let proxy = Proxy::with(upstream, "[defaults]\nwait = \"0s\"\n");
    let client = Client::new();
    for (n, bad) in bad.iter().enumerate() {
        let shown = String::from_utf8_lossy(&bad[..bad.len().min(200)]).into_owned();
        let url = proxy.url(&format!("/{n}"));
        let got = client.send(post(&url, "k", "10")).await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"), "{shown:?}");
        assert_eq!(got.header("x-evil"), None, "{shown:?}");
        // It may have been carried out: nothing is kept, and nothing is sent again while its lease stands.
        let again = client.send(post(&url, "k", "10")).await;
        assert_eq!((again.status.as_u16(), again.problem().as_str()), (409, "in-progress"), "{shown:?}");
        let mut keyless = post(&url, "k", "10");
        keyless.headers_mut().remove("idempotency-key");
        let got = client.send(keyless).await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"), "{shown:?}");
        assert!(got.text().contains("only if it may be done twice"), "{shown:?}: {got:?}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2 * count, "once with a key and once without");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_may_not_say_is_taken_off_what_passes_and_what_is_kept() {
    let said = "Idempotency-Replayed: true\r\nIdempotency-Replayed: 1\r\nSemel-Fence: 7\r\nConnection: close, X-Hop\r\n\
                X-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nSet-Cookie: session=1\r\n\
                ETag: \"7\"\r\nLink: <\u{e9}>\nLocation: /made/1\r\nContent-Length: 2\r\n";
    let (upstream, calls) = saying(vec![whole(said, "ok")]).await;
    let proxy = Proxy::with(upstream, "[[route]]\npath = \"/never\"\nkey = \"off\"\n");
    let ask = async |key: &str| {
        let head = format!(
            "POST /0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\n{key}Content-Length: 2\r\nConnection: close\r\n\r\n10"
        );
        exchange(proxy.address, head).await.to_ascii_lowercase()
    };
    let key = "Idempotency-Key: \"k\"\r\n";
    let (keyless, first, replay) = (ask("").await, ask(key).await, ask(key).await);
    for got in [&keyless, &first, &replay] {
        assert!(got.starts_with("http/1.1 201 created\r\n") && got.ends_with("\r\n\r\nok"), "{got}");
        for gone in ["semel-", "x-hop", "keep-alive", "proxy-authenticate", "upgrade", "h2c"] {
            assert!(!got.contains(gone), "{gone}: {got}");
        }
        // A line feed alone ends a line, and goes on as what everybody takes for an end.
        for line in ["etag: \"7\"", "link: <\u{e9}>", "location: /made/1", "content-length: 2"] {
            assert_eq!(got.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {got}");
        }
        assert_eq!(got.matches('\n').count(), got.matches("\r\n").count(), "{got}");
    }
    for got in [&keyless, &first] {
        assert!(!got.contains("idempotency-replayed") && got.contains("set-cookie: session=1"), "{got}");
    }
    assert_eq!(replay.matches("\r\nidempotency-replayed: true\r\n").count(), 1, "{replay}");
    assert_eq!(replay.matches("idempotency-replayed").count(), 1, "{replay}");
    assert!(!replay.contains("set-cookie"), "{replay}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

fn trailers(names: &[&'static str]) -> HeaderMap {
    names.iter().map(|it| (HeaderName::from_static(it), "1".parse().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trailer_says_nothing_in_either_direction_that_only_semel_may_say() {
    const FORGED: [&str; 3] = ["idempotency-replayed", "semel-fence", "x-sum"];
    let upstream = Upstream::start(async |_| {
        let mut answer = answer(200, "");
        *answer.body_mut() = pieces(vec![Bytes::from_static(b"ok")], Some(trailers(&FORGED)));
        answer.headers_mut().insert("trailer", FORGED.join(", ").parse().unwrap());
        answer
    })
    .await;
    let proxy = Proxy::with(upstream.address, "[[route]]\npath = \"/off\"\nkey = \"off\"\n");
    for (version, client) in [("1", Client::new()), ("2", Client::http2())] {
        let send = async |path: &str, key: Option<&str>| {
            let mut request = post(&proxy.url(path), key.unwrap_or("k"), "");
            if key.is_none() {
                request.headers_mut().remove("idempotency-key");
            }
            request.headers_mut().insert("te", "trailers".parse().unwrap());
            request.headers_mut().insert("trailer", FORGED.join(", ").parse().unwrap());
            *request.body_mut() = pieces(vec![bytes(10)], Some(trailers(&FORGED)));
            client.send(request).await
        };
        let asked =
            [("/pay", Some(version)), ("/pay", None), ("/off", Some(version)), ("/pay", Some(version))];
        for (n, (path, key)) in asked.into_iter().enumerate() {
            let got = send(path, key).await;
            assert_eq!((got.text(), got.is_replayed()), ("ok", n == 3), "HTTP/{version}, the {n}th");
            assert_eq!(got.trailers, Some(trailers(&["x-sum"])), "HTTP/{version}, the {n}th");
        }
    }
    assert_eq!(upstream.calls(), 6);
    for asked in upstream.asked() {
        assert_eq!(asked.trailers, Some(trailers(&["x-sum"])), "{asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_that_are_all_forged_end_the_body_all_the_same() {
    const FORGED: [&str; 1] = ["semel-fence"];
    let upstream = Upstream::start(async |asked: Asked| {
        let mut answer = answer(200, "");
        *answer.body_mut() = pieces(vec![asked.body], Some(trailers(&FORGED)));
        answer.headers_mut().insert("trailer", FORGED[0].parse().unwrap());
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    for (version, client) in [("1", Client::new()), ("2", Client::http2())] {
        for key in [version, version, "none"] {
            let mut request = post(&proxy.url("/"), key, "");
            if key == "none" {
                request.headers_mut().remove("idempotency-key");
            }
            request.headers_mut().insert("te", "trailers".parse().unwrap());
            request.headers_mut().insert("trailer", FORGED[0].parse().unwrap());
            *request.body_mut() = pieces(vec![Bytes::from_static(b"ok")], Some(trailers(&FORGED)));
            let got = client.send(request).await;
            assert_eq!((got.status.as_u16(), got.text()), (200, "ok"), "HTTP/{version} {key}");
            assert!(got.trailers.is_none_or(|it| it.is_empty()), "HTTP/{version} {key}");
        }
    }
    assert!(upstream.asked().iter().all(|it| it.body == "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_head_with_a_key_is_given_again_with_its_length_and_without_a_body() {
    let upstream = Upstream::start(async |_| {
        let mut answer = answer(200, "");
        answer.headers_mut().insert("content-length", "1234".parse().unwrap());
        answer.headers_mut().insert("etag", "\"7\"".parse().unwrap());
        answer
    })
    .await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nmethods = [\"POST\", \"HEAD\"]\n");
    let request = "HEAD /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\nIdempotency-Key: \"k\"\r\nConnection: close\r\n\r\n";
    for n in 0..3 {
        let got = exchange(proxy.address, request).await.to_ascii_lowercase();
        assert!(got.starts_with("http/1.1 200 ok\r\n") && got.ends_with("\r\n\r\n"), "{got}");
        assert_eq!(got.matches("\r\n\r\n").count(), 1, "nothing comes behind its head: {got}");
        for line in ["content-length: 1234", "etag: \"7\""] {
            assert_eq!(got.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {got}");
        }
        assert_eq!(got.contains("idempotency-replayed: true"), n > 0, "{got}");
    }
    assert_eq!(upstream.calls(), 1);
}

fn gzipped(text: &str, level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_passes_as_it_came_and_is_compared_byte_for_byte() {
    let upstream = Upstream::start(async |asked: Asked| {
        let mut answer = answer(200, asked.body);
        answer.headers_mut().insert("content-encoding", asked.headers["content-encoding"].clone());
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    let text = r#"{"amount": 100, "currency": "EUR"}"#.repeat(100);
    let sent = gzipped(&text, Compression::best());
    let send = async |body: &[u8], encoding: Option<&str>| {
        let mut request: Request<_> = json(post(&proxy.url("/"), "k", body.to_vec()));
        if let Some(encoding) = encoding {
            request.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        }
        client.send(request).await
    };
    let first = send(&sent, Some("gzip")).await;
    assert_eq!((first.header("content-encoding"), first.is_replayed()), (Some("gzip"), false));
    assert!(first.body == sent, "nothing unpacks it");
    assert!(upstream.only().body == sent);
    let again = send(&sent, Some("gzip")).await;
    assert_eq!((again.header("content-encoding"), again.is_replayed()), (Some("gzip"), true));
    assert!(again.body == sent);
    for (body, encoding) in [
        (&sent, Some("x-gzip")),
        (&sent, Some("deflate")),
        (&sent, None),
        (&gzipped(&text, Compression::none()), Some("gzip")),
        (&text.clone().into_bytes(), None),
    ] {
        assert_eq!(send(body, encoding).await.problem(), "mismatch", "{encoding:?}");
    }
    assert_eq!(upstream.calls(), 1);
}
