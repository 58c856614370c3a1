//! What an event is, and what it is not.

use crate::given::{full, order};
use semel_core::time::Timestamp;
use semel_events::event::{
    Attribute, EVENT_BYTES_MAX, EXTENSION_BYTES_MAX, EXTENSION_NAME_BYTES_MAX, EXTENSIONS_MAX, Event,
    EventBuilder, EventError, TIME_BYTES_MAX,
};

fn check(event: EventBuilder, expected: Result<(), EventError>) {
    let shown = format!("{event:?}");
    assert_eq!(event.build().map(|_| ()), expected, "{}", shown.chars().take(300).collect::<String>());
}

#[test]
fn an_attribute_is_as_long_as_it_may_be_and_no_longer() {
    type Build = fn(String) -> EventBuilder;
    let texts: [(Attribute, Build); 7] = [
        (Attribute::Id, |it| Event::builder(it, "s", "t")),
        (Attribute::Source, |it| Event::builder("i", it, "t")),
        (Attribute::Type, |it| Event::builder("i", "s", it)),
        (Attribute::Subject, |it| order().subject(it)),
        (Attribute::DataContentType, |it| order().content_type(format!("a/{}", &it[2..]))),
        (Attribute::DataSchema, |it| order().schema(it)),
        (Attribute::Extension, |it| order().extension("a", it)),
    ];
    for (attribute, build) in texts {
        let max = attribute.bytes_max();
        check(build("x".repeat(max)), Ok(()));
        check(build("x".repeat(max + 1)), Err(EventError::TooLong(attribute)));
    }
    let digits = "1".repeat(TIME_BYTES_MAX - "2026-11-16T04:44:31.Z".len());
    check(order().time(format!("2026-11-16T04:44:31.{digits}Z")), Ok(()));
    check(order().time(format!("2026-11-16T04:44:31.{digits}1Z")), Err(EventError::Time));
}

#[test]
fn an_attribute_without_a_value_is_missing() {
    for blank in ["", " ", "\u{3000}"] {
        check(Event::builder(blank, "s", "t"), Err(EventError::Missing(Attribute::Id)));
        check(Event::builder("i", blank, "t"), Err(EventError::Missing(Attribute::Source)));
        check(Event::builder("i", "s", blank), Err(EventError::Missing(Attribute::Type)));
        check(order().subject(blank), Err(EventError::Missing(Attribute::Subject)));
    }
}

#[test]
fn a_character_that_no_attribute_may_have_is_refused() {
    for char in ["\r\n", "\0", "\u{7f}", "\u{9f}", "\u{fdd0}", "\u{fffe}", "\u{1ffff}"] {
        let text = format!("a{char}b");
        check(Event::builder(&text, "s", "t"), Err(EventError::Character(Attribute::Id)));
        check(order().extension("a", &text), Err(EventError::Character(Attribute::Extension)));
        check(
            order().content_type(format!("a/{text}")),
            Err(EventError::Character(Attribute::DataContentType)),
        );
    }
    check(order().content_type("täxt/plain"), Err(EventError::ContentType));
    check(order().content_type(" a/b"), Err(EventError::ContentType));
    check(order().content_type("json"), Err(EventError::ContentType));
}

#[test]
fn an_extension_has_a_name_of_its_own() {
    let long = "a".repeat(EXTENSION_NAME_BYTES_MAX + 1);
    for name in ["", "__proto__", "Upper", "with-dash", "é", "data", "data_base64", "id", "type", &long] {
        check(order().extension(name, "x"), Err(EventError::ExtensionName));
    }
    check(order().extension(&long[1..], "x".repeat(EXTENSION_BYTES_MAX)), Ok(()));
    check(order().extension("a", "").extension("b", " "), Ok(()));
    check(order().extension("a", "1").extension("a", "2"), Err(EventError::ExtensionTwice));
    let many = |count: usize| (0..count).fold(order(), |event, it| event.extension(format!("e{it}"), "x"));
    check(many(EXTENSIONS_MAX), Ok(()));
    check(many(EXTENSIONS_MAX + 1), Err(EventError::TooManyExtensions));
}

#[test]
fn an_event_fits_into_every_queue() {
    let overhead = order().data("x").build().unwrap().encode().len() + 2 - 1;
    let largest = order().data(vec![0; EVENT_BYTES_MAX - overhead]);
    assert_eq!(largest.clone().build().unwrap().encode().len(), EVENT_BYTES_MAX);
    check(largest.data(vec![0; EVENT_BYTES_MAX - overhead + 1]), Err(EventError::TooLarge));
}

#[test]
fn an_attribute_is_found_by_its_name() {
    let event = full();
    let expected = [
        ("specversion", Some("1.0")),
        ("id", Some("evt-1")),
        ("source", Some("/orders")),
        ("type", Some("order.created")),
        ("subject", Some("order/42")),
        ("time", Some("2026-11-16T04:44:31.250Z")),
        ("datacontenttype", Some("application/json")),
        ("dataschema", Some("https://example.com/order.json")),
        ("comexampleextension1", Some("Euro € 😀")),
        ("nothing", None),
    ];
    for (name, value) in expected {
        assert_eq!(event.attribute(name), value, "{name}");
    }
}

#[test]
fn an_event_says_when_it_is_of_no_more_use() {
    let expiry = |text: &str| order().extension("expirytime", text).build().unwrap().expires_at();
    assert_eq!(expiry("1970-01-01T00:00:01Z"), Some(Timestamp::from_millis(1_000)));
    assert_eq!(expiry("soon"), None);
    assert_eq!(full().expires_at(), None);
}

#[test]
fn the_fingerprint_is_of_what_happened() {
    let of = |event: EventBuilder| event.build().unwrap().fingerprint();
    let one = of(order().json(r#"{"a":1,"b":2}"#));
    let same = [
        order().json(r#"{ "b": 2, "a": 1 }"#),
        order().content_type("Application/JSON; charset=utf-8").data(r#"{"a":1,"b":2}"#),
        order().json(r#"{"a":1,"b":2}"#).time("2026-11-16T04:44:31Z").extension("traceparent", "00"),
        Event::builder("evt-2", "/elsewhere", "order.created").json(r#"{"a":1,"b":2}"#),
    ];
    for event in same {
        assert_eq!(of(event.clone()), one, "{event:?}");
    }
    let other = [
        Event::builder("evt-1", "/orders", "order.deleted").json(r#"{"a":1,"b":2}"#),
        order().json(r#"{"a":1,"b":2.0}"#),
        order().json(r#"{"a":1,"b":2}"#).subject("x"),
        order().json(r#"{"a":1,"b":2}"#).schema("x"),
        order().content_type("text/plain").data(r#"{"a":1,"b":2}"#),
        order().data(r#"{"a":1,"b":2}"#),
        order().json("not json"),
        order().json(r#"{"a":1,"a":2}"#),
        order().json(""),
        order(),
    ];
    let mut all = vec![one];
    for event in other {
        let fingerprint = of(event.clone());
        assert!(!all.contains(&fingerprint), "{event:?}");
        all.push(fingerprint);
    }
}
