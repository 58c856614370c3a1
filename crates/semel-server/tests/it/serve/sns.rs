//! SNS: what it signed is an event, what it asks is confirmed, and nobody else is believed.

use super::{
    sources::{FORGED, is_duplicate, key},
    support::{Server, command, orders, told},
};
use crate::support::{Proxy, Upstream};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use ring::{rand::SystemRandom, signature::RSA_PKCS1_SHA256};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring::default_provider, pki_types::CertificateDer},
};

const TOPIC: &str = "arn:aws:sns:us-west-2:123456789012:MyTopic";
const HOST: &str = "sns.us-west-2.amazonaws.com";
/// What the certificate is called there.
const CERTIFICATE: &str = "/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem";
/// A certificate there that nobody issued.
const UNCHAINED: &str = "/SimpleNotificationService-00000000000000000000000000000000.pem";
/// What is asked for there to confirm a subscription.
const CONFIRM: &str = "/?Action=ConfirmSubscription&TopicArn=MyTopic&Token=2336412f37";
/// Where SNS cannot answer what confirms.
const BROKEN: &str = "/broken?Action=ConfirmSubscription&TopicArn=MyTopic&Token=2336412f37";

/// A file with a source of this topic.
fn source() -> String {
    format!("[[source]]\nname = \"it\"\nauth = \"sns\"\ntopics = [\"{TOPIC}\"]\n")
}

fn certificate_url() -> String {
    format!("https://{HOST}{CERTIFICATE}")
}

