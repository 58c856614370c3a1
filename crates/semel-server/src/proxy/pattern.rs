//! Which requests a route is for.
//!
//! 1. A pattern is a path: exact (`/payments`), with parameters (`/orders/{id}/refunds`), or everything below a path
//!    (`/payments/*`).
//! 2. The pattern as it is written is the route in the scope of a key: all orders share one route, and a key that
//!    names one request at `/orders/{id}` does not name another elsewhere.
//! 3. Paths are compared in one form, so that no other way of writing the same path slips past a route: percent-encoded
//!    letters are decoded, repeated slashes are one, and `.` and `..` are resolved.
//!
//! It does not change what is forwarded: the upstream gets the path as the client wrote it.

use crate::config::Wanted;
use std::borrow::Cow;

/// Longest pattern, in bytes: it becomes a part of the scope.
pub const PATTERN_BYTES_MAX: usize = 256;

/// A path, or many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Exact(String),
    /// Any one segment that is not empty.
    Any,
    /// Whatever follows.
    Rest,
}

impl Pattern {
    /// A pattern as it is written in the file.
    pub(crate) fn parse(text: &str) -> Result<Self, Wanted> {
        let wanted = "a path such as `/payments`, `/orders/{id}` or `/payments/*`";
        let rest = text.strip_prefix('/').ok_or(wanted)?;
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("{wanted} of at most {PATTERN_BYTES_MAX} bytes"));
        }
        if text.contains(['?', '#']) || text.chars().any(|it| it.is_control() || it == ' ') {
            return Err(format!("{wanted} without a query, spaces or control characters"));
        }
        let count = rest.split('/').count();
        let segments: Result<Vec<_>, _> =
            rest.split('/').enumerate().map(|(n, it)| segment(it, n + 1 == count)).collect();
        let pattern = Self { text: text.to_owned(), segments: segments? };
        let is_one_form = pattern.segments.iter().any(|it| matches!(it, Segment::Any | Segment::Rest))
            || canonical(text) == text;
        if is_one_form {
            return Ok(pattern);
        }
        Err(format!("{wanted} in its plain form, which is `{}`", canonical(text)))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a path, in its canonical form, is one of these.
    pub fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut found = path.split('/');
        for segment in &self.segments {
            let matches = match (segment, found.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::Exact(own), Some(other)) => own == other,
                (Segment::Any, Some(other)) => !other.is_empty(),
                (Segment::Rest | Segment::Exact(_) | Segment::Any, None) => false,
            };
            if !matches {
                return false;
            }
        }
        found.next().is_none()
    }

    /// Whether this one takes every request that the other would.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.segments.iter();
        for own in &self.segments {
            let is_covered = match (own, others.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::Any, Some(Segment::Exact(it))) => !it.is_empty(),
                (Segment::Any, Some(Segment::Any)) => true,
                (Segment::Exact(one), Some(Segment::Exact(it))) => one == it,
                (Segment::Any, Some(Segment::Rest) | None)
                | (Segment::Exact(_), Some(Segment::Any | Segment::Rest) | None)
                | (Segment::Rest, None) => false,
            };
            if !is_covered {
                return false;
            }
        }
        others.next().is_none()
    }
}

fn segment(text: &str, is_last: bool) -> Result<Segment, Wanted> {
    if text == "*" {
        let only_last = "a path with `*` only as its last segment";
        return if is_last { Ok(Segment::Rest) } else { Err(only_last.to_owned()) };
    }
    let is_name = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-'))
    };
    if let Some(name) = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
        let named = "a path with parameters named by letters and digits, such as `{id}`";
        return if is_name(name) { Ok(Segment::Any) } else { Err(named.to_owned()) };
    }
    if text.contains(['{', '}', '*']) {
        return Err(
            "a path whose parameters and `*` are whole segments, such as `/a/{id}/b` or `/a/*`".to_owned()
        );
    }
    Ok(Segment::Exact(text.to_owned()))
}

/// A path in the one form in which paths are compared.
pub(crate) fn canonical(path: &str) -> Cow<'_, str> {
    if is_plain(path) { Cow::Borrowed(path) } else { Cow::Owned(resolved(&decoded(path))) }
}

