//! Connections that become something else.

use super::support::{Client, Proxy, Raw, Upstream, answer, soon};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// An upstream that agrees, and then says everything twice.
async fn twice() -> Upstream {
    Upstream::streaming(async |request: Request<hyper::body::Incoming>| {
        assert_eq!(request.headers()["upgrade"], "websocket");
        assert_eq!(request.headers()["connection"], "upgrade");
        let upgraded = hyper::upgrade::on(request);
        tokio::spawn(async move {
            let mut io = TokioIo::new(upgraded.await.unwrap());
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = io.read(&mut buffer).await {
                let said = [&buffer[..count], &buffer[..count]].concat();
                if io.write_all(&said).await.is_err() {
                    break;
                }
            }
        });
        let mut answer = http::Response::new(Empty::new().boxed());
        *answer.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
        answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
        answer.headers_mut().insert("upgrade", "websocket".parse().unwrap());
        answer
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_passes_through() {
    let upstream = twice().await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write(ASK).await;
    let head = raw.until("\r\n\r\n").await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    assert!(
        head.contains("\r\nconnection: upgrade\r\n") && head.contains("\r\nupgrade: websocket\r\n"),
        "{head}"
    );
    // What would be refused in a head is nothing here.
    for said in ["a\n", "GET / HTTP/1.1\nX: 1\r\n\r\n", "\0\u{1}\n\n"] {
        raw.write(said).await;
        assert_eq!(raw.until(&format!("{said}{said}")).await, format!("{said}{said}"));
    }
    raw.0.shutdown().await.unwrap();
    assert_eq!(raw.rest().await, "");
    assert_eq!(proxy.events("request", 1)[0]["status"], 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_keeps_its_place() {
    let upstream = twice().await;
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nconnections_per_ip_max = 1\n");
    let mut raw = Raw::connect(proxy.address).await;
    raw.write(ASK).await;
    raw.until("\r\n\r\n").await;
    raw.write("a").await;
    raw.until("aa").await;
    let other = super::support::exchange(proxy.address, "").await;
    assert!(other.is_empty() || other == "(reset)", "{other}");
    drop(raw);
    let again = async {
        loop {
            let got = super::support::exchange(
                proxy.address,
                "GET /.semel/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            )
            .await;
            if got.starts_with("HTTP/1.1 200 OK") {
                return;
            }
        }
    };
    soon("a place", again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_the_upstream_declines_is_an_answer_like_any_other() {
    let upstream = Upstream::start(async |_| answer(426, "no")).await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write(ASK).await;
    assert!(raw.until("no").await.starts_with("HTTP/1.1 426 "));
    raw.write(ASK).await;
    assert!(raw.until("no").await.starts_with("HTTP/1.1 426 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_past_the_proxy_by_another_upgrade() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    for protocol in ["h2c", "websocket, h2c", "TLS/1.0"] {
        let ask = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        );
        let mut raw = Raw::connect(proxy.address).await;
        raw.write(ask).await;
        assert!(raw.until("\r\n\r\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    for asked in upstream.asked() {
        for gone in ["connection", "upgrade", "http2-settings"] {
            assert!(asked.header(gone).is_empty(), "{gone}: {asked:?}");
        }
    }
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_nobody_asked_for_is_none() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut read).await.unwrap();
        }
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            .await
            .unwrap();
        stream
    });
    let proxy = Proxy::before(address);
    let got = Client::new().get(&proxy.url("/")).await;
    assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"));
    drop(serving.await);
}
