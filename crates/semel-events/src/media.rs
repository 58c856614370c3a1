//! Media types: what a body is said to be.
//!
//! 1. Type and subtype are compared without regard to case; parameters do not matter, but for `charset`.
//! 2. JSON is UTF-8: another `charset` is refused where JSON must be read.
//!
//! It does not check every rule of a media type: what is not understood is nobody's JSON.

use http::HeaderMap;

/// `type/subtype`, without parameters.
pub(crate) fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether data of this type is JSON: `application/json`, `text/json` or anything that ends in `+json`.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    let ends_in_json =
        || essence.len() > 5 && essence.as_bytes()[essence.len() - 5..].eq_ignore_ascii_case(b"+json");
    essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("text/json")
        || ends_in_json()
}

/// Whether data of this type is text for people: `text/…`.
pub(crate) fn is_text(media_type: &str) -> bool {
    media_type.as_bytes().get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"text/"))
}

/// Whether the text is in an encoding that can be read: UTF-8, or ASCII, which is some of it.
pub(crate) fn is_utf8(media_type: &str) -> bool {
    let mut charsets = media_type.split(';').skip(1).filter_map(|it| it.split_once('='));
    let value = charsets.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    value.is_none_or(|(_, it)| {
        let it = it.trim().trim_matches('"');
        it.eq_ignore_ascii_case("utf-8")
            || it.eq_ignore_ascii_case("utf8")
            || it.eq_ignore_ascii_case("us-ascii")
    })
}

/// What the header `Content-Type` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContentType<'a> {
    Absent,
    /// It is there once, and readable.
    One(&'a str),
    /// It is there twice, or is no text.
    Unclear,
}

/// Reads the header `Content-Type`.
pub(crate) fn content_type(headers: &HeaderMap) -> ContentType<'_> {
    let mut all = headers.get_all(http::header::CONTENT_TYPE).iter();
    match (all.next(), all.next()) {
        (None, _) => ContentType::Absent,
        (Some(one), None) => one.to_str().map_or(ContentType::Unclear, |it| ContentType::One(it.trim())),
        (Some(_), Some(_)) => ContentType::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_its_media_type() {
        let json =
            ["application/json", "Application/JSON; charset=utf-8", "text/json", "application/vnd.a+JSON"];
        for media_type in json {
            assert!(is_json(media_type), "{media_type}");
        }
        for media_type in
            ["", "text/plain", "application/jsonl", "+json", "application/x-www-form-urlencoded"]
        {
            assert!(!is_json(media_type), "{media_type}");
        }
    }

    #[test]
    fn another_charset_is_not_utf8() {
        for media_type in
            ["application/json", "a/b; charset=UTF-8", "a/b;x=y; Charset=\"utf-8\"", "a/b;charset=us-ascii"]
        {
            assert!(is_utf8(media_type), "{media_type}");
        }
        for media_type in ["a/b; charset=utf-16", "a/b; charset=iso-8859-1", "a/b;charset="] {
            assert!(!is_utf8(media_type), "{media_type}");
        }
    }
}
