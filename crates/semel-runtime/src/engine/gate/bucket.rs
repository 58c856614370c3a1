//! The rate of a function: a bucket of tokens.
//!
//! 1. A token is put in at even intervals; the bucket holds a [small burst](Rate::burst), and is full at first.
//! 2. Every attempt takes one. Where there is none, nothing goes.
//! 3. A token that was taken and not used is put back.
//! 4. No window of one period sees more tokens than the rate says, wherever it begins: what a burst takes is spared by the
//!    interval.
//!
//! Tokens are taken when an execution is claimed or accepted as claimed. What the queue keeps waiting then is called when the
//! queue is done with it, so calls can be closer together than tokens by as much as the queue is slow.
//!
//! The state is one moment: when the bucket will be full again (GCRA).

use crate::function::Rate;
use semel_core::sabotage::is_on;
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
        let free = capacity(rate).saturating_sub(missing);
        u32::try_from(free.as_nanos() / spacing(rate).as_nanos().max(1)).unwrap_or(u32::MAX).min(burst(rate))
    }

    /// When there are so many tokens; never if it does not hold as many.
    pub fn has_at(&self, rate: &Rate, tokens: u32) -> Option<Duration> {
        let filled = spacing(rate).saturating_mul(tokens);
        (tokens <= burst(rate)).then(|| (self.full_at + filled).saturating_sub(capacity(rate)))
    }

    /// With so many tokens fewer.
    #[must_use]
    pub fn taken(self, rate: &Rate, now: Duration, tokens: u32) -> Self {
        Self { full_at: self.full_at.max(now) + spacing(rate).saturating_mul(tokens) }
    }

    /// With so many tokens put back.
    #[must_use]
    pub fn put_back(self, rate: &Rate, tokens: u32) -> Self {
        Self { full_at: self.full_at.saturating_sub(spacing(rate).saturating_mul(tokens)) }
    }
}

fn burst(rate: &Rate) -> u32 {
    if is_on("rate_bursts") { rate.count() } else { rate.burst() }
}

fn spacing(rate: &Rate) -> Duration {
    if is_on("rate_bursts") { rate.interval() } else { rate.spacing() }
}

fn capacity(rate: &Rate) -> Duration {
    spacing(rate).saturating_mul(burst(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(100);

    fn per_second(count: u32) -> Rate {
        Rate::new(count, Duration::from_secs(1)).expect("a rate")
    }

    #[test]
    fn a_full_bucket_gives_a_burst_at_once_and_then_one_by_one() {
        let (rate, bucket) = (per_second(100), Bucket::default());
        assert_eq!(bucket.tokens(&rate, T), 3);
        let empty = bucket.taken(&rate, T, 3);
        let next = empty.has_at(&rate, 1).unwrap();
        assert_eq!((empty.tokens(&rate, T), next), (0, T + rate.spacing()));
        assert_eq!(empty.tokens(&rate, next.saturating_sub(Duration::from_nanos(1))), 0);
        assert_eq!(empty.tokens(&rate, next), 1);
        assert_eq!(empty.tokens(&rate, T + rate.spacing() * 5 / 2), 2);
        assert_eq!(empty.tokens(&rate, T + Duration::from_mins(1)), 3);
        assert_eq!(empty.has_at(&rate, 4), None);
    }

    #[test]
    fn what_was_put_back_can_be_taken() {
        let rate = per_second(200);
        let empty = Bucket::default().taken(&rate, T, 5);
        assert_eq!(empty.put_back(&rate, 3).tokens(&rate, T), 3);
    }

    /// Takes whatever there is, looking so often, after a rest and for three periods. When each was taken.
    fn taken(rate: &Rate, look: Duration) -> Vec<Duration> {
        let (mut bucket, mut taken) = (Bucket::default(), Vec::new());
        let mut now = T;
        while now < T + rate.per() * 3 {
            let tokens = bucket.tokens(rate, now);
            bucket = bucket.taken(rate, now, tokens);
            taken.extend((0..tokens).map(|_| now));
            now += look;
        }
        taken
    }

    /// F17.
    #[test]
    fn no_window_of_one_period_sees_more_than_the_rate_wherever_it_begins() {
        for count in [1, 2, 7, 10, 49, 50, 99, 100, 1_000, 3_333] {
            let rate = per_second(count);
            for look in [Duration::from_micros(100), Duration::from_micros(7_300)] {
                let taken = taken(&rate, look);
                for (index, from) in taken.iter().enumerate() {
                    let within = taken[index..].iter().take_while(|it| **it < *from + rate.per()).count();
                    assert!(
                        within <= count as usize,
                        "{within} of {count} in a period, looking each {look:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn whoever_is_always_busy_gets_nearly_all_of_the_rate() {
        for count in [1, 10, 50, 100, 1_000] {
            let taken = taken(&per_second(count), Duration::from_micros(100)).len();
            assert!(taken * 100 >= count as usize * 3 * 97, "{taken} in three periods of {count}");
        }
    }
}
