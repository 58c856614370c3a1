//! The body of a request, read whole.
//!
//! 1. It has a largest size: by its own word, and by what comes.
//! 2. It must come at a certain rate once its grace is over.
//! 3. What comes in one piece is not copied.

use super::problems::{INCOMPLETE, TOO_LARGE};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use semel::http::Problem;
use semel_core::sabotage::is_on;
use std::{future::poll_fn, pin::Pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How much memory is set aside for a body before any of it is there, in bytes.
const AHEAD_BYTES_MAX: u64 = 64 * 1024;

/// What a seeded bug waits for.
const FOR_EVER: Duration = Duration::from_hours(24);

/// How large a body may be, and how fast it must come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: u64,
    /// Bytes a second.
    pub(crate) rate_min: u64,
    pub(crate) grace: Duration,
}

impl BodyLimits {
    /// How long a body may take of which so much is there.
    fn wait_max(&self, received: u64) -> Duration {
        let earned = Duration::from_millis(received.saturating_mul(1_000) / self.rate_min.max(1));
        self.grace.saturating_add(earned)
    }
}

/// Reads a body to its end.
pub(crate) async fn read_body(mut body: Incoming, limits: &BodyLimits) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limits.bytes_max {
        return Err(TOO_LARGE);
    }
    let since = Instant::now();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut received = 0;
    while !body.is_end_stream() {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let patience = if is_on("ingest_waits_for_bodies") { FOR_EVER } else { limits.wait_max(received) };
        let frame = timeout_at(since + patience, frame).await;
        let data = match frame.map_err(|_| Problem::REQUEST_TIMEOUT)? {
            None => break,
            Some(Err(_)) => return Err(INCOMPLETE),
            // Trailers say nothing that is looked at.
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        received += data.len() as u64;
        if received > limits.bytes_max && !is_on("ingest_believes_lengths") {
            return Err(TOO_LARGE);
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            let announced = body.size_hint().lower().min(AHEAD_BYTES_MAX) as usize;
            rest.reserve(first.len() + data.len() + announced);
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_earns_time_by_sending() {
        let limits = BodyLimits { bytes_max: 1, rate_min: 1_024, grace: Duration::from_secs(5) };
        assert_eq!(limits.wait_max(0), Duration::from_secs(5));
        assert_eq!(limits.wait_max(10 * 1_024), Duration::from_secs(15));
        assert!(limits.wait_max(u64::MAX) > Duration::from_hours(24));
    }
}
