//! What a client is told instead of being served.
//!
//! 1. It is a problem (RFC 9457), with when to come again and how large a response was, where that is known.
//! 2. Who speaks gRPC or gRPC-web understands no problem: HTTP's status says nothing to such a client, and a body of another
//!    type is an error to it. It is told in its own words: HTTP 200, the type that it sent, no body, and what happened as
//!    `grpc-status` and `grpc-message`. That holds for whatever is refused before the service is called. What goes wrong later
//!    is told as 500 or 503, which these clients make a status of.

use super::{
    Answered, Body, InDoubt, Problem,
    layer::Settings,
    problem::{STORE_WAIT, challenge},
    stored::Unkept,
};
use crate::error::{Error, ErrorKind};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use semel_core::{key::Key, sabotage};
use std::time::Duration;

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Why a request is not served, and what more its client is told about it.
pub(super) struct Refused {
    problem: Problem,
    more: More,
}

enum More {
    Nothing,
    /// After which time it may come again.
    Wait(Duration),
    /// How large the response was that is not kept, in bytes.
    Size(u64),
    /// The record of a request whose outcome is unknown: for logs.
    InDoubt(Key),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, more: More::Nothing }
    }
}

impl Refused {
    /// It may come again after this time.
    pub(super) fn for_now(problem: Problem, wait: Duration) -> Self {
        Self { problem, more: More::Wait(wait) }
    }

    /// Nobody knows what came of it.
    pub(super) fn in_doubt(key: Key) -> Self {
        Self { problem: Problem::OUTCOME_UNKNOWN, more: More::InDoubt(key) }
    }

    /// It was carried out, and this is known of the response.
    pub(super) fn not_retained(unkept: Unkept) -> Self {
        Self { problem: Problem::RESPONSE_NOT_RETAINED, more: unkept.size.map_or(More::Nothing, More::Size) }
    }

    /// Because of an error of ours.
    pub(super) fn by(error: &Error) -> Self {
        let problem = match error.kind() {
            ErrorKind::Store | ErrorKind::Contended => Problem::STORE,
            // The service was at work when it was stopped: what it had done by then is done.
            ErrorKind::Lapsed => Problem::INTERRUPTED,
            ErrorKind::Unconfirmed => Problem::OUTCOME_UNCONFIRMED,
            _ => return Problem::INTERNAL.into(),
        };
        Self::for_now(problem, STORE_WAIT)
    }
}

impl Settings {
    /// A refusal, marked as what it is.
    pub(super) fn refused<R: http_body::Body>(&self, refused: impl Into<Refused>) -> Response<Body<R>> {
        let Refused { problem, more } = refused.into();
        let mut response = match more {
            More::Wait(wait) => problem.response_after(&self.problems, wait),
            More::Nothing | More::Size(_) | More::InDoubt(_) => problem.response(&self.problems),
        };
        challenge(problem, &self.caller, response.headers_mut());
        match more {
            More::Size(size) => {
                *response.body_mut() = Body::from(problem.json_with_size(&self.problems, size));
            }
            More::InDoubt(key) if self.marks_answers => {
                response.extensions_mut().insert(InDoubt(key));
            }
            More::Nothing | More::Wait(_) | More::InDoubt(_) => {}
        }
        self.marked(response, Answered::Refused)
    }

    /// A refusal, in the words of whoever sent a request with these headers.
    pub(super) fn refused_to<R: http_body::Body>(
        &self,
        sent: &HeaderMap,
        refused: impl Into<Refused>,
    ) -> Response<Body<R>> {
        let refused = refused.into();
        let (problem, content_type) = (refused.problem, sent.get(CONTENT_TYPE).filter(|it| is_grpc(it)));
        let mut response = self.refused(refused);
        let Some(content_type) = content_type.filter(|_| !sabotage::is_on("http_grpc_gets_problems")) else {
            return response;
        };
        *response.status_mut() = StatusCode::OK;
        *response.body_mut() = Body::empty();
        let message =
            format!("{}: {} {}", problem.title(), problem.detail(), self.problems.address(&problem));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type.clone());
        headers.insert(GRPC_STATUS, HeaderValue::from(grpc_status(&problem)));
        headers.insert(GRPC_MESSAGE, grpc_message(&message));
        response
    }
}

fn is_grpc(content_type: &HeaderValue) -> bool {
    let begins = content_type.as_bytes().get(..GRPC.len());
    begins.is_some_and(|it| it.eq_ignore_ascii_case(GRPC))
}

/// The gRPC status that stands for a problem: by what is to be done about it, as gRPC has it.
fn grpc_status(problem: &Problem) -> u16 {
    const INVALID_ARGUMENT: u16 = 3;
    const DEADLINE_EXCEEDED: u16 = 4;
    const NOT_FOUND: u16 = 5;
    const ALREADY_EXISTS: u16 = 6;
    const PERMISSION_DENIED: u16 = 7;
    const RESOURCE_EXHAUSTED: u16 = 8;
    const FAILED_PRECONDITION: u16 = 9;
    const INTERNAL: u16 = 13;
    const UNAVAILABLE: u16 = 14;
    const UNAUTHENTICATED: u16 = 16;
    match (*problem, problem.status().as_u16()) {
        // The same call may be sent again.
        (Problem::IN_PROGRESS, _) => UNAVAILABLE,
        (Problem::RESPONSE_NOT_RETAINED, _) => ALREADY_EXISTS,
        // Not before somebody has found out.
        (Problem::OUTCOME_UNKNOWN, _) => FAILED_PRECONDITION,
        (_, 401) => UNAUTHENTICATED,
        (_, 403) => PERMISSION_DENIED,
        (_, 404) => NOT_FOUND,
        (_, 408 | 504) => DEADLINE_EXCEEDED,
        (_, 429) => RESOURCE_EXHAUSTED,
        (_, 502 | 503) => UNAVAILABLE,
        (_, 400..=499) => INVALID_ARGUMENT,
        _ => INTERNAL,
    }
}

/// A text as gRPC has it in a header: printable ASCII, and everything else in hex behind a percent sign.
fn grpc_message(text: &str) -> HeaderValue {
    let mut message = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => message.push(byte as char),
            _ => {
                let hex =
                    |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0').to_ascii_uppercase();
                message.extend(['%', hex(byte >> 4), hex(byte & 15)]);
            }
        }
    }
    HeaderValue::try_from(message).expect("printable ASCII can stand in a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_a_status_by_what_is_to_be_done_about_it() {
        for (problem, expected) in [
            (Problem::KEY_MISSING, 3),
            (Problem::CALLER_MISSING, 16),
            (Problem::IN_PROGRESS, 14),
            (Problem::RESPONSE_NOT_RETAINED, 6),
            (Problem::OUTCOME_UNKNOWN, 9),
            (Problem::REQUEST_TOO_LARGE, 3),
            (Problem::MISMATCH, 3),
            (Problem::QUOTA, 8),
            (Problem::STORE, 14),
            (Problem::INTERNAL, 13),
        ] {
            assert_eq!(grpc_status(&problem), expected, "{}", problem.slug());
        }
    }

    #[test]
    fn a_message_is_printable_whatever_it_says() {
        assert_eq!(grpc_message("as `it` is"), "as `it` is");
        assert_eq!(grpc_message("100 %\né"), "100 %25%0A%C3%A9");
    }
}
