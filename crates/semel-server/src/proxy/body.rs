//! Bodies on their way through.
//!
//! 1. [`Inbound`] is a request's body. It has a largest size, and must come at a certain rate once its grace is over.
//!    Only time counts in which the proxy waits for the client: one who is kept waiting by a slow upstream is not slow.
//! 2. [`Outbound`] is a response's body. It may not fall silent for too long.
//!
//! Neither keeps any byte.

use super::exchange::Exchange;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use semel::http::{BodyRefused, Problem};
use std::{
    error::Error as StdError,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

type BoxError = Box<dyn StdError + Send + Sync>;

/// How fast a body must come, and how large it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes_max: u64,
    /// Bytes a second.
    pub(super) rate_min: u64,
    pub(super) grace: Duration,
}

impl BodyLimits {
    /// For how long a client may be waited for until it has sent so much.
    fn wait_max(&self, received: u64) -> Duration {
        let earned = Duration::from_millis(received.saturating_mul(1_000) / self.rate_min.max(1));
        self.grace.saturating_add(earned)
    }
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Inbound {
    body: Incoming,
    limits: BodyLimits,
    exchange: Arc<Exchange>,
    /// How long the client was waited for, the last time not included.
    waited: Duration,
    /// Since when it is waited for now.
    waiting_since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Inbound {
    pub(super) fn new(body: Incoming, limits: BodyLimits, exchange: Arc<Exchange>) -> Self {
        Self { body, limits, exchange, waited: Duration::ZERO, waiting_since: None, alarm: None }
    }

    /// The request that it is of.
    pub(super) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    fn refuse(&self, problem: Problem) -> BoxError {
        self.exchange.refuse(problem);
        BodyRefused(problem).into()
    }

    /// Resolves when the client has been waited for too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let left = self.limits.wait_max(self.exchange.received()).saturating_sub(self.waited);
        let at = since + left;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx)
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            ready!(this.poll_overdue(cx));
            return Poll::Ready(Some(Err(this.refuse(Problem::REQUEST_TIMEOUT))));
        };
        if let Some(since) = this.waiting_since.take() {
            this.waited += since.elapsed();
        }
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref() {
            this.exchange.receive(data.len());
            if this.exchange.received() > this.limits.bytes_max {
                return Poll::Ready(Some(Err(this.refuse(Problem::REQUEST_TOO_LARGE))));
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response's body.
#[derive(Debug)]
pub(super) struct Outbound {
    /// The upstream's, or one of ours.
    body: semel::http::Body<Incoming>,
    /// For how long it may be silent.
    idle: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
    is_silent: bool,
}

/// The upstream fell silent in the middle of its response.
#[derive(Debug, thiserror::Error)]
#[error("the upstream fell silent in the middle of its response")]
struct Silent;

impl Outbound {
    pub(super) fn new(body: semel::http::Body<Incoming>, idle: Duration) -> Self {
        Self { body, idle, alarm: None, is_silent: false }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let at = Instant::now() + self.idle;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if !self.is_silent {
            self.is_silent = true;
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx)
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            ready!(this.poll_silence(cx));
            return Poll::Ready(Some(Err(Silent.into())));
        };
        this.is_silent = false;
        Poll::Ready(frame.map(|it| it.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_earns_time_by_sending() {
        let limits = BodyLimits { bytes_max: u64::MAX, rate_min: 1_024, grace: Duration::from_secs(5) };
        assert_eq!(limits.wait_max(0), Duration::from_secs(5));
        assert_eq!(limits.wait_max(10 * 1_024), Duration::from_secs(15));
        assert!(limits.wait_max(u64::MAX) > Duration::from_hours(24));
    }
}
