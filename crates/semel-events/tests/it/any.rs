//! Any JSON, by rules.

use crate::given::headers;
use bytes::Bytes;
use semel_events::{
    event::Event,
    format::{Format, ReadError, Received, Settings, any::Rules, read},
};

fn receive(rules: Rules, pairs: &[(&str, &str)], body: &str) -> Result<Event, ReadError> {
    let settings = Settings { rules: Some(rules), ..Settings::default() };
    let headers = headers(&[&[("content-type", "application/json")], pairs].concat());
    match read(None, &headers, &Bytes::copy_from_slice(body.as_bytes()), &settings)? {
        Received::One(event) => Ok(*event),
        other => panic!("one event was expected: {other:?}"),
    }
}

fn rules(id: &str) -> Rules {
    Rules::new(id, "literal:order.created", "literal:/shop").unwrap()
}

#[test]
fn the_body_is_the_data_and_the_rules_find_the_rest() {
    let body = r#" {"order": {"id": 42}, "kind": "created"} "#;
    let event =
        receive(Rules::new("/order/id", "/kind", "header:x-shop").unwrap(), &[("x-shop", "berlin")], body)
            .unwrap();
    assert_eq!((event.id(), event.kind(), event.source()), ("42", "created", "berlin"));
    assert_eq!(
        (&**event.data().unwrap(), event.data_content_type()),
        (body.as_bytes(), Some("application/json"))
    );
}

