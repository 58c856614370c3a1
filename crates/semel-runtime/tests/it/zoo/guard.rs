//! The guard at work: names whose addresses change, are mixed, or were never allowed.

use super::target::{GOOD, Target, delivery, settings, status};
use http::StatusCode;
use semel_core::BoxFuture;
use semel_runtime::deliver::{
    ADDRESSES_MAX, Answer, Client, Deliver as _, Preset, Resolve, Settings, Trouble, Verdict,
    guard::{Policy, check_url},
    verdict,
};
use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Answers with each list in turn, and with the last one ever after.
struct Script {
    answers: Vec<io::Result<Vec<&'static str>>>,
    asked: AtomicUsize,
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let answer = match &self.answers[nth] {
            Ok(addresses) => Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()),
            Err(error) => Err(error.kind().into()),
        };
        Box::pin(async { answer })
    }
}

/// A client that may call 127.0.0.1 and nothing else of this machine, and a resolver with these answers.
fn scripted(answers: Vec<io::Result<Vec<&'static str>>>) -> (Client, Arc<Script>) {
    let resolver = Arc::new(Script { answers, asked: AtomicUsize::new(0) });
    let policy = Policy { allow: vec!["127.0.0.1/32".parse().unwrap()], loopback: false };
    let client = Client::new(Settings { policy, resolver: Arc::clone(&resolver) as _, ..settings() });
    (client, resolver)
}

/// A target at 127.0.0.1, which is allowed, and one with the same port at 127.0.0.2, which is not.
async fn allowed_and_forbidden() -> (Target, Target) {
    loop {
        let allowed = Target::start(|mut connection| async move {
            connection.request().await;
            connection.send(GOOD).await;
        })
        .await;
        let address = ([127, 0, 0, 2], allowed.address.port()).into();
        if std::net::TcpListener::bind(address).is_ok() {
            return (allowed, Target::start_at(address, super::target::Connection::behave).await);
        }
    }
}

fn check_blocked(answer: Answer) {
    let Answer::NotSent(cause) = &answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::Blocked, "{cause}");
    let means = verdict(answer, Preset::Default, semel_core::time::Timestamp::EPOCH);
    assert!(matches!(means, Verdict::Fatal { .. }));
}

#[tokio::test]
async fn hostile_26_a_name_that_is_rebound_is_blocked() {
    let (allowed, forbidden) = allowed_and_forbidden().await;
    let url = format!("http://orders.example.com:{}/", allowed.address.port());
    let (client, resolver) = scripted(vec![Ok(vec!["127.0.0.1"]), Ok(vec!["127.0.0.2"])]);
    assert_eq!(status(client.deliver(delivery(&url)).await).code, StatusCode::OK);
    for _ in 0..5 {
        check_blocked(client.deliver(delivery(&url)).await);
    }
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 6, "each connection has one answer, and no other");
    assert_eq!((allowed.seen.connections(), forbidden.seen.connections()), (1, 0));
}

#[tokio::test]
async fn hostile_26_one_forbidden_address_blocks_them_all() {
    let (allowed, forbidden) = allowed_and_forbidden().await;
    let url = format!("http://orders.example.com:{}/", allowed.address.port());
    for addresses in
        [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "169.254.169.254"]]
    {
        let (client, _) = scripted(vec![Ok(addresses.to_vec())]);
        check_blocked(client.deliver(delivery(&url)).await);
    }
    assert_eq!((allowed.seen.connections(), forbidden.seen.connections()), (0, 0));
}

#[tokio::test]
async fn invariant_31_a_name_with_a_forbidden_address_is_never_connected_to() {
    let (_, forbidden) = allowed_and_forbidden().await;
    let url = format!("http://orders.example.com:{}/", forbidden.address.port());
    for address in [
        "127.0.0.2",
        "::1",
        "::ffff:127.0.0.2",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "64:ff9b::7f00:2",
        "2002:7f00:2::",
        "fd00:ec2::254",
        "fe80::1",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "100.64.0.1",
        "192.168.0.1",
    ] {
        let (client, _) = scripted(vec![Ok(vec![address])]);
        check_blocked(client.deliver(delivery(&url)).await);
    }
    assert_eq!(forbidden.seen.connections(), 0);
}

