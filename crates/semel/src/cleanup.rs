//! Purging in the background, for stores that do not expire records by themselves.
//!
//! 1. Purging only frees space: an expired record counts as absent whether it was purged or not.
//! 2. All nodes do one node's work. A round is a call under a key of its own, remembered for nearly an interval:
//!    whoever comes first runs it, everybody else finds it done. A node that dies in a round is replaced when its
//!    lease has lapsed.
//! 3. Live traffic goes first. A round removes bounded batches, and rests after each for as long as it took; it
//!    ends with the first batch that is not full, or when its interval is over.
//! 4. Nodes come at moments of their own: each pause is longer by up to a quarter, by seed.
//! 5. A round that fails leaves the rest to the next one. What the store said is counted and traced as usual.
//!
//! It does not decide what expires, and it is not needed for stores that expire records themselves (Redis,
//! DynamoDB, Firestore, NATS); there it finds nothing to do.
//!
//! ```
//! use semel::{Once, cleanup::Cleanup};
//! use std::time::Duration;
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let once = Once::memory();
//! let cleanup = Cleanup::new(once).every(Duration::from_secs(600)).batch(1_000).start();
//! // The service runs; at its end:
//! cleanup.stop().await;
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::{
    begin::Begin,
    call::OnBusy,
    cancel::Cancellation,
    error::{Error, ErrorKind},
    lease::Lease,
    nonce,
    once::Once,
    race::first,
};
use semel_core::{key::Key, sabotage, time::Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// The scope of the rounds; what users call their own scopes is up to them, except for this.
pub const SCOPE: &str = "semel-cleanup";
/// Between two rounds, unless set.
pub const INTERVAL: Duration = Duration::from_mins(10);
/// Most records in one batch, unless set.
pub const BATCH_MAX: u32 = 1_000;

/// Shortest interval: an interval of nothing would be a busy loop.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Shortest rest after a batch.
const REST_MIN: Duration = Duration::from_millis(10);
/// How long a round may be silent before another node takes it over.
const LEASE: Duration = Duration::from_mins(1);

/// Purges in the background. Start it on every node: together they do one node's work.
#[derive(Clone, Debug)]
#[must_use = "nothing is purged until it is started"]
pub struct Cleanup {
    once: Once,
    interval: Duration,
    batch: u32,
    jitter: Jitter,
}

/// What became of a node's turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Turn {
    /// It ran the round, and so many records are gone.
    Purged(u64),
    /// The round of this interval was done before.
    Done,
    /// Another node is at it.
    Busy {
        /// When that node is taken to be dead, unless it says otherwise before.
        until: Timestamp,
    },
}

impl Cleanup {
    /// Purges the store of this `Once`.
    pub fn new(once: Once) -> Self {
        let seed = nonce::holder().0 as u64;
        Self { once, interval: INTERVAL, batch: BATCH_MAX, jitter: Jitter(seed) }
    }

    /// The time between two rounds; ten minutes unless set, a second at least.
    pub fn every(self, interval: Duration) -> Self {
        Self { interval: interval.max(INTERVAL_MIN), ..self }
    }

    /// Most records in one batch; 1,000 unless set, one at least.
    pub fn batch(self, records: u32) -> Self {
        Self { batch: records.max(1), ..self }
    }

    /// Where the pauses' jitter starts from; random unless set.
    pub fn seed(self, seed: u64) -> Self {
        Self { jitter: Jitter(seed), ..self }
    }

