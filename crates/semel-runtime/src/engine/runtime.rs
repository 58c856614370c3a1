//! The runtime, as its users have it.

use super::{
    accept::{accept, accept_in},
    chance::Chance,
    claim::claim_due,
    engine::{Engine, Stage, locked},
    flying::Flying,
    forward::forwarder,
    gather::Gather,
    purge::purge,
    receipt::{Receipt, Refused},
    repeats::{Repeated, write_repeats},
    status::FunctionStatus,
    table::Table,
    tasks::Tasks,
};
use crate::{
    deliver::Deliver,
    function::{DeadLetter, Function, FunctionName},
};
use semel_core::queue::{Counts, Queue};
use semel_core::store::StoreError;
use semel_events::event::Event;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// Attempts at once on one node, if nobody said otherwise.
pub const IN_FLIGHT_MAX: u32 = 1_024;
/// Bytes of events in memory, if nobody said otherwise.
pub const MEMORY_MAX: usize = 128 * 1024 * 1024;

/// Functions that cannot be together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FunctionsError {
    /// Two with one name.
    #[error("there are two functions `{0}`")]
    Twice(FunctionName),
    /// A dead letter would go to a function that is not there.
    #[error("function `{function}` sends its dead letters to function `{to}`, which is not there")]
    NoDeadLetter {
        /// Whose dead letters.
        function: FunctionName,
        /// Where to.
        to: FunctionName,
    },
    /// A dead letter would come back.
    #[error("the dead letters of function `{0}` come back to it")]
    Loop(FunctionName),
}

/// Begins a runtime.
#[derive(Clone)]
pub struct Builder {
    queue: Arc<dyn Queue>,
    deliver: Arc<dyn Deliver>,
    functions: Vec<Function>,
    in_flight_max: u32,
    memory_max: usize,
    seed: Option<u64>,
}

impl Builder {
    /// With these functions.
    #[must_use]
    pub fn functions(mut self, functions: impl IntoIterator<Item = Function>) -> Self {
        self.functions.extend(functions);
        self
    }

    /// With at most so many attempts at once, over all functions.
    #[must_use]
    pub const fn in_flight_max(mut self, attempts: u32) -> Self {
        self.in_flight_max = attempts;
        self
    }

    /// With at most so many bytes of events in memory. What is more is kept by the queue alone.
    #[must_use]
    pub const fn memory_max(mut self, bytes: usize) -> Self {
        self.memory_max = bytes;
        self
    }

    /// With random numbers that come again: for simulations, and for nothing else.
    #[doc(hidden)]
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts it, in the surrounding tokio runtime.
    pub fn start(self) -> Result<Runtime, FunctionsError> {
        check(&self.functions)?;
        let engine = Arc::new(self.engine());
        let runtime = Runtime { alive: Arc::new(Alive(Arc::clone(&engine))) };
        runtime.replace(self.functions)?;
        engine.tasks.spawn(claim_due(Arc::clone(&engine)));
        engine.tasks.spawn(purge(Arc::clone(&engine)));
        engine.tasks.spawn(write_repeats(Arc::clone(&engine)));
        Ok(runtime)
    }

    fn engine(&self) -> Engine {
        let (queue, clock, tasks) = (Arc::clone(&self.queue), self.queue.clock(), Arc::new(Tasks::new()));
        let (accepting, writing, accepting_clock) =
            (Arc::clone(&queue), Arc::clone(&queue), Arc::clone(&clock));
        let accepts = Gather::new(Arc::clone(&tasks), move |executions| {
            Box::pin(accept_in(Arc::clone(&accepting), Arc::clone(&accepting_clock), executions))
        });
        let writes = Gather::new(Arc::clone(&tasks), move |changes: Vec<_>| {
            let writing = Arc::clone(&writing);
            Box::pin(async move { writing.write(&changes).await })
        });
        Engine {
            queue,
            deliver: Arc::clone(&self.deliver),
            clock,
            chance: Chance::new(self.seed),
            tasks,
            accepts,
            writes,
            table: Mutex::new(Table::new(self.in_flight_max, self.memory_max)),
            functions: Mutex::new([].into()),
            flying: Mutex::new(Flying::default()),
            repeated: Mutex::new(Repeated::default()),
            wake: Notify::new(),
            place_given_back: Notify::new(),
            stage: watch::Sender::new(Stage::Running),
            bytes_max: self.memory_max,
        }
    }
}

