//! Answers that are not the service's own, as `application/problem+json` (RFC 9457).
//!
//! 1. The texts are fixed: nothing of a request is echoed.
//! 2. `type` is the address of a page that says what happened and what to do: see [`problems`](super::problems).

use super::{Body, caller::Caller, problems::DOCS};
use ::http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{
        CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use bytes::Bytes;
use std::{fmt, sync::Arc, time::Duration};

/// Longest time that a client is told to wait for, in seconds: a week, so that who is told of a lease, or of a quota whose keys are
/// remembered for so long, is not sent on an errand that must fail.
pub const RETRY_AFTER_SECS_MAX: u64 = 7 * 24 * 3_600;

/// How long a client is told to wait when the store cannot be reached.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(5);

/// A problem that the service itself answered with, among the extensions of its response: the layer above it says where its
/// page is, as for its own.
#[derive(Clone, Copy)]
pub(crate) struct Told(pub(crate) Problem);

/// Why a request was not answered by the service.
///
/// ```
/// use semel::http::{Problem, ProblemBase};
/// use bytes::Bytes;
/// let response = Problem::MISMATCH.response::<http_body_util::Empty<Bytes>>(&ProblemBase::default());
/// assert_eq!(response.status(), 422);
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    status: u16,
    slug: &'static str,
    title: &'static str,
    detail: &'static str,
}

impl Problem {
    /// A problem of one's own, in the same form. The slug is the last part of its `type`: small letters and hyphens.
    pub const fn new(
        status: StatusCode,
        slug: &'static str,
        title: &'static str,
        detail: &'static str,
    ) -> Self {
        Self { status: status.as_u16(), slug, title, detail }
    }

    /// The same problem, of which something else is to be told.
    #[must_use]
    pub const fn with_detail(self, detail: &'static str) -> Self {
        Self { detail, ..self }
    }

    /// What the client sees.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The last part of its `type`.
    pub const fn slug(&self) -> &'static str {
        self.slug
    }

    /// What happened, in short.
    pub const fn title(&self) -> &'static str {
        self.title
    }

    /// What happened, and what to do.
    pub const fn detail(&self) -> &'static str {
        self.detail
    }

    /// As a body.
    pub fn json(&self, base: &ProblemBase) -> Bytes {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (address, title, detail) = (quoted(&base.address(self)), quoted(self.title), quoted(self.detail));
        format!(r#"{{"type":{address},"title":{title},"status":{},"detail":{detail}}}"#, self.status).into()
    }

    /// As a body that tells how large a response was, in bytes.
    pub(super) fn json_with_size(&self, base: &ProblemBase, size: u64) -> Bytes {
        let mut json = Vec::from(self.json(base));
        json.pop();
        json.extend_from_slice(format!(r#","size":{size}}}"#).as_bytes());
        json.into()
    }

    /// As a response.
    pub fn response<B: http_body::Body>(&self, base: &ProblemBase) -> Response<Body<B>> {
        let mut response = Response::new(Body::from(self.json(base)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        // Whatever a browser takes it for, nothing of it runs.
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
        );
        response
    }

    /// As a response that says when to come again: in whole seconds, 1 at least and [`RETRY_AFTER_SECS_MAX`] at most.
    pub fn response_after<B: http_body::Body>(
        &self,
        base: &ProblemBase,
        wait: Duration,
    ) -> Response<Body<B>> {
        let mut response = self.response(base);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        response
    }
}

/// Asks for credentials, where they are what tells callers apart, as a 401 has to (RFC 9110).
pub(crate) fn challenge(problem: Problem, caller: &Caller, headers: &mut HeaderMap) {
    if problem == Problem::CALLER_MISSING && matches!(caller, Caller::Authorization) {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    let rounded_up = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    rounded_up.clamp(1, RETRY_AFTER_SECS_MAX)
}

/// Where the `type` of a problem points: this crate's documentation, unless said otherwise.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProblemBase(Option<Arc<str>>);

impl ProblemBase {
    /// Below this address: a problem's slug is appended to it.
    pub fn new(base: impl Into<String>) -> Self {
        Self(Some(base.into().into()))
    }

    /// The page of this problem.
    pub fn address(&self, problem: &Problem) -> String {
        match &self.0 {
            Some(base) => format!("{base}{}", problem.slug),
            None => format!("{DOCS}{}/index.html", problem.slug.replace('-', "_")),
        }
    }
}

impl fmt::Debug for ProblemBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProblemBase").field(&self.0.as_deref().unwrap_or(DOCS)).finish()
    }
}

/// A body that refuses to be read on, and says what its sender is to be told. A request's body fails with this error, or with a
/// [`BoxError`](crate::BoxError) that is it or has it as a source, where it has limits of its own: it came too slowly, or would
/// not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyRefused(pub Problem);

impl fmt::Display for BodyRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request's body was refused: {}", self.0.title)
    }
}

impl std::error::Error for BodyRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_seconds_within_bounds() {
        let check = |millis, expected| assert_eq!(whole_seconds(Duration::from_millis(millis)), expected);
        check(0, 1);
        check(1, 1);
        check(1_000, 1);
        check(1_001, 2);
        check(604_798_001, 604_799);
        check(604_799_001, RETRY_AFTER_SECS_MAX);
        check(u64::MAX, RETRY_AFTER_SECS_MAX);
    }

    #[test]
    fn an_own_base_is_followed_by_the_slug() {
        let base = ProblemBase::new("https://example.com/errors/");
        assert_eq!(base.address(&Problem::IN_PROGRESS), "https://example.com/errors/in-progress");
    }
}
