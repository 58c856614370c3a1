//! Strings, as canonical JSON has them.
//!
//! 1. A character is escaped only where JSON demands it, and then in one way only.
//! 2. A string that was read once, and is sound, can be gone through again in its canonical form, without being written
//!    anywhere: in pieces, or byte by byte.

use super::json::{Fault, NotJson};
use crate::scan::plain_bytes;
use std::cmp::Ordering;

/// The character that the escape at this place stands for, and how long the escape is.
pub(super) fn escape_at(text: &[u8], at: usize) -> Result<(char, usize), NotJson> {
    let fault = |fault| Err(NotJson { position: at, fault });
    let decoded = match text.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape_at(text, at),
        Some(_) => return fault(Fault::Escape),
        None => return fault(Fault::End),
    };
    Ok((decoded, 2))
}

fn unicode_escape_at(text: &[u8], at: usize) -> Result<(char, usize), NotJson> {
    let lone = NotJson { position: at, fault: Fault::Surrogate };
    let first = unit_at(text, at)?;
    let (code, length) = match first {
        0xd800..=0xdbff => {
            let is_paired = text.get(at + 6..at + 8) == Some(b"\\u");
            match is_paired.then(|| unit_at(text, at + 6)).transpose()? {
                Some(second @ 0xdc00..=0xdfff) => {
                    (0x1_0000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00), 12)
                }
                Some(_) | None => return Err(lone),
            }
        }
        _ => (u32::from(first), 6),
    };
    Ok((char::from_u32(code).ok_or(lone)?, length))
}

/// The UTF-16 code unit of the `\uXXXX` that begins here.
fn unit_at(text: &[u8], start: usize) -> Result<u16, NotJson> {
    let Some(digits) = text.get(start + 2..start + 6) else {
        return Err(NotJson { position: text.len(), fault: Fault::End });
    };
    digits.iter().try_fold(0, |unit, digit| match (*digit as char).to_digit(16) {
        Some(it) => Ok(unit << 4 | it as u16),
        None => Err(NotJson { position: start, fault: Fault::Escape }),
    })
}

/// A character that was escaped, as it is written.
#[derive(Clone, Copy)]
pub(super) struct Escaped {
    bytes: [u8; 6],
    length: u8,
}

impl Escaped {
    pub(super) fn of(decoded: char) -> Self {
        let mut bytes = [0; 6];
        let length = match decoded {
            '"' | '\\' => {
                bytes[..2].copy_from_slice(&[b'\\', decoded as u8]);
                2
            }
            '\0'..='\x1f' => {
                let hex = |nibble: u8| char::from_digit(nibble.into(), 16).map_or(b'0', |it| it as u8);
                let byte = decoded as u8;
                bytes = [b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)];
                6
            }
            _ => decoded.encode_utf8(&mut bytes).len() as u8,
        };
        Self { bytes, length }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A piece of a string in its canonical form.
pub(super) enum Piece<'a> {
    /// As it stands in the text.
    Plain(&'a [u8]),
    Escaped(Escaped),
}

impl Piece<'_> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Escaped(escaped) => escaped.as_bytes(),
        }
    }
}

/// What follows the first quote of a sound string, in its canonical form: pieces, of which the last ends with its other quote.
pub(super) struct Pieces<'a> {
    text: &'a [u8],
    at: usize,
    is_over: bool,
}

impl<'a> Pieces<'a> {
    /// Of the string whose first quote is at this place.
    pub(super) const fn of(text: &'a [u8], quote: usize) -> Self {
        Self { text, at: quote + 1, is_over: false }
    }

    /// Where in the text the next piece begins, or what is behind the string.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        self.flat_map(|piece| (0..piece.as_bytes().len()).map(move |n| piece.as_bytes()[n]))
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.is_over {
            return None;
        }
        let rest = self.text.get(self.at..)?;
        if rest.first() == Some(&b'\\') {
            let (decoded, length) = escape_at(self.text, self.at).ok()?;
            self.at += length;
            return Some(Piece::Escaped(Escaped::of(decoded)));
        }
        let plain = plain_bytes(rest);
        self.is_over = rest.get(plain) == Some(&b'"');
        let (piece, _) = rest.split_at(plain + usize::from(self.is_over));
        self.at += piece.len();
        Some(Piece::Plain(piece))
    }
}

/// Which of two sound strings stands before the other, by their canonical forms.
pub(super) fn compare(text: &[u8], one: usize, other: usize) -> Ordering {
    let (mut ones, mut others) = (Pieces::of(text, one), Pieces::of(text, other));
    // Most names have no escapes, and are one piece.
    if let (Some(Piece::Plain(first)), Some(Piece::Plain(second))) = (ones.next(), others.next())
        && ones.is_over
        && others.is_over
    {
        return first.cmp(second);
    }
    Pieces::of(text, one).bytes().cmp(Pieces::of(text, other).bytes())
}

/// What is behind the sound string whose first quote is at this place.
pub(super) fn behind(text: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(rest) = text.get(at..) {
        at += plain_bytes(rest);
        match text.get(at) {
            // What is escaped is not its other quote.
            Some(b'\\') => at += 2,
            Some(_) | None => return at + 1,
        }
    }
    text.len()
}
