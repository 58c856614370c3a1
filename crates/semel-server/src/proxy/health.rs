//! Health and readiness, below a path that is never forwarded.
//!
//! 1. `GET /.semel/health` answers 200 while the process lives.
//! 2. `GET /.semel/ready` answers 200 if the store answers and the proxy is not stopping, else 503 and which of the two it
//!    is. The store is asked at most once in [`FRESH`], whoever asks.
//! 3. With an address of their own (`--admin-listen`) they are answered there, and nowhere else.

use super::forward::Answer;
use crate::listen::Stop;
use bytes::Bytes;
use http::{
    HeaderValue, Method, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use semel::{
    Once,
    http::{Body, Problem, ProblemBase},
};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tracing::warn;

/// What begins so is never forwarded.
pub const RESERVED: &str = "/.semel";
/// How long an answer of the store is believed.
pub const FRESH: Duration = Duration::from_secs(1);
/// How long the store may take.
const STORE_MAX: Duration = Duration::from_secs(2);

/// Tells how the proxy is.
pub(super) struct Health {
    pub(super) once: Once,
    pub(super) stop: Stop,
    pub(super) problems: ProblemBase,
    /// When the store was asked last, and whether it answered.
    asked: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    pub(super) fn new(once: Once, stop: Stop, problems: ProblemBase) -> Self {
        Self { once, stop, problems, asked: Mutex::new(None) }
    }

    /// Whether a path, in its canonical form, is ours.
    pub(super) fn is_reserved(path: &str) -> bool {
        path.strip_prefix(RESERVED).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    }

    pub(super) async fn answer(&self, method: &Method, path: &str) -> Response<Answer> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Problem::NOT_FOUND.response(&self.problems);
        }
        match path.strip_prefix(RESERVED) {
            Some("/health") => status(StatusCode::OK, "healthy"),
            Some("/ready") if self.stop.is_requested() => status(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Some("/ready") if self.store_answers().await => status(StatusCode::OK, "ready"),
            Some("/ready") => status(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
            Some(_) | None => Problem::NOT_FOUND.response(&self.problems),
        }
    }

    /// Whether the store answers; those who ask together share one question.
    async fn store_answers(&self) -> bool {
        let mut asked = self.asked.lock().await;
        if let Some((at, answered)) = *asked
            && at.elapsed() < FRESH
        {
            return answered;
        }
        let answer = tokio::time::timeout(STORE_MAX, self.once.get("semel-ready", "probe")).await;
        let answered = matches!(answer, Ok(Ok(_)));
        if !answered {
            warn!("the store does not answer; the proxy is not ready");
        }
        *asked = Some((Instant::now(), answered));
        answered
    }
}

fn status(status: StatusCode, text: &'static str) -> Response<Answer> {
    let mut response = Response::new(Body::from(Bytes::from(format!("{{\"status\":\"{text}\"}}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_paths_are_reserved() {
        for path in ["/.semel", "/.semel/health", "/.semel/", "/.semel/a/b"] {
            assert!(Health::is_reserved(path), "{path}");
        }
        for path in ["/", "/.semelx", "/semel", "/a/.semel/health"] {
            assert!(!Health::is_reserved(path), "{path}");
        }
    }
}
