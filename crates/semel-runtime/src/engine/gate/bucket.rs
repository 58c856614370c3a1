//! The rate of a function: a bucket of tokens.
//!
//! 1. A token is put in at even intervals; the bucket holds as many as one period has.
//! 2. Every attempt takes one. Where there is none, nothing goes.
//! 3. A token that was taken and not used is put back.
//!
//! The state is one moment: when the bucket will be full again (GCRA).

use crate::function::Rate;
use std::time::Duration;

/// A bucket, full at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// When it will be full, by the monotonic clock.
    full_at: Duration,
}

impl Bucket {
    /// How many tokens are in it.
    pub fn tokens(&self, rate: &Rate, now: Duration) -> u32 {
        let missing = self.full_at.saturating_sub(now);
        let free = rate.per().saturating_sub(missing);
        u32::try_from(free.as_nanos() / rate.interval().as_nanos().max(1))
            .unwrap_or(u32::MAX)
            .min(rate.count())
    }

    /// When there is a token.
    pub fn next_at(&self, rate: &Rate, now: Duration) -> Duration {
        if self.tokens(rate, now) > 0 {
            now
        } else {
            (self.full_at + rate.interval()).saturating_sub(rate.per())
        }
    }

    /// With so many tokens fewer.
    #[must_use]
    pub fn taken(self, rate: &Rate, now: Duration, tokens: u32) -> Self {
        Self { full_at: self.full_at.max(now) + rate.interval().saturating_mul(tokens) }
    }

    /// With so many tokens put back.
    #[must_use]
    pub fn put_back(self, rate: &Rate, tokens: u32) -> Self {
        Self { full_at: self.full_at.saturating_sub(rate.interval().saturating_mul(tokens)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(100);

    fn ten_per_second() -> Rate {
        Rate::new(10, Duration::from_secs(1)).expect("a rate")
    }

    #[test]
    fn a_full_bucket_gives_a_period_at_once_and_then_one_by_one() {
        let (rate, bucket) = (ten_per_second(), Bucket::default());
        assert_eq!(bucket.tokens(&rate, T), 10);
        let empty = bucket.taken(&rate, T, 10);
        assert_eq!(empty.tokens(&rate, T), 0);
        assert_eq!(empty.next_at(&rate, T), T + Duration::from_millis(100));
        assert_eq!(empty.tokens(&rate, T + Duration::from_millis(99)), 0);
        assert_eq!(empty.tokens(&rate, T + Duration::from_millis(100)), 1);
        assert_eq!(empty.tokens(&rate, T + Duration::from_millis(250)), 2);
        assert_eq!(empty.tokens(&rate, T + Duration::from_mins(1)), 10);
    }

    #[test]
    fn what_was_put_back_can_be_taken() {
        let rate = ten_per_second();
        let empty = Bucket::default().taken(&rate, T, 10);
        assert_eq!(empty.put_back(&rate, 3).tokens(&rate, T), 3);
    }

    #[test]
    fn no_period_sees_more_than_two_buckets() {
        let rate = ten_per_second();
        let (mut bucket, mut taken) = (Bucket::default(), 0);
        for millis in 0..1_000 {
            let now = T + Duration::from_millis(millis);
            let tokens = bucket.tokens(&rate, now);
            bucket = bucket.taken(&rate, now, tokens);
            taken += tokens;
        }
        assert_eq!(taken, 19);
    }
}
