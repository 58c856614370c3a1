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
use semel_core::sabotage;
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

/// How long a client was waited for.
#[derive(Debug)]
struct Patience {
    limits: BodyLimits,
    /// The last time not included.
    waited: Duration,
    /// Since when it is waited for now.
    since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(limits: BodyLimits) -> Self {
        Self { limits, waited: Duration::ZERO, since: None, alarm: None }
    }

    /// Resolves when the client, of which so much was received, has been waited for too long.
    fn poll_overdue(&mut self, received: u64, cx: &mut Context<'_>) -> Poll<()> {
        if sabotage::is_on("proxy_waits_for_bodies") {
            return Poll::Pending;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let at = since + self.limits.wait_max(received).saturating_sub(self.waited);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx)
    }

    /// Something has come: it is waited for again when somebody asks for more.
    fn rest(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
    }
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Inbound {
    body: Incoming,
    exchange: Arc<Exchange>,
    patience: Patience,
}

impl Inbound {
    pub(super) fn new(body: Incoming, limits: BodyLimits, exchange: Arc<Exchange>) -> Self {
        Self { body, exchange, patience: Patience::new(limits) }
    }

    /// The request that it is of.
    pub(super) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    fn refuse(&self, problem: Problem) -> BoxError {
        self.exchange.refuse(problem);
        BodyRefused(problem).into()
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
            ready!(this.patience.poll_overdue(this.exchange.received(), cx));
            return Poll::Ready(Some(Err(this.refuse(Problem::REQUEST_TIMEOUT))));
        };
        this.patience.rest();
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref() {
            this.exchange.receive(data.len());
            if this.exchange.received() > this.patience.limits.bytes_max {
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
    use std::future::poll_fn;
    use tokio::time::advance;

    const LIMITS: BodyLimits =
        BodyLimits { bytes_max: u64::MAX, rate_min: 1_024, grace: Duration::from_secs(5) };

    #[test]
    fn a_client_earns_time_by_sending() {
        assert_eq!(LIMITS.wait_max(0), Duration::from_secs(5));
        assert_eq!(LIMITS.wait_max(10 * 1_024), Duration::from_secs(15));
        assert!(LIMITS.wait_max(u64::MAX) > Duration::from_hours(24));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_upstream_does_not_make_its_client_slow() {
        let mut patience = Patience::new(LIMITS);
        let is_overdue = async |patience: &mut Patience| {
            poll_fn(|cx| Poll::Ready(patience.poll_overdue(0, cx).is_ready())).await
        };
        for second in 1..=4 {
            assert!(!is_overdue(&mut patience).await, "second {second}");
            advance(Duration::from_secs(1)).await;
            assert!(!is_overdue(&mut patience).await, "second {second}");
            patience.rest();
            // The upstream takes its time.
            advance(Duration::from_hours(1)).await;
        }
        let begun = Instant::now();
        poll_fn(|cx| patience.poll_overdue(0, cx)).await;
        assert_eq!(begun.elapsed().as_secs(), 1, "four of five were used");
    }
}
