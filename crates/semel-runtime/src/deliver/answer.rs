//! The port: what is delivered, and what came of it.

use super::{Cause, Departure, guard::Target};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use semel_core::BoxFuture;
use std::{fmt, time::Duration};

/// By which a function says itself what became of an event: `done`, `retry` or `fatal`.
pub const SEMEL_OUTCOME: HeaderName = HeaderName::from_static("semel-outcome");

/// Calls functions. The client does so over HTTP; a simulation in any way it likes.
pub trait Deliver: Send + Sync + 'static {
    /// Sends at most one request, and says what came of it, within the time of the delivery.
    fn deliver(&self, delivery: Delivery) -> BoxedAnswer<'_>;
}

/// An answer, some time later.
pub type BoxedAnswer<'a> = BoxFuture<'a, Answer>;

/// One request to a function.
#[derive(Clone)]
pub struct Delivery {
    /// Where to; checked, and checked again when a connection is made.
    pub target: Target,
    /// What goes with the body. Those that concern the connection (`Host`, `Content-Length`, `Connection` and the like)
    /// are the client's own, and left out here.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How long all of it may take, from now to the last byte of the answer; [`TIMEOUT_MAX`] at most.
    ///
    /// [`TIMEOUT_MAX`]: semel_core::retry::TIMEOUT_MAX
    pub timeout: Duration,
    /// How long the head of the answer may take, if another time than the client's own: a function that works for
    /// minutes before it answers needs it.
    pub first_byte: Option<Duration>,
    /// What is spoken.
    pub protocol: Protocol,
    /// Whether `102 Processing`, with nothing after it, is an answer: Pub/Sub's functions may say so.
    pub takes_processing: bool,
    /// Whether anything of it has left.
    pub departure: Departure,
}

impl Delivery {
    /// A delivery like most.
    pub fn new(target: Target, headers: HeaderMap, body: Bytes, timeout: Duration) -> Self {
        Self {
            target,
            headers,
            body,
            timeout,
            first_byte: None,
            protocol: Protocol::Negotiated,
            takes_processing: false,
            departure: Departure::default(),
        }
    }
}

impl fmt::Debug for Delivery {
    /// Without headers and body: people put secrets there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("target", &self.target)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What is spoken to a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Protocol {
    /// HTTP/1.1, or HTTP/2 if the target offers it when encryption begins.
    #[default]
    Negotiated,
    /// HTTP/2, as known beforehand.
    Http2,
}

/// What came of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A whole answer, or as much of it as is read.
    Status(Status),
    /// Certainly not received.
    NotSent(Cause),
    /// Sent, or it may have been; no whole answer came.
    Broken(Cause),
    /// Sent, or it may have been; no whole answer came in time.
    TimedOut(Stage),
}

/// What was waited for when the time was over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The head of the answer.
    Head,
    /// The rest of it.
    Body,
}

/// An answer, as far as it matters.
#[derive(Clone, PartialEq, Eq)]
pub struct Status {
    /// Its status.
    pub code: StatusCode,
    /// What the function says itself.
    pub outcome: Option<Outcome>,
    /// When to come again: seconds or a date.
    pub retry_after: Option<HeaderValue>,
    /// What the body is.
    pub content_type: Option<HeaderValue>,
    /// The body, or its beginning.
    pub body: Bytes,
    /// Whether there was more of the body than is read.
    pub is_truncated: bool,
}

impl Status {
    /// An answer with this status and no more.
    pub const fn of(code: StatusCode) -> Self {
        Self {
            code,
            outcome: None,
            retry_after: None,
            content_type: None,
            body: Bytes::new(),
            is_truncated: false,
        }
    }

    /// What matters of the head of an answer.
    pub(super) fn of_head(code: StatusCode, headers: &HeaderMap) -> Self {
        Self {
            code,
            outcome: Outcome::of(headers),
            retry_after: headers.get(RETRY_AFTER).map(copied),
            content_type: headers.get(CONTENT_TYPE).map(copied),
            body: Bytes::new(),
            is_truncated: false,
        }
    }
}

/// A value of its own: one that was read holds all of the buffer that it came in.
fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).expect("a value that was read is one")
}

impl fmt::Debug for Status {
    /// Without the body: people put secrets there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("code", &self.code)
            .field("outcome", &self.outcome)
            .field("retry_after", &self.retry_after)
            .field("content_type", &self.content_type)
            .field("body_bytes", &self.body.len())
            .field("is_truncated", &self.is_truncated)
            .finish()
    }
}

/// What a function says became of an event, whatever its status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It took effect.
    Done,
    /// It did not, and may another time.
    Retry,
    /// It did not, and never will.
    Fatal,
}

impl Outcome {
    /// What the headers of an answer say. Two that differ, or a word that nobody knows, say nothing.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut said = headers.get_all(SEMEL_OUTCOME).iter().map(Self::word);
        let first = said.next()??;
        said.all(|other| other == Some(first)).then_some(first)
    }

    fn word(value: &HeaderValue) -> Option<Self> {
        let word = value.as_bytes().trim_ascii();
        let words = [("done", Self::Done), ("retry", Self::Retry), ("fatal", Self::Fatal)];
        words.into_iter().find(|(known, _)| word.eq_ignore_ascii_case(known.as_bytes())).map(|(_, said)| said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::guard::{Policy, check_url};

    fn said(values: &[&'static str]) -> Option<Outcome> {
        let pairs = values.iter().map(|value| (SEMEL_OUTCOME, HeaderValue::from_static(value)));
        Outcome::of(&pairs.collect())
    }

    #[test]
    fn a_function_says_what_became_of_an_event_in_three_words() {
        assert_eq!(said(&["done"]), Some(Outcome::Done));
        assert_eq!(said(&[" Retry "]), Some(Outcome::Retry));
        assert_eq!(said(&["FATAL"]), Some(Outcome::Fatal));
    }

    #[test]
    fn invariant_32_neither_headers_nor_bodies_are_shown() {
        let target = check_url("https://example.com/?canary", &Policy::public()).unwrap();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("canary"))]);
        let delivery = Delivery::new(target, headers, Bytes::from("canary"), Duration::ZERO);
        assert!(!format!("{delivery:?}").contains("canary"));
        let answer = Answer::Status(Status { body: Bytes::from("canary"), ..Status::of(StatusCode::OK) });
        assert!(!format!("{answer:?}").contains("canary"));
    }

    #[test]
    fn unknown_and_contradicting_words_say_nothing() {
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[""]), None);
        assert_eq!(said(&["done, fatal"]), None);
        assert_eq!(said(&["done", "fatal"]), None);
        assert_eq!(said(&["done", "perhaps"]), None);
        assert_eq!(said(&["done", "done"]), Some(Outcome::Done));
    }
}