#[tokio::test]
async fn invariant_31_a_forbidden_target_that_was_configured_under_another_policy_is_not_connected_to() {
    let (_, forbidden) = allowed_and_forbidden().await;
    let (client, resolver) = scripted(vec![Ok(vec!["127.0.0.1"])]);
    check_blocked(client.deliver(forbidden.delivery()).await);
    assert_eq!(forbidden.seen.connections(), 0);
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_name_stays_what_it_was() {
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let shared = Arc::clone(&requests);
    let target = Target::start(move |mut connection| {
        let shared = Arc::clone(&shared);
        async move {
            let request = connection.request().await.unwrap();
            shared.lock().unwrap().push(request);
            connection.send(GOOD).await;
        }
    })
    .await;
    let port = target.address.port();
    let (client, _) = scripted(vec![Ok(vec!["::ffff:127.0.0.1"])]);
    let answer = client.deliver(delivery(&format!("http://Orders.Example.com:{port}/hook?a=b"))).await;
    assert_eq!(status(answer).code, StatusCode::OK);
    let request = requests.lock().unwrap().remove(0);
    assert!(request.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: orders.example.com:{port}\r\n")), "{request}");
}

#[tokio::test]
async fn f23_a_name_without_an_address_is_not_sent_and_found_again_when_it_has_one() {
    let target = Target::good().await;
    let url = format!("http://orders.example.com:{}/", target.address.port());
    let (client, _) =
        scripted(vec![Err(io::ErrorKind::NotFound.into()), Ok(Vec::new()), Ok(vec!["127.0.0.1"])]);
    for _ in 0..2 {
        let answer = client.deliver(delivery(&url)).await;
        let Answer::NotSent(cause) = &answer else { panic!("{answer:?}") };
        assert_eq!(cause.trouble, Trouble::Unresolved);
        let means = verdict(answer, Preset::Default, semel_core::time::Timestamp::EPOCH);
        assert!(matches!(means, Verdict::Retry { .. }));
    }
    assert_eq!(status(client.deliver(delivery(&url)).await).code, StatusCode::OK);
}

#[tokio::test]
async fn an_address_where_nobody_listens_does_not_keep_the_next_one_from_being_tried() {
    let target = Target::good().await;
    let url = format!("http://orders.example.com:{}/", target.address.port());
    let resolver =
        Script { answers: vec![Ok(vec!["127.0.0.3", "127.0.0.4", "127.0.0.1"])], asked: AtomicUsize::new(0) };
    let client = Client::new(Settings { resolver: Arc::new(resolver), ..settings() });
    assert_eq!(status(client.deliver(delivery(&url)).await).code, StatusCode::OK);
}

#[tokio::test]
async fn no_more_addresses_are_tried_than_the_limit() {
    let target = Target::good().await;
    let url = format!("http://orders.example.com:{}/", target.address.port());
    for (dead, is_found) in [(ADDRESSES_MAX - 1, true), (ADDRESSES_MAX, false)] {
        let mut addresses = vec!["127.0.0.3"; dead];
        addresses.push("127.0.0.1");
        let resolver = Script { answers: vec![Ok(addresses)], asked: AtomicUsize::new(0) };
        let client = Client::new(Settings { resolver: Arc::new(resolver), ..settings() });
        let answer = client.deliver(delivery(&url)).await;
        assert_eq!(matches!(answer, Answer::Status(_)), is_found, "{answer:?}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_not_sent() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(settings());
    let answer = client.deliver(delivery(&format!("http://{free}/"))).await;
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::Unconnected);
    assert!(cause.detail.contains("refused"), "{cause}");
}

#[tokio::test]
async fn by_default_this_machine_is_not_called() {
    let target = Target::good().await;
    assert!(check_url(&target.url(), &Settings::default().policy).is_err());
    let client = Client::new(Settings { policy: Settings::default().policy, ..settings() });
    check_blocked(client.deliver(target.delivery()).await);
    assert_eq!(target.seen.connections(), 0);
}
