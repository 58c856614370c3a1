//! The clock of this process.
//!
//! 1. Wall time is read once; after that it advances with the monotonic clock. So a jump of the machine's
//!    wall clock expires no lease of this process and revives none.
//! 2. Sleeping is tokio's. Nothing else in this crate touches tokio's time.
//!
//! It does not follow corrections of the wall clock: a process that runs for months drifts with its
//! oscillator. Records are judged by durations, and fences never go back, so a drift of seconds is harmless.

use semel_core::{
    BoxFuture,
    time::{Clock, Timestamp},
};
use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Wall time, anchored to the monotonic clock when it was first read.
///
/// ```
/// use semel::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// The process-wide anchor: all system clocks of a process tell one time.
    anchor: Anchor,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    wall: Timestamp,
    monotonic: Instant,
}

impl SystemClock {
    /// The clock of this process.
    pub fn new() -> Self {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        Self { anchor: *ANCHOR.get_or_init(Anchor::read) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Anchor {
    fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp::EPOCH + since, monotonic: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.anchor.wall + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.anchor.monotonic.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
