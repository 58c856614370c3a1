//! Targets behind a proxy, which is asked for by name.

use super::{
    encrypted::{AUTHORITY, LEAF, acceptor},
    target::{Connection, GOOD, Target, delivery, settings, status},
};
use http::Response;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::{RootCertStore, pki_types::CertificateDer};
use semel_core::BoxFuture;
use semel_runtime::deliver::{
    Answer, Client, Deliver as _, Protocol, Proxies, Resolve, Settings, Trouble, guard::Policy,
};
use std::{
    convert::Infallible,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};
use tokio::io::AsyncReadExt as _;

/// Knows no name: names behind a proxy are not for this machine to know.
struct Nobody;

impl Resolve for Nobody {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Err(io::Error::other("nobody is known here")) })
    }
}

/// A client that asks a proxy for everything, and so does it over the library's connections.
pub(super) fn client(proxy: &Target, except: &str) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(AUTHORITY)).unwrap();
    let proxies = Proxies::all(&format!("http://ann:secret@{}", proxy.address), except).unwrap();
    Client::new(Settings {
        policy: Policy::public(),
        resolver: Arc::new(Nobody),
        roots: Some(roots),
        proxies,
        ..settings()
    })
}

/// The heads of requests that a proxy was sent.
type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that answers plain requests itself.
async fn plain() -> (Target, Heads) {
    let heads = Heads::default();
    let seen = Arc::clone(&heads);
    let proxy = Target::start(move |mut connection: Connection| {
        let seen = Arc::clone(&seen);
        async move {
            while let Some(request) = connection.request().await {
                seen.lock().unwrap().push(request.to_ascii_lowercase());
                connection.send(GOOD).await;
            }
        }
    })
    .await;
    (proxy, heads)
}

/// What is asked of a proxy before anything else, up to its empty line.
async fn head(connection: &mut Connection) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[tokio::test]
async fn a_proxy_is_given_the_whole_url_of_a_plain_target_and_told_who_asks() {
    let (proxy, heads) = plain().await;
    let client = client(&proxy, "");
    for _ in 0..2 {
        let answer = status(client.deliver(delivery("http://orders.example.com/hook?a=b")).await);
        assert_eq!(answer.body, "good");
    }
    assert_eq!(proxy.seen.connections(), 1, "connections are used again");
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("post http://orders.example.com/hook?a=b http/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("\r\nhost: orders.example.com\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("\r\nproxy-authorization: basic yw5uonnly3jlda==\r\n"), "{}", heads[0]);
}

#[tokio::test]
async fn an_encrypted_target_is_reached_through_a_tunnel_and_learns_nothing_of_the_proxy() {
    let acceptor = acceptor(LEAF, &["http/1.1"]);
    let heads = Heads::default();
    let seen = Arc::clone(&heads);
    let proxy = Target::start(move |mut connection: Connection| {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        async move {
            let asked = head(&mut connection).await;
            seen.lock().unwrap().push(asked);
            connection.send(b"HTTP/1.1 200 Connected\r\n\r\n").await;
            let Ok(stream) = acceptor.accept(connection.stream).await else { return };
            let service = service_fn(|request: http::Request<Incoming>| async move {
                let told =
                    format!("{} {}", request.uri(), request.headers().contains_key("proxy-authorization"));
                Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(told)))
            });
            let server = hyper::server::conn::http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let answer = status(client(&proxy, "").deliver(delivery("https://orders.example.com/hook")).await);
    assert_eq!(answer.body, "/hook false");
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("connect orders.example.com:443 http/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("proxy-authorization: basic "), "{}", heads[0]);
}

#[tokio::test]
async fn http2_goes_through_a_tunnel_and_a_proxy_that_refuses_one_was_sent_nothing() {
    let heads = Heads::default();
    let seen = Arc::clone(&heads);
    let proxy = Target::start(move |mut connection: Connection| {
        let seen = Arc::clone(&seen);
        async move {
            let asked = head(&mut connection).await;
            seen.lock().unwrap().push(asked);
            connection.send(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
        }
    })
    .await;
    let mut delivery = delivery("http://orders.example.com/hook");
    delivery.protocol = Protocol::Http2;
    let answer = client(&proxy, "").deliver(delivery).await;
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::Unconnected, "{cause}");
    let asked = heads.lock().unwrap().concat();
    assert!(asked.starts_with("connect orders.example.com:80 http/1.1\r\n"), "{asked}");
}

/// Hostile 25, behind a proxy.
#[tokio::test]
async fn the_guard_stands_before_the_proxy_too() {
    let (proxy, _) = plain().await;
    let client = client(&proxy, "");
    for url in
        ["http://169.254.169.254/latest", "https://10.0.0.7/", "http://printer.local/", "http://127.0.0.1/"]
    {
        let mut delivery = delivery("http://10.0.0.7/");
        delivery.target = semel_runtime::deliver::guard::check_url(url, &anything()).unwrap();
        let answer = client.deliver(delivery).await;
        let Answer::NotSent(cause) = answer else { panic!("{url}: {answer:?}") };
        assert_eq!(cause.trouble, Trouble::Blocked, "{url}: {cause}");
    }
    assert_eq!(proxy.seen.connections(), 0);
}

fn anything() -> Policy {
    let allow = ["0.0.0.0/0", "::/0", "printer.local"].map(|it| it.parse().unwrap()).to_vec();
    Policy { allow, loopback: true }
}

#[tokio::test]
async fn what_is_excepted_is_looked_up_and_called_directly() {
    let (proxy, _) = plain().await;
    let answer = client(&proxy, "orders.example.com").deliver(delivery("http://orders.example.com/")).await;
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!((cause.trouble, proxy.seen.connections()), (Trouble::Unresolved, 0), "{cause}");
}
