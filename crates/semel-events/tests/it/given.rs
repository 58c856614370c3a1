//! Events and requests that tests begin with.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use semel_events::event::{Event, EventBuilder};

/// An event with everything that an event can have.
pub(crate) fn full() -> Event {
    order()
        .subject("order/42")
        .time("2026-11-16T04:44:31.250Z")
        .schema("https://example.com/order.json")
        .extension("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .extension("comexampleextension1", "Euro € 😀")
        .json(r#"{"total": 12.50, "id": 42}"#)
        .build()
        .unwrap()
}

/// An event with nothing that it need not have.
pub(crate) fn order() -> EventBuilder {
    Event::builder("evt-1", "/orders", "order.created")
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

prop_compose! {
    /// Any event.
    pub(crate) fn any_event()(
        id in text(), source in text(), kind in text(),
        subject in proptest::option::of(text()),
        time in proptest::option::of(0_u64..4_000_000_000),
        schema in proptest::option::of(text()),
        extensions in proptest::collection::btree_map("[a-z0-9]{1,20}", "[^\\p{Cc}\u{fdd0}-\u{fdef}\u{fffe}\u{ffff}]{0,20}", 0..6),
        data in any_data(),
    ) -> Event {
        let mut event = Event::builder(id, source, kind);
        if let Some(subject) = subject { event = event.subject(subject); }
        if let Some(seconds) = time { event = event.time(rfc3339(seconds)); }
        if let Some(schema) = schema { event = event.schema(schema); }
        for (name, value) in extensions {
            let is_free = !["id", "source", "type", "subject", "time", "data"].contains(&name.as_str());
            if is_free && is_assigned(&value) {
                event = event.extension(name, value);
            }
        }
        let (media_type, bytes) = data;
        if let Some(media_type) = media_type { event = event.content_type(media_type); }
        if let Some(bytes) = bytes { event = event.data(bytes); }
        event.build().unwrap()
    }
}

/// Any text that an attribute can have.
fn text() -> impl Strategy<Value = String> {
    "[^\\p{Cc}]{1,30}".prop_filter("no attribute", |it| !it.trim().is_empty() && is_assigned(it))
}

fn is_assigned(text: &str) -> bool {
    text.chars().all(|it| !matches!(it as u32, 0xfdd0..=0xfdef) && it as u32 & 0xfffe != 0xfffe)
}

fn any_data() -> impl Strategy<Value = (Option<String>, Option<Vec<u8>>)> {
    let json = prop_oneof![
        Just(r#"{"b":[1,2.50,1e400],"a":"\u00e9"}"#.to_owned()),
        Just(r#"{"twice":1,"twice":2}"#.to_owned()),
        Just("null".to_owned()),
        Just("not json".to_owned()),
        "[a-z]{0,8}".prop_map(|it| format!("\"{it}\"")),
        any::<i128>().prop_map(|it| it.to_string()),
    ];
    let bytes = proptest::collection::vec(any::<u8>(), 1..50);
    prop_oneof![
        Just((None, None)),
        bytes.clone().prop_map(|it| (None, Some(it))),
        bytes.clone().prop_map(|it| (Some("application/octet-stream".to_owned()), Some(it))),
        bytes.prop_map(|it| (Some("text/plain; charset=utf-8".to_owned()), Some(it))),
        "\\PC{1,20}".prop_map(|it| (Some("text/plain".to_owned()), Some(it.into_bytes()))),
        json.prop_map(|it| (Some("application/json".to_owned()), Some(it.into_bytes()))),
    ]
}

/// A moment of the 100 years from 1970, to the minute.
fn rfc3339(seconds: u64) -> String {
    let (years, rest) = (seconds / 31_536_000, seconds % 31_536_000);
    let (day, minute) = (rest / 86_400 % 28 + 1, rest / 60 % 60);
    format!("{:04}-{:02}-{day:02}T{:02}:{minute:02}:00Z", 1970 + years, rest % 12 + 1, rest % 24)
}
