//! Time that moves only when a test says so.
//!
//! 1. [`ManualClock::advance`] moves both clocks, the wall's and the monotonic one, and wakes whoever slept
//!    until then, the earliest deadline first.
//! 2. [`ManualClock::jump`] sets the wall clock alone, forwards or backwards, as an operator or NTP would:
//!    no sleeper notices.
//! 3. [`ManualClock::drive`] runs a future and advances to the next deadline whenever nothing else moves.
//! 4. It needs no runtime: sleeping and waking use nothing but `std`.
//!
//! It does not make real I/O wait: what a socket or a thread does takes the time it takes.

use semel_core::{
    BoxFuture,
    time::{Clock, Timestamp},
};
use std::{
    collections::BTreeMap,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Where a new clock stands: 2026-01-01T00:00:00Z. A plausible moment finds bugs that 0 hides.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// How often everybody else gets a turn before [`ManualClock::drive`] concludes that all are asleep.
const IDLE_ROUNDS: u32 = 16;

/// A clock that a test moves by hand. Clones show the same time.
///
/// ```
/// use semel_core::time::Clock;
/// use semel_testkit::ManualClock;
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(7 * 24 * 60 * 60));
/// assert_eq!(clock.now().since(before).as_secs(), 604_800);
/// ```
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
}

struct State {
    /// What the wall clock showed when the monotonic one stood at zero; changed by jumps.
    wall_at_zero: i128,
    /// Changed by advancing, and never backwards.
    monotonic: Duration,
    /// Who sleeps until when. The number keeps sleepers with one deadline apart, in order of arrival.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// The number of the next sleeper.
    next_sleeper: u64,
    /// Counts arrivals and departures of sleepers, so that [`ManualClock::drive`] sees that something moved.
    changes: u64,
}

impl ManualClock {
    /// A clock at the beginning of 2026.
    pub fn new() -> Self {
        Self::at(START)
    }

