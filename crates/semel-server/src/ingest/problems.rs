//! Problems: what the server answers when it does not take an event.
#![doc = include_str!("problems.md")]

use crate::serve::Answer;
use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_LANGUAGE, CONTENT_TYPE, RETRY_AFTER},
};
use semel::http::{Problem, ProblemBase};
use std::time::Duration;

/// Where the pages are.
pub const PAGES: &str = "https://docs.rs/semel-server/latest/semel_server/ingest/problems/index.html#";
/// Longest time that a sender is asked to stay away, in seconds.
const RETRY_AFTER_SECS_MAX: u64 = 60;

macro_rules! problems {
    ($($NAME:ident $status:ident $slug:literal: $title:literal, $detail:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $NAME: Problem = Problem::new(StatusCode::$status, $slug, $title, $detail);
        )*

        /// All that the server itself answers with, besides what the listener does.
        pub const ALL: &[Problem] = &[$($NAME),*];
    };
}

problems! {
    BAD_REQUEST BAD_REQUEST "bad-request":
        "The request cannot be read",
        "The request is malformed, or could be understood in more than one way.";
    EVENT_INVALID BAD_REQUEST "event-invalid":
        "The body is no event",
        "What was sent is no event that this server can read.";
    ENCODING_INVALID BAD_REQUEST "encoding-invalid":
        "The body cannot be decompressed",
        "The body is not what its `Content-Encoding` says.";
    INCOMPLETE BAD_REQUEST "request-incomplete":
        "The request ended early",
        "The body of the request could not be read to its end. Send it again.";
    UNAUTHORIZED UNAUTHORIZED "unauthorized":
        "Who sends this is not known",
        "The request does not show who sends it, in the way that this address asks for.";
    NOT_FOUND NOT_FOUND "not-found":
        "There is no such address",
        "Events go to `POST /events`, or to `POST /sources/NAME` for a source that is configured.";
    METHOD METHOD_NOT_ALLOWED "method-not-allowed":
        "The method is not allowed here",
        "The header `Allow` names the methods that this address takes.";
    TOO_LARGE PAYLOAD_TOO_LARGE "request-too-large":
        "The request is too large",
        "The body, or what it decompresses to, or an event in it, or the number of events is larger than this server takes.";
    MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "media-type":
        "The media type is not read here",
        "The header `Content-Type` is missing, is there twice, or names a type that is not read here.";
    ENCODING UNSUPPORTED_MEDIA_TYPE "encoding":
        "The encoding is not read here",
        "The header `Content-Encoding` may be `gzip`, `zstd` or absent, once.";
    NO_FUNCTION UNPROCESSABLE_ENTITY "no-function":
        "There is no function",
        "Nothing is configured that could take an event. Add one: `semel serve --function NAME=URL`, or `[[function]]` in the file.";
    KEY_MISSING UNPROCESSABLE_ENTITY "key-missing":
        "The event has no key",
        "A function names its events by something that this event does not have, so nothing is kept of it.";
    MISMATCH UNPROCESSABLE_ENTITY "mismatch":
        "The event came before with another content",
        "An event with the same name and another content was accepted before. This one is not run.";
    REFUSED UNPROCESSABLE_ENTITY "events-refused":
        "Some events were refused",
        "The items say which events were taken and which were not. Those that were taken can be sent again without harm.";
    BUSY SERVICE_UNAVAILABLE "busy":
        "The server is busy",
        "There is no room for more events at the moment. Nothing is kept of this request: send it again later.";
    STORE SERVICE_UNAVAILABLE "store":
        "The events cannot be stored",
        "Whether the events were stored cannot be told. Send them again later: nothing takes effect twice.";
    FUNCTION_ABSENT SERVICE_UNAVAILABLE "function-absent":
        "A function is not here",
        "A function that takes the event cannot be called from this server. Nothing is kept of this request: send it again later, or to another server.";
    STOPPING SERVICE_UNAVAILABLE "stopping":
        "The server is stopping",
        "Nothing is kept of this request: send it again, later or to another server.";
    NOT_READY SERVICE_UNAVAILABLE "not-ready":
        "The server is not ready",
        "The server takes no events at the moment.";
    KEYS_UNAVAILABLE SERVICE_UNAVAILABLE "keys-unavailable":
        "The sender's keys cannot be fetched",
        "Whether the request is signed by whom it says cannot be told now. Nothing is kept of it: send it again later.";
    SUBSCRIPTION_UNCONFIRMED SERVICE_UNAVAILABLE "subscription-unconfirmed":
        "The subscription cannot be confirmed",
        "What confirms the subscription could not be fetched. Send the request again later.";
    IN_PROGRESS CONFLICT "in-progress":
        "The event is in progress",
        "The same event came before, and its function has not answered yet. Send it again later.";
    FUNCTION_FAILED BAD_GATEWAY "function-failed":
        "The function failed",
        "The function could not be reached, took too long, or did not take the event this time. Send it again later.";
    FUNCTION_REFUSED UNPROCESSABLE_ENTITY "function-refused":
        "The function does not take the event",
        "The function said that it will never take this event. Sending it again gives the same answer.";
    IN_ORDER SERVICE_UNAVAILABLE "in-order":
        "The function is called in order",
        "A function that takes the event is called in order, and nobody can wait for its turn. Nothing is kept of this request.";
    OUTCOME_UNKNOWN CONFLICT "outcome-unknown":
        "The outcome is unknown",
        "The function was called, and whether the event took effect cannot be told. It is not called again until an operator says.";
    UNCONFIRMED SERVICE_UNAVAILABLE "unconfirmed":
        "The outcome is not confirmed",
        "The function was called, but what came of it could not be stored. Send the event again later to learn it.";
}

