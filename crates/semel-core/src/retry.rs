//! When a failed attempt is made again, and when it no longer is.
//!
//! 1. The delay after attempt n lies in a band. `exponential{min,max}`: from `min` to `min` doubled n times,
//!    `max` at most. `schedule[…]`: the n-th entry, and the last one ever after. `immediate`: none.
//! 2. Where in the band is the jitter's choice, over all of it, so that what failed together does not come
//!    back together.
//! 3. `Retry-After` may lengthen the delay, up to what the policy allows, and never shortens it.
//! 4. Retry off means one attempt. Otherwise an execution ends when the next attempt would be one too many,
//!    would begin after the window, or would find the event too old: at once, not when the time has come.
//!    Jitter has no say in that: where the shortest delay is in time, a longer one is cut short, to
//!    [`START_MARGIN`] before the end: what is due at the end itself is late by the time that it is claimed.
//! 5. The window is measured from the first attempt, not from acceptance: a backlog costs nobody a retry.
//! 6. The age of an event is measured from its own `time`, or from acceptance if it has none. Its own
//!    expiry counts too, whatever the policy says.
//! 7. An attempt that may still be at work, because whoever made it stopped listening, is not made again before its
//!    lease would have lapsed. No policy shortens that.
//!
//! It does not draw the jitter, read the clock, or know what an error is.

mod knobs;
mod timetable;

pub use knobs::{
    ATTEMPTS_MAX, ATTEMPTS_MAX_LEAST, Backoff, DELAY_MAX, OutOfRange, RETENTION_MAX, RETENTION_MIN,
    RetryPolicy, SCHEDULE_DELAY_MAX, SCHEDULE_ENTRIES_MAX, TIMEOUT_MAX, TIMEOUT_MIN, WINDOW_MAX, WINDOW_MIN,
};
pub use timetable::{Planned, Timetable};

use crate::{record::Reason, sabotage::is_on, time::Timestamp};
use std::{ops::RangeInclusive, time::Duration};

/// How long before the end of the window, or of the event's use, an attempt is due that was cut short to begin in time:
/// so long may its claim take. Shorter delays are not made shorter for it.
pub const START_MARGIN: Duration = Duration::from_secs(10);

/// A random number that places a delay in its band: 0 at the beginning, `u32::MAX` at the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Jitter(pub u32);

impl Jitter {
    /// The beginning of every band.
    pub const LEAST: Self = Self(0);
    /// The end of every band.
    pub const MOST: Self = Self(u32::MAX);
}

/// How far an execution has come, as far as retrying cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Attempts that were begun.
    pub attempts: u32,
    /// When the first of them was.
    pub first_attempt_at: Timestamp,
    /// When the event happened, or was accepted if it does not say.
    pub event_at: Timestamp,
    /// When the event says that it is of no more use.
    pub event_expires_at: Option<Timestamp>,
    /// Until when the last attempt may still be at work, if nobody listens to it any more.
    pub busy_until: Option<Timestamp>,
}

/// What comes after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another attempt, at this moment.
    Retry(Timestamp),
    /// None, and why.
    Dead(Reason),
}

impl RetryPolicy {
    /// The shortest and the longest delay after this many attempts.
    pub fn band(&self, attempts: u32) -> RangeInclusive<Duration> {
        match self.backoff() {
            Backoff::Immediate => Duration::ZERO..=Duration::ZERO,
            Backoff::Schedule(delays) => {
                let index = (attempts.max(1) as usize - 1).min(delays.len().saturating_sub(1));
                let delay = delays.get(index).copied().unwrap_or_default();
                delay..=delay
            }
            Backoff::Exponential { min, max } => *min..=doubled(*min, attempts).clamp(*min, *max),
        }
    }