/// SNS, behind a proxy that makes a tunnel to it: it has a certificate of its name, and gives away the one it signs with.
struct Sns {
    address: SocketAddr,
    /// Where tunnels were asked for, and what was asked for in them.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Sns {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let (acceptor, seen) = (acceptor(), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, acceptor.clone(), Arc::clone(&seen)));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from(&include_bytes!("../../fixtures/sns/host.der")[..]);
    let key = (&include_bytes!("../../fixtures/sns/host-key.der")[..]).try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn tunnel(mut stream: TcpStream, acceptor: TlsAcceptor, seen: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    seen.lock().unwrap().push(first);
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let asked = format!("{} {}", request.method(), request.uri());
        seen.lock().unwrap().push(asked);
        let body = match request.uri().path() {
            // As SNS's own file: the certificate alone, without its issuer.
            CERTIFICATE => &include_bytes!("../../../../semel-events/tests/fixtures/sns/chained.pem")[..],
            UNCHAINED => include_bytes!("../../../../semel-events/tests/fixtures/sns/self-signed.pem"),
            _ => b"<ConfirmSubscriptionResponse/>",
        };
        let mut answer = Response::new(Full::new(Bytes::from_static(body)));
        if request.uri().path() == "/broken" {
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        async move { Ok::<_, Infallible>(answer) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// A message with the signature that SNS's documentation describes, by this key.
fn signed(mut message: Value, key_name: &str, members: &[&str]) -> String {
    let line = |name: &&str| format!("{name}\n{}\n", message[*name].as_str().unwrap());
    let text: String = members.iter().map(line).collect();
    let key = key(key_name);
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    message["Signature"] = json!(STANDARD.encode(signature));
    message.to_string()
}

fn notification(id: &str, key_name: &str) -> String {
    notification_by(id, key_name, &certificate_url())
}

fn notification_by(id: &str, key_name: &str, certificate_url: &str) -> String {
    let message = json!({"Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Subject": "My First Message",
        "Message": "Hello world!", "Timestamp": "2012-05-02T00:54:06.655Z", "SignatureVersion": "2",
        "SigningCertURL": certificate_url});
    signed(message, key_name, &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"])
}

fn confirmation(change: &str, key_name: &str) -> String {
    confirmation_at(&format!("https://{HOST}{CONFIRM}"), change, key_name)
}

fn confirmation_at(url: &str, change: &str, key_name: &str) -> String {
    let message = json!({"Type": change, "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b", "TopicArn": TOPIC,
        "Token": "2336412f37", "Message": "You have chosen to subscribe.", "Timestamp": "2012-04-26T20:45:04.751Z",
        "SubscribeURL": url, "SignatureVersion": "2",
        "SigningCertURL": certificate_url()});
    let members = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];
    signed(message, key_name, &members)
}

/// A server with these sources that finds SNS where its proxy leads, and believes its certificate.
fn server(function: &Upstream, sns: &Sns, sources: &str) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    std::fs::write(&root, include_bytes!("../../fixtures/sns/root.pem")).unwrap();
    let file = orders(function, &format!("{sources}[server]\nproxy = \"environment\"\n"));
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut command = command(directory.path(), &["--store", "memory:"]);
    command.env("HTTPS_PROXY", format!("http://{}", sns.address)).env("SSL_CERT_FILE", &root);
    for other in ["HTTP_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"]
    {
        command.env_remove(other);
    }
    Server::of(directory, Proxy::spawn(&mut command))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_confirmed_and_what_is_sent_through_it_takes_effect_once() {
    let (function, sns) = (Upstream::echo().await, Sns::start().await);
    let server = server(&function, &sns, &source());
    let send = async |body: String| server.json("/sources/it", &[], body).await;

    for body in [notification("1", "stranger"), confirmation("SubscriptionConfirmation", "stranger")] {
        assert_eq!(told(&send(body).await), (401, "unauthorized".to_owned()), "signed by somebody else");
    }
    let unchained = notification_by("1", "own", &format!("https://{HOST}{UNCHAINED}"));
    assert_eq!(
        told(&send(unchained).await),
        (401, "unauthorized".to_owned()),
        "its certificate issued itself"
    );
    let confirmed = send(confirmation("SubscriptionConfirmation", "own")).await;
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    let ended = send(confirmation("UnsubscribeConfirmation", "own")).await;
    assert_eq!(ended.status, 200, "{ended:?}");
    let id = "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324";
    let first = send(notification(id, "own")).await;
    assert_eq!(first.status, 202, "{first:?}");
    let again = send(notification(id, "own")).await;
    assert!(is_duplicate(&again), "{again:?}");

    let called = function.heard(1).await;
    assert_eq!((called.len(), called[0].header("ce-id")), (1, vec![id]));
    assert_eq!(called[0].header("ce-type"), ["com.amazonaws.sns.notification"]);
    assert_eq!(called[0].body, "Hello world!");
    let fetched: Vec<_> = sns.asked().into_iter().filter(|it| it.starts_with("GET ")).collect();
    let expected = [CERTIFICATE, UNCHAINED, CONFIRM].map(|it| format!("GET {it}"));
    assert_eq!(
        fetched, expected,
        "each certificate once, and what confirms: not what would undo that it ended"
    );
    let connect = format!("CONNECT {HOST}:443 HTTP/1.1");
    assert!(sns.asked().iter().all(|it| it.starts_with("GET ") || *it == connect), "{:?}", sns.asked());
}

/// Whoever captured one message has headers to choose, and the members that SNS does not sign.
#[tokio::test(flavor = "multi_thread")]
async fn what_sns_did_not_sign_makes_no_event_and_no_attribute() {
    let (function, sns) = (Upstream::echo().await, Sns::start().await);
    let server = server(&function, &sns, &source());
    let id = "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324";
    let mut captured: Value = serde_json::from_str(&notification(id, "own")).unwrap();
    captured["MessageAttributes"] = json!({"tenant": {"Type": "String", "Value": "another"}});
    let captured = captured.to_string();
    let first = server.json("/sources/it", &[], captured.clone()).await;
    assert_eq!(first.status, 202, "{first:?}");
    let raw = [
        ("x-amz-sns-message-type", "Notification"),
        ("x-amz-sns-rawdelivery", "true"),
        ("x-amz-sns-message-id", "forged"),
        ("x-amz-sns-topic-arn", TOPIC),
    ];
    let refused = server.json("/sources/it", &raw, captured.clone()).await;
    assert_eq!(told(&refused), (401, "unauthorized".to_owned()));
    let cause = server.program.events("request", 2)[1]["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("raw"), "the operator is told which switch it is: {cause}");
    for headers in [&FORGED[..], &raw[..1]] {
        let again = server.json("/sources/it", headers, captured.clone()).await;
        assert!(is_duplicate(&again), "{headers:?}: {again:?}");
    }
    let shifted = captured.replace(id, &format!("{id}\\nSubject\\nMy First Message"));
    let shifted = shifted.replace("\"Subject\":\"My First Message\",", "");
    assert_ne!(shifted.len(), captured.len());
    let refused = server.json("/sources/it", &[], shifted).await;
    assert_eq!(
        told(&refused),
        (401, "unauthorized".to_owned()),
        "the same bytes are signed, with other borders"
    );
    let called = function.heard(1).await;
    assert_eq!((called.len(), called[0].header("ce-id")), (1, vec![id]));
    assert!(called[0].header("ce-tenant").is_empty(), "{called:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_cannot_be_confirmed_now_is_asked_for_again() {
    let (function, sns) = (Upstream::echo().await, Sns::start().await);
    let server = server(&function, &sns, &source());
    let ask = async |url: &str| {
        server.json("/sources/it", &[], confirmation_at(url, "SubscriptionConfirmation", "own")).await
    };
    let later = ask(&format!("https://{HOST}{BROKEN}")).await;
    assert_eq!(told(&later), (503, "subscription-unconfirmed".to_owned()));
    assert!(later.header("retry-after").is_some(), "{later:?}");
    let elsewhere = ask("https://evil.example.com/?Action=ConfirmSubscription").await;
    assert_eq!(told(&elsewhere), (401, "unauthorized".to_owned()));
    assert_eq!(ask(&format!("https://{HOST}{CONFIRM}")).await.status, 200);
    let asked = sns.asked();
    assert!(asked.iter().all(|it| !it.contains("evil")), "{asked:?}");
}

/// Hostile 13: nothing is fetched from elsewhere, for no topic but the configured ones.
#[tokio::test(flavor = "multi_thread")]
async fn sns_is_refused_before_anything_is_fetched() {
    let (function, evil) = (Upstream::echo().await, Upstream::echo().await);
    let server = Server::with(&orders(&function, &source()));
    let message = |topic: &str, url: &str, version: &str| {
        json!({"Type": "Notification", "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", "TopicArn": topic,
            "Subject": "My First Message", "Message": "Hello world!", "Timestamp": "2012-05-02T00:54:06.655Z",
            "SignatureVersion": version, "Signature": "EXAMPLEw6JRN", "SigningCertURL": url})
        .to_string()
    };
    let elsewhere = format!("http://{}/cert.pem", evil.address);
    let wrong = [
        message(TOPIC, &elsewhere, "2"),
        message(TOPIC, "https://sns.evil.com/amazonaws.com/a.pem", "2"),
        message(TOPIC, "http://sns.us-west-2.amazonaws.com/a.pem", "2"),
        message(TOPIC, "https://sns.us-west-2.amazonaws.com.evil.com/a.pem", "2"),
        message(TOPIC, "https://sns.us-west-2.amazonaws.com@evil.com/a.pem", "2"),
        message(TOPIC, "https://sns.us-west-2.amazonaws.com/../a.pem", "2"),
        message(TOPIC, &certificate_url(), "1"),
        message("arn:aws:sns:us-west-2:999999999999:Other", &certificate_url(), "2"),
        json!({"Type": "SubscriptionConfirmation", "MessageId": "1", "TopicArn": TOPIC, "Token": "t", "Message": "m",
            "SubscribeURL": elsewhere, "Timestamp": "2012-04-26T20:45:04.751Z", "SignatureVersion": "2",
            "Signature": "AA==", "SigningCertURL": elsewhere}).to_string(),
        "{}".to_owned(),
    ];
    for body in wrong {
        let got =
            server.json("/sources/it", &[("x-amz-sns-message-type", "Notification")], body.clone()).await;
        assert_eq!(told(&got), (401, "unauthorized".to_owned()), "{body}");
    }
    assert_eq!((function.calls(), evil.calls()), (0, 0));
}
