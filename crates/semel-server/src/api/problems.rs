//! Problems: what the admin API answers when it does not do as it is asked.
#![doc = include_str!("problems.md")]

use crate::{ingest::problems as ingest, serve::Answer};
use http::{
    HeaderValue, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
};
use semel::http::{Problem, ProblemBase};
use semel_core::store::StoreError;
use std::time::Duration;

pub(crate) use ingest::{BAD_REQUEST, MEDIA_TYPE, METHOD};

/// Where the pages are.
pub const PAGES: &str = "https://docs.rs/semel-server/latest/semel_server/api/problems/index.html#";

macro_rules! problems {
    ($($NAME:ident $status:ident $slug:literal: $title:literal, $detail:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $NAME: Problem = Problem::new(StatusCode::$status, $slug, $title, $detail);
        )*

        /// All that are only this API's.
        pub const ALL: &[Problem] = &[$($NAME),*];
    };
}

problems! {
    UNAUTHORIZED UNAUTHORIZED "unauthorized":
        "Who asks is not known",
        "The request does not show who sends it. Send a token that is configured: `Authorization: Bearer TOKEN`.";
    FORBIDDEN FORBIDDEN "forbidden":
        "The role does not allow this",
        "The token is right, and its role does not include this. That it was tried is in the audit log.";
    CROSS_SITE FORBIDDEN "cross-site":
        "A browser sends this for another site",
        "Only pages of this server, and programs that are no browsers, may ask.";
    MISDIRECTED MISDIRECTED_REQUEST "misdirected":
        "This server does not have that name",
        "The header `Host` is no address and no name of this server. Names are configured: `hosts` below `[server]`.";
    TOO_MANY_GUESSES TOO_MANY_REQUESTS "too-many-guesses":
        "Too many wrong tokens",
        "Too many wrong tokens came from this address. Wait a minute.";
    NOT_FOUND NOT_FOUND "not-found":
        "There is no such thing",
        "There is nothing under this address. `/v1/openapi.json` says what there could be.";
    CONFLICT CONFLICT "conflict":
        "That makes no sense as it stands",
        "It cannot be done to what stands there.";
    INVALID UNPROCESSABLE_ENTITY "invalid":
        "The request says something else than it may",
        "The body or the query does not have the shape that `/v1/openapi.json` says.";
    TOO_LARGE PAYLOAD_TOO_LARGE "request-too-large":
        "The request is too large",
        "The body is larger than any request needs to be.";
    BUSY SERVICE_UNAVAILABLE "busy":
        "Too many jobs run",
        "So many jobs run that there is no room for another. Wait for one, or abort one.";
    STORE SERVICE_UNAVAILABLE "store":
        "The queue cannot be asked",
        "Whether it was done cannot be told. Look, and ask again later.";
}

/// Why a request is not answered as it would like.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// As the problem says.
    Plain(Problem),
    /// As the problem says, with a sentence of its own.
    Said(Problem, String),
    /// The method is wrong; these are right.
    Method(String),
    /// The queue could not tell.
    Store(StoreError),
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self::Plain(problem)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Trouble {
    /// Something about the request is not as it must be.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::Said(INVALID, detail.into())
    }

    /// It makes no sense as it stands.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::Said(CONFLICT, detail.into())
    }

    /// As an answer.
    pub(crate) fn answer(self, base: &ProblemBase) -> Response<Answer> {
        let mut answer = match self {
            Self::Plain(problem) if problem == TOO_MANY_GUESSES => {
                ingest::told_after(&problem, base, super::door::GUESSES_PER)
            }
            Self::Plain(problem) if problem == BUSY => {
                ingest::told_after(&problem, base, Duration::from_secs(10))
            }
            Self::Plain(problem) => ingest::told(&problem, base),
            Self::Said(problem, detail) => ingest::told_as(&problem, base, &detail),
            Self::Method(allowed) => {
                let mut answer = ingest::told(&METHOD, base);
                let allowed = HeaderValue::from_str(&allowed).expect("methods are plain words");
                answer.headers_mut().insert(ALLOW, allowed);
                answer
            }
            Self::Store(error) => {
                tracing::warn!(error = %chain(&error), "the queue could not be asked");
                ingest::told_after(&STORE, base, Duration::from_secs(1))
            }
        };
        if answer.status() == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        private(&mut answer);
        answer
    }
}

/// Nobody keeps an answer, or takes it for something else.
pub(crate) fn private(answer: &mut Response<Answer>) {
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_section_that_says_what_the_problem_says() {
        let page = include_str!("problems.md");
        for problem in ALL.iter().chain([&BAD_REQUEST, &MEDIA_TYPE, &METHOD]) {
            let section =
                format!("\n## {}\n\n{} (`{}`).", problem.slug(), problem.title(), problem.status().as_u16());
            assert!(page.contains(&section), "the page has no `{section}`");
        }
    }
}