    /// How long to wait after this many attempts.
    ///
    /// ```
    /// use semel_core::retry::{Jitter, RetryPolicy};
    /// use std::time::Duration;
    /// let policy = RetryPolicy::gen2();
    /// assert_eq!(policy.delay(1, Jitter::LEAST), Duration::from_secs(10));
    /// assert_eq!(policy.delay(1, Jitter::MOST), Duration::from_secs(20));
    /// assert_eq!(policy.delay(100, Jitter::MOST), Duration::from_secs(600));
    /// ```
    pub fn delay(&self, attempts: u32, jitter: Jitter) -> Duration {
        let (shortest, longest) = self.band(attempts).into_inner();
        if is_on("jitter_out_of_band") {
            return longest.mul_f64(f64::from(jitter.0) / f64::from(u32::MAX));
        }
        shortest + share(longest.saturating_sub(shortest), jitter)
    }

    /// What comes after an attempt that failed now.
    pub fn next(
        &self,
        now: Timestamp,
        progress: &Progress,
        retry_after: Option<Duration>,
        jitter: Jitter,
    ) -> Next {
        if let Some(reason) = self.spent(progress.attempts) {
            return Next::Dead(reason);
        }
        let asked = retry_after.unwrap_or_default().min(self.backoff().longest());
        let idle_at = progress.busy_until.filter(|_| !is_on("interrupted_again_at_once")).unwrap_or(now);
        let earliest = idle_at.max(now + asked.max(*self.band(progress.attempts).start()));
        if let Some(reason) = self.over(earliest, progress) {
            return Next::Dead(reason);
        }
        let end = self.window_end(progress).min(self.event_end(progress));
        let latest = if is_on("cut_short_to_the_end") { end } else { end - START_MARGIN };
        let at = now + self.delay(progress.attempts, jitter);
        Next::Retry(at.min(latest).max(earliest))
    }

    /// Why an attempt that was claimed, but not begun, must not be made after all: it waited too long, or its
    /// predecessor crashed and there are no more.
    pub fn refusal(&self, now: Timestamp, progress: &Progress) -> Option<Reason> {
        let begun = progress.attempts.saturating_sub(1);
        if begun > 0 {
            self.spent(begun).or_else(|| self.over(now, progress))
        } else {
            // The first attempt opens the window, so only the event's age can stand against it.
            (self.event_end(progress) < now).then_some(Reason::TooOld)
        }
    }

    /// Whether this many attempts are all there may be.
    fn spent(&self, attempts: u32) -> Option<Reason> {
        if !self.is_on() {
            return Some(Reason::Dropped);
        }
        let limit = self.attempts_max()?;
        (attempts >= limit).then_some(Reason::Exhausted)
    }

    /// Whether an attempt at this moment comes too late; the limit that was passed first is the reason.
    fn over(&self, at: Timestamp, progress: &Progress) -> Option<Reason> {
        let window_end = self.window_end(progress);
        let event_end = self.event_end(progress);
        if at <= window_end.min(event_end) {
            return None;
        }
        Some(if event_end < window_end { Reason::TooOld } else { Reason::Window })
    }

    /// The last moment of the window.
    fn window_end(&self, progress: &Progress) -> Timestamp {
        progress.first_attempt_at + self.window()
    }

    /// The last moment at which the event is not too old.
    fn event_end(&self, progress: &Progress) -> Timestamp {
        let by_age = self.event_age_max().map_or(Timestamp::NEVER, |age| progress.event_at + age);
        by_age.min(progress.event_expires_at.unwrap_or(Timestamp::NEVER))
    }
}

/// What is doubled where `min` is 0, which no doubling gets away from.
const DOUBLED_LEAST: Duration = Duration::from_secs(1);

fn doubled(min: Duration, times: u32) -> Duration {
    let first = if min.is_zero() { DOUBLED_LEAST } else { min };
    // 2^31 nanoseconds are only two seconds, so a factor of 32 bits could end below the cap.
    let nanos = u64::try_from(first.as_nanos()).unwrap_or(u64::MAX);
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    Duration::from_nanos(nanos.saturating_mul(factor))
}

/// This share of a duration.
fn share(whole: Duration, jitter: Jitter) -> Duration {
    let nanos = whole.as_nanos().saturating_mul(jitter.0.into()) / u128::from(u32::MAX);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
