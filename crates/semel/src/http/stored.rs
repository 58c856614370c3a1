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
use crate::{
    codec::{Encoded, encoded},
    http::Body,
};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::TRAILER, response::Parts};
use bytes::Bytes;

const VERSION: u8 = 1;
const KEPT: u8 = 0;
const NOT_KEPT: u8 = 1;
/// Room for the head of most responses.
const HEAD_BYTES: usize = 128;

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

/// A response that was kept.
pub(super) struct KeptResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// A response that is kept.
pub(super) fn encode(
    parts: &Parts,
    kept: &Kept,
    is_head: bool,
    body: &[u8],
    trailers: Option<&HeaderMap>,
) -> Encoded {
    Encoded::with_capacity(HEAD_BYTES + body.len()).then(|out| {
        out.extend_from_slice(&[VERSION, KEPT]);
        out.extend_from_slice(&parts.status.as_u16().to_be_bytes());
        put_lines(out, kept.of(&parts.headers, is_head));
        match trailers {
            Some(trailers) => put_lines(out, kept_trailers(trailers)),
            None => put_number(out, 0),
        }
        out.extend_from_slice(body);
    })
}

/// A response that is not.
pub(super) fn encode_not_kept(status: StatusCode, why: NotKept) -> Encoded {
    let [high, low] = status.as_u16().to_be_bytes();
    encoded(&[VERSION, NOT_KEPT, high, low, why as u8])
}

/// The stored response; `None` if it was not kept, or not written by this module.
pub(super) fn decode(stored: &Bytes) -> Option<KeptResponse> {
    let mut reader = Reader { rest: stored };
    if reader.byte()? != VERSION || reader.byte()? != KEPT {
        return None;
    }
    let status = StatusCode::from_u16(u16::from_be_bytes([reader.byte()?, reader.byte()?])).ok()?;
    let headers = reader.lines()?;
    let trailers = Some(reader.lines()?).filter(|it| !it.is_empty());
    let at = stored.len() - reader.rest.len();
    Some(KeptResponse { status, headers, body: stored.slice(at..), trailers })
}

impl KeptResponse {
    /// As it is given to a duplicate.
    pub(super) fn into_replay<B: http_body::Body>(self) -> Response<Body<B>> {
        let mut response = self.into_response();
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        response
    }

