//! A response, as it is stored.
//!
//! 1. A version, whether the response was kept, its status, its kept headers, its trailers, and last its body, which is
//!    then read back without being copied. Lengths are LEB128.
//! 2. Values are bytes: what came in goes out, whatever it was.
//! 3. Of a response that was not kept, the status and the reason are, and what was known of its body when it was recorded: how
//!    large it would be, if somebody said so; how much of it had been read, and the digest of that. It is recorded before its
//!    client sees anything of it, so more cannot be known: a stream's size is known when it has passed, and by then the process
//!    that knows it may be gone.
//! 4. What cannot be read is told from what can; it is never guessed at. What an earlier version wrote of a response that was not
//!    kept ends with the reason.

use super::{
    IDEMPOTENCY_REPLAYED,
    headers::{Kept, kept_trailers},
};
use crate::{codec::Encoded, http::Body};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::TRAILER, response::Parts};
use bytes::Bytes;
use semel_core::{sabotage, sha256::Sha256};

const VERSION: u8 = 1;
const KEPT: u8 = 0;
const NOT_KEPT: u8 = 1;
/// Room for the head of most responses.
const HEAD_BYTES: usize = 128;
/// Room for what is stored of a response that was not kept.
const NOT_KEPT_BYTES: usize = 64;

/// Most bytes of a response that was not kept that are hashed: a body may come in one piece of any size.
pub const DIGEST_BYTES_MAX: usize = 1024 * 1024;

/// Why a response was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum UnkeptReason {
    /// Longer than the limit.
    TooLong = 1,
    /// A stream, or one that did not end in time.
    Stream = 2,
    /// Its body failed.
    Broken = 3,
}

impl UnkeptReason {
    /// As written in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Stream => "stream",
            Self::Broken => "broken",
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::TooLong, Self::Stream, Self::Broken].into_iter().find(|it| *it as u8 == byte)
    }
}

/// What is known of the body of a response that was not kept: as much as was known before its client saw anything of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Unkept {
    /// Why it was not kept.
    pub reason: UnkeptReason,
    /// How many bytes it has, if that was announced, or all of it was there.
    pub size: Option<u64>,
    /// How many bytes were hashed: what had been read by then, and at most [`DIGEST_BYTES_MAX`].
    pub read: u64,
    /// SHA-256 of these, which is that of the body if `read` is `size`; none if nothing had been read.
    pub digest: Option<[u8; 32]>,
}

