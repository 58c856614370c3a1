//! A response, as it is stored.
//!
//! 1. A version, whether the response was kept, its status, its kept headers, its trailers, and last its body, which is
//!    then read back without being copied. Lengths are LEB128.
//! 2. Values are bytes: what came in goes out, whatever it was.
//! 3. Of a response that was not kept, the status and the reason are.
//! 4. What cannot be read is told from what can; it is never guessed at.

use super::{
    IDEMPOTENCY_REPLAYED,
    headers::{Kept, kept_trailers},
};
use crate::http::Body;
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::TRAILER, response::Parts};
use bytes::Bytes;

const VERSION: u8 = 1;
const KEPT: u8 = 0;
const NOT_KEPT: u8 = 1;

/// Why a response was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotKept {
    /// Longer than the limit.
    TooLong = 1,
    /// A stream, or one that did not end in time.
    Stream = 2,
    /// Its body failed.
    Broken = 3,
}

/// A response that was read back.
pub(super) struct KeptResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// What is stored of a call's response.
pub(super) enum Stored {
    Kept(KeptResponse),
    NotKept,
}

/// A response that is kept.
pub(super) fn encode(
    parts: &Parts,
    kept: &Kept,
    is_head: bool,
    body: &[u8],
    trailers: Option<&HeaderMap>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + body.len());
    out.extend_from_slice(&[VERSION, KEPT]);
    out.extend_from_slice(&parts.status.as_u16().to_be_bytes());
    put_lines(&mut out, kept.of(&parts.headers, is_head));
    match trailers {
        Some(trailers) => put_lines(&mut out, kept_trailers(trailers)),
        None => put_number(&mut out, 0),
    }
    out.extend_from_slice(body);
    out
}

/// A response that is not.
pub(super) fn encode_not_kept(status: StatusCode, why: NotKept) -> Vec<u8> {
    let [high, low] = status.as_u16().to_be_bytes();
    vec![VERSION, NOT_KEPT, high, low, why as u8]
}

/// What was stored; `None` if it was not written by this module.
pub(super) fn decode(stored: Bytes) -> Option<Stored> {
    let mut reader = Reader { rest: &stored };
    if reader.byte()? != VERSION {
        return None;
    }
    let kind = reader.byte()?;
    let status = StatusCode::from_u16(u16::from_be_bytes([reader.byte()?, reader.byte()?])).ok()?;
    match kind {
        KEPT => {
            let headers = reader.lines()?;
            let trailers = Some(reader.lines()?).filter(|it| !it.is_empty());
            let at = stored.len() - reader.rest.len();
            Some(Stored::Kept(KeptResponse { status, headers, body: stored.slice(at..), trailers }))
        }
        NOT_KEPT => Some(Stored::NotKept),
        _ => None,
    }
}

impl KeptResponse {
    /// As it is given to a duplicate.
    pub(super) fn into_replay<B>(self) -> Response<Body<B>> {
        let mut response = self.into_response();
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        response
    }

    pub(super) fn into_response<B>(self) -> Response<Body<B>> {
        let Self { status, mut headers, body, trailers } = self;
        // Names the trailers, as HTTP/1.1 wants it.
        for name in trailers.iter().flat_map(HeaderMap::keys) {
            headers.append(TRAILER, HeaderValue::from(name.clone()));
        }
        let mut response = Response::new(Body::whole(body, trailers));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

fn put_lines<'a>(out: &mut Vec<u8>, lines: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) {
    // The count is known at the end, and is less than 128 for all but the strangest.
    let at = out.len();
    out.push(0);
    let mut count = 0;
    for (name, value) in lines {
        count += 1;
        put_bytes(out, name.as_str().as_bytes());
        put_bytes(out, value.as_bytes());
    }
    let mut number = Vec::new();
    put_number(&mut number, count);
    out.splice(at..=at, number);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn lines(&mut self) -> Option<HeaderMap> {
        let count = self.number()?;
        let mut lines = HeaderMap::new();
        for _ in 0..count {
            let name = HeaderName::from_bytes(self.bytes()?).ok()?;
            let value = HeaderValue::from_bytes(self.bytes()?).ok()?;
            lines.try_append(name, value).ok()?;
        }
        Some(lines)
    }
}
