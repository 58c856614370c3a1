//! The number that a store gives each write of a key.

use crate::{sabotage::is_on, time::Timestamp};
use std::{fmt, num::NonZeroU64};

/// The highest fence that a clock can give. However wrong the clock is, 2^62 more writes find a number, and
/// all of them fit the signed 64 bits that databases have.
const BY_CLOCK_MAX: u64 = 1 << 62;

/// A number that a store gives each write of a key. It only grows, also through expiry, purge and restart,
/// so whoever names an older one is told that it was superseded.
///
/// ```
/// use semel_core::fence::Fence;
/// assert!(Fence::new(2) > Fence::new(1));
/// assert_eq!(Fence::new(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(NonZeroU64);

impl Fence {
    /// A fence of this number; `None` for 0, which no store ever issues.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(it) => Some(Self(it)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The fence to issue after this one at this moment: microseconds since the epoch, or one more than the
    /// last where the clock stands still or runs backwards. One that was lost with the power is thus never
    /// issued again.
    pub fn next(last: Option<Self>, now: Timestamp) -> Self {
        let by_clock = now.as_millis().saturating_mul(1_000).min(BY_CLOCK_MAX);
        let by_last = last.map_or(1, |it| it.get().saturating_add(1));
        let by_last = if is_on("fence_restarts") { 1 } else { by_last };
        Self(NonZeroU64::new(by_clock.max(by_last)).unwrap_or(NonZeroU64::MIN))
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({})", self.0)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