    /// A clock at this moment.
    ///
    /// ```
    /// use semel_core::time::{Clock, Timestamp};
    /// use semel_testkit::ManualClock;
    /// assert_eq!(ManualClock::at(Timestamp::EPOCH).now(), Timestamp::EPOCH);
    /// ```
    pub fn at(now: Timestamp) -> Self {
        let state = State {
            wall_at_zero: now.as_millis().into(),
            monotonic: Duration::ZERO,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
            changes: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// This clock as the port that stores take.
    pub fn arc(&self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }

    /// Lets this much time pass, and wakes whoever slept until then, the earliest deadline first.
    ///
    /// ```
    /// use semel_core::time::Clock;
    /// use semel_testkit::ManualClock;
    /// use std::{task::{Context, Waker}, time::Duration};
    ///
    /// let clock = ManualClock::new();
    /// let mut nap = clock.sleep(Duration::from_secs(60));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(nap.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(nap.as_mut().poll(&mut context).is_ready());
    /// ```
    pub fn advance(&self, duration: Duration) {
        let target = self.lock().monotonic.saturating_add(duration);
        self.advance_to(target);
    }

    /// Lets time pass until the next sleeper wakes; `false` if nobody sleeps.
    pub fn advance_to_next(&self) -> bool {
        let next = self.lock().sleepers.keys().next().copied();
        if let Some((deadline, _)) = next {
            self.advance_to(deadline);
        }
        next.is_some()
    }

    /// Sets the wall clock, forwards or backwards. No time passes: nobody wakes.
    ///
    /// ```
    /// use semel_core::time::Clock;
    /// use semel_testkit::ManualClock;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let (wall, monotonic) = (clock.now(), clock.monotonic());
    /// clock.jump(wall - Duration::from_secs(3_600));
    /// assert!(clock.now() < wall);
    /// assert_eq!(clock.monotonic(), monotonic);
    /// ```
    pub fn jump(&self, now: Timestamp) {
        let mut state = self.lock();
        state.wall_at_zero = i128::from(now.as_millis()) - millis(state.monotonic);
    }

    /// How many are asleep.
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// Runs a future, and lets time pass up to the next deadline whenever everybody waits.
    ///
    /// Meant for runtimes that run all tasks on this thread: "everybody waits" is concluded from a few turns in
    /// which no sleeper came or went. It never returns if the future waits for something that no sleeper brings.
    ///
    /// ```
    /// use semel_core::time::Clock;
    /// use semel_testkit::ManualClock;
    /// use std::{pin::pin, task::{Context, Waker}, time::Duration};
    ///
    /// let clock = ManualClock::new();
    /// let mut week = pin!(clock.drive(clock.sleep(Duration::from_secs(604_800))));
    /// let mut context = Context::from_waker(Waker::noop());
    /// while week.as_mut().poll(&mut context).is_pending() {}
    /// assert_eq!(clock.monotonic().as_secs(), 604_800);
    /// ```
    pub async fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let (mut idle, mut seen) = (0, self.lock().changes);
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            let changes = self.lock().changes;
            idle = if changes == seen { idle + 1 } else { 0 };
            seen = changes;
            if idle >= IDLE_ROUNDS {
                idle = 0;
                self.advance_to_next();
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    fn advance_to(&self, target: Duration) {
        let mut state = self.lock();
        state.monotonic = state.monotonic.max(target);
        let later = state.sleepers.split_off(&(target, u64::MAX));
        let due = std::mem::replace(&mut state.sleepers, later);
        state.changes += due.len() as u64;
        drop(state);
        // Outside the lock: a waker may poll, and a poll looks at the clock.
        due.into_values().for_each(Waker::wake);
    }

    /// A test that panicked elsewhere must not hide behind a poisoned clock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sleepers = self.sleepers();
        f.debug_struct("ManualClock").field("now", &self.now()).field("sleepers", &sleepers).finish()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let state = self.lock();
        let now = state.wall_at_zero.saturating_add(millis(state.monotonic));
        Timestamp::from_millis(u64::try_from(now.max(0)).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        let number = state.next_sleeper;
        state.next_sleeper += 1;
        let slot = (state.monotonic.saturating_add(duration), number);
        Box::pin(Sleep { clock: self.clone(), slot })
    }
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}

/// Resolves when the clock reaches its deadline.
struct Sleep {
    clock: ManualClock,
    /// Its deadline and its number.
    slot: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        if state.monotonic >= self.slot.0 {
            return Poll::Ready(());
        }
        if state.sleepers.insert(self.slot, context.waker().clone()).is_none() {
            state.changes += 1;
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.clock.lock();
        if state.sleepers.remove(&self.slot).is_some() {
            state.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    /// Notes its name when woken.
    struct Note(&'static str, Arc<Mutex<Vec<&'static str>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("no test panics while noting").push(self.0);
        }
    }

    fn poll(nap: &mut BoxFuture<'static, ()>, waker: &Waker) -> bool {
        nap.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines() {
        let (clock, woken) = (ManualClock::new(), Arc::default());
        let waker = |name| Waker::from(Arc::new(Note(name, Arc::clone(&woken))));
        let mut naps: Vec<_> = [("late", 30), ("early", 10), ("middle", 20), ("beyond", 40)]
            .map(|(name, s)| (name, clock.sleep(seconds(s))))
            .into();
        for (name, nap) in &mut naps {
            assert!(!poll(nap, &waker(name)));
        }
        assert_eq!(clock.sleepers(), 4);
        clock.advance(seconds(30));
        assert_eq!(*woken.lock().expect("nobody panicked"), ["early", "middle", "late"]);
        assert_eq!(clock.sleepers(), 1);
    }

    #[test]
    fn a_sleep_counts_from_when_it_was_asked_for() {
        let clock = ManualClock::new();
        let mut nap = clock.sleep(seconds(10));
        clock.advance(seconds(10));
        assert!(poll(&mut nap, Waker::noop()), "ten seconds passed before the first poll");
    }

    #[test]
    fn a_dropped_sleep_is_no_sleeper() {
        let clock = ManualClock::new();
        let mut nap = clock.sleep(seconds(10));
        assert!(!poll(&mut nap, Waker::noop()));
        drop(nap);
        assert_eq!(clock.sleepers(), 0);
        assert!(!clock.advance_to_next());
    }

    #[test]
    fn a_jump_moves_the_wall_and_wakes_nobody() {
        let clock = ManualClock::new();
        let mut nap = clock.sleep(seconds(10));
        let before = clock.now();
        clock.jump(before + seconds(3_600));
        assert!(!poll(&mut nap, Waker::noop()));
        assert_eq!(clock.now(), before + seconds(3_600));
        clock.jump(Timestamp::EPOCH);
        clock.advance(seconds(10));
        assert!(poll(&mut nap, Waker::noop()));
        assert_eq!(clock.now(), Timestamp::EPOCH + seconds(10));
    }

    #[test]
    fn fractions_of_a_millisecond_add_up() {
        let clock = ManualClock::new();
        let before = clock.now();
        (0..10).for_each(|_| clock.advance(Duration::from_micros(100)));
        assert_eq!(clock.now(), before + Duration::from_millis(1));
    }

    #[test]
    fn driving_passes_exactly_the_time_that_is_slept() {
        let clock = ManualClock::new();
        let naps = async {
            clock.sleep(seconds(5)).await;
            clock.sleep(seconds(7)).await;
        };
        let mut driven = pin!(clock.drive(naps));
        let mut context = Context::from_waker(Waker::noop());
        while driven.as_mut().poll(&mut context).is_pending() {}
        assert_eq!(clock.monotonic(), seconds(12));
    }
}
