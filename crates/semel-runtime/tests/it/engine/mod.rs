//! The engine on the memory queue, under tokio's paused time.

mod delivery;

use crate::support::{clock::PausedClock, targets::Target};
use semel_core::{
    execution::{Execution, ExecutionId},
    queue::{Counts, Fenced, Queue},
    time::Clock,
};
use semel_events::event::Event;
use semel_runtime::{Entry, Function, Receipt, Runtime, queue::memory::MemoryQueue};
use std::{sync::Arc, time::Duration};

/// A runtime on a queue and a clock of its own.
pub(crate) struct World {
    pub(crate) clock: PausedClock,
    pub(crate) queue: Arc<MemoryQueue>,
    pub(crate) runtime: Runtime,
}

impl World {
    pub(crate) fn new(target: &Arc<Target>, functions: impl IntoIterator<Item = Function>) -> Self {
        let clock = PausedClock::new();
        let queue = Arc::new(MemoryQueue::new(Arc::new(clock.clone())));
        let builder = Runtime::builder(queue.clone(), target.clone());
        let runtime = builder.functions(functions).seed(7).start().unwrap();
        Self { clock, queue, runtime }
    }

    /// Accepts one event for one function.
    pub(crate) async fn accept(&self, event: &Event) -> (ExecutionId, Entry) {
        let receipts = self.runtime.accept(std::slice::from_ref(event)).await.unwrap();
        let [Receipt::Taken(taken)] = &receipts[..] else { panic!("{receipts:?}") };
        let [taken] = &taken[..] else { panic!("{taken:?}") };
        (taken.id, taken.entry)
    }

    /// What stands in the queue.
    pub(crate) async fn stored(&self, id: ExecutionId) -> Fenced<Execution> {
        self.queue.get(&[id]).await.unwrap().pop().flatten().unwrap()
    }

    /// Whether everything that was accepted is somewhere.
    pub(crate) async fn queue_is_balanced(&self) -> bool {
        self.queue.counts().await.unwrap().iter().all(Counts::is_balanced)
    }

    /// Lets so much time pass, and everything happen that is due.
    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

/// An event of this id.
pub(crate) fn event(id: &str) -> Event {
    Event::builder(id, "/shop", "order.created").json(r#"{"total": 12}"#).build().unwrap()
}
