//! Whether bytes are the parameters of a structured-field item (RFC 9651, section 4.2.3.2).
//!
//! 1. `;`, spaces, a lower-case name, and `=` with a bare item if it has a value; as often as one likes.
//! 2. Only the form is looked at: nobody reads the values.

use super::key::string;

/// Whether this is a list of parameters, or nothing.
pub(super) fn are_parameters(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        match parameter(rest) {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
    true
}

/// What follows the first parameter.
fn parameter(rest: &[u8]) -> Option<&[u8]> {
    let rest = skip(rest.strip_prefix(b";")?, |it| it == b' ');
    let (first, name) = rest.split_first()?;
    if !(first.is_ascii_lowercase() || *first == b'*') {
        return None;
    }
    let rest = skip(name, |it| {
        it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-' | b'.' | b'*')
    });
    match rest.strip_prefix(b"=") {
        Some(value) => bare_item(value),
        None => Some(rest),
    }
}

/// What follows a bare item.
fn bare_item(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', rest @ ..] => string(rest).map(|(_, rest)| rest),
        [b'%', b'"', rest @ ..] => display_string(rest),
        [b'?', b'0' | b'1', rest @ ..] => Some(rest),
        [b':', rest @ ..] => {
            skip(rest, |it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/' | b'=')).strip_prefix(b":")
        }
        [b'@', rest @ ..] => number(rest).filter(|(_, is_decimal)| !is_decimal).map(|(rest, _)| rest),
        [b'-' | b'0'..=b'9', ..] => number(value).map(|(rest, _)| rest),
        [b'*', rest @ ..] => Some(skip(rest, is_token)),
        [first, rest @ ..] if first.is_ascii_alphabetic() => Some(skip(rest, is_token)),
        [..] => None,
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

/// What follows an integer of at most 15 digits, or a decimal of at most 12 and 3; and whether it was a decimal.
fn number(value: &[u8]) -> Option<(&[u8], bool)> {
    let value = value.strip_prefix(b"-").unwrap_or(value);
    let rest = skip(value, |it| it.is_ascii_digit());
    let digits = value.len() - rest.len();
    let Some(fraction) = rest.strip_prefix(b".") else {
        return (1..=15).contains(&digits).then_some((rest, false));
    };
    let rest = skip(fraction, |it| it.is_ascii_digit());
    let is_decimal = (1..=12).contains(&digits) && (1..=3).contains(&(fraction.len() - rest.len()));
    is_decimal.then_some((rest, true))
}

/// What follows a display string: percent-encoded UTF-8 in quotes.
fn display_string(mut rest: &[u8]) -> Option<&[u8]> {
    let is_hex = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    loop {
        rest = match rest {
            [b'"', tail @ ..] => return Some(tail),
            [b'%', high, low, tail @ ..] if is_hex(*high) && is_hex(*low) => tail,
            [b' ' | b'!' | b'#' | b'$' | b'&'..=b'~', tail @ ..] => tail,
            [..] => return None,
        };
    }
}

/// What follows the bytes of this kind.
fn skip(bytes: &[u8], is_kind: impl Fn(u8) -> bool) -> &[u8] {
    let count = bytes.iter().take_while(|it| is_kind(**it)).count();
    &bytes[count..]
}