/// Functions that are not wrong together.
fn check(functions: &[Function]) -> Result<(), FunctionsError> {
    let mut names = BTreeSet::new();
    for function in functions {
        if !names.insert(&function.name) {
            return Err(FunctionsError::Twice(function.name.clone()));
        }
    }
    for function in functions {
        let mut seen = BTreeSet::from([&function.name]);
        let mut last = function;
        while let DeadLetter::Function(to) = &last.dead_letter {
            if !seen.insert(to) {
                return Err(FunctionsError::Loop(function.name.clone()));
            }
            last = functions.iter().find(|it| it.name == *to).ok_or_else(|| {
                FunctionsError::NoDeadLetter { function: last.name.clone(), to: to.clone() }
            })?;
        }
    }
    Ok(())
}

/// A running runtime. Clones are the same one; when the last is dropped without [`Runtime::shutdown`], that is a crash:
/// what runs is dropped where it stands, and others take it over when its leases lapse.
#[derive(Clone, Debug)]
pub struct Runtime {
    alive: Arc<Alive>,
}

/// Ends the tasks with the last handle.
#[derive(Debug)]
struct Alive(Arc<Engine>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Runtime {
    /// Begins one on this queue, which delivers by this.
    pub fn builder(queue: Arc<dyn Queue>, deliver: Arc<dyn Deliver>) -> Builder {
        Builder {
            queue,
            deliver,
            functions: Vec::new(),
            in_flight_max: IN_FLIGHT_MAX,
            memory_max: MEMORY_MAX,
            seed: None,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.alive.0
    }

    /// Takes these events in. When it answers, what it says is durable. A call that is dropped is finished all the same.
    pub async fn accept(&self, events: &[Event]) -> Result<Vec<Receipt>, Refused> {
        accept(self.engine(), events).await
    }

    /// From now on there are these functions. What was accepted for one that is gone waits until it is back; what runs
    /// is finished on the terms it began on.
    pub fn replace(&self, functions: Vec<Function>) -> Result<(), FunctionsError> {
        check(&functions)?;
        let functions: Arc<[_]> = functions.into_iter().map(Arc::new).collect();
        let forwarders = functions.iter().filter_map(|it| forwarder(it)).map(Arc::new);
        let engine = self.engine();
        engine.table().replace(functions.iter().cloned().chain(forwarders));
        *locked(&engine.functions) = functions;
        engine.wake.notify_one();
        Ok(())
    }

    /// How every function stands on this node.
    pub fn status(&self) -> Vec<FunctionStatus> {
        self.engine().table().status()
    }

    /// How many executions there are, by function, on all nodes together.
    pub async fn counts(&self) -> Result<Vec<Counts>, StoreError> {
        self.engine().queue.counts().await
    }

    /// The queue that it runs on.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.engine().queue
    }

    /// Stops: takes nothing more, finishes what runs until the deadline, and hands back the rest. Whether everything was
    /// finished or handed back; if not, leases lapse, and others take over.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        let engine = self.engine();
        engine.stage.send_if_modified(|it| (*it == Stage::Running).then(|| *it = Stage::Stopping).is_some());
        let is_done = idle(engine, deadline).await;
        engine.stage.send_replace(Stage::Interrupting);
        let is_done = is_done || idle(engine, HAND_BACK_MAX).await;
        engine.end();
        is_done
    }
}

/// How long handing back may take after the deadline.
const HAND_BACK_MAX: Duration = Duration::from_secs(5);

/// Whether nothing runs any more, within this time.
async fn idle(engine: &Engine, within: Duration) -> bool {
    let nothing_runs = async {
        loop {
            let given_back = engine.place_given_back.notified();
            if engine.table().in_flight() == 0 {
                return;
            }
            given_back.await;
        }
    };
    tokio::select! {
        biased;
        () = nothing_runs => true,
        () = engine.clock.sleep(within) => false,
    }
}
