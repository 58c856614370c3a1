//! The access log: one event for each request.
//!
//! 1. It says the method, the path without its query, the status, how many events were new and how many were not, how long
//!    it took, how much was read and written, and the peer's address. Of a request that was refused, it says why.
//! 2. It never says a header, a query, a body, or anything of an event.

use super::Answer;
use crate::{ingest::Noted, listen::Connection};
use http::{Method, Request, Response};
use http_body::Body as _;
use std::time::Instant;
use tracing::{enabled, info};

/// Longest path that is logged, in characters.
const PATH_CHARS_MAX: usize = 256;

/// A request that will be logged.
pub(super) struct Entry {
    method: Method,
    path: String,
    since: Instant,
    peer: std::net::IpAddr,
}

impl Entry {
    /// The request begins; nothing if nobody reads the log.
    pub(super) fn begin<B>(request: &Request<B>, connection: &Connection) -> Option<Self> {
        if !enabled!(target: "semel_server::access", tracing::Level::INFO) {
            return None;
        }
        Some(Self {
            method: request.method().clone(),
            path: request.uri().path().chars().take(PATH_CHARS_MAX).collect(),
            since: Instant::now(),
            peer: connection.peer().ip(),
        })
    }

    /// It is answered.
    pub(super) fn end(entry: Option<Self>, response: &Response<Answer>, noted: &Noted) {
        let Some(Self { method, path, since, peer }) = entry else { return };
        let some = |count: u64| (count > 0).then_some(count);
        info!(
            target: "semel_server::access",
            method = method.as_str(),
            path,
            status = response.status().as_u16(),
            new = some(noted.new),
            duplicates = some(noted.duplicates),
            cause = noted.cause,
            ms = since.elapsed().as_micros() as f64 / 1_000.0,
            received = noted.received,
            sent = response.body().size_hint().exact(),
            peer = %peer,
            "request"
        );
    }
}
