//! What a request asks for, as one hash.
//!
//! 1. It is taken over the method, the route, the path with its query, the chosen headers with all their values, and the
//!    body: each with its length, so that nothing can be moved from one into the other.
//! 2. A body whose type says JSON, and that is JSON, is compared as JSON: the order of members and the space between
//!    tokens do not matter. Any other body is compared byte for byte.
//! 3. What `Content-Encoding` says is always compared, since it says what the bytes mean, and a body that has one is compared
//!    byte for byte: nothing is unpacked. A request that has none has the fingerprint that it had before there was this rule.
//! 4. No body is copied for that but a small one of JSON.
//!
//! Trailers and all other headers are not compared: they do not say what is asked for, and clients change them
//! between tries.

use ::http::{
    HeaderMap, HeaderName,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use semel_core::{
    fingerprint::{Fingerprint, json_room},
    sabotage,
    scratch::with_bytes,
};

/// Room for what is compared of most heads.
const HEAD_BYTES: usize = 128;

/// Stands in front of what `Content-Encoding` says, where the length of the method would stand: none is so long.
const ENCODED: usize = u32::MAX as usize;

/// What of a request's head is compared.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) route: &'a str,
    pub(crate) path_and_query: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// Of this request, with these headers and this body.
pub(crate) fn fingerprint(asked: &Asked<'_>, compared: &[HeaderName], body: &[u8]) -> Fingerprint {
    let body = if sabotage::is_on("http_body_not_in_fingerprint") { &[] } else { body };
    let is_encoded =
        asked.headers.contains_key(CONTENT_ENCODING) && !sabotage::is_on("http_encoding_not_in_fingerprint");
    let json = if is_json(asked.headers) && !is_encoded { Some(body) } else { None };
    // With room for a JSON text, and to put the members of a small one in order; a large one needs none.
    let room = json.map_or(0, |it| json_room(it).min(it.len() + HEAD_BYTES));
    with_bytes(|head| {
        head.reserve(HEAD_BYTES + room);
        if is_encoded {
            put_number(head, ENCODED);
            put_values(head, asked.headers, &CONTENT_ENCODING);
        }
        for part in [asked.method, asked.route, asked.path_and_query] {
            put(head, part.as_bytes());
        }
        for name in compared {
            put(head, name.as_str().as_bytes());
            put_values(head, asked.headers, name);
        }
        // The body stands last, and needs no length. JSON and bytes never share a hash.
        let as_json = json.and_then(|it| Fingerprint::of_head_and_json(head, it).ok());
        let as_bytes = || Fingerprint::of_parts(&[head, body], None).expect("there is no JSON in it");
        as_json.unwrap_or_else(as_bytes)
    })
}

/// Whether the type says that the body is JSON: `application/json`, or any type that ends in `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).map(::http::HeaderValue::as_bytes) else { return false };
    // As nearly everybody writes it.
    if value == b"application/json" {
        return true;
    }
    let essence = value.split(|it| *it == b';').next().unwrap_or_default().trim_ascii();
    let suffix = essence.len().checked_sub(5).map_or(&[][..], |at| &essence[at..]);
    essence.eq_ignore_ascii_case(b"application/json") || suffix.eq_ignore_ascii_case(b"+json")
}

/// All values of a header, and how many there are.
fn put_values(head: &mut Vec<u8>, headers: &HeaderMap, name: &HeaderName) {
    let values = headers.get_all(name);
    put_number(head, values.iter().count());
    for value in values {
        put(head, value.as_bytes());
    }
}

fn put(head: &mut Vec<u8>, part: &[u8]) {
    put_number(head, part.len());
    head.extend_from_slice(part);
}