    pub(super) fn into_response<B: http_body::Body>(self) -> Response<Body<B>> {
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
    let at = out.len();
    out.push(0);
    let mut count = 0;
    for (name, value) in lines {
        count += 1;
        put_bytes(out, name.as_str().as_bytes());
        put_bytes(out, value.as_bytes());
    }
    // Known only now, and one byte for all but the strangest.
    let mut number = [0; 10];
    let length = number_bytes(count, &mut number);
    out[at] = number[0];
    if length > 1 {
        let behind = at + 1;
        out.splice(behind..behind, number[1..length].iter().copied());
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut bytes = [0; 10];
    let length = number_bytes(number, &mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

/// Writes a number, seven bits a byte, the lowest first, and says how many bytes it took.
fn number_bytes(mut number: u64, bytes: &mut [u8; 10]) -> usize {
    let mut length = 0;
    while number >= 0x80 {
        bytes[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = number as u8;
    length + 1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::REPLAY_HEADERS;
    use proptest::{collection::vec, prelude::*};

    fn parts(status: u16, headers: &HeaderMap) -> Parts {
        let mut response = Response::builder().status(status).body(()).unwrap();
        *response.headers_mut() = headers.clone();
        response.into_parts().0
    }

    fn bytes(stored: &Encoded) -> Bytes {
        Bytes::copy_from_slice(stored.content())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes
            .iter()
            .flat_map(|it| [it >> 4, it & 15])
            .map(|it| char::from(b"0123456789abcdef"[usize::from(it)]))
            .collect()
    }

    /// What is in stores today must be read by every later version.
    #[test]
    fn the_stored_form_is_as_it_always_was() {
        let mut headers = HeaderMap::new();
        headers.append("etag", HeaderValue::from_static("\"7\""));
        headers.append("link", HeaderValue::from_static("<a>, <b>"));
        headers.append("link", HeaderValue::from_bytes(b"<\xff>").unwrap());
        headers.append("set-cookie", HeaderValue::from_static("secret"));
        let mut trailers = HeaderMap::new();
        trailers.append("x-sum", HeaderValue::from_static("9"));
        let stored =
            encode(&parts(201, &headers), &Kept::new(REPLAY_HEADERS), false, b"body", Some(&trailers));
        let golden = concat!(
            "01",
            "00",
            "00c9", // version, kept, 201
            "03",
            "04",
            "65746167",
            "03",
            "223722", // etag: "7"
            "04",
            "6c696e6b",
            "08",
            "3c613e2c203c623e", // link: <a>, <b>
            "04",
            "6c696e6b",
            "03",
            "3cff3e", // link: <\xff>
            "01",
            "05",
            "782d73756d",
            "01",
            "39",       // the trailer x-sum: 9
            "626f6479"  // body
        );
        assert_eq!(hex(stored.content()), golden);
        let kept = decode(&bytes(&stored)).unwrap();
        assert_eq!((kept.status.as_u16(), &kept.body[..]), (201, &b"body"[..]));
        assert_eq!(kept.headers.get_all("link").iter().count(), 2);
        assert_eq!(kept.trailers, Some(trailers));
        assert_eq!(hex(encode_not_kept(StatusCode::OK, NotKept::TooLong).content()), "010100c801");
        assert_eq!(hex(encode_not_kept(StatusCode::OK, NotKept::Stream).content()), "010100c802");
        assert_eq!(hex(encode_not_kept(StatusCode::OK, NotKept::Broken).content()), "010100c803");
    }

    #[test]
    fn what_was_cut_short_is_not_read_and_nothing_panics() {
        let mut headers = HeaderMap::new();
        headers.append("etag", HeaderValue::from_static("\"7\""));
        let stored = encode(&parts(200, &headers), &Kept::new(REPLAY_HEADERS), false, b"", Some(&headers));
        let stored = stored.content();
        for length in 0..stored.len() {
            assert!(decode(&Bytes::copy_from_slice(&stored[..length])).is_none(), "{length}");
        }
        assert!(decode(&Bytes::from_static(b"\x02\x00\x00\xc8\x00\x00")).is_none(), "a later version");
        assert!(decode(&bytes(&encode_not_kept(StatusCode::OK, NotKept::Stream))).is_none());
    }

    fn any_value() -> impl Strategy<Value = HeaderValue> {
        let byte = prop_oneof![Just(b'\t'), b' '..=b'~', 0x80..=0xff_u8];
        vec(byte, 0..40).prop_map(|bytes| HeaderValue::from_bytes(&bytes).unwrap())
    }

    fn any_headers() -> impl Strategy<Value = HeaderMap> {
        let name = (0..REPLAY_HEADERS.len()).prop_map(|at| REPLAY_HEADERS[at].clone());
        vec((name, any_value()), 0..300).prop_map(|lines| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name, value);
            }
            headers
        })
    }

    proptest! {
        /// Status, every value of every kept header in order, body and trailers, to the byte.
        #[test]
        fn a_replay_is_exact_to_the_byte(
            status in 200_u16..=599,
            headers in any_headers(),
            body in vec(any::<u8>(), 0..2_000),
            trailers in proptest::option::of(any_headers()),
        ) {
            let trailers = trailers.filter(|it| !it.is_empty());
            let kept = Kept::new(REPLAY_HEADERS);
            let stored = encode(&parts(status, &headers), &kept, false, &body, trailers.as_ref());
            let kept = decode(&bytes(&stored)).unwrap();
            prop_assert_eq!(kept.status.as_u16(), status);
            prop_assert_eq!(&kept.body[..], &body[..]);
            prop_assert_eq!(&kept.trailers, &trailers);
            let lines = |it: &HeaderMap| -> Vec<_> {
                let mut names: Vec<_> = it.keys().cloned().collect();
                names.sort_by_key(|it| it.as_str().to_owned());
                names.into_iter().map(|name| (it.get_all(&name).iter().cloned().collect::<Vec<_>>(), name)).collect()
            };
            prop_assert_eq!(lines(&kept.headers), lines(&headers));
        }

        #[test]
        fn whatever_is_stored_reading_it_never_panics(stored in vec(any::<u8>(), 0..200)) {
            let mut stored = stored;
            stored.splice(0..0, [VERSION, KEPT]);
            let _ = decode(&stored.into());
        }
    }
}
