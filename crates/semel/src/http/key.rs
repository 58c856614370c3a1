//! What stands in `Idempotency-Key`.
//!
//! 1. The field is a structured-field string (RFC 9651): quoted, with `\"` and `\\` as its only escapes. Parameters
//!    may follow it; they must be well-formed, and are ignored.
//! 2. A bare key is accepted too, unless the layer is strict: visible ASCII without `"`, `\`, `,` and `;`, so that it
//!    is never mistaken for a list or for something quoted. Bare and quoted, the same content is the same key.
//! 3. A key has 1 to [`KEY_BYTES_MAX`] bytes of printable ASCII, and not only spaces.
//! 4. One field, once. Two are refused, also if they are equal, and also if somebody joined them with a comma.
//!
//! It does not trim or fold case inside of the quotes.

use super::{IDEMPOTENCY_KEY, parameters::are_parameters};
use ::http::HeaderMap;
use semel_core::{
    sabotage,
    scan::{is_printable, plain_bytes},
};
use std::borrow::Cow;

/// Longest key, in bytes, without its quotes and escapes.
pub const KEY_BYTES_MAX: usize = 255;

/// A key that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoKey;

/// The request's key, if it has one.
pub(crate) fn key_of(headers: &HeaderMap, is_strict: bool) -> Result<Option<Cow<'_, str>>, NoKey> {
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() && !sabotage::is_on("http_two_keys_accepted") {
        return Err(NoKey);
    }
    parse(value.as_bytes(), is_strict).map(Some)
}

/// The key in a field's value: copied only if there are escapes in it.
fn parse(value: &[u8], is_strict: bool) -> Result<Cow<'_, str>, NoKey> {
    let value = trim(value);
    let key = match value.split_first() {
        Some((b'"', quoted)) => {
            let (content, rest) = string(quoted).ok_or(NoKey)?;
            if !are_parameters(rest) {
                return Err(NoKey);
            }
            content
        }
        Some(_) if !is_strict && value.iter().copied().all(is_bare) => Cow::Borrowed(value),
        Some(_) | None => return Err(NoKey),
    };
    let is_blank = key.iter().all(|it| *it == b' ');
    if is_blank || key.len() > KEY_BYTES_MAX {
        return Err(NoKey);
    }
    match key {
        Cow::Borrowed(key) => str::from_utf8(key).map(Cow::Borrowed).map_err(|_| NoKey),
        Cow::Owned(key) => String::from_utf8(key).map(Cow::Owned).map_err(|_| NoKey),
    }
}

const fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';')
}

/// Without the spaces around it.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = value {
        value = rest;
    }
    value
}

/// The content of a string whose opening quote was read, and what follows its closing one.
pub(super) fn string(rest: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (plain, marked) = rest.split_at(plain_bytes(rest));
    if !is_printable(plain) {
        return None;
    }
    match marked {
        [b'"', tail @ ..] => Some((Cow::Borrowed(plain), tail)),
        escaped => unescaped(plain, escaped),
    }
}

/// As [`string`], of which so much stands there as it is, and then an escape.
fn unescaped<'a>(plain: &[u8], mut rest: &'a [u8]) -> Option<(Cow<'a, [u8]>, &'a [u8])> {
    let mut content = Vec::with_capacity(plain.len() + rest.len());
    content.extend_from_slice(plain);
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return Some((Cow::Owned(content), tail)),
            [b'\\', escaped @ (b'"' | b'\\'), tail @ ..] => (*escaped, tail),
            [byte @ (b' '..=b'[' | b']'..=b'~'), tail @ ..] => (*byte, tail),
            _ => return None,
        };
        content.push(byte);
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: Option<&str>) {
        assert_eq!(parse(value.as_bytes(), false).ok().as_deref(), expected, "{value:?}");
    }

    #[test]
    fn a_quoted_and_a_bare_key_with_the_same_content_are_the_same_key() {
        check("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", Some("8e03978e-40d5-43e8-bc93-6894a57f9324"));
        check("8e03978e-40d5-43e8-bc93-6894a57f9324", Some("8e03978e-40d5-43e8-bc93-6894a57f9324"));
        check("order:7/charge+1=", Some("order:7/charge+1="));
    }

    #[test]
    fn escapes_are_undone() {
        check(r#""a\"b\\c""#, Some(r#"a"b\c"#));
        check(r#""a, b; c""#, Some("a, b; c"));
        check("\"  a \"", Some("  a "));
    }

    #[test]
    fn what_is_no_string_is_refused() {
        for value in [
            "",
            " ",
            "\"\"",
            "\"   \"",
            "\"a",
            "a\"",
            "\"a\"b",
            "\"a\" \"b\"",
            "\"a\", \"b\"",
            "a, b",
            "a,b",
            "a b",
            "a;b",
            r"a\b",
            r#""a\b""#,
            r#""a\"#,
            "\"a\u{7f}\"",
            "\"a\tb\"",
            "\"\u{e4}\"",
            "\u{e4}",
            "a\n",
        ] {
            check(value, None);
        }
        // Not strings, but tokens enough to be bare keys.
        check(":YWJj:", Some(":YWJj:"));
        check("?1 ", Some("?1"));
    }

    #[test]
    fn a_strict_layer_takes_strings_only() {
        assert_eq!(parse(b"\"a\"", true), Ok("a".into()));
        for value in ["a", "1", "a;b=1", ":YWJj:", "?1"] {
            assert_eq!(parse(value.as_bytes(), true), Err(NoKey), "{value}");
        }
    }

    #[test]
    fn a_key_is_limited_after_unquoting() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        check(&longest, Some(&longest));
        check(&format!("\"{longest}\""), Some(&longest));
        check(&format!("{longest}k"), None);
        check(&format!("\"{longest}k\""), None);
        let escaped = r"\\".repeat(KEY_BYTES_MAX);
        check(&format!("\"{escaped}\""), Some(&r"\".repeat(KEY_BYTES_MAX)));
    }

    #[test]
    fn parameters_are_ignored_and_must_be_well_formed() {
        for rest in [
            ";a",
            "; a",
            ";a=1;b=\"x\\\"\"",
            ";a=?1",
            ";*k=tok/en:x",
            ";a=-12.5",
            ";a=:YWJj:",
            ";a=@1700000000",
            ";a=%\"%c3%a4\"",
            ";a_b-c.d*=*x",
        ] {
            check(&format!("\"key\"{rest}"), Some("key"));
        }
        for rest in [
            ";",
            ";A",
            ";1=2",
            ";a=",
            ";a=\"x",
            ";a,b",
            " ;a x",
            ";a=1.",
            ";a=1.2345",
            ";a=?2",
            ";a=:YW Jj:",
            ";a=%\"%C3\"",
            ";a=-",
            ";a=1234567890123456",
            "x",
            ";a =1",
            ";a=@1.5",
        ] {
            check(&format!("\"key\"{rest}"), None);
        }
    }

    #[test]
    fn two_fields_are_refused_also_if_they_are_equal() {
        let mut headers = HeaderMap::new();
        assert_eq!(key_of(&headers, false), Ok(None));
        headers.append(IDEMPOTENCY_KEY, "\"a\"".parse().unwrap());
        assert_eq!(key_of(&headers, false), Ok(Some("a".into())));
        headers.append(IDEMPOTENCY_KEY, "\"a\"".parse().unwrap());
        assert_eq!(key_of(&headers, false), Err(NoKey));
    }
}
