//! What a response means for its call.
//!
//! 1. The service's own word goes first: a [`Verdict`] among the extensions of its response.
//! 2. Else the status decides. 5xx, 429 and 408 say "try again": the next try runs. Everything else is kept and replayed.
//!    A layer that stores errors keeps those, too.
//! 3. A gRPC status counts as the HTTP status that stands for it: in the head, and in the last frame of a gRPC-web body.
//! 4. A stream is not kept: one never knows whether it ends.

use super::grpc_web;
use ::http::{HeaderMap, HeaderName, StatusCode, header::CONTENT_TYPE, response::Parts};
use semel_core::{key::Key, sabotage};

/// What a response means for its call, in the service's own words: put among the extensions of the response, it goes
/// before what the status says. The layer takes it out.
///
/// ```
/// use semel::http::Verdict;
/// let mut response = http::Response::new("come again");
/// response.extensions_mut().insert(Verdict::Released);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The call took effect: the response is kept and replayed.
    Kept,
    /// The call took no effect, whatever the status: the next try runs.
    Released,
    /// The call may have taken effect, and may still: nothing is written, and its lease stands until it lapses.
    Lost,
    /// Nobody knows whether the call took effect: it is not run again until somebody resolves it.
    Unknown,
}

/// What is in doubt, beside [`Verdict::Unknown`]: kept with the record, for whoever resolves it.
#[derive(Clone)]
pub(crate) struct Doubt(pub(crate) String);

/// The record of a request whose outcome is unknown: put among the extensions of the response that says so, for logs and
/// for whoever resolves it, if [`mark_answers`](super::IdempotencyLayer::mark_answers) asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InDoubt(pub Key);

/// The request was carried out, and its response is not kept with its record: it was too large, a stream, too slow or cut off.
/// Put among the extensions of that response, for access logs, if
/// [`mark_answers`](super::IdempotencyLayer::mark_answers) asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NotRetained;

/// How a request with a key was answered: put among the extensions of the response, for access logs, if
/// [`mark_answers`](super::IdempotencyLayer::mark_answers) asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Answered {
    /// By the service, for the first time.
    Fresh,
    /// By the service, after an earlier try had failed.
    Retried,
    /// By the service, after whoever worked on it before had vanished.
    TakenOver,
    /// By the service, unprotected: the store could not be reached.
    Unprotected,
    /// With the stored response.
    Replayed,
    /// With a problem.
    Refused,
}

impl Answered {
    /// As written in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Retried => "retried",
            Self::TakenOver => "taken_over",
            Self::Unprotected => "unprotected",
            Self::Replayed => "replayed",
            Self::Refused => "refused",
        }
    }
}

/// The verdict on a response; its own is taken out.
pub(super) fn verdict(parts: &mut Parts, stores_errors: bool) -> Verdict {
    if let Some(own) = parts.extensions.remove::<Verdict>() {
        return own;
    }
    let is_kept = stores_errors
        || sabotage::is_on("http_5xx_is_kept")
        || !(is_retryable(parts.status) || grpc_status(&parts.headers).is_some_and(is_retryable));
    if is_kept { Verdict::Kept } else { Verdict::Released }
}

pub(crate) fn is_retryable(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The HTTP status that stands for a gRPC status in the head of a response.
fn grpc_status(headers: &HeaderMap) -> Option<StatusCode> {
    http_status(headers.get(&GRPC_STATUS)?.as_bytes())
}

/// Whether the body of a gRPC-web response says "try again", which its head does not.
pub(super) fn is_retryable_body(parts: &Parts, body: &[u8]) -> bool {
    let said = grpc_web::status(essence(parts), body);
    said.and_then(|it| http_status(&it)).is_some_and(is_retryable)
}

/// The HTTP status that stands for a gRPC status.
fn http_status(grpc_status: &[u8]) -> Option<StatusCode> {
    match grpc_status {
        b"4" => Some(StatusCode::GATEWAY_TIMEOUT),
        b"8" => Some(StatusCode::TOO_MANY_REQUESTS),
        b"2" | b"13" | b"15" => Some(StatusCode::INTERNAL_SERVER_ERROR),
        b"14" => Some(StatusCode::SERVICE_UNAVAILABLE),
        _ => None,
    }
}

/// The type of a response, without its parameters.
fn essence(parts: &Parts) -> &[u8] {
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&[][..], ::http::HeaderValue::as_bytes);
    content_type.split(|it| *it == b';').next().unwrap_or_default().trim_ascii()
}

