//! How many attempts over time.

use std::time::Duration;

/// So many attempts in a period, evenly, and no more than that many at once after a rest.
///
/// ```
/// use semel_runtime::Rate;
/// use std::time::Duration;
/// let rate = Rate::new(100, Duration::from_secs(1)).expect("neither is nothing");
/// assert_eq!(rate.interval(), Duration::from_millis(10));
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
}
