//! The vocabulary of stored bytes: numbers, times, text.

use super::WireError;
use crate::{fingerprint::Fingerprint, time::Timestamp};
use std::num::NonZeroU8;

/// Longest LEB128 of a `u64`.
const VARINT_BYTES_MAX: usize = 10;

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends text, or that there is none.
pub(super) fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => {
            put_number(out, text.len() as u64 + 1);
            out.extend_from_slice(text.as_bytes());
        }
        None => out.push(0),
    }
}

/// Appends a moment as its distance from another, which is near.
pub(super) fn put_time(out: &mut Vec<u8>, time: Timestamp, near: Timestamp) {
    put_number(out, zigzag(time.as_millis().cast_signed() - near.as_millis().cast_signed()));
}

/// Appends a moment that is often [`Timestamp::NEVER`], which takes one byte.
pub(super) fn put_expiry(out: &mut Vec<u8>, time: Timestamp, near: Timestamp) {
    if time == Timestamp::NEVER {
        out.push(0);
    } else {
        // No overflow: two moments are at most `i64::MAX` apart, and that zigzags to `u64::MAX - 1`.
        put_number(out, zigzag(time.as_millis().cast_signed() - near.as_millis().cast_signed()) + 1);
    }
}

/// Appends a fingerprint: its version and hash, or a zero for that of no payload, which many have.
pub(super) fn put_fingerprint(out: &mut Vec<u8>, fingerprint: &Fingerprint) {
    if *fingerprint == Fingerprint::EMPTY {
        return out.push(0);
    }
    out.push(fingerprint.version().get());
    out.extend_from_slice(fingerprint.hash());
}

/// Signed to unsigned, so that small distances stay small: 0, -1, 1, -2…
const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Reads what the functions above wrote. Each method names what it reads, for the error.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Nothing may be left over.
    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Malformed("what follows the end")) }
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        let (&byte, rest) = self.rest.split_first().ok_or(WireError::Malformed(what))?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(WireError::Malformed(what))?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..VARINT_BYTES_MAX as u32).map(|it| it * 7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit, and a last byte of 0 is a longer way to write a number.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::Malformed(what))
    }

    pub(super) fn small(&mut self, what: &'static str) -> Result<u32, WireError> {
        u32::try_from(self.number(what)?).map_err(|_| WireError::Malformed(what))
    }

    pub(super) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let length = self.number(what)?;
        self.take(length, what)
    }

    pub(super) fn text(&mut self, what: &'static str) -> Result<Option<String>, WireError> {
        let Some(length) = self.number(what)?.checked_sub(1) else { return Ok(None) };
        let text = std::str::from_utf8(self.take(length, what)?).map_err(|_| WireError::Malformed(what))?;
        Ok(Some(text.to_owned()))
    }

    pub(super) fn time(&mut self, near: Timestamp, what: &'static str) -> Result<Timestamp, WireError> {
        let distance = self.number(what)?;
        moment(near, distance, what)
    }

    pub(super) fn expiry(&mut self, near: Timestamp, what: &'static str) -> Result<Timestamp, WireError> {
        match self.number(what)?.checked_sub(1) {
            Some(distance) => moment(near, distance, what),
            None => Ok(Timestamp::NEVER),
        }
    }

    pub(super) fn fingerprint(&mut self) -> Result<Fingerprint, WireError> {
        match NonZeroU8::new(self.byte("the fingerprint")?) {
            Some(version) => Ok(Fingerprint::from_parts(version, self.array("the fingerprint")?)),
            None => Ok(Fingerprint::EMPTY),
        }
    }

    fn take(&mut self, length: u64, what: &'static str) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError::Malformed(what))?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Malformed(what))?;
        self.rest = rest;
        Ok(taken)
    }
}

fn moment(near: Timestamp, distance: u64, what: &'static str) -> Result<Timestamp, WireError> {
    near.as_millis()
        .checked_add_signed(unzigzag(distance))
        .filter(|it| *it <= Timestamp::NEVER.as_millis())
        .map(Timestamp::from_millis)
        .ok_or(WireError::Malformed(what))
}
