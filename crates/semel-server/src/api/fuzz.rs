//! What stands behind the question mark: see [`crate::fuzz`].

use super::{
    book,
    door::guesser,
    executions::{read_cursor, write_cursor},
    problems::Trouble,
    shape::Shape,
    table::{encoded, pairs, read_query},
    views::{AuditQuery, ExecutionsQuery, WhyQuery},
};
use crate::config::network;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;

/// A query is read, or refused for what is wrong with it; it is read again from what it says.
pub(crate) fn query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let is_read =
        [is_read::<ExecutionsQuery>(&text), is_read::<AuditQuery>(&text), is_read::<WhyQuery>(&text)];
    let Some(said) = pairs(&text) else {
        assert_eq!(is_read, [false; 3], "what has no pairs says nothing");
        return;
    };
    let again: Vec<_> =
        said.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    // Written so it may be too long.
    if let Some(pairs) = pairs(&again.join("&")) {
        assert_eq!(pairs, said, "written and read");
    }
}

fn is_read<Q: Shape + DeserializeOwned>(text: &str) -> bool {
    match read_query::<Q>(text) {
        Ok(_) => true,
        Err(Trouble::Plain(problem) | Trouble::Said(problem, _)) => {
            assert!([400, 422].contains(&problem.status().as_u16()), "{problem:?}");
            false
        }
        Err(trouble @ (Trouble::Method(_) | Trouble::Store(_))) => panic!("{trouble:?}"),
    }
}

/// A cursor is bytes, or refused.
pub(crate) fn cursor(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(cursor) = read_cursor(&text) {
        assert_eq!(write_cursor(&cursor), text.to_ascii_lowercase(), "what is read was written so");
    }
}

/// Whom a proxy says it forwards for, a header in each line: whoever stands last and is no proxy of ours, if that is an address.
pub(crate) fn forwarded(bytes: &[u8]) {
    let name = HeaderName::from_static("x-forwarded-for");
    let values = bytes.split(|it| *it == b'\n').filter_map(|it| HeaderValue::from_bytes(it).ok());
    let headers: HeaderMap = values.map(|it| (name.clone(), it)).collect();
    let trusted: Vec<_> =
        ["10.0.0.0/8", "fd00::/8"].into_iter().map(|it| network(it).expect("a network")).collect();
    let stranger = IpAddr::from([192, 0, 2, 1]);
    assert_eq!(guesser(&headers, stranger, &trusted), Some(stranger), "only who is trusted is believed");
    let found = guesser(&headers, IpAddr::from([10, 0, 0, 1]), &trusted);
    let Some(found) = found else { return };
    assert!(!trusted.iter().any(|it| it.contains(found)), "{found} is a proxy of ours");
    let values: Vec<_> =
        headers.get_all(&name).iter().map(|it| String::from_utf8_lossy(it.as_bytes())).collect();
    let said = values.join(",");
    let is_said = said.rsplit(',').any(|it| {
        let text = it.trim_ascii();
        text.parse() == Ok(found) || text.parse::<std::net::SocketAddr>().is_ok_and(|it| it.ip() == found)
    });
    assert!(is_said, "{found} stands nowhere in {said}");
}

/// The document of functions that were added: what a node reads and writes, another one reads as the same.
pub(crate) fn functions(bytes: &[u8]) {
    let Some(written) = book::rewritten(bytes) else { return };
    let says = serde_json::from_slice(&written).expect("what is written is JSON");
    // Of a fraction, which no setting is, the last digit is not kept.
    if !has_fraction(&says) {
        assert_eq!(book::rewritten(&written).as_ref(), Some(&written), "{}", written.escape_ascii());
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
