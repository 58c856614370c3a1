//! A node: a runtime that can be frozen, crash, and be started again.

use super::{faults::FaultyQueue, targets::Targets, world::Shared};
use semel_core::{
    BoxFuture,
    time::{Clock, Timestamp},
};
use semel_runtime::Runtime;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Whether a process is stopped: what it awaits does not come back before it goes on.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    is_frozen: AtomicBool,
    thawed: Notify,
}

impl Freezer {
    pub(super) fn freeze(&self) {
        self.is_frozen.store(true, Ordering::Relaxed);
    }

    pub(super) fn thaw(&self) {
        self.is_frozen.store(false, Ordering::Relaxed);
        self.thawed.notify_waiters();
    }

    pub(super) async fn pass(&self) {
        loop {
            let thawed = self.thawed.notified();
            if !self.is_frozen.load(Ordering::Relaxed) {
                return;
            }
            thawed.await;
        }
    }
}

/// How wrong a node may be about the queue's clock, which it learns from answers that take their time, in milliseconds.
pub(super) const LEARNED_WRONG_MS: i64 = 250;
/// How wrong a machine's own clock is, before somebody sets it, in milliseconds.
const SKEW_MS: i64 = 5 * 60_000;

/// How wrong a node's clocks are, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Skew {
    /// What it takes for the queue's clock.
    learned: AtomicI64,
    /// The machine's own.
    wall: AtomicI64,
}

impl Skew {
    /// As a process finds it when it starts.
    fn draw(&self, shared: &Shared) {
        self.learned
            .store(shared.chance(|it| it.i64(-LEARNED_WRONG_MS..=LEARNED_WRONG_MS)), Ordering::Relaxed);
        self.wall.store(shared.chance(|it| it.i64(-SKEW_MS..=SKEW_MS)), Ordering::Relaxed);
    }

    /// Somebody sets the machine's clock, so far from what it should be.
    pub(super) fn set_wall(&self, millis: i64) {
        self.wall.store(millis, Ordering::Relaxed);
    }
}

fn skewed(at: Timestamp, millis: &AtomicI64) -> Timestamp {
    Timestamp::from_millis(at.as_millis().saturating_add_signed(millis.load(Ordering::Relaxed)))
}

/// The clock of a node: the queue's, nearly, beside the machine's own, which is anything. Nobody wakes up while the node is
/// frozen.
pub(super) struct NodeClock {
    pub(super) shared: Arc<Shared>,
    pub(super) freezer: Arc<Freezer>,
    pub(super) skew: Arc<Skew>,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        skewed(self.shared.clock.now(), &self.skew.learned)
    }

    fn wall(&self) -> Timestamp {
        skewed(self.shared.clock.now(), &self.skew.wall)
    }

    fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (nap, freezer) = (self.shared.clock.sleep(duration), Arc::clone(&self.freezer));
        Box::pin(async move {
            nap.await;
            freezer.pass().await;
        })
    }
}

/// A node, up or down.
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) freezer: Arc<Freezer>,
    pub(super) skew: Arc<Skew>,
    pub(super) runtime: Arc<Mutex<Option<Runtime>>>,
}

impl Node {
    pub(super) fn new(number: usize) -> Self {
        Self { number, freezer: Arc::default(), skew: Arc::default(), runtime: Arc::default() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.runtime.lock().unwrap().is_some()
    }

    /// Starts it, if it is down. It stays down if the queue does not answer.
    pub(super) async fn start(&self, shared: &Arc<Shared>) {
        if self.is_up() {
            return;
        }
        let seed = shared.chance(|it| it.u64(..));
        self.skew.draw(shared);
        let (freezer, skew) = (Arc::clone(&self.freezer), Arc::clone(&self.skew));
        let queue = FaultyQueue::new(Arc::clone(shared), freezer, skew);
        let functions = super::functions::all();
        let targets = Targets {
            shared: Arc::clone(shared),
            freezer: Arc::clone(&self.freezer),
            node: Arc::clone(&self.runtime),
            concurrency: functions.iter().map(|it| (it.name.to_string(), it.concurrency.get())).collect(),
            calling: Mutex::default(),
        };
        let builder = Runtime::builder(Arc::new(queue), Arc::new(targets)).functions(functions);
        let started = builder.in_flight_max(48).memory_max(64 * 1024).seed(seed).start().await;
        shared.trace(&format!("node {} starts: {}", self.number, started.is_ok()));
        *self.runtime.lock().unwrap() = started.ok();
    }

    /// Ends it where it stands. Whether it was up.
    pub(super) fn crash(&self, shared: &Shared) -> bool {
        let runtime = self.runtime.lock().unwrap().take();
        self.freezer.thaw();
        if let Some(runtime) = &runtime {
            runtime.crash();
            shared.trace(&format!("node {} crashes", self.number));
        }
        runtime.is_some()
    }
}
