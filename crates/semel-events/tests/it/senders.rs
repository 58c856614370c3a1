//! What real senders send: recorded from cloudevents 2.2.0 and standardwebhooks 1.1.0 for Python (`python`, and `python2`
//! for the newer interface), and from cloudevents 10.0.0 and standardwebhooks 1.1.1 for Node.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use semel_core::time::Timestamp;
use semel_events::{
    auth::standard_webhooks::StandardWebhooks,
    event::Event,
    format::{Received, Settings, any::Rules, read},
};

const ORDERS: [(&str, &[u8]); 6] = [
    ("node, binary", include_bytes!("../fixtures/senders/node-binary.txt")),
    ("node, structured", include_bytes!("../fixtures/senders/node-structured.txt")),
    ("python, binary", include_bytes!("../fixtures/senders/python-binary.txt")),
    ("python, structured", include_bytes!("../fixtures/senders/python-structured.txt")),
    ("python 2, binary", include_bytes!("../fixtures/senders/python2-binary.txt")),
    ("python 2, structured", include_bytes!("../fixtures/senders/python2-structured.txt")),
];
const NODE_BYTES: &[u8] = include_bytes!("../fixtures/senders/node-structured-bytes.txt");
const WEBHOOKS: [&[u8]; 2] = [
    include_bytes!("../fixtures/senders/node-standardwebhooks.txt"),
    include_bytes!("../fixtures/senders/python-standardwebhooks.txt"),
];

/// Lines of headers, an empty line, a body.
fn request(recorded: &'static [u8]) -> (HeaderMap, Bytes) {
    let end = recorded.windows(2).position(|it| it == b"\n\n").unwrap();
    let mut headers = HeaderMap::new();
    for line in recorded[..end].split(|it| *it == b'\n') {
        let colon = line.iter().position(|it| *it == b':').unwrap();
        let name = HeaderName::from_bytes(&line[..colon]).unwrap();
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).unwrap());
    }
    (headers, Bytes::from_static(&recorded[end + 2..]))
}

fn receive(recorded: &'static [u8], settings: &Settings) -> Event {
    let (headers, body) = request(recorded);
    match read(None, &headers, &body, settings) {
        Ok(Received::One(event)) => *event,
        other => panic!("one event was expected: {other:?}"),
    }
}

#[test]
fn every_sdk_sends_the_same_event() {
    let fingerprint = receive(ORDERS[0].1, &Settings::default()).fingerprint();
    for (sender, recorded) in ORDERS {
        let event = receive(recorded, &Settings::default());
        assert_eq!(
            (event.id(), event.source(), event.kind()),
            ("evt-1", "/orders", "order.created"),
            "{sender}"
        );
        assert_eq!(event.subject(), Some("Euro € 😀"), "{sender}");
        assert_eq!(event.extension("tenant"), Some("acme"), "{sender}");
        assert_eq!(event.time().unwrap().at(), Timestamp::from_millis(1_794_804_271_250), "{sender}");
        assert_eq!(
            event.fingerprint(),
            fingerprint,
            "{sender}: its JSON has other spaces, and means the same"
        );
    }
}

#[test]
fn bytes_of_node_are_bytes() {
    let event = receive(NODE_BYTES, &Settings::default());
    assert_eq!(&**event.data().unwrap(), [1, 2, 255]);
    assert_eq!(event.data_content_type(), Some("application/octet-stream"));
}

#[test]
fn what_the_libraries_of_standard_webhooks_signed_is_accepted() {
    let webhooks = StandardWebhooks::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).unwrap();
    let rules = Rules::standard_webhooks("acme").unwrap();
    let settings = Settings { rules: Some(rules), ..Settings::default() };
    for recorded in WEBHOOKS {
        let (headers, body) = request(recorded);
        assert_eq!(webhooks.verify(&headers, &body, Timestamp::from_millis(1_614_265_330_000)), Ok(()));
        let event = receive(recorded, &settings);
        assert_eq!((event.id(), event.kind()), ("msg_1", "user.created"));
    }
}