    /// One turn, for those who have a scheduler of their own: runs the round if it is due and nobody else does.
    ///
    /// ```
    /// use semel::{Once, cleanup::{Cleanup, Turn}};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// assert_eq!(Cleanup::new(once.clone()).turn().await?, Turn::Purged(0));
    /// assert_eq!(Cleanup::new(once).turn().await?, Turn::Done, "by the other one, just now");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn turn(&self) -> Result<Turn, Error> {
        self.turn_until(&Cancellation::default()).await
    }

    /// Begins to purge, a first time soon. Needs a tokio runtime.
    pub fn start(self) -> Running {
        let stop = Cancellation::default();
        let task = tokio::spawn(self.run(stop.clone()));
        Running { stop, task: Some(task) }
    }

    async fn run(mut self, stop: Cancellation) {
        let clock = Arc::clone(&self.once.driver.clock);
        let mut pause = Duration::ZERO;
        while !stop.is_cancelled() {
            let pause_with_jitter = pause + self.jitter.below(self.interval / 4);
            first(stop.cancelled(), clock.sleep(pause_with_jitter)).await;
            if stop.is_cancelled() {
                return;
            }
            pause = match self.turn_until(&stop).await {
                Ok(Turn::Busy { until }) => until.since(clock.now()).min(self.interval),
                // A failure was counted and traced where it happened.
                Ok(Turn::Purged(_) | Turn::Done) | Err(_) => self.interval,
            };
        }
    }

    async fn turn_until(&self, stop: &Cancellation) -> Result<Turn, Error> {
        if sabotage::is_on("every_node_cleans_up") {
            return self.batches(stop).await.map(Turn::Purged);
        }
        let key = Key::new(SCOPE, "round").expect("constants make a key");
        // A tenth less than an interval, so that a node never comes just before its own round is forgotten.
        let remembered = self.interval / 10 * 9;
        let call = self.once.call_key(key).lease(LEASE).retention(remembered).on_busy(OnBusy::Reject);
        match call.begin().await? {
            Begin::Run(lease) => self.round(lease, stop).await.map(Turn::Purged),
            Begin::Replay(_) => Ok(Turn::Done),
            Begin::Busy { until, .. } => Ok(Turn::Busy { until }),
            Begin::Failed(failure) => Err(failure.into_error()),
            Begin::Mismatch { key } => Err(Error::new(ErrorKind::Mismatch, key)),
        }
    }

    async fn round(&self, lease: Lease, stop: &Cancellation) -> Result<u64, Error> {
        match lease.hold(self.batches(stop)).await? {
            Ok(purged) => {
                lease.complete(&purged).await?;
                Ok(purged)
            }
            Err(error) => {
                lease.release(Error::chain(&error)).await?;
                Err(error)
            }
        }
    }

    async fn batches(&self, stop: &Cancellation) -> Result<u64, Error> {
        let clock = &self.once.driver.clock;
        let over_at = clock.monotonic() + self.interval;
        let mut purged = 0;
        loop {
            let since = clock.monotonic();
            let batch = self.once.purge(self.batch).await?;
            purged += u64::from(batch);
            let now = clock.monotonic();
            if batch < self.batch || now >= over_at || stop.is_cancelled() {
                return Ok(purged);
            }
            let rest = now.saturating_sub(since).max(REST_MIN);
            first(stop.cancelled(), clock.sleep(rest)).await;
        }
    }
}

/// A cleanup that was started. Dropping it stops it, too, without waiting for the batch at hand.
#[derive(Debug)]
#[must_use = "dropping it stops it"]
pub struct Running {
    stop: Cancellation,
    /// Taken by whoever waits for its end.
    task: Option<JoinHandle<()>>,
}

impl Running {
    /// Lets the batch at hand end, and stops.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A task that panicked has stopped, too, and has said so.
            let _ = task.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// SplitMix64: enough for pauses, and the same for the same seed.
#[derive(Clone, Debug)]
struct Jitter(u64);

impl Jitter {
    fn below(&mut self, limit: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        limit.mul_f64(mixed as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_fills_its_band_and_repeats_by_seed() {
        let band = Duration::from_secs(100);
        let draw = |seed| {
            let mut jitter = Jitter(seed);
            (0..1_000).map(|_| jitter.below(band)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = draw(7);
        assert!(drawn.iter().all(|it| *it <= band));
        assert!(drawn.iter().min() < Some(&(band / 20)) && drawn.iter().max() > Some(&(band * 19 / 20)));
    }
}
