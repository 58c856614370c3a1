//! A clock on tokio's time, which a test has stopped: it moves when nothing else does.

use semel_core::{
    BoxFuture,
    time::{Clock, Timestamp},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

/// Tokio's time as the queue's clock. The wall can be moved alone.
#[derive(Clone, Debug)]
pub(crate) struct PausedClock {
    start: Instant,
    jumped_ms: Arc<AtomicI64>,
}

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), jumped_ms: Arc::default() }
    }

    /// How far the wall clock is from the truth, in milliseconds.
    pub(crate) fn jumped(&self) -> i64 {
        self.jumped_ms.load(Ordering::Relaxed)
    }

    /// Moves the wall clock, forwards or backwards.
    pub(crate) fn jump(&self, millis: i64) {
        self.jumped_ms.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let millis = START + self.monotonic().as_millis() as u64;
        Timestamp::from_millis(millis.saturating_add_signed(self.jumped_ms.load(Ordering::Relaxed)))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
