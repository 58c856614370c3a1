//! Moments, and the port that tells them.

use crate::BoxFuture;
use std::{fmt, ops, time::Duration};

/// A moment: milliseconds since 1970-01-01T00:00:00Z, by the clock of the store that the record lives in.
///
/// ```
/// use semel_core::time::Timestamp;
/// use std::time::Duration;
/// let noon = Timestamp::from_millis(1_000);
/// assert_eq!(noon + Duration::from_millis(5), Timestamp::from_millis(1_005));
/// assert_eq!(noon.since(Timestamp::from_millis(400)), Duration::from_millis(600));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// Later than every moment: when an unfinished record expires.
    pub const NEVER: Self = Self(i64::MAX as u64);

    /// The moment so many milliseconds after the epoch, [`Timestamp::NEVER`] at most.
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::NEVER.0 { Self::NEVER } else { Self(millis) }
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl ops::Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "{}ms", self.0) }
    }
}

/// The clock by which a store's leases and retention are judged.
pub trait Clock: Send + Sync + 'static {
    /// The store's time.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment that never jumps: what a holder measures its own lease by.
    fn monotonic(&self) -> Duration;

    /// Both of one moment. To read a clock takes long: one that can tell both by one reading does.
    fn both(&self) -> (Timestamp, Duration) {
        // In this order: a holder that is paused in between takes its lease for older than the store does.
        let monotonic = self.monotonic();
        (self.now(), monotonic)
    }

    /// What this machine's clock says at this moment, which somebody may have set since [`Clock::now`] began to count: for
    /// signatures and tokens, which others make by their clocks. Nothing of ours is judged by it.
    fn wall(&self) -> Timestamp {
        self.now()
    }

    /// How much this clock and that of another caller of the same store may disagree: leases are left alone for at least
    /// this long past their end. Nothing where everybody goes by one clock.
    fn margin(&self) -> Duration {
        Duration::ZERO
    }

    /// Resolves when [`Clock::monotonic`] has advanced by this much.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}
