//! The clock of a server, learnt from its replies.
//!
//! 1. A reply that tells the server's time says how far ahead of ours it is, to within half of the round trip:
//!    the server looked at its clock at some moment between our asking and its answer.
//! 2. What was learnt is known less well as it ages, since oscillators differ. A reply is believed if it is at
//!    least as sharp as what is known by now: so the shortest of the recent round trips decides.
//! 3. A reply that contradicts what is known is believed at once: the server's clock was set, or another server
//!    answers.
//! 4. Until something is learnt, our own wall clock stands in.
//!
//! It asks nobody by itself: adapters pass on what their replies say.

use crate::clock::SystemClock;
use semel_core::{
    BoxFuture,
    time::{Clock, Timestamp},
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// How fast two clocks may part: a millisecond in two seconds, far more than oscillators do.
const DRIFT_PER_SECOND: Duration = Duration::from_micros(500);
/// How exactly servers tell their time.
const RESOLUTION: Duration = Duration::from_millis(1);

/// The clock of a server, as far as its replies told. Share it in an [`Arc`].
pub struct LearnedClock {
    local: Arc<dyn Clock>,
    /// What the server's clock shows, in microseconds, when our monotonic clock stands at zero.
    at_zero: AtomicI64,
    /// What that was learnt from.
    sample: Mutex<Option<Sample>>,
    /// How much two who learn from the same server may disagree.
    margin: Duration,
}

/// One reading of the server's clock.
#[derive(Clone, Copy)]
struct Sample {
    at_zero: i64,
    /// How far off it may be.
    error: Duration,
    /// When it was taken, on our monotonic clock.
    at: Duration,
}

impl LearnedClock {
    /// Our own clock, until something is learnt.
    pub fn new() -> Self {
        Self::over(Arc::new(SystemClock::new()))
    }

    /// The same, of a server that tells its time no better than this.
    #[cfg(feature = "dynamodb")]
    pub(super) fn within(margin: Duration) -> Self {
        Self { margin, ..Self::new() }
    }

    fn over(local: Arc<dyn Clock>) -> Self {
        let at_zero = AtomicI64::new(at_zero(local.now(), local.monotonic()));
        Self { local, at_zero, sample: Mutex::new(None), margin: Duration::ZERO }
    }

    /// The server's clock showed this in a reply to what was sent and received at these moments of
    /// [`Clock::monotonic`].
    pub fn learn(&self, server_now: Timestamp, sent: Duration, received: Duration) {
        let half = received.saturating_sub(sent) / 2;
        let reading =
            Sample { at_zero: at_zero(server_now, sent + half), error: half + RESOLUTION, at: received };
        // Nothing that is done under the lock panics.
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        if sample.is_none_or(|known| known.gives_way_to(&reading)) {
            *sample = Some(reading);
            self.at_zero.store(reading.at_zero, Ordering::Relaxed);
        }
    }
}

impl Default for LearnedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    fn gives_way_to(&self, newer: &Self) -> bool {
        let age = newer.at.saturating_sub(self.at);
        let error = self.error + DRIFT_PER_SECOND.mul_f64(age.as_secs_f64());
        let apart = Duration::from_micros(self.at_zero.abs_diff(newer.at_zero));
        newer.error <= error || apart > newer.error + error
    }
}

fn at_zero(now: Timestamp, monotonic: Duration) -> i64 {
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX).saturating_mul(1_000);
    now.saturating_sub(micros(monotonic))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Clock for LearnedClock {
    fn now(&self) -> Timestamp {
        let micros = self.at_zero.load(Ordering::Relaxed).saturating_add(micros(self.monotonic()));
        Timestamp::from_millis(u64::try_from(micros / 1_000).unwrap_or(0))
    }

    fn monotonic(&self) -> Duration {
        self.local.monotonic()
    }

    fn margin(&self) -> Duration {
        self.margin
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.local.sleep(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_testkit::ManualClock;

    const HOUR: Duration = Duration::from_hours(1);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A server whose clock is ahead of ours, and a network between us.
    struct World {
        ours: ManualClock,
        learned: LearnedClock,
        ahead: Duration,
    }

    impl World {
        fn new(ahead: Duration) -> Self {
            let ours = ManualClock::new();
            ours.advance(millis(12_345));
            let learned = LearnedClock::over(ours.arc());
            Self { ours, learned, ahead }
        }

        fn server_now(&self) -> Timestamp {
            self.ours.now() + self.ahead
        }

        fn ask(&self, there: Duration, back: Duration) {
            let sent = self.ours.monotonic();
            self.ours.advance(there);
            let server_now = self.server_now();
            self.ours.advance(back);
            self.learned.learn(server_now, sent, self.ours.monotonic());
        }

        fn error(&self) -> Duration {
            let (server, learned) = (self.server_now(), self.learned.now());
            server.since(learned).max(learned.since(server))
        }
    }

    #[test]
    fn a_new_clock_shows_this_machines_time() {
        let (before, learned) = (SystemClock::new().now(), LearnedClock::new().now());
        assert!(learned + millis(1) >= before && learned <= SystemClock::new().now() + millis(1));
    }

    #[test]
    fn our_own_clock_stands_in_until_something_is_learnt() {
        let world = World::new(Duration::ZERO);
        assert_eq!(world.learned.now(), world.ours.now());
        world.ours.advance(HOUR);
        assert_eq!(world.learned.now(), world.ours.now());
    }

    #[test]
    fn the_servers_time_is_told_after_one_reply() {
        let world = World::new(HOUR);
        world.ask(millis(5), millis(5));
        assert_eq!(world.error(), Duration::ZERO);
        world.ours.advance(HOUR);
        assert_eq!(world.error(), Duration::ZERO);
    }

    #[test]
    fn an_uneven_way_misleads_by_half_a_round_trip_at_most() {
        let world = World::new(HOUR);
        world.ask(millis(0), millis(80));
        assert_eq!(world.error(), millis(40));
    }

    #[test]
    fn the_shortest_round_trip_decides() {
        let world = World::new(HOUR);
        world.ask(millis(0), millis(80));
        world.ask(millis(1), millis(1));
        world.ask(millis(0), millis(80));
        assert_eq!(world.error(), Duration::ZERO);
    }

    #[test]
    fn what_was_learnt_long_ago_gives_way() {
        let world = World::new(HOUR);
        world.ask(millis(1), millis(1));
        world.ours.advance(Duration::from_mins(2));
        world.ask(millis(0), millis(80));
        assert_eq!(world.error(), millis(40), "a reading of two minutes ago may be off by more");
    }

    #[test]
    fn a_servers_clock_that_was_set_is_followed_at_once() {
        let mut world = World::new(HOUR);
        world.ask(millis(1), millis(1));
        world.ahead = HOUR + Duration::from_secs(5);
        world.ask(millis(20), millis(20));
        assert_eq!(world.error(), Duration::ZERO);
    }

    #[test]
    fn a_server_in_another_epoch_does_no_harm() {
        let world = World::new(Duration::ZERO);
        for absurd in [Timestamp::EPOCH, Timestamp::NEVER] {
            let now = world.ours.monotonic();
            world.learned.learn(absurd, now, now);
            assert!(world.learned.now() <= Timestamp::NEVER);
        }
    }
}