/// Whether nothing in a path is written in another way than it could be.
fn is_plain(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let is_plain = byte != b'%' && !(before == b'/' && matches!(byte, b'/' | b'.'));
        before = byte;
        is_plain
    })
}

/// With what need not be encoded decoded, and the rest in capitals.
fn decoded(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        let byte = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        match (code, byte) {
            (Some(_), Some(byte)) if is_unreserved(byte) => decoded.push(char::from(byte)),
            (Some(code), _) => {
                decoded.push('%');
                decoded.push_str(&code.to_ascii_uppercase());
            }
            (None, _) => decoded.push('%'),
        }
        rest = &rest[at + 1 + code.map_or(0, str::len)..];
    }
    decoded.push_str(rest);
    decoded
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Without repeated slashes and dots.
fn resolved(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_below = false;
    for segment in path.split('/').skip(1) {
        ends_below = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let slash = if ends_below && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, expected: bool) {
        let pattern = Pattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&canonical(path)), expected, "{pattern:?} {path}");
    }

    #[test]
    fn a_pattern_takes_its_paths_and_no_others() {
        check("/", "/", true);
        check("/", "/a", false);
        check("/payments", "/payments", true);
        check("/payments", "/payments/", false);
        check("/payments", "/paymentsx", false);
        check("/payments/*", "/payments/1/refund", true);
        check("/payments/*", "/payments/", true);
        check("/payments/*", "/payments", false);
        check("/*", "/", true);
        check("/*", "/a/b/c", true);
        check("/orders/{id}", "/orders/7", true);
        check("/orders/{id}", "/orders/", false);
        check("/orders/{id}", "/orders/7/refunds", false);
        check("/orders/{id}/refunds", "/orders/7/refunds", true);
        check("/orders/{id}/refunds", "/orders/7/refund", false);
    }

    #[test]
    fn no_other_way_to_write_a_path_slips_past_a_route() {
        for path in [
            "//payments",
            "/./payments",
            "/x/../payments",
            "/%70ayments",
            "/%70%61yments",
            "/..//payments",
            "/a/b/../../payments",
            "/%2e%2e/payments",
            "/x/%2E%2e/payments",
        ] {
            check("/payments", path, true);
        }
        check("/payments/*", "/payments%2f1", false);
        check("/payments/*", "/payments//1", true);
        check("/payments/*", "/payments/1/../2", true);
        check("/payments/*", "/payments/../admin", false);
    }

    #[test]
    fn the_canonical_form_of_a_canonical_path_is_itself() {
        for path in [
            "/", "/a", "/a/", "/a/b", "/a%2Fb", "/%", "/%zz", "/a%2", "/a/%2e", "//", "/.", "/..", "/a/..",
            "/ä",
        ] {
            let once = canonical(path).into_owned();
            assert!(once.starts_with('/'), "{path}");
            assert_eq!(canonical(&once), once, "{path}");
        }
        assert_eq!(canonical("/a/./"), "/a/");
        assert_eq!(canonical("/a%2fb"), "/a%2Fb");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "a",
            "payments/*",
            "/a/*/b",
            "/a*",
            "/a/{}",
            "/a/{b",
            "/a/x{b}",
            "/a?b",
            "/a b",
            "/a//b",
            "/%61",
            "/a/../b",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert!(Pattern::parse(&format!("/{}", "a".repeat(PATTERN_BYTES_MAX - 1))).is_ok());
        assert!(Pattern::parse(&format!("/{}", "a".repeat(PATTERN_BYTES_MAX))).is_err());
    }

    #[test]
    fn a_route_that_is_never_reached_is_seen() {
        let covers =
            |one: &str, other: &str| Pattern::parse(one).unwrap().covers(&Pattern::parse(other).unwrap());
        assert!(covers("/*", "/a/b"));
        assert!(covers("/a/*", "/a/{id}/c"));
        assert!(covers("/a/{id}", "/a/{name}"));
        assert!(covers("/a/{id}", "/a/b"));
        assert!(covers("/a", "/a"));
        assert!(!covers("/a/{id}", "/a/*"));
        assert!(!covers("/a", "/a/b"));
        assert!(!covers("/a/b", "/a/{id}"));
        assert!(!covers("/a/*", "/a"));
    }
}
