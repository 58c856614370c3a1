//! The engine on a queue in memory, under tokio's paused time.

mod called;
mod control;
mod crowd;
mod dead_letters;
mod delivery;
mod drain;
mod fairness;
mod here;
mod jobs;
mod lost;
mod reload;
mod report;
mod shares;
mod stop;
mod turns;

use crate::support::{
    clock::PausedClock,
    queue::SpyQueue,
    targets::{Target, at},
};
use http::HeaderMap;
use semel_core::{
    execution::{Execution, ExecutionId},
    queue::{Counts, Fenced, Queue},
    record::Status,
    retry::RetryPolicy,
    time::Clock,
};
use semel_events::event::Event;
use semel_runtime::{Entry, Function, Receipt, Runtime};
use std::{sync::Arc, time::Duration};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A runtime on a queue and a clock of its own.
pub(crate) struct World {
    pub(crate) clock: PausedClock,
    pub(crate) queue: Arc<SpyQueue>,
    pub(crate) runtime: Runtime,
}

impl World {
    pub(crate) async fn new(target: &Arc<Target>, functions: impl IntoIterator<Item = Function>) -> Self {
        let clock = PausedClock::new();
        let queue = Arc::new(SpyQueue::new(Arc::new(clock.clone())));
        let builder = Runtime::builder(queue.clone(), target.clone());
        let runtime = builder.functions(functions).seed(7).start().await.unwrap();
        Self { clock, queue, runtime }
    }

    /// Another node on the same queue.
    pub(crate) async fn node(
        &self,
        target: &Arc<Target>,
        functions: impl IntoIterator<Item = Function>,
    ) -> Runtime {
        let builder = Runtime::builder(self.queue.clone(), target.clone());
        builder.functions(functions).seed(8).start().await.unwrap()
    }

    /// Accepts one event for one function.
    pub(crate) async fn accept(&self, event: &Event) -> (ExecutionId, Entry) {
        let receipts = self.runtime.accept(std::slice::from_ref(event), &HeaderMap::new()).await.unwrap();
        let [Receipt::Taken(taken)] = &receipts[..] else { panic!("{receipts:?}") };
        let [taken] = &taken[..] else { panic!("{taken:?}") };
        (taken.id, taken.entry)
    }

    /// What stands in the queue.
    pub(crate) async fn stored(&self, id: ExecutionId) -> Fenced<Execution> {
        self.queue.inner.get(&[id]).await.unwrap().pop().flatten().unwrap()
    }

    /// Where an execution stands.
    pub(crate) async fn status(&self, id: ExecutionId) -> Status {
        self.stored(id).await.value.status()
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

/// A function of this name, at a target of the same path, that retries as most do.
pub(crate) fn function(name: &str) -> Function {
    Function { policy: RetryPolicy::gen2(), ..Function::new(name.parse().unwrap(), at(name)) }
}

/// The one that most tests have.
pub(crate) fn orders() -> Function {
    function("orders")
}
