//! Where a request goes.
//!
//! 1. The route is what the router matched (`/orders/{id}`), where a router says so, else the path: part of what a key
//!    names.
//! 2. The path that is compared is the one that the client sent, also inside of a nested router that has cut it.
//! 3. Any text is a route: what could not be part of a key as it is goes in as its hash.

use ::http::{Uri, request::Parts};
use semel_core::{
    key::{PartRef, SCOPE_BYTES_MAX, is_text},
    sha256::sha256,
};

/// Longest text that goes into a key's scope as it is: the name of the service, the method and the route fit together.
const TEXT_BYTES_MAX: usize = SCOPE_BYTES_MAX / 3;

/// The route, unless the layer has a function for it.
pub(super) fn route_of(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(matched) = parts.extensions.get::<::axum::extract::MatchedPath>() {
        return matched.as_str();
    }
    uri_of(parts).path()
}

/// The path and query that the client sent.
pub(super) fn path_and_query(parts: &Parts) -> &str {
    uri_of(parts).path_and_query().map_or("", ::http::uri::PathAndQuery::as_str)
}

fn uri_of(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<::axum::extract::OriginalUri>() {
        return &original.0;
    }
    &parts.uri
}

/// Text as a part of a key, whatever it is.
pub(super) enum Named<'a> {
    Plain(&'a str),
    Hashed([u8; 32]),
}

impl<'a> Named<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let is_plain = text.len() <= TEXT_BYTES_MAX && is_text(text);
        if is_plain { Self::Plain(text) } else { Self::Hashed(sha256(text)) }
    }

    pub(super) fn part(&self) -> PartRef<'_> {
        match self {
            Self::Plain(text) => PartRef::Text(text),
            Self::Hashed(hash) => PartRef::Bytes(hash),
        }
    }
}

/// As [`Named`], for those who keep it.
#[cfg(feature = "lambda")]
pub(crate) fn part_of(text: &str) -> semel_core::key::Part {
    use semel_core::key::Part;
    match Named::new(text) {
        Named::Plain(text) => Part::Text(text.to_owned()),
        Named::Hashed(hash) => Part::Bytes(hash.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Key;

    #[test]
    fn any_text_is_part_of_a_key_and_no_two_are_the_same() {
        let long = "/x".repeat(10_000);
        let longer = format!("{long}/");
        let texts = ["", " ", "/", "/orders/{id}", "/a\u{7f}", "/a\n", &long, &longer];
        let key = |it| Key::of_refs(&[PartRef::Text("http"), Named::new(it).part()], &[PartRef::Text("k")]);
        let keys: Vec<_> = texts.into_iter().map(|it| key(it).unwrap()).collect();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|it| it == key), Some(n));
        }
    }
}