impl Unkept {
    /// Of a body of which these pieces were read, and of which so much is said to be.
    pub(super) fn new(reason: UnkeptReason, read: [&[u8]; 2], size: Option<u64>) -> Self {
        if sabotage::is_on("http_unkept_is_unknown") {
            return Self { reason, size: None, read: 0, digest: None };
        }
        let mut hash = Sha256::new();
        let mut left = DIGEST_BYTES_MAX;
        for piece in read {
            let piece = &piece[..piece.len().min(left)];
            hash.update(piece);
            left -= piece.len();
        }
        let read = DIGEST_BYTES_MAX - left;
        let digest = (read > 0).then(|| hash.finish());
        Self { reason, size, read: read as u64, digest }
    }
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
pub(super) fn encode_not_kept(status: StatusCode, unkept: &Unkept) -> Encoded {
    let [high, low] = status.as_u16().to_be_bytes();
    Encoded::with_capacity(NOT_KEPT_BYTES).then(|out| {
        out.extend_from_slice(&[VERSION, NOT_KEPT, high, low, unkept.reason as u8]);
        // One more than it is, so that none is told from nothing.
        put_number(out, unkept.size.map_or(0, |it| it.saturating_add(1)));
        put_number(out, unkept.read);
        out.extend_from_slice(unkept.digest.as_ref().map_or(&[], |it| it));
    })
}

/// What is stored of a response.
pub(super) enum Stored {
    Kept(KeptResponse),
    NotKept { status: StatusCode, unkept: Unkept },
}

/// What is stored; `None` if it was not written by this module.
pub(super) fn decode(stored: &Bytes) -> Option<Stored> {
    let mut reader = Reader { rest: stored };
    let (version, kind) = (reader.byte()?, reader.byte()?);
    if version != VERSION {
        return None;
    }
    let status = StatusCode::from_u16(u16::from_be_bytes([reader.byte()?, reader.byte()?])).ok()?;
    match kind {
        KEPT => {
            let headers = reader.lines()?;
            let trailers = Some(reader.lines()?).filter(|it| !it.is_empty());
            let at = stored.len() - reader.rest.len();
            Some(Stored::Kept(KeptResponse { status, headers, body: stored.slice(at..), trailers }))
        }
        NOT_KEPT => Some(Stored::NotKept { status, unkept: reader.unkept()? }),
        _ => None,
    }
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
        name_trailers(&mut headers, trailers.as_ref());
        let mut response = Response::new(Body::whole(body, trailers));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Names the trailers in the head: over HTTP/1.1 others do not pass.
pub(super) fn name_trailers(headers: &mut HeaderMap, trailers: Option<&HeaderMap>) {
    let Some(trailers) = trailers.filter(|it| !it.is_empty()) else { return };
    headers.remove(TRAILER);
    for name in trailers.keys() {
        headers.append(TRAILER, HeaderValue::from(name.clone()));
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

    fn unkept(&mut self) -> Option<Unkept> {
        let reason = UnkeptReason::of(self.byte()?)?;
        // By an earlier version.
        if self.rest.is_empty() {
            return Some(Unkept { reason, size: None, read: 0, digest: None });
        }
        let (size, read) = (self.number()?.checked_sub(1), self.number()?);
        let digest = if read > 0 { Some(self.rest.try_into().ok()?) } else { None };
        Some(Unkept { reason, size, read, digest })
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
    use semel_core::sha256::sha256;

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
        let kept = kept(&bytes(&stored)).unwrap();
        assert_eq!((kept.status.as_u16(), &kept.body[..]), (201, &b"body"[..]));
        assert_eq!(kept.headers.get_all("link").iter().count(), 2);
        assert_eq!(kept.trailers, Some(trailers));
    }

    const DIGEST: [u8; 32] = [0xab; 32];

    /// What was stored of a response that was not kept, as it was and as it is.
    #[test]
    fn what_is_known_of_a_response_that_was_not_kept_is_as_it_always_was() {
        let check = |golden: &str, reason, size, read: u64| {
            let digest = (read > 0).then_some(DIGEST);
            let unkept = Unkept { reason, size, read, digest };
            let stored = encode_not_kept(StatusCode::OK, &unkept);
            assert_eq!(hex(stored.content()), golden);
            assert_eq!(not_kept(stored.content()), Some((200, unkept)));
        };
        let digest = "ab".repeat(32);
        check(&format!("010100c801c1840705{digest}"), UnkeptReason::TooLong, Some(115_264), 5);
        check(&format!("010100c8030080808040{digest}"), UnkeptReason::Broken, None, 1 << 27);
        check("010100c8020000", UnkeptReason::Stream, None, 0);
        check("010100c8020100", UnkeptReason::Stream, Some(0), 0);
        for (code, reason) in
            [(1, UnkeptReason::TooLong), (2, UnkeptReason::Stream), (3, UnkeptReason::Broken)]
        {
            let nothing = Unkept { reason, size: None, read: 0, digest: None };
            assert_eq!(not_kept(&[1, 1, 0, 200, code]), Some((200, nothing)), "by an earlier version");
        }
        assert_eq!(not_kept(&[1, 1, 0, 200, 4]), None, "a reason of a later version");
        assert_eq!(not_kept(&[1, 1, 0, 200, 1, 0, 5, 0xab]), None, "cut short");
    }

    #[test]
    fn no_more_of_a_body_is_hashed_than_the_limit() {
        let long = vec![7; DIGEST_BYTES_MAX];
        let digest = |it: &[u8]| Some(sha256(it));
        let of = |pieces| Unkept::new(UnkeptReason::TooLong, pieces, None);
        let read = of([b"ab", b"c"]);
        assert_eq!((read.read, read.digest), (3, digest(b"abc")));
        let read = of([&long, &long]);
        assert_eq!((read.read, read.digest), (DIGEST_BYTES_MAX as u64, digest(&long)));
        assert_eq!(of([b"", b""]).digest, None);
    }

    fn kept(stored: &Bytes) -> Option<KeptResponse> {
        match decode(stored)? {
            Stored::Kept(kept) => Some(kept),
            Stored::NotKept { .. } => None,
        }
    }

    fn not_kept(stored: &[u8]) -> Option<(u16, Unkept)> {
        match decode(&Bytes::copy_from_slice(stored))? {
            Stored::NotKept { status, unkept } => Some((status.as_u16(), unkept)),
            Stored::Kept(_) => None,
        }
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
            let list = Kept::new(REPLAY_HEADERS);
            let stored = encode(&parts(status, &headers), &list, false, &body, trailers.as_ref());
            let kept = kept(&bytes(&stored)).unwrap();
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
        fn whatever_is_stored_reading_it_never_panics(stored in vec(any::<u8>(), 0..200), kind in KEPT..=NOT_KEPT) {
            let mut stored = stored;
            stored.splice(0..0, [VERSION, kind]);
            let _ = decode(&stored.into());
        }
    }
}
