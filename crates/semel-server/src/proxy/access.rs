//! The access log: one event for each request, when its answer has ended, or when its client has gone without one.
//!
//! 1. It says the method, the path without its query, the route, the status, how a request with a key was answered, whether
//!    its answer is one that could not be kept, how long it took, how much was read and written, and the peer's address.
//! 2. What the listener refuses before it is a request is logged there: see [`listen`](crate::listen).
//! 3. It never says a key, a header, a query or a body.

use super::exchange::Exchange;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use semel::http::{Answered, NotRetained};
use semel_core::sabotage;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};
use tracing::{enabled, info};

/// Longest path that is logged, in characters.
const PATH_CHARS_MAX: usize = 256;

/// A request that will be logged. One that is dropped before its answer has begun is logged as aborted: its client has gone.
pub(super) struct Entry(Option<Begun>);

/// What is known of a request.
struct Begun {
    method: Method,
    path: String,
    route: Option<String>,
    since: Instant,
    exchange: Arc<Exchange>,
}

impl Entry {
    /// The request begins.
    pub(super) fn begin<B>(request: &Request<B>, exchange: &Arc<Exchange>) -> Self {
        // Nothing is gathered if nobody reads the log.
        if !enabled!(target: "semel_server::access", tracing::Level::INFO) {
            return Self(None);
        }
        let uri = request.uri();
        let path = match uri.path_and_query() {
            Some(whole) if sabotage::is_on("proxy_logs_query") => whole.as_str(),
            Some(_) | None => uri.path(),
        };
        Self(Some(Begun {
            method: request.method().clone(),
            path: path.chars().take(PATH_CHARS_MAX).collect(),
            route: None,
            since: Instant::now(),
            exchange: Arc::clone(exchange),
        }))
    }

    /// Its route was found.
    pub(super) fn routed(&mut self, route: Option<&str>) {
        if let Some(begun) = &mut self.0 {
            begun.route = route.map(str::to_owned);
        }
    }

    /// The answer begins: it is logged when it has ended.
    pub(super) fn answered<B: Body>(mut self, response: Response<B>) -> Response<Logged<B>> {
        let ending = self.0.take().map(|begun| Ending {
            said: Said {
                status: response.status().as_u16(),
                answered: response.extensions().get::<Answered>().copied(),
                is_not_kept: response.extensions().get::<NotRetained>().is_some(),
            },
            begun,
        });
        response.map(|body| Logged { body, ending, sent: 0, is_whole: false })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(begun) = self.0.take() {
            begun.log(None, 0, true);
        }
    }
}

impl Begun {
    fn log(self, said: Option<Said>, sent: u64, is_aborted: bool) {
        let Self { method, path, route, since, exchange } = self;
        info!(
            target: "semel_server::access",
            method = method.as_str(),
            path,
            route,
            status = said.map(|it| it.status),
            idempotency = said.and_then(|it| it.answered).map(Answered::as_str),
            kept = said.and_then(|it| it.is_not_kept.then_some(false)),
            ms = since.elapsed().as_micros() as f64 / 1_000.0,
            received = exchange.received(),
            sent,
            aborted = is_aborted.then_some(true),
            peer = %exchange.connection.peer().ip(),
            "request"
        );
    }
}

/// What is known when the answer has begun.
struct Ending {
    begun: Begun,
    said: Said,
}

/// What the head of an answer tells.
#[derive(Clone, Copy)]
struct Said {
    status: u16,
    answered: Option<Answered>,
    /// It was passed on, and cannot be replayed.
    is_not_kept: bool,
}

/// The body of an answer that is logged when it has ended.
pub(super) struct Logged<B: Body> {
    body: B,
    ending: Option<Ending>,
    sent: u64,
    is_whole: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Logged<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => self.sent += frame.data_ref().map_or(0, Bytes::len) as u64,
            Poll::Ready(None) => self.is_whole = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body> Drop for Logged<B> {
    fn drop(&mut self) {
        let Some(Ending { begun, said }) = self.ending.take() else { return };
        let has_no_body = begun.method == Method::HEAD || said.status == 101;
        let is_whole = self.is_whole || self.body.is_end_stream() || has_no_body;
        begun.log(Some(said), self.sent, !is_whole);
    }
}
