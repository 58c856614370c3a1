//! CloudEvents 1.0: tables from the specification, and what it forbids.

use crate::given::{any_event, full, headers, order};
use bytes::Bytes;
use proptest::prelude::*;
use semel_events::{
    event::{Attribute, Event, EventError},
    format::{
        BATCH_EVENTS_MAX, ReadError, Received,
        cloudevents::{
            BATCH_JSON, HEADER_BYTES_MAX, STRUCTURED_JSON, read, read_batch, read_binary, read_structured,
        },
    },
};

const REQUIRED: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "evt-1"), ("ce-source", "/orders"), ("ce-type", "order.created")];

/// Reads a binary request of the required headers and these.
fn binary(more: &[(&str, &str)], body: &'static str) -> Result<Event, ReadError> {
    read_binary(&headers(&[&REQUIRED[..], more].concat()), &Bytes::from_static(body.as_bytes()))
}

/// Reads a structured request of the required members and these.
fn structured(more: &str) -> Result<Event, ReadError> {
    let required = r#""specversion":"1.0","id":"evt-1","source":"/orders","type":"order.created""#;
    read_structured(format!("{{{required}{more}}}").as_bytes())
}

#[test]
fn the_example_of_the_http_binding_is_read() {
    let event = read(
        &headers(&[
            ("host", "webhook.example.com"),
            ("ce-specversion", "1.0"),
            ("ce-type", "com.example.someevent"),
            ("ce-time", "2018-04-05T03:56:24Z"),
            ("ce-id", "1234-1234-1234"),
            ("ce-source", "/mycontext/subcontext"),
            ("content-type", "application/json; charset=utf-8"),
        ]),
        &Bytes::from_static(b"{\"a\":1}"),
    );
    let expected = Event::builder("1234-1234-1234", "/mycontext/subcontext", "com.example.someevent")
        .time("2018-04-05T03:56:24Z")
        .content_type("application/json; charset=utf-8")
        .data("{\"a\":1}")
        .build()
        .unwrap();
    assert_eq!(event, Ok(Received::One(Box::new(expected))));
}

#[test]
fn the_example_of_the_json_format_is_read() {
    let text = br#"{
        "specversion" : "1.0",
        "type" : "com.example.someevent",
        "source" : "/mycontext",
        "subject": null,
        "id" : "C234-1234-1234",
        "time" : "2018-04-05T17:31:00Z",
        "comexampleextension1" : "value",
        "comexampleothervalue" : 5,
        "datacontenttype" : "application/vnd.apache.thrift.binary",
        "data_base64" : "AQID"
    }"#;
    let expected = Event::builder("C234-1234-1234", "/mycontext", "com.example.someevent")
        .time("2018-04-05T17:31:00Z")
        .extension("comexampleextension1", "value")
        .extension("comexampleothervalue", "5")
        .content_type("application/vnd.apache.thrift.binary")
        .data(&b"\x01\x02\x03"[..])
        .build();
    assert_eq!(read_structured(text), expected.map_err(Into::into));
}