/// A problem as an answer.
pub(crate) fn told(problem: &Problem, base: &ProblemBase) -> Response<Answer> {
    with_body(problem, problem.json(base))
}

/// A problem as an answer, with a sentence of its own.
pub(crate) fn told_as(problem: &Problem, base: &ProblemBase, detail: &str) -> Response<Answer> {
    with_body(problem, json(problem, base, detail, None))
}

/// A problem as an answer that says when to come again.
pub(crate) fn told_after(problem: &Problem, base: &ProblemBase, wait: Duration) -> Response<Answer> {
    let mut response = told(problem, base);
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    response.headers_mut().insert(RETRY_AFTER, seconds.clamp(1, RETRY_AFTER_SECS_MAX).into());
    response
}

/// A problem as an answer, with what became of each item.
pub(crate) fn told_with(problem: &Problem, base: &ProblemBase, items: &[u8]) -> Response<Answer> {
    with_body(problem, json(problem, base, problem.detail(), Some(items)))
}

fn with_body(problem: &Problem, body: Bytes) -> Response<Answer> {
    let mut response = Response::new(Answer::from(body));
    *response.status_mut() = problem.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
    response
}

/// A problem as a body; the items are JSON already.
pub(super) fn json(problem: &Problem, base: &ProblemBase, detail: &str, items: Option<&[u8]>) -> Bytes {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (address, title) = (quoted(&base.address(problem)), quoted(problem.title()));
    let status = problem.status().as_u16();
    let mut body =
        format!(r#"{{"type":{address},"title":{title},"status":{status},"detail":{}"#, quoted(detail))
            .into_bytes();
    if let Some(items) = items {
        body.extend_from_slice(br#","items":"#);
        body.extend_from_slice(items);
    }
    body.push(b'}');
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_section_that_says_what_the_problem_says() {
        let page = include_str!("problems.md");
        for problem in ALL {
            let section =
                format!("\n## {}\n\n{} (`{}`).", problem.slug(), problem.title(), problem.status().as_u16());
            assert!(page.contains(&section), "the page has no `{section}`");
        }
        for problem in [Problem::URI_TOO_LONG, Problem::HEADERS_TOO_LARGE, Problem::REQUEST_TIMEOUT] {
            assert!(
                page.contains(&format!("\n## {}\n", problem.slug())),
                "the page has no `{}`",
                problem.slug()
            );
        }
    }

    #[test]
    fn a_type_is_the_address_of_its_section() {
        let address = ProblemBase::new(PAGES).address(&UNAUTHORIZED);
        assert_eq!(address, format!("{PAGES}unauthorized"));
    }
}