fn put_number(head: &mut Vec<u8>, number: usize) {
    head.extend_from_slice(&(number as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::header::ACCEPT;

    #[derive(Clone, Copy, Debug)]
    struct Sample {
        method: &'static str,
        route: &'static str,
        path: &'static str,
        content_type: &'static [&'static str],
        encoding: &'static [&'static str],
        accept: &'static str,
        body: &'static [u8],
    }

    const SAMPLE: Sample = Sample {
        method: "POST",
        route: "/orders/{id}",
        path: "/orders/7?dry=1",
        content_type: &["application/json"],
        encoding: &[],
        accept: "*/*",
        body: br#"{"a":1,"b":2}"#,
    };

    fn of(sample: Sample) -> Fingerprint {
        let mut headers = HeaderMap::new();
        for value in sample.content_type {
            headers.append(CONTENT_TYPE, value.parse().unwrap());
        }
        for value in sample.encoding {
            headers.append(CONTENT_ENCODING, value.parse().unwrap());
        }
        headers.append(ACCEPT, sample.accept.parse().unwrap());
        let asked = Asked {
            method: sample.method,
            route: sample.route,
            path_and_query: sample.path,
            headers: &headers,
        };
        fingerprint(&asked, &[CONTENT_TYPE], sample.body)
    }

    #[test]
    fn what_is_asked_for_differently_has_another_fingerprint() {
        let others = [
            Sample { method: "PATCH", ..SAMPLE },
            Sample { route: "/orders/{name}", ..SAMPLE },
            Sample { path: "/orders/7", ..SAMPLE },
            Sample { path: "/orders/8?dry=1", ..SAMPLE },
            Sample { route: "/orders/{id}/", path: "orders/7?dry=1", ..SAMPLE },
            Sample { content_type: &[], ..SAMPLE },
            Sample { content_type: &["text/plain"], ..SAMPLE },
            Sample { content_type: &["application/json", "application/json"], ..SAMPLE },
            Sample { encoding: &["gzip"], ..SAMPLE },
            Sample { encoding: &["br"], ..SAMPLE },
            Sample { encoding: &["gzip", "br"], ..SAMPLE },
            Sample { encoding: &["gzip, br"], ..SAMPLE },
            Sample { encoding: &[""], ..SAMPLE },
            Sample { encoding: &["gzip"], content_type: &["text/plain"], ..SAMPLE },
            Sample { body: br#"{"a":1,"b":3}"#, ..SAMPLE },
            Sample { body: b"", ..SAMPLE },
            Sample { body: br#"{"a":1,"b":2"#, ..SAMPLE },
        ];
        for (n, other) in others.iter().enumerate() {
            assert_ne!(of(*other), of(SAMPLE), "the {n}th");
            for (m, third) in others.iter().enumerate() {
                assert_eq!(of(*other) == of(*third), n == m, "the {n}th and the {m}th");
            }
        }
    }

    #[test]
    fn what_is_asked_for_in_other_words_has_the_same_fingerprint() {
        assert_eq!(of(Sample { body: br#" {"b": 2, "a": 1}"#, ..SAMPLE }), of(SAMPLE));
        assert_eq!(of(Sample { accept: "text/html", ..SAMPLE }), of(SAMPLE));
    }

    #[test]
    fn only_json_is_compared_as_json() {
        let reordered = |content_type| {
            let one = Sample { content_type, ..SAMPLE };
            of(one) == of(Sample { body: br#"{"b":2,"a":1}"#, ..one })
        };
        for content_type in [
            &["application/json"],
            &["Application/JSON; charset=utf-8"],
            &["application/merge-patch+json"],
            &["application/vnd.api+JSON;v=1"],
        ] {
            assert!(reordered(content_type), "{content_type:?}");
        }
        for content_type in [&["text/plain"], &["application/jsonp"], &["application/x-ndjson"], &["json"]] {
            assert!(!reordered(content_type), "{content_type:?}");
        }
    }

    #[test]
    fn what_is_encoded_is_compared_byte_for_byte() {
        let one = Sample { encoding: &["gzip"], ..SAMPLE };
        assert_eq!(of(one), of(one));
        assert_ne!(of(one), of(Sample { body: br#"{"b":2,"a":1}"#, ..one }));
    }

    /// Records of earlier versions are compared with it.
    #[test]
    fn a_request_that_is_not_encoded_has_the_fingerprint_that_it_always_had() {
        let mut head = Vec::new();
        for part in ["POST", "/orders/{id}", "/orders/7?dry=1", "content-type"] {
            put(&mut head, part.as_bytes());
        }
        put_number(&mut head, 1);
        put(&mut head, b"application/json");
        let always = Fingerprint::of_parts(&[&head], Some(SAMPLE.body)).unwrap();
        assert_eq!(of(SAMPLE), always);
    }

    #[test]
    fn what_says_that_it_is_json_and_is_not_is_compared_byte_for_byte() {
        let one = Sample { body: b"{", ..SAMPLE };
        assert_eq!(of(one), of(one));
        assert_ne!(of(one), of(Sample { body: b"{ ", ..one }));
    }
}
