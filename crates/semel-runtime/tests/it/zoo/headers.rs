//! What is sent.

use super::target::{GOOD, Target, client, status};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use semel_runtime::deliver::Deliver as _;
use tokio::sync::mpsc;

/// What a target gets for these headers and this body.
async fn sent(headers: HeaderMap, body: &'static str) -> String {
    let (sender, mut requests) = mpsc::channel(1);
    let target = Target::start(move |mut connection| {
        let sender = sender.clone();
        async move {
            let request = connection.request().await.unwrap();
            sender.send(request).await.unwrap();
            connection.send(GOOD).await;
        }
    })
    .await;
    let mut delivery = target.delivery();
    (delivery.headers, delivery.body) = (headers, Bytes::from(body));
    assert_eq!(status(client().deliver(delivery).await).body, "good");
    requests.recv().await.unwrap().replace(&target.address.to_string(), "target")
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs =
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    pairs.collect()
}

#[tokio::test]
async fn headers_and_body_go_out_as_they_came() {
    let given =
        headers(&[("ce-id", "1"), ("idempotency-key", "\"a\""), ("semel-attempt", "3"), ("ce-type", "a.b")]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        sent(given, "{\"a\":1}").await,
        format!(
            "POST /hook HTTP/1.1\r\nce-id: 1\r\nidempotency-key: \"a\"\r\nsemel-attempt: 3\r\nce-type: a.b\r\n\
             user-agent: semel/{version}\r\nhost: target\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}"
        )
    );
}

#[tokio::test]
async fn an_empty_body_has_a_length() {
    assert!(sent(HeaderMap::new(), "").await.contains("\r\ncontent-length: 0\r\n"));
}

#[tokio::test]
async fn what_concerns_the_connection_is_the_clients_own() {
    let given = headers(&[
        ("host", "evil"),
        ("content-length", "99"),
        ("transfer-encoding", "chunked"),
        ("connection", "close, x-secret"),
        ("keep-alive", "1"),
        ("te", "trailers"),
        ("trailer", "a"),
        ("upgrade", "other"),
        ("expect", "100-continue"),
        ("proxy-authorization", "a"),
        ("proxy-connection", "a"),
        ("user-agent", "mine"),
    ]);
    assert_eq!(
        sent(given, "a").await,
        "POST /hook HTTP/1.1\r\nuser-agent: mine\r\nhost: target\r\ncontent-length: 1\r\n\r\na"
    );
}
