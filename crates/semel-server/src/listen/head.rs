//! Whether the head of a request can be read in one way only.
//!
//! 1. Lines end with CR LF; no line is folded.
//! 2. A body has one length: one `Content-Length` of digits, or `Transfer-Encoding: chunked` and nothing else, which
//!    HTTP/1.0 does not know. Both, two of one, or another encoding are refused.
//! 3. The head, its target and its headers are limited, in HTTP/2 too.
//!
//! This is stricter than the standard demands: a client that cannot keep to it is asking for trouble.

use super::Limits;
use crate::problem::Problem;
use http::{Uri, header::COOKIE};
use httparse::{Header, Request, Status};
use semel_core::sabotage;
use std::mem::MaybeUninit;

/// Most headers that can be allowed.
pub const HEADERS_MAX: usize = 256;

/// How the body of a request is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// So many bytes; none if there is no body.
    Length(u64),
    /// Chunks, the last one empty.
    Chunked,
}

/// How the body that follows a head is delimited, if the head can be read in one way only. Its lines are known to
/// end with CR LF.
pub(super) fn check(head: &[u8], limits: &Limits) -> Result<Framing, Problem> {
    if exceeds(head.len(), limits.head_bytes_max) {
        return Err(Problem::HEADERS_TOO_LARGE);
    }
    if has_long_line(head, limits) {
        return Err(Problem::URI_TOO_LONG);
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut headers) {
        Ok(Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Problem::HEADERS_TOO_LARGE),
        Ok(Status::Partial) | Err(_) => return Err(Problem::BAD_REQUEST),
    }
    let target = request.path.unwrap_or_default();
    if exceeds(target.len(), limits.uri_bytes_max) {
        return Err(Problem::URI_TOO_LONG);
    }
    if exceeds(request.headers.len(), limits.headers_max) {
        return Err(Problem::HEADERS_TOO_LARGE);
    }
    if !is_target(target) {
        return Err(Problem::BAD_REQUEST);
    }
    framing(request.headers, request.version == Some(1)).ok_or(Problem::BAD_REQUEST)
}

/// Why a request that was read already is too much, if it is: heads of HTTP/2 are limited as a whole while they are read, and
/// here as those of HTTP/1 are.
pub(super) fn check_read<B>(request: &http::Request<B>, limits: &Limits) -> Option<Problem> {
    let target = request.uri().path_and_query().map_or(0, |it| it.as_str().len());
    if exceeds(target, limits.uri_bytes_max) {
        return Some(Problem::URI_TOO_LONG);
    }
    let headers = request.headers();
    // One `Cookie` may come in many pieces.
    let crumbs = headers.get_all(COOKIE).iter().count();
    let count = headers.len() - crumbs.saturating_sub(1);
    exceeds(count, limits.headers_max).then_some(Problem::HEADERS_TOO_LARGE)
}

/// Whether this is more than a limit of heads allows.
pub(super) fn exceeds(size: usize, most: usize) -> bool {
    size > most && !sabotage::is_on("listen_heads_have_no_limit")
}

/// Whether the first line is longer than any may be: a method and a version stand beside the target.
pub(super) fn has_long_line(head: &[u8], limits: &Limits) -> bool {
    let line_max = limits.uri_bytes_max + 64;
    exceeds(head.len(), line_max) && !head[..line_max].contains(&b'\n')
}

fn is_target(target: &str) -> bool {
    let is_common = |it: u8| it.is_ascii_alphanumeric() || b"/-._~?&=%".contains(&it);
    target.starts_with('/') && target.bytes().all(is_common) || target.parse::<Uri>().is_ok()
}

fn framing(headers: &[Header<'_>], is_http11: bool) -> Option<Framing> {
    let values = |name: &'static str| {
        headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name)).map(|it| it.value.trim_ascii())
    };
    let (mut lengths, mut encodings) = (values("content-length"), values("transfer-encoding"));
    match (lengths.next(), encodings.next()) {
        (None, None) => Some(Framing::Length(0)),
        (Some(length), None) => {
            let is_only = lengths.next().is_none() || sabotage::is_on("listen_accepts_two_lengths");
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(length).ok().filter(|_| is_only && is_number)?;
            text.parse().ok().map(Framing::Length)
        }
        (None, Some(encoding)) => {
            let is_chunked = encoding.eq_ignore_ascii_case(b"chunked") && encodings.next().is_none();
            (is_chunked && is_http11).then_some(Framing::Chunked)
        }
        (Some(_), Some(_)) => sabotage::is_on("listen_accepts_two_lengths").then_some(Framing::Chunked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Result<Framing, Problem>) {
        assert_eq!(super::check(head.as_bytes(), &Limits::default()), expected, "{head:?}");
    }

    fn with(headers: &str) -> String {
        format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
    }

    #[test]
    fn a_body_has_one_length() {
        check(&with(""), Ok(Framing::Length(0)));
        check(&with("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        check(&with("Transfer-Encoding: chunked\r\n"), Ok(Framing::Chunked));
        check(&with("transfer-encoding:  CHUNKED \r\n"), Ok(Framing::Chunked));
        for headers in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: identity, chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: \r\n",
            "Transfer-Encoding: \u{b}chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Content-Length : 5\r\n",
            " Content-Length: 5\r\n",
            "X: a\r\n b\r\n",
            "X: a\0b\r\n",
            "no colon\r\n",
            ": nameless\r\n",
        ] {
            check(&with(headers), Err(Problem::BAD_REQUEST));
        }
        check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(Problem::BAD_REQUEST));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in [
            "\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.2\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
            "\u{16}\u{3}\u{1}\r\n\r\n",
        ] {
            check(head, Err(Problem::BAD_REQUEST));
        }
    }

    #[test]
    fn more_headers_than_can_be_allowed_are_too_many() {
        let many = "a: b\r\n".repeat(HEADERS_MAX + 1);
        check(&format!("GET / HTTP/1.1\r\n{many}\r\n"), Err(Problem::HEADERS_TOO_LARGE));
    }

    #[test]
    fn heads_are_limited() {
        let limits = Limits { head_bytes_max: 100, headers_max: 2, uri_bytes_max: 10, ..Limits::default() };
        let check =
            |head: &str, expected| assert_eq!(super::check(head.as_bytes(), &limits), expected, "{head:?}");
        check("GET /123456789 HTTP/1.1\r\n\r\n", Ok(Framing::Length(0)));
        check("GET /1234567890 HTTP/1.1\r\n\r\n", Err(Problem::URI_TOO_LONG));
        check("GET / HTTP/1.1\r\na: b\r\nc: d\r\n\r\n", Ok(Framing::Length(0)));
        check("GET / HTTP/1.1\r\na: b\r\nc: d\r\ne: f\r\n\r\n", Err(Problem::HEADERS_TOO_LARGE));
        check(&format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(100)), Err(Problem::HEADERS_TOO_LARGE));
    }
}
