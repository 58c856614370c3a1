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
        atomic::{AtomicBool, Ordering},
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

/// The clock of a node: the queue's, but nobody wakes up while the node is frozen.
pub(super) struct NodeClock {
    pub(super) shared: Arc<Shared>,
    pub(super) freezer: Arc<Freezer>,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
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
    pub(super) runtime: Arc<Mutex<Option<Runtime>>>,
}

impl Node {
    pub(super) fn new(number: usize) -> Self {
        Self { number, freezer: Arc::default(), runtime: Arc::default() }
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
        let queue = FaultyQueue::new(Arc::clone(shared), Arc::clone(&self.freezer));
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