#[test]
fn without_an_id_it_is_refused() {
    for body in ["{}", r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":[null]}"#] {
        assert_eq!(receive(rules("/id"), &[], body), Err(ReadError::NoId), "{body}");
    }
    assert_eq!(receive(rules("/id"), &[], r#"{"id":1,"id":2}"#).unwrap_err().status(), 400);
}

#[test]
fn equal_bodies_are_one_event_only_if_somebody_said_so() {
    let id = |body| receive(rules("hash"), &[], body).unwrap().id().to_owned();
    assert_eq!(id(r#"{"a":1,"b":2}"#), id(r#"{"b": 2, "a": 1}"#));
    assert_ne!(id(r#"{"a":1}"#), id(r#"{"a":1.0}"#));
}

#[test]
fn a_body_need_not_be_an_object() {
    let found = |id, body| receive(rules(id), &[("x-id", "7")], body).map(|it| it.id().to_owned());
    assert_eq!(found("/0/id", r#"[{"id":"a"},{"id":"b"}]"#).as_deref(), Ok("a"));
    for body in ["[1]", "[]", "null", "true", "12.50", r#""text""#] {
        assert_eq!(found("header:x-id", body).as_deref(), Ok("7"), "{body}");
        assert_eq!(found("/id", body), Err(ReadError::NoId), "{body}");
        let hashed = receive(rules("hash"), &[], &format!(" {body}\n")).unwrap();
        assert_eq!(hashed.id(), found("hash", body).unwrap(), "{body}");
        assert_eq!(&**hashed.data().unwrap(), format!(" {body}\n").as_bytes());
    }
    assert_ne!(found("hash", "[1,2]"), found("hash", "[2,1]"));
}

/// What a signature of the body does not cover is anybody's.
#[test]
fn where_only_the_body_is_signed_headers_name_no_event() {
    let settings = Settings { rules: Some(rules("/id")), is_body_signed: true, ..Settings::default() };
    let forged = headers(&[
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "forged"),
        ("ce-source", "/forged"),
        ("ce-type", "forged"),
        ("x-goog-pubsub-message-id", "forged"),
        ("x-goog-pubsub-subscription-name", "forged"),
        ("x-amz-sns-message-type", "Notification"),
    ]);
    let received =
        |format, body: &'static str| read(format, &forged, &Bytes::from_static(body.as_bytes()), &settings);
    for format in [None, Some(Format::Json)] {
        let Ok(Received::One(event)) = received(format, r#"{"id":"1"}"#) else {
            panic!("one event was expected")
        };
        assert_eq!((event.id(), event.source()), ("1", "/shop"));
    }
    let structured = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t"}"#;
    for format in [Format::CloudEvents, Format::Pubsub] {
        assert_eq!(received(Some(format), structured), Err(ReadError::Unsigned));
    }
    let plain = headers(&[("content-type", "application/json")]);
    let read = Format::CloudEvents.read(&plain, &Bytes::from_static(structured.as_bytes()), &settings);
    assert!(matches!(read, Ok(Received::One(event)) if event.id() == "1"));
}

#[test]
fn without_rules_it_is_refused() {
    let headers = headers(&[("content-type", "application/json")]);
    let body = Bytes::from_static(br#"{"id":"x"}"#);
    assert_eq!(read(None, &headers, &body, &Settings::default()), Err(ReadError::NoRules));
}

#[test]
fn what_is_no_json_is_refused() {
    let settings = Settings { rules: Some(rules("/id")), ..Settings::default() };
    let check = |pairs: &[(&str, &str)], body: &'static [u8], status| {
        let refused = Format::Json.read(&headers(pairs), &Bytes::from_static(body), &settings).unwrap_err();
        assert_eq!(refused.status(), status, "{pairs:?}");
    };
    check(&[], b"{\"id\":1}", 415);
    check(&[("content-type", "text/html")], b"{\"id\":1}", 415);
    check(&[("content-type", "application/json"), ("content-type", "application/json")], b"{\"id\":1}", 415);
    check(&[("content-type", "application/json; charset=utf-16")], b"{\"id\":1}", 415);
    for body in [
        &b""[..],
        b"[1",
        b"[{\"id\":1,\"id\":2}]",
        b"{",
        b"{\"id\":1}x",
        b"{\"id\":\"\xff\"}",
        b"\xef\xbb\xbf{\"id\":1}",
        b"{\"id\":NaN}",
    ] {
        check(&[("content-type", "application/json")], body, 400);
    }
}

#[test]
fn stripe_is_read_by_its_rules() {
    let body = r#"{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","api_version":"2019-02-19","created":1686089970,
        "data":{"object":{"id":"seti_1NG8Du2eZvKYlo2C9XMqbR0x"}},"type":"setup_intent.created"}"#;
    let event = receive(Rules::stripe(), &[], body).unwrap();
    assert_eq!((event.id(), event.kind()), ("evt_1NG8Du2eZvKYlo2CUI79vXWy", "setup_intent.created"));
    assert_eq!(event.time().unwrap().text(), "2023-06-06T22:19:30Z");
    assert_eq!(event.subject(), Some("seti_1NG8Du2eZvKYlo2C9XMqbR0x"));
}

#[test]
fn github_is_read_by_its_rules() {
    let delivery =
        [("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"), ("x-github-event", "push")];
    let event = receive(Rules::github(), &delivery, r#"{"repository":{"full_name":"o/r"}}"#).unwrap();
    assert_eq!((event.id(), event.kind(), event.subject()), (delivery[0].1, "push", Some("o/r")));
    assert_eq!(receive(Rules::github(), &delivery[1..], "{}"), Err(ReadError::NoId));
    let twice = [delivery[0], delivery[0], delivery[1]];
    assert_eq!(receive(Rules::github(), &twice, "{}"), Err(ReadError::Ambiguous));
}

#[test]
fn a_standard_webhook_is_read_by_its_rules() {
    let body =
        r#"{"type":"user.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"1f81eb52"}}"#;
    let event = receive(Rules::standard_webhooks("acme").unwrap(), &[("webhook-id", "msg_1")], body).unwrap();
    assert_eq!((event.id(), event.kind(), event.source()), ("msg_1", "user.created", "acme"));
    assert_eq!(event.time().unwrap().text(), "2022-11-03T20:26:10.344522Z");
}

#[test]
fn a_time_that_is_none_is_data_and_no_reason_to_refuse() {
    for time in ["1000000000000000000", "-1", "\"yesterday\"", "\"-0001-01-01T00:00:00Z\"", "[1]", "null"] {
        let body = format!(r#"{{"id":"x","type":"t","created":{time}}}"#);
        assert_eq!(receive(Rules::stripe(), &[], &body).unwrap().time(), None, "{time}");
    }
}
