//! Health, readiness and version.
//!
//! 1. `GET /health` answers 200 while the process lives.
//! 2. `GET /ready` answers 200 if the queue answers, forgot nothing and takes new events, and the server is not stopping, else
//!    503 and which of these it is, as a [problem](NOT_READY). The queue is asked at most once in [`FRESH`], whoever asks.
//! 3. `GET /version` says which program this is.

use super::{Answer, Foundation};
use crate::{
    ingest::problems::{NOT_READY, told_as},
    listen::Stop,
};
use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use semel::http::ProblemBase;
use semel_core::execution::ExecutionId;
use semel_runtime::Runtime;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;
use tracing::warn;

/// How long an answer of the queue is believed.
const FRESH: Duration = Duration::from_secs(1);
/// How long the queue may take.
const QUEUE_MAX: Duration = Duration::from_secs(2);

/// Tells how the server is.
pub(super) struct Health {
    runtime: Runtime,
    stop: Stop,
    foundation: Arc<Foundation>,
    /// When the queue was asked last, and whether it answered.
    asked: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    pub(super) fn new(runtime: Runtime, stop: Stop, foundation: Arc<Foundation>) -> Self {
        Self { runtime, stop, foundation, asked: Mutex::new(None) }
    }

    pub(super) fn healthy() -> Response<Answer> {
        status(StatusCode::OK, "healthy")
    }

    pub(super) fn version() -> Response<Answer> {
        let body = concat!("{\"name\":\"semel\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}\n");
        answer(StatusCode::OK, "application/json", Bytes::from_static(body.as_bytes()))
    }

    pub(super) async fn ready(&self, base: &ProblemBase) -> Response<Answer> {
        match self.trouble().await {
            None => status(StatusCode::OK, "ready"),
            Some(why) => {
                let mut response = told_as(&NOT_READY, base, &format!("Not now: {why}."));
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
        }
    }

    /// Why no events are taken, if none are.
    async fn trouble(&self) -> Option<&'static str> {
        if self.stop.is_requested() {
            return Some("it is stopping");
        }
        if self.runtime.queue().went_back().is_some() {
            return Some("the store forgot something, and nobody has decided what becomes of that");
        }
        if self.foundation.ailments().refuses.is_some() {
            return Some("the store has no room for new events");
        }
        if self.queue_answers().await { None } else { Some("the store does not answer") }
    }

    /// Whether the queue answers; those who ask together share one question.
    async fn queue_answers(&self) -> bool {
        let mut asked = self.asked.lock().await;
        if let Some((at, answered)) = *asked
            && at.elapsed() < FRESH
        {
            return answered;
        }
        let nobody = [ExecutionId::from_identity(semel_core::key::Identity::from_bytes([0; 32]))];
        let answer = tokio::time::timeout(QUEUE_MAX, self.runtime.queue().get(&nobody)).await;
        let answered = matches!(answer, Ok(Ok(_)));
        if !answered {
            warn!("the store does not answer; the server is not ready");
        }
        *asked = Some((Instant::now(), answered));
        answered
    }
}

fn status(status: StatusCode, text: &'static str) -> Response<Answer> {
    answer(status, "application/json", Bytes::from(format!("{{\"status\":\"{text}\"}}\n")))
}

/// An answer that nobody keeps.
pub(super) fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Answer> {
    let mut response = Response::new(Answer::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