#[test]
fn a_header_is_unquoted_and_then_decoded_once() {
    let decoded = [
        ("plain", "plain"),
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("\"quoted\"", "quoted"),
        (r#""a \"b\" \\ c""#, r#"a "b" \ c"#),
        ("\"%20x\"", " x"),
        ("%2541", "%41"),
        ("%e2%82%ac", "€"),
        ("  spaces around  ", "spaces around"),
        ("a\"b", "a\"b"),
        ("%22x%22", "\"x\""),
        ("é", "é"),
        // Node's library sends a `%` as it is.
        ("100%", "100%"),
        ("5% of 20%25", "5% of 20%"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("%%41", "%A"),
        ("\"100%\"", "100%"),
    ];
    for (header, expected) in decoded {
        let event = binary(&[("ce-subject", header)], "").unwrap();
        assert_eq!(event.subject(), Some(expected), "{header}");
    }
}

#[test]
fn a_header_that_is_not_decoded_in_one_way_only_is_refused() {
    // The overlong forms of `/` and of NUL, a lone surrogate, half a character, also before a bare `%`.
    for header in ["%C0%AF", "%C0%80", "%ED%A0%80", "%E2%82", "%E2%82%", "%FF", "\"a\"b\"", "\"a\\\""] {
        assert_eq!(binary(&[("ce-subject", header)], ""), Err(ReadError::HeaderValue), "{header}");
    }
    let longest = "x".repeat(HEADER_BYTES_MAX + 1);
    assert_eq!(binary(&[("ce-subject", &longest)], ""), Err(ReadError::HeaderValue));
    let crlf = EventError::Character(Attribute::Subject);
    assert_eq!(binary(&[("ce-subject", "a%0d%0ab")], ""), Err(crlf.into()));
}

#[test]
fn an_attribute_has_one_header() {
    assert_eq!(binary(&[("ce-id", "evt-1")], ""), Err(ReadError::HeaderTwice));
    assert_eq!(binary(&[("ce-x", "1"), ("ce-x", "1")], ""), Err(ReadError::HeaderTwice));
    assert_eq!(binary(&[("ce-datacontenttype", "a/b")], ""), Err(ReadError::ContentTypeHeader));
    let twice = [("content-type", "a/b"), ("content-type", "a/b")];
    assert_eq!(binary(&twice, "x"), Err(ReadError::MediaType));
}

#[test]
fn what_every_event_has_is_not_missing() {
    for missing in 1..REQUIRED.len() {
        let rest: Vec<_> = REQUIRED.into_iter().enumerate().filter(|(it, _)| *it != missing).collect();
        let rest: Vec<_> = rest.into_iter().map(|(_, it)| it).collect();
        let error = read(&headers(&rest), &Bytes::new()).unwrap_err();
        assert!(matches!(error, ReadError::Event(EventError::Missing(_))), "{error}");
        assert_eq!(error.status(), 400);
    }
    let without_id = br#"{"specversion":"1.0","source":"/orders","type":"t"}"#;
    assert_eq!(read_structured(without_id), Err(EventError::Missing(Attribute::Id).into()));
    let null_id = br#"{"specversion":"1.0","source":"/orders","type":"t","id":null}"#;
    assert_eq!(read_structured(null_id), Err(EventError::Missing(Attribute::Id).into()));
    let number_id = br#"{"specversion":"1.0","source":"/orders","type":"t","id":7}"#;
    assert_eq!(read_structured(number_id), Err(ReadError::Value(Attribute::Id)));
}

#[test]
fn only_version_1_0_is_read() {
    for version in ["0.3", "9.9", "1", "1.00", ""] {
        let mut all = REQUIRED;
        all[0].1 = version;
        assert_eq!(read(&headers(&all), &Bytes::new()), Err(ReadError::SpecVersion), "{version}");
        let text = format!(r#"{{"specversion":"{version}","id":"i","source":"s","type":"t"}}"#);
        assert_eq!(read_structured(text.as_bytes()), Err(ReadError::SpecVersion), "{version}");
    }
    assert_eq!(
        read_structured(br#"{"specversion":1.0,"id":"i","source":"s","type":"t"}"#),
        Err(ReadError::SpecVersion)
    );
    assert_eq!(read(&headers(&REQUIRED[1..]), &Bytes::new()), Err(ReadError::SpecVersion));
}

#[test]
fn data_is_kept_as_it_stands() {
    let check = |members: &str, media_type: Option<&str>, data: Option<&[u8]>| {
        let event = structured(members).unwrap();
        assert_eq!(event.data_content_type(), media_type, "{members}");
        assert_eq!(event.data().map(|it| &**it), data, "{members}");
    };
    check("", None, None);
    check(r#","data":null"#, None, None);
    check(
        r#","data": {"n": 1.50, "b" :1e400}"#,
        Some("application/json"),
        Some(br#"{"n": 1.50, "b" :1e400}"#),
    );
    check(r#","data":"text""#, Some("application/json"), Some(b"\"text\""));
    check(
        r#","datacontenttype":"text/xml","data":"<a>\u00e9</a>""#,
        Some("text/xml"),
        Some("<a>é</a>".as_bytes()),
    );
    check(r#","datacontenttype":"text/xml","data":{"a":1}"#, Some("text/xml"), Some(br#"{"a":1}"#));
    check(r#","datacontenttype":"a/b+JSON","data":"text""#, Some("a/b+JSON"), Some(b"\"text\""));
    check(r#","data_base64":"/+8=""#, None, Some(b"\xff\xef"));
    check(r#","data_base64":"""#, None, Some(b""));
}

#[test]
fn data_that_is_there_twice_or_is_no_base64_is_refused() {
    assert_eq!(structured(r#","data":1,"data_base64":"AQID""#), Err(ReadError::TwoData));
    for text in ["\"AQI\"", "\"A QID\"", "\"_-8=\"", "5", "{}"] {
        assert_eq!(structured(&format!(r#","data_base64":{text}"#)), Err(ReadError::Base64), "{text}");
    }
}

#[test]
fn an_extension_has_a_text_form() {
    for (json, text) in
        [("\"x\"", "x"), ("5", "5"), ("-2147483648", "-2147483648"), ("true", "true"), ("false", "false")]
    {
        let event = structured(&format!(",\"a\":{json}")).unwrap();
        assert_eq!(event.extension("a"), Some(text));
    }
    for json in ["2147483648", "1.0", "1e2", "-0", "{}", "[1]"] {
        let refused = structured(&format!(",\"a\":{json}"));
        assert_eq!(refused, Err(ReadError::Value(Attribute::Extension)), "{json}");
    }
    assert_eq!(structured(r#","__proto__":"x""#), Err(EventError::ExtensionName.into()));
    assert_eq!(binary(&[("ce-__proto__", "x")], ""), Err(EventError::ExtensionName.into()));
}

#[test]
fn an_object_that_can_be_read_in_two_ways_is_refused() {
    assert_eq!(structured(r#","id":"evt-2""#).unwrap_err().status(), 400);
    assert_eq!(structured(r#","a":1,"\u0061":1"#).unwrap_err().status(), 400);
    assert_eq!(structured(r#","data":{"a":1,"a":1}"#).unwrap_err().status(), 400);
    assert_eq!(
        structured(&format!(",\"data\":{}{}", "[".repeat(10_000), "]".repeat(10_000))).unwrap_err().status(),
        400
    );
}

#[test]
fn a_million_members_are_no_event() {
    let members: Vec<String> = (0..1_000_000).map(|it| format!(",\"e{it}\":1")).collect();
    assert_eq!(structured(&members.concat()), Err(EventError::TooManyExtensions.into()));
}

#[test]
fn the_media_type_says_how_to_read() {
    let one = format!("{{{}}}", r#""specversion":"1.0","id":"i","source":"s","type":"t""#);
    let check = |media_type: &str, body: &str| {
        let body = Bytes::copy_from_slice(body.as_bytes());
        read(&headers(&[("content-type", media_type)]), &body)
    };
    for media_type in
        [STRUCTURED_JSON, "Application/CloudEvents+JSON", "application/cloudevents+json ; charset=UTF-8"]
    {
        assert!(matches!(check(media_type, &one), Ok(Received::One(_))), "{media_type}");
    }
    for media_type in [BATCH_JSON, "APPLICATION/CLOUDEVENTS-BATCH+JSON;charset=utf-8"] {
        assert!(
            matches!(check(media_type, &format!("[{one}]")), Ok(Received::Batch(it)) if it.len() == 1),
            "{media_type}"
        );
    }
    assert!(matches!(check("application/json", &one), Ok(Received::One(_))), "it says itself what it is");
    assert_eq!(check("application/json", "{}"), Err(ReadError::SpecVersion));
    let refused = [
        "application/cloudevents",
        "application/cloudevents+xml",
        "application/cloudevents+avro",
        "text/html",
        "application/cloudevents-batch+protobuf",
        "application/cloudevents+json; charset=utf-16",
    ];
    for media_type in refused {
        assert_eq!(check(media_type, &one), Err(ReadError::MediaType), "{media_type}");
        assert_eq!(ReadError::MediaType.status(), 415);
    }
}

#[test]
fn a_batch_has_a_result_for_each_item() {
    let good = r#"{"specversion":"1.0","id":"i","source":"s","type":"t"}"#;
    let text = format!(r#"[{good}, {{"specversion":"1.0"}}, 7, {{"id":1,"id":2}}, {good}]"#);
    let results = read_batch(text.as_bytes()).unwrap();
    let is_event: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(is_event, [true, false, false, false, true]);
    assert_eq!(read_batch(b"[]").unwrap(), []);
    for text in ["{}", "[", "[1,]", "[]x", "\u{feff}[]", ""] {
        assert_eq!(read_batch(text.as_bytes()).unwrap_err().status(), 400, "{text}");
    }
}

#[test]
fn a_batch_is_as_long_as_it_may_be_and_no_longer() {
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    assert_eq!(read_batch(list(BATCH_EVENTS_MAX).as_bytes()).unwrap().len(), BATCH_EVENTS_MAX);
    for count in [BATCH_EVENTS_MAX + 1, 100_000] {
        let refused = read_batch(list(count).as_bytes()).unwrap_err();
        assert_eq!((refused, refused.status()), (ReadError::BatchTooLong, 413));
    }
}

#[test]
fn what_is_sent_is_as_the_specification_writes_it() {
    let (headers, body) = full().to_binary();
    let mut lines: Vec<String> =
        headers.iter().map(|(name, it)| format!("{name}: {}", it.to_str().unwrap())).collect();
    lines.sort();
    let expected = [
        "ce-comexampleextension1: Euro%20%E2%82%AC%20%F0%9F%98%80",
        "ce-dataschema: https://example.com/order.json",
        "ce-id: evt-1",
        "ce-source: /orders",
        "ce-specversion: 1.0",
        "ce-subject: order/42",
        "ce-time: 2026-11-16T04:44:31.250Z",
        "ce-traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "ce-type: order.created",
        "content-type: application/json",
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, full().data().unwrap());
    let text = |event: &Event| String::from_utf8(event.to_structured().to_vec()).unwrap();
    let expected = concat!(
        r#"{"specversion":"1.0","id":"evt-1","source":"/orders","type":"order.created","subject":"order/42","#,
        r#""time":"2026-11-16T04:44:31.250Z","datacontenttype":"application/json","#,
        r#""dataschema":"https://example.com/order.json","comexampleextension1":"Euro € 😀","#,
        r#""traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","#,
        r#""data":{"total": 12.50, "id": 42}}"#,
    );
    assert_eq!(text(&full()), expected);
    let bare = r#"{"specversion":"1.0","id":"evt-1","source":"/orders","type":"order.created"}"#;
    assert_eq!(text(&order().build().unwrap()), bare);
    let null = order().json("null").build().unwrap();
    assert!(text(&null).ends_with(r#","data_base64":"bnVsbA=="}"#));
}

/// Whether both are one event; the space around JSON does not count.
fn is_same(one: &Event, other: &Event) -> bool {
    let trimmed = |it: &Event| it.data().map(|it| it.trim_ascii().to_vec());
    one.fingerprint() == other.fingerprint()
        && trimmed(one) == trimmed(other)
        && one.extensions().eq(other.extensions())
        && one.attribute("datacontenttype") == other.attribute("datacontenttype")
        && ["id", "source", "type", "subject", "time", "dataschema"]
            .iter()
            .all(|it| one.attribute(it) == other.attribute(it))
}

proptest! {
    #[test]
    fn an_event_survives_both_modes(event in any_event()) {
        let (headers, body) = event.to_binary();
        let first = read_binary(&headers, &body).unwrap();
        prop_assert_eq!(&first, &event);
        let second = read_structured(&first.to_structured()).unwrap();
        prop_assert!(is_same(&second, &event), "{:?}\n{:?}", second, event);
    }
}
