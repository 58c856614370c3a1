//! Errors that are the same but for their numbers.

use crate::sha256::sha256;
use std::{fmt, str::FromStr};

/// What of an error is looked at, in bytes.
const LOOKED_AT_BYTES: usize = 512;
/// Shortest run of hexadecimal digits that is taken for an id.
const ID_DIGITS_MIN: usize = 8;

/// Tells errors apart by what went wrong, not by when and with which id: `timeout after 30 s` and `timeout
/// after 31 s` share one.
///
/// ```
/// use semel_core::execution::ErrorPrint;
/// assert_eq!(ErrorPrint::of("503: order 17 is locked"), ErrorPrint::of("503: order 18 is locked"));
/// assert_ne!(ErrorPrint::of("order 17 is locked"), ErrorPrint::of("order 17 is gone"));
/// let print = ErrorPrint::of("order 17 is gone");
/// assert_eq!(print.to_string().parse(), Ok(print));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ErrorPrint(pub u64);

impl ErrorPrint {
    /// Of this error.
    pub fn of(error: &str) -> Self {
        let looked_at = &error[..error.floor_char_boundary(LOOKED_AT_BYTES)];
        let hash = sha256(without_numbers(looked_at));
        Self(u64::from_be_bytes(*hash.first_chunk().expect("a hash has more bytes than that")))
    }
}

/// The text with every number, and every word that looks like an id, as `#`.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = &rest[..rest.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        let taken = match word {
            "" => {
                out.push(first);
                first.len_utf8()
            }
            word if is_id(word) => {
                out.push('#');
                word.len()
            }
            word => {
                push_without_digits(&mut out, word);
                word.len()
            }
        };
        rest = &rest[taken..];
    }
    out
}

fn is_id(word: &str) -> bool {
    word.len() >= ID_DIGITS_MIN
        && word.bytes().all(|it| it.is_ascii_hexdigit())
        && word.bytes().any(|it| it.is_ascii_digit())
}

fn push_without_digits(out: &mut String, word: &str) {
    for letter in word.chars() {
        if !letter.is_ascii_digit() {
            out.push(letter);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
}

impl fmt::Display for ErrorPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ErrorPrint {
    type Err = NoErrorPrint;

    fn from_str(text: &str) -> Result<Self, NoErrorPrint> {
        let is_print = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = is_print.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or(NoErrorPrint)
    }
}

/// The text is no error print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an error print is 16 hexadecimal digits")]
pub struct NoErrorPrint;