/// How a response is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// It goes on until somebody has had enough.
    Stream,
    /// Its body says what came of the call.
    GrpcWeb,
    /// Its head says all.
    Other,
}

impl Content {
    /// Of this response.
    pub(super) fn of(parts: &Parts) -> Self {
        let essence = essence(parts);
        let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
        let begins =
            |name: &str| essence.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()));
        if parts.status == StatusCode::SWITCHING_PROTOCOLS
            || is("text/event-stream")
            || is("multipart/x-mixed-replace")
        {
            return Self::Stream;
        }
        match begins("application/grpc") {
            true if begins("application/grpc-web") => Self::GrpcWeb,
            true => Self::Stream,
            false => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Response;

    fn parts(status: u16, headers: &[(&'static str, &'static str)]) -> Parts {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    fn check(status: u16, headers: &[(&'static str, &'static str)], expected: Verdict) {
        assert_eq!(verdict(&mut parts(status, headers), false), expected, "{status} {headers:?}");
    }

    #[test]
    fn what_says_try_again_is_released_and_the_rest_kept() {
        for status in 100..600 {
            let is_retryable = status >= 500 || status == 429 || status == 408;
            check(status, &[], if is_retryable { Verdict::Released } else { Verdict::Kept });
            assert_eq!(
                verdict(&mut parts(status, &[]), true),
                Verdict::Kept,
                "a layer that stores errors: {status}"
            );
        }
    }

    #[test]
    fn a_grpc_status_counts_as_the_http_status_that_stands_for_it() {
        for status in ["2", "4", "8", "13", "14", "15"] {
            check(200, &[("grpc-status", status)], Verdict::Released);
        }
        for status in ["0", "1", "3", "5", "6", "7", "9", "10", "11", "12", "16", "x"] {
            check(200, &[("grpc-status", status)], Verdict::Kept);
        }
    }

    #[test]
    fn the_services_own_word_goes_first_and_is_taken_out() {
        for own in [Verdict::Kept, Verdict::Released, Verdict::Lost, Verdict::Unknown] {
            for status in [200, 404, 503] {
                let mut parts = parts(status, &[]);
                parts.extensions.insert(own);
                assert_eq!(verdict(&mut parts, false), own);
                assert!(parts.extensions.get::<Verdict>().is_none());
            }
        }
    }

    #[test]
    fn streams_are_known_by_their_type() {
        let of = |content_type| Content::of(&parts(200, &[("content-type", content_type)]));
        for content_type in [
            "text/event-stream",
            "Text/Event-Stream; charset=utf-8",
            "multipart/x-mixed-replace;boundary=x",
            "application/grpc",
            "application/grpc+proto",
        ] {
            assert_eq!(of(content_type), Content::Stream, "{content_type}");
        }
        for content_type in ["text/plain", "application/json", "application/grp", "multipart/mixed", ""] {
            assert_eq!(of(content_type), Content::Other, "{content_type}");
        }
        for content_type in ["application/grpc-web+proto", "Application/gRPC-Web-Text; a=b"] {
            assert_eq!(of(content_type), Content::GrpcWeb, "{content_type}");
        }
        assert_eq!(Content::of(&parts(101, &[])), Content::Stream);
        assert_eq!(Content::of(&parts(200, &[])), Content::Other);
    }
}
