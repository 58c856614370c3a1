//! The runtime, as its users have it.

use super::{
    accept::accept,
    admission::Waiting,
    call::{Called, call},
    claim::claim_due,
    forward::forwarder,
    purge::purge,
    receipt::{Receipt, Refused},
    repeats::write_repeats,
    shared::{Engine, Parts, Stage, locked},
    status::FunctionStatus,
    table::Table,
};
use crate::{
    control::{follow, load},
    deliver::Deliver,
    function::{CONCURRENCY_MAX, DeadLetter, Function, FunctionName},
};
use http::HeaderMap;
use semel_core::{
    execution::{ExecutionId, Repeats},
    queue::{Counts, Queue},
    sabotage::is_on,
    store::StoreError,
};
use semel_events::event::Event;
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// Executions that one node holds at once, if nobody said otherwise.
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
    /// More calls at once than there can be.
    #[error("the concurrency of function `{0}` is more than {CONCURRENCY_MAX}")]
    Concurrency(FunctionName),
    /// A dead letter would come back.
    #[error("the dead letters of function `{0}` come back to it")]
    Loop(FunctionName),
}

/// Why a runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its functions cannot be together.
    #[error(transparent)]
    Functions(#[from] FunctionsError),
    /// Which of them are paused could not be read.
    #[error("start the runtime")]
    Queue(#[from] StoreError),
}

/// Begins a runtime.
#[derive(Clone)]
pub struct Builder {
    queue: Arc<dyn Queue>,
    deliver: Arc<dyn Deliver>,
    functions: Vec<Function>,
    in_flight_max: u32,
    memory_max: usize,
    is_alone: bool,
    seed: Option<u64>,
}

impl Builder {
    /// With these functions.
    #[must_use]
    pub fn functions(mut self, functions: impl IntoIterator<Item = Function>) -> Self {
        self.functions.extend(functions);
        self
    }

    /// With at most so many executions held at once, over all functions.
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

    /// No other node has this queue, or ever will while this one runs: what it pauses need not get about.
    #[must_use]
    pub const fn alone(mut self, is_alone: bool) -> Self {
        self.is_alone = is_alone;
        self
    }

    /// With random numbers that come again: for simulations, and for nothing else.
    #[doc(hidden)]
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts it, in the surrounding tokio runtime, once it has read which functions are paused.
    pub async fn start(self) -> Result<Runtime, StartError> {
        let Self { queue, deliver, functions, in_flight_max, memory_max, is_alone, seed } = self;
        let parts = Parts { queue, deliver, seed, in_flight_max, bytes_max: memory_max, is_alone };
        let engine = Arc::new(Engine::new(parts));
        let runtime = Runtime { alive: Arc::new(Alive(Arc::clone(&engine))) };
        runtime.replace(functions)?;
        load(&engine).await?;
        engine.tasks.spawn(claim_due(Arc::clone(&engine)));
        engine.tasks.spawn(purge(Arc::clone(&engine)));
        engine.tasks.spawn(write_repeats(Arc::clone(&engine)));
        engine.tasks.spawn(follow(Arc::clone(&engine)));
        Ok(runtime)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("functions", &self.functions).finish_non_exhaustive()
    }
}

/// Functions that are not wrong together.
fn check(functions: &[Function]) -> Result<(), FunctionsError> {
    let mut names = BTreeSet::new();
    for function in functions {
        if !names.insert(&function.name) {
            return Err(FunctionsError::Twice(function.name.clone()));
        }
        if function.concurrency.get() > CONCURRENCY_MAX {
            return Err(FunctionsError::Concurrency(function.name.clone()));
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

/// A running runtime.
///
/// ```
/// use semel_core::record::Body;
/// use semel_events::event::Event;
/// use semel_runtime::{CallOutcome, Called, Function, Receipt, Runtime, deliver::Client, handler, queue::memory::MemoryQueue};
/// use semel_testkit::ManualClock;
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let queue = Arc::new(MemoryQueue::new(ManualClock::new().arc()));
/// let client = Arc::new(Client::new(Default::default()));
/// let ship = handler(|event, _attempt| async move { Ok(format!("shipped {}", event.id()).into_bytes()) });
/// let functions = [Function::new("ship".parse()?, ship)];
/// let runtime = Runtime::builder(queue, client).functions(functions).start().await?;
///
/// let order = Event::builder("order-42", "/shop", "order.created").build()?;
/// let receipts = runtime.accept(&[order.clone()], &Default::default()).await?;
/// assert!(matches!(receipts[..], [Receipt::Taken(_)]));
/// # while runtime.status()[0].totals.completed == 0 { tokio::task::yield_now().await; }
/// let Called::Answered(answered) = runtime.call(&order, &Default::default()).await? else { panic!("it is taken") };
/// let CallOutcome::Completed { body: Body::Kept { bytes, .. }, is_replay: true } = &answered[0].outcome else {
///     panic!("it was shipped before");
/// };
/// assert_eq!(bytes, b"shipped order-42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones are the same one; when the last is dropped without [`Runtime::shutdown`], that is a crash:
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
            is_alone: false,
            seed: None,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.alive.0
    }

    /// Takes these events in, which came with these headers. When it answers, what it says is durable. A call that is dropped is
    /// finished all the same.
    pub async fn accept(&self, events: &[Event], headers: &HeaderMap) -> Result<Vec<Receipt>, Refused> {
        accept(self.engine(), events, headers, None).await
    }

    /// As [`Runtime::accept`], for these functions alone: what no other one may be given.
    pub async fn accept_for(
        &self,
        events: &[Event],
        headers: &HeaderMap,
        only: &[Arc<str>],
    ) -> Result<Vec<Receipt>, Refused> {
        accept(self.engine(), events, headers, Some(only)).await
    }

    /// Takes this event in, calls the functions that take it, and waits for what comes of it. A call that is dropped is finished
    /// all the same.
    pub async fn call(&self, event: &Event, headers: &HeaderMap) -> Result<Called, Refused> {
        call(self.engine(), event, headers, None).await
    }

    /// As [`Runtime::call`], for these functions alone.
    pub async fn call_for(
        &self,
        event: &Event,
        headers: &HeaderMap,
        only: &[Arc<str>],
    ) -> Result<Called, Refused> {
        call(self.engine(), event, headers, Some(only)).await
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

    /// Lets so many executions be held at once from now on, over all functions. Nobody who is held already is let go.
    pub fn allow(&self, in_flight_max: u32) {
        self.engine().table().allow(in_flight_max);
        self.engine().wake.notify_one();
    }

    /// How every function stands on this node.
    pub fn status(&self) -> Vec<FunctionStatus> {
        self.engine().table().status()
    }

    /// How often the event of this execution came again here, beyond what its record says: that is written later.
    pub fn repeats(&self, id: &ExecutionId) -> Repeats {
        let counted = locked(&self.engine().repeated).of(id);
        if is_on("repeats_told_when_written") { Repeats::default() } else { counted }
    }

    /// How many executions wait to be written on this node, and how many may.
    pub fn waiting(&self) -> Waiting {
        self.engine().admission().waiting()
    }

    /// How many executions there are, by function, on all nodes together.
    pub async fn counts(&self) -> Result<Vec<Counts>, StoreError> {
        self.engine().queue.counts().await
    }

    /// The queue that it runs on.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.engine().queue
    }

    /// Ends it where it stands, as a crash does: for simulations, and for nothing else.
    #[doc(hidden)]
    pub fn crash(&self) {
        let engine = self.engine();
        engine.end();
        engine.raise(Stage::Interrupting);
    }

    /// Begins to stop: from now on nothing is claimed or started. What runs goes on, and what comes is durable all the same, for
    /// later or for other nodes; only who would wait for its end is told to come again.
    pub fn start_nothing_more(&self) {
        self.engine().raise(Stage::Keeping);
    }

    /// Stops: takes nothing more, finishes what runs until the deadline, and hands back the rest. Whether everything was
    /// finished or handed back; if not, leases lapse, and others take over.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        let engine = self.engine();
        engine.raise(Stage::Stopping);
        let is_done = engine.idle(deadline, Table::in_flight).await;
        if !is_on("stopped_without_handing_back") {
            engine.raise(Stage::Interrupting);
        }
        let is_done = is_done || engine.idle(HAND_BACK_MAX, Table::in_flight).await;
        // Jobs have ended by now; others are told so.
        let _their_records_lapse = engine.idle(HAND_BACK_MAX, |_| locked(&engine.jobs).running()).await;
        engine.end();
        is_done
    }
}

/// How long handing back may take after the deadline.
const HAND_BACK_MAX: Duration = Duration::from_secs(5);
