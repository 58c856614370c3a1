//! The way back after an outage.
//!
//! 1. A target that came back gets a tenth of its concurrency at first, and all of it [`RAMP`] later, evenly.
//! 2. It always gets one.

use semel_core::sabotage::is_on;
use std::time::Duration;

/// How long it takes until everything may go again.
pub const RAMP: Duration = Duration::from_secs(30);
/// What may go at first, in percent.
const FIRST_PERCENT: u128 = 10;

/// How many may go at once, so long after the target came back.
pub fn ramped(concurrency: u32, since: Duration) -> u32 {
    if since >= RAMP || is_on("no_ramp") {
        return concurrency;
    }
    let more = (100 - FIRST_PERCENT) * since.as_millis() / RAMP.as_millis();
    let share = u128::from(concurrency) * (FIRST_PERCENT + more) / 100;
    u32::try_from(share).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_came_back_gets_a_tenth_then_half_then_all() {
        let table = [(0, 10), (3, 19), (10, 40), (15, 55), (29, 97), (30, 100), (3_600, 100)];
        for (seconds, allowed) in table {
            assert_eq!(ramped(100, Duration::from_secs(seconds)), allowed, "after {seconds} s");
        }
    }

    #[test]
    fn it_always_gets_one() {
        for concurrency in 1..10 {
            assert!(ramped(concurrency, Duration::ZERO) >= 1);
        }
    }
}
