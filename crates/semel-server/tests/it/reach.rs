//! The way to the upstream: encrypted, in time, and used again.

use super::support::{Client, Proxy, Upstream, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring::default_provider, pki_types::CertificateDer},
};

/// An upstream that encrypts, and answers with the version that was spoken.
async fn encrypted() -> SocketAddr {
    let certificate = CertificateDer::from(&include_bytes!("../fixtures/upstream/host.der")[..]);
    let key = (&include_bytes!("../fixtures/upstream/host-key.der")[..]).try_into().unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request: Request<Incoming>| async move {
                    let version = format!("{:?}", request.version());
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(version))))
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                // How a connection ends is seen elsewhere.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// A proxy in front of an encrypted upstream, which believes this authority.
fn before(upstream: &str, roots: &Path, more: &[&str]) -> Proxy {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["proxy", "--log", "json", "--listen", "127.0.0.1:0", "--store", "memory:"]);
    command.args(["--upstream", upstream]).args(more).env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    Proxy::spawn(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_upstream_is_spoken_to_and_one_that_proves_nothing_is_not() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (root, other) = (fixtures.join("upstream/root.pem"), fixtures.join("sns/root.pem"));
    let address = encrypted().await;
    let url = format!("https://localhost:{}", address.port());
    for (more, version) in [(&[][..], "HTTP/1.1"), (&["--upstream-http2"], "HTTP/2.0")] {
        let proxy = before(&url, &root, more);
        let client = Client::new();
        assert_eq!(client.get(&proxy.url("/")).await.text(), version);
        assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.text(), version);
        assert!(client.send(post(&proxy.url("/"), "k", "10")).await.is_replayed());
    }
    let strange = before(&url, &other, &[]);
    for _ in 0..2 {
        let got = Client::new().send(post(&strange.url("/"), "k", "10")).await;
        assert_eq!(
            (got.status.as_u16(), got.problem().as_str()),
            (502, "upstream"),
            "and its key is released"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_takes_no_connection_in_time_was_sent_nothing() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    // Room for so few that are not accepted, and it is taken.
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut taken = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        taken.push(stream.unwrap());
    }
    let proxy = Proxy::with(address, "[proxy.timeouts]\nconnect = \"300ms\"\n[defaults]\nwait = \"0s\"\n");
    let client = Client::new();
    for _ in 0..2 {
        let since = Instant::now();
        let got = client.send(post(&proxy.url("/"), "k", "10")).await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (502, "upstream"), "its key is released");
        assert!(since.elapsed() >= Duration::from_millis(300));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_the_upstream_are_used_again() {
    let upstream = Upstream::echo().await;
    for config in ["", "[proxy]\nupstream_http2 = true\n"] {
        let before = upstream.connections();
        let proxy = Proxy::with(upstream.address, config);
        for n in 0..10 {
            // Each client has a connection of its own.
            let got = Client::new().send(post(&proxy.url("/"), &format!("k-{n}"), "10")).await;
            assert_eq!((got.status.as_u16(), got.text()), (200, "10"));
        }
        let made = upstream.connections() - before;
        assert!((1..=2).contains(&made), "{made} connections for ten requests, one after the other");
    }
}
