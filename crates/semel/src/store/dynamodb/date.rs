//! What time it is for DynamoDB, from the `Date` of its replies.
//!
//! 1. The date is told to the second: the true time lies in that second.
//! 2. While our clock lies in it, too, the reply says nothing new. Otherwise the clock is moved into it, to the
//!    nearer end: so a clock that is right is never made worse, and a wrong one is off by a second at most.
//!
//! It does not fail a request over a date that is missing or unreadable.

use crate::store::offset::LearnedClock;
use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents, interceptors::BeforeDeserializationInterceptorContextRef,
    },
    error::BoxError,
    primitives::{DateTime, DateTimeFormat},
};
use semel_core::time::{Clock, Timestamp};
use std::{fmt, sync::Arc, time::Duration};

/// Learns from the reply to one request.
pub(super) struct LearnDate {
    clock: Arc<LearnedClock>,
    /// When the request was sent, on the monotonic clock.
    sent: Duration,
}

impl LearnDate {
    pub(super) fn of_what_is_sent_now(clock: &Arc<LearnedClock>) -> Self {
        Self { clock: Arc::clone(clock), sent: clock.monotonic() }
    }

    fn learn(&self, date: Timestamp) {
        let (now, received) = (self.clock.now(), self.clock.monotonic());
        let then = now - received.saturating_sub(self.sent) / 2;
        self.clock.learn(nearest_in_second(then, date), self.sent, received);
    }
}

/// The moment of this second that is nearest to what our clock showed.
fn nearest_in_second(ours: Timestamp, second: Timestamp) -> Timestamp {
    ours.clamp(second, second + Duration::from_millis(999))
}

impl fmt::Debug for LearnDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearnDate").finish_non_exhaustive()
    }
}

impl Intercept for LearnDate {
    fn name(&self) -> &'static str {
        "SemelLearnDate"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|it| DateTime::from_str(it, DateTimeFormat::HttpDate).ok());
        let millis = date.and_then(|it| it.to_millis().ok()).and_then(|it| u64::try_from(it).ok());
        if let Some(millis) = millis {
            self.learn(Timestamp::from_millis(millis));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_may_be_right_is_left_alone_and_a_wrong_one_moves_no_further_than_it_must() {
        let check = |ours, expected| {
            let second = Timestamp::from_millis(5_000);
            assert_eq!(
                nearest_in_second(Timestamp::from_millis(ours), second),
                Timestamp::from_millis(expected)
            );
        };
        check(5_000, 5_000);
        check(5_421, 5_421);
        check(5_999, 5_999);
        check(4_000, 5_000);
        check(9_000, 5_999);
    }

    #[test]
    fn a_clock_that_is_an_hour_behind_is_corrected_by_one_reply() {
        let clock = Arc::new(LearnedClock::new());
        let ahead = clock.now() + Duration::from_hours(1);
        LearnDate::of_what_is_sent_now(&clock).learn(ahead);
        assert!(clock.now() >= ahead);
    }
}
