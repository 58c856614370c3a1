//! What Firestore's errors mean, and what to do about them.

use super::{STORE, document::Place};
use hyper::http::Error as HttpError;
use semel_core::store::{
    StoreError,
    StoreErrorKind::{self, Misconfigured, Refused, TooLarge, Unavailable},
};
use serde_json::Value;
use std::{error::Error as StdError, fmt};

/// Why there is no answer to a request.
#[derive(Debug)]
pub(super) enum Failure {
    /// The user's own function gave no token.
    Token(Box<dyn StdError + Send + Sync>),
    /// The request cannot be written down.
    Address(HttpError),
    /// No connection, or it broke before the answer was there.
    Silence(Box<dyn StdError + Send + Sync>),
    /// It said no.
    Said {
        /// The status of HTTP.
        http: u16,
        /// Google's own, such as `NOT_FOUND`; empty if the answer has none.
        status: String,
        /// In Google's words.
        message: String,
    },
}

impl Failure {
    /// An answer that is no success.
    pub(super) fn said(http: u16, body: &[u8]) -> Self {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        // Answers that are streams come as arrays.
        let error = if answer.is_array() { &answer[0]["error"] } else { &answer["error"] };
        let text = |name| error[name].as_str().unwrap_or_default().to_owned();
        Self::Said { http, status: text("status"), message: text("message") }
    }

    /// Whether a precondition may not have held: only a look can tell. An update time in the future is an invalid
    /// argument, too.
    pub(super) fn is_lost(&self) -> bool {
        match self.status() {
            "ALREADY_EXISTS" | "FAILED_PRECONDITION" | "NOT_FOUND" | "ABORTED" => true,
            "INVALID_ARGUMENT" => self.meaning().0 == Misconfigured,
            _ => false,
        }
    }

    /// Google's status, if it said one.
    pub(super) fn status(&self) -> &str {
        match self {
            Self::Said { status, .. } => status,
            Self::Token(_) | Self::Address(_) | Self::Silence(_) => "",
        }
    }

    fn meaning(&self) -> Meaning {
        match self {
            Self::Token(_) | Self::Silence(_) => (Unavailable, ""),
            Self::Address(_) => (Misconfigured, "check the host, the project and the database"),
            Self::Said { http, status, message } => said(status, message).unwrap_or_else(|| of_status(*http)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("no access token could be had"),
            Self::Address(_) => f.write_str("the address is none"),
            Self::Silence(_) => f.write_str("no answer came that can be read"),
            Self::Said { http, status, message } => write!(f, "HTTP {http} {status}: {message}"),
        }
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Token(error) | Self::Silence(error) => Some(&**error),
            Self::Address(error) => Some(error),
            Self::Said { .. } => None,
        }
    }
}

/// A kind of trouble, and its remedy; empty where there is none but trying again.
type Meaning = (StoreErrorKind, &'static str);

/// What is being done, to which collection.
pub(super) struct Doing<'a> {
    what: &'static str,
    place: &'a Place,
}

pub(super) fn doing<'a>(what: &'static str, place: &'a Place) -> Doing<'a> {
    Doing { what, place }
}

impl Doing<'_> {
    /// It did not succeed, because of this.
    pub(super) fn failed(&self, failure: Failure) -> StoreError {
        self.explained(failure.meaning()).because(failure)
    }

    /// It did not succeed.
    pub(super) fn explained(&self, (kind, remedy): Meaning) -> StoreError {
        let separator = if remedy.is_empty() { "" } else { ": " };
        let (what, place) = (self.what, self.place);
        let place = format!("{}/{}", place.database(), place.collection);
        StoreError::new(kind, STORE, format!("{what} (`{place}`){separator}{remedy}"))
    }
}

/// What a status of Google's means; `None` if it is not known here.
fn said(status: &str, message: &str) -> Option<Meaning> {
    Some(match status {
        "RESOURCE_EXHAUSTED" => (Unavailable, "throttled or over quota: raise the quota if this lasts"),
        "UNAVAILABLE" | "INTERNAL" | "DEADLINE_EXCEEDED" | "CANCELLED" | "UNKNOWN" | "ABORTED" => {
            (Unavailable, "")
        }
        "PERMISSION_DENIED" => (
            Refused,
            "not allowed: grant `roles/datastore.user`, and enable the Firestore API in the project",
        ),
        "UNAUTHENTICATED" => (Misconfigured, "the access token was not accepted: check where it comes from"),
        "NOT_FOUND" => (Misconfigured, "there is no such database: create it, or name another"),
        "FAILED_PRECONDITION" => (Misconfigured, "the database must be in native mode"),
        "INVALID_ARGUMENT" if is_about_size(message) => {
            (TooLarge, "the record is larger than the 1 MiB of a document: lower `body_bytes_max`")
        }
        "INVALID_ARGUMENT" => (Misconfigured, "check the names of project, database and collection"),
        _ => return None,
    })
}

fn is_about_size(message: &str) -> bool {
    ["longer than", "maximum allowed size", "maximum size", "payload size"]
        .iter()
        .any(|it| message.contains(it))
}

/// What an answer without a status that is known means.
fn of_status(http: u16) -> Meaning {
    match http {
        413 => (TooLarge, "the record is too large: lower `body_bytes_max`"),
        404 => (Misconfigured, "Firestore is not served there: check the host, the project and the database"),
        400..=407 | 409..=428 | 430..=499 => {
            (Refused, "something between here and Firestore may have said so")
        }
        _ => (Unavailable, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_alone_and_in_a_stream() {
        let one = r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#;
        for body in [one.to_owned(), format!("[{one}]")] {
            let failure = Failure::said(403, body.as_bytes());
            assert_eq!(failure.status(), "PERMISSION_DENIED");
            assert_eq!(failure.meaning().0, Refused);
        }
    }

    #[test]
    fn an_answer_that_is_not_googles_is_judged_by_its_status() {
        for (http, expected) in [(502, Unavailable), (200, Unavailable), (404, Misconfigured), (418, Refused)]
        {
            assert_eq!(Failure::said(http, b"<html>").meaning().0, expected, "{http}");
        }
    }
}
