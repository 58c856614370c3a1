//! How many attempts over time.

use std::time::Duration;

/// Which part of a period's attempts may go at once, beside the first. It is as late as the loop may be that claims them, and
/// none is lost: 20 ms, where the period is a second.
const BURST_PART: u32 = 50;

/// So many attempts in a period, evenly. No window of one period sees more, wherever it begins.
///
/// After a rest, [a few](Rate::burst) may go at once; what they take is spared by the others, so that a function that is always
/// busy gets that much less: 98 of 100.
///
/// ```
/// use semel_runtime::Rate;
/// use std::time::Duration;
/// let rate = Rate::new(100, Duration::from_secs(1)).expect("neither is nothing");
/// assert_eq!(rate.interval(), Duration::from_millis(10));
/// assert_eq!(rate.burst(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    count: u32,
    per: Duration,
}

impl Rate {
    /// So many in this period; `None` if either is nothing, or there are more of them than nanoseconds.
    pub fn new(count: u32, per: Duration) -> Option<Self> {
        let rate = Self { count, per };
        (count > 0 && !rate.interval().is_zero()).then_some(rate)
    }

    /// How many in a period.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The period.
    pub const fn per(&self) -> Duration {
        self.per
    }

    /// From one to the next.
    pub fn interval(&self) -> Duration {
        self.per / self.count
    }

    /// How many may go at once after a rest: one, and a fiftieth of what a period has.
    pub const fn burst(&self) -> u32 {
        1 + self.count / BURST_PART
    }

    /// From one to the next, so that a window of one period that begins with a burst has no more than its share.
    pub(crate) fn spacing(&self) -> Duration {
        let after_burst = u128::from(self.count - self.burst() + 1);
        Duration::from_nanos(u64::try_from(self.per.as_nanos().div_ceil(after_burst)).unwrap_or(u64::MAX))
    }
}
