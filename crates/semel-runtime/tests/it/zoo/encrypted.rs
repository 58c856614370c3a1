//! Encrypted targets, and those that only seem to be.

use super::target::{Connection, Target, check_next, client, delivery, settings, status};
use http::Response;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use semel_core::BoxFuture;
use semel_runtime::deliver::{Answer, Client, Deliver as _, Protocol, Resolve, Settings, Trouble};
use std::{convert::Infallible, io, net::IpAddr, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

pub(super) const AUTHORITY: &[u8] = include_bytes!("certificates/ca.der");
pub(super) const LEAF: &[u8] = include_bytes!("certificates/leaf.der");
const EXPIRED: &[u8] = include_bytes!("certificates/expired.der");
const KEY: &[u8] = include_bytes!("certificates/key.der");

/// Every name is this machine.
struct Here;

impl Resolve for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

fn believing(authority: Option<&'static [u8]>) -> Client {
    let mut roots = RootCertStore::empty();
    if let Some(authority) = authority {
        roots.add(CertificateDer::from(authority)).unwrap();
    }
    Client::new(Settings { roots: Some(roots), resolver: Arc::new(Here), ..settings() })
}

pub(super) fn acceptor(certificate: &'static [u8], protocols: &[&str]) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(KEY).unwrap();
    let chain = vec![CertificateDer::from(certificate)];
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A target that encrypts, and answers with the version that was spoken.
async fn encrypted(certificate: &'static [u8], protocols: &'static [&'static str]) -> Target {
    let acceptor = acceptor(certificate, protocols);
    Target::start(move |connection: Connection| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(connection.stream).await else { return };
            let service = service_fn(|request: http::Request<Incoming>| async move {
                let version = format!("{:?}", request.version());
                Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(version)))
            });
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            if is_http2 {
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            } else {
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            }
        }
    })
    .await
}

fn url(target: &Target, host: &str) -> String {
    format!("https://{host}:{}/", target.address.port())
}

async fn check_unencrypted(client: &Client, url: &str) {
    let answer = client.deliver(delivery(url)).await;
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::Unencrypted, "{cause}");
}

#[tokio::test]
async fn what_is_spoken_is_negotiated_and_connections_are_used_again() {
    for (offered, spoken) in
        [(&["http/1.1"][..], "HTTP/1.1"), (&[], "HTTP/1.1"), (&["h2", "http/1.1"], "HTTP/2.0")]
    {
        let (client, target) = (believing(Some(AUTHORITY)), encrypted(LEAF, offered).await);
        for _ in 0..10 {
            let answer = client.deliver(delivery(&url(&target, "orders.example.com"))).await;
            assert_eq!(status(answer).body, spoken);
        }
        assert_eq!(target.seen.connections(), 1, "{spoken}");
    }
}

#[tokio::test]
async fn http2_alone_can_be_asked_for() {
    let (client, target) = (believing(Some(AUTHORITY)), encrypted(LEAF, &["h2", "http/1.1"]).await);
    let mut delivery = delivery(&url(&target, "orders.example.com"));
    delivery.protocol = Protocol::Http2;
    assert_eq!(status(client.deliver(delivery).await).body, "HTTP/2.0");
}

#[tokio::test]
async fn f23_a_certificate_that_proves_nothing_is_not_sent_to() {
    let (client, good) = (believing(Some(AUTHORITY)), encrypted(LEAF, &[]).await);
    check_unencrypted(&client, &url(&good, "billing.example.com")).await;
    check_unencrypted(&client, &url(&good, "127.0.0.1")).await;
    check_unencrypted(&believing(None), &url(&good, "orders.example.com")).await;
    check_unencrypted(&believing(Some(LEAF)), &url(&good, "billing.example.com")).await;
    let expired = encrypted(EXPIRED, &[]).await;
    check_unencrypted(&client, &url(&expired, "orders.example.com")).await;
    let answer = client.deliver(delivery(&url(&good, "orders.example.com"))).await;
    assert_eq!(status(answer).body, "HTTP/1.1");
}

#[tokio::test]
async fn a_target_that_speaks_no_encryption_is_not_sent_to() {
    let target = Target::start(|mut connection| async move {
        connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        connection.hold().await;
    })
    .await;
    check_unencrypted(&believing(Some(AUTHORITY)), &url(&target, "orders.example.com")).await;
    assert_eq!(target.seen.requests(), 0);
}

#[tokio::test]
async fn an_encrypted_target_that_is_called_in_the_clear_is_broken() {
    let target = encrypted(LEAF, &[]).await;
    let answer = client().deliver(target.delivery()).await;
    assert!(matches!(answer, Answer::Broken(_)), "{answer:?}");
}

#[tokio::test]
async fn f15_an_encryption_that_never_begins_is_not_sent_in_five_seconds() {
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let target = Target::start(move |mut connection: Connection| {
        let told = told.clone();
        async move {
            let mut some = [0; 64];
            let _ = tokio::io::AsyncReadExt::read(&mut connection.stream, &mut some).await;
            told.send(()).await.unwrap();
            connection.hold().await;
        }
    })
    .await;
    let client = believing(Some(AUTHORITY));
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(client.deliver(delivery(&url(&target, "orders.example.com"))), async {
        heard.recv().await;
        tokio::time::pause();
    });
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::ConnectTooLate);
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert!(begun.elapsed() < Duration::from_secs(6));
}

#[tokio::test]
async fn a_client_without_roots_says_so_and_calls_those_who_need_none() {
    let client = believing(None);
    assert!(!client.has_roots());
    check_next(&client, &Target::good().await).await;
}
