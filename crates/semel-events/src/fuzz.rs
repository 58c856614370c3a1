//! One entry per parser, for fuzzers and for the short run in the tests.
//!
//! 1. Every entry takes any bytes, never panics, and gives up in bounded time and memory.
//! 2. What it accepts, it also checks: what is read can be written and read again.
//!
//! Not for users.

use crate::{
    auth::{
        credentials::Credentials,
        github::Github,
        jwt::{Expected, Jwks},
        sns::{Roots, Sns},
        standard_webhooks::StandardWebhooks,
        stripe::Stripe,
    },
    encoding::decompressed,
    event::{Event, EventTime},
    expression::{Expression, Input},
    filter::Filter,
    format::{Format, Received, Settings, any::Rules, cloudevents::read_structured, read},
    handshake::Senders,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use semel_core::time::Timestamp;

/// Largest body that an encoded one may become here, in bytes.
pub const DECODED_BYTES_MAX: usize = 1024 * 1024;

/// What a fuzzer calls.
pub type Entry = fn(&[u8]);

/// Every entry, by its name; the corpus is kept under the same name.
pub const ALL: [(&str, Entry); 13] = [
    ("stored", stored),
    ("structured", |it| request(Some(Format::CloudEvents), &with_type("application/cloudevents+json", it))),
    ("batch", |it| request(Some(Format::CloudEvents), &with_type("application/cloudevents-batch+json", it))),
    ("auto", |it| request(None, &with_type("application/json", it))),
    ("request", |it| request(None, it)),
    ("sns", |it| request(Some(Format::Sns), &with_type("text/plain", it))),
    ("any", |it| request(Some(Format::Json), &with_type("application/json", it))),
    ("gzip", |it| encoded("gzip", it)),
    ("zstd", |it| encoded("zstd", it)),
    ("auth", auth),
    ("expression", expression),
    ("keys", keys),
    ("certificate", certificate),
];

fn stored(bytes: &[u8]) {
    // Most bytes fail at the checksum, so they are also tried with the right one.
    let sealed = [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
    for bytes in [bytes.to_vec(), sealed] {
        if let Ok(event) = Event::decode(&bytes.clone().into()) {
            assert_eq!(event.encode(), bytes, "what is read was written so");
        }
    }
}

/// Lines of headers, an empty line, a body.
fn parts(bytes: &[u8]) -> (HeaderMap, Bytes) {
    let at = bytes.windows(2).position(|it| it == b"\n\n");
    let (head, body) = at.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 2..]));
    let mut headers = HeaderMap::new();
    for line in head.split(|it| *it == b'\n').take(100) {
        let colon = line.iter().position(|it| *it == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    (headers, Bytes::copy_from_slice(body))
}

fn with_type(media_type: &str, body: &[u8]) -> Vec<u8> {
    [b"content-type:", media_type.as_bytes(), b"\n\n", body].concat()
}

fn request(format: Option<Format>, bytes: &[u8]) {
    let (headers, body) = parts(bytes);
    let rules = Rules::new("/id", "/type", "literal:fuzz").expect("these are expressions");
    let settings = Settings { rules: Some(rules), ..Settings::default() };
    match read(format, &headers, &body, &settings) {
        Ok(Received::One(event)) => survives(&event),
        Ok(Received::Batch(items)) => items.iter().flatten().for_each(survives),
        Ok(Received::Subscription(_) | Received::Nothing) => {}
        Err(error) => assert!([400, 413, 415].contains(&error.status()), "{error}"),
    }
    signed(format, &headers, &body, settings);
}

/// Whether what only the body of was signed is the same whatever else the headers say.
fn signed(format: Option<Format>, headers: &HeaderMap, body: &Bytes, settings: Settings) {
    let settings = Settings { is_body_signed: true, ..settings };
    if let Ok(received) = read(format, headers, body, &settings) {
        let is_type = |name: &HeaderName| *name == CONTENT_TYPE;
        let plain: HeaderMap = headers
            .iter()
            .filter(|(name, _)| is_type(name))
            .map(|(name, it)| (name.clone(), it.clone()))
            .collect();
        assert_eq!(read(format, &plain, body, &settings), Ok(received), "headers change nothing");
    }
}

/// Whether the event is the same after every way there is.
fn survives(event: &Event) {
    assert_eq!(Event::decode(&event.encode().into()).as_ref(), Ok(event), "stored and read");
    let (headers, body) = event.to_binary();
    // An empty body is no data, which is the one thing that this mode cannot say.
    if event.data().is_none_or(|it| !it.is_empty()) {
        let received = read(Some(Format::CloudEvents), &headers, &body, &Settings::default());
        let is_structured = event.data_content_type().is_some_and(|it| it.contains("cloudevents"));
        assert!(is_structured || received == Ok(Received::One(Box::new(event.clone()))), "sent and received");
    }
    if let Ok(again) = read_structured(&event.to_structured()) {
        assert_eq!(again.fingerprint(), event.fingerprint(), "sent as JSON");
    }
}

fn encoded(encoding: &'static str, bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.insert("content-encoding", HeaderValue::from_static(encoding));
    let body = Bytes::copy_from_slice(bytes);
    if let Ok(plain) = decompressed(&headers, &body, DECODED_BYTES_MAX) {
        assert!(plain.len() <= DECODED_BYTES_MAX, "the limit holds");
    }
}

fn auth(bytes: &[u8]) {
    let (headers, body) = parts(bytes);
    let now = Timestamp::from_millis(1_614_265_330_000);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let webhooks = StandardWebhooks::new([secret]).expect("it is a secret");
    let _ = webhooks.verify(&headers, &body, now);
    let _ = Stripe::new([secret]).expect("it is a secret").verify(&headers, &body, now);
    let _ = Github::new([secret]).expect("it is a secret").verify(&headers, &body);
    let basic = Credentials::basic([("name", secret)]).expect("it is a secret");
    let _ = basic.verify(&headers);
    let keys = br#"{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}"#;
    let keys = Jwks::parse(keys).expect("it is a set of keys");
    assert!(Expected::google("a").verify(&headers, &keys, now).is_err(), "nobody can sign with that key");
    let topics = vec!["arn:aws:sns:us-west-2:123456789012:MyTopic".into()];
    let sns = Sns { topics, accepts_version_1: true, roots: None };
    if let Ok(message) = sns.inspect(&body) {
        assert!(message.certificate_url().starts_with("https://sns."), "nothing else is fetched");
        assert!(sns.verify(&message, &body, now).is_err(), "nobody can sign with that certificate");
    }
    let _ = Senders { origins: vec!["*".into()], rate_max: None }.answer(&headers);
}

fn expression(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (head, json) = text.split_once('\n').unwrap_or((&text, "{}"));
    let event = Event::builder("evt-1", "/orders", "order.created").json(json.to_owned());
    if let (Ok(expression), Ok(event)) = (head.parse::<Expression>(), event.build()) {
        let headers = HeaderMap::new();
        let input = Input::event(&event, &headers);
        let found = expression.parts(&input);
        assert_eq!(found, expression.parts(&input), "the same is found twice");
    }
    if let Ok(filter) = serde_json::from_str::<Filter>(json)
        && let Ok(event) = Event::builder("evt-1", "/orders", "order.created").build()
    {
        assert_ne!(filter.matches(&event), filter.clone().not().is_ok_and(|it| it.matches(&event)));
    }
    if let Some(time) = EventTime::parse(head) {
        assert_eq!(time.text(), head, "the text is kept");
    }
}

/// A file with certificates, or one certificate as it stands in it.
fn certificate(bytes: &[u8]) {
    let pem = if bytes.starts_with(b"-----") {
        bytes.to_vec()
    } else {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
    };
    let now = Timestamp::from_millis(1_893_456_000_000);
    let topic = "arn:aws:sns:us-west-2:123456789012:MyTopic";
    for (version, roots) in [(1, None), (2, Roots::from_pem(&pem, &pem)), (2, None)] {
        let sns = Sns { topics: vec![topic.into()], accepts_version_1: true, roots };
        let message = format!(
            r#"{{"Type":"Notification","MessageId":"1","TopicArn":"{topic}","Message":"","Timestamp":"","Signature":"AA==",
            "SignatureVersion":"{version}","SigningCertURL":"https://sns.us-west-2.amazonaws.com/a.pem"}}"#
        );
        let message = sns.inspect(message.as_bytes()).expect("it is a message of SNS");
        assert!(sns.verify(&message, &pem, now).is_err(), "nobody can sign so");
    }
}

fn keys(bytes: &[u8]) {
    let _ = Jwks::parse(bytes);
}
