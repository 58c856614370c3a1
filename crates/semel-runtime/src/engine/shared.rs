//! What the parts of the engine share.

use super::{
    accept::accept_in,
    admission::Admission,
    attempt::{Attempt, attempt},
    chance::Chance,
    crew::Crew,
    flying::Flying,
    gather::Gather,
    guarded::Guarded,
    informed::{Here, Informed},
    repeats::Repeated,
    table::{Moment, Table},
    tasks::Tasks,
};
use crate::{
    control::{Jobs, Stops},
    deliver::{Cause, Deliver},
    function::Function,
};
use semel_core::{
    execution::Execution,
    queue::{Accepted, Change, Queue, Written},
    time::{Clock, Timestamp},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How often something is told that is so for many at once.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How far a runtime is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// It takes everything.
    Running,
    /// It starts nothing more: what comes is kept for later, or for others.
    Keeping,
    /// It takes nothing more, and finishes what runs.
    Stopping,
    /// It hands back what runs.
    Interrupting,
}

/// What the parts of the engine share.
pub(crate) struct Engine {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) deliver: Arc<dyn Deliver>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) tasks: Arc<Tasks>,
    /// Who makes attempts.
    pub(crate) attempts: Crew<Box<Attempt>>,
    pub(crate) accepts: Gather<Execution, Accepted>,
    pub(crate) writes: Gather<Change, Written>,
    pub(crate) table: Mutex<Table>,
    /// The functions that events are accepted for, shared with whoever routes.
    pub(crate) functions: Mutex<Arc<[Arc<Function>]>>,
    pub(crate) flying: Mutex<Flying>,
    pub(crate) repeated: Mutex<Repeated>,
    /// Wakes the loop that claims.
    pub(crate) wake: Notify,
    /// Wakes whoever waits for what runs to end.
    pub(crate) place_given_back: Notify,
    /// Only ever raised.
    stage: Mutex<Stage>,
    /// Wakes whoever waits for the end, in the order they came: a simulation is the same every time.
    stage_raised: Notify,
    pub(crate) jobs: Mutex<Jobs>,
    /// Errors that a job of this node stops.
    pub(crate) stops: Mutex<Stops>,
    /// What this node knows of what is paused.
    informed: Mutex<Informed>,
    /// Whether it has the queue for itself: it knows what it wrote.
    is_alone: bool,
    /// Held while that is read or changed: an older answer never comes after a newer one.
    pub(crate) pausing: tokio::sync::Mutex<()>,
    /// Most bytes of events that wait to be written.
    bytes_max: usize,
    admission: Mutex<Admission>,
    /// When it was last told that this machine has run out of what deliveries need.
    exhaustion_told: Mutex<Option<Duration>>,
    /// When the last entry of the audit log was written.
    pub(crate) audited_at: Mutex<Timestamp>,
}

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) deliver: Arc<dyn Deliver>,
    pub(crate) seed: Option<u64>,
    pub(crate) in_flight_max: u32,
    pub(crate) bytes_max: usize,
    pub(crate) is_alone: bool,
}

impl Engine {
    /// An engine without functions, in the surrounding tokio runtime. Nothing runs yet.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { queue, deliver, seed, in_flight_max, bytes_max, is_alone } = parts;
        let (clock, tasks) = (queue.clock(), Arc::new(Tasks::new()));
        let queue: Arc<dyn Queue> = Arc::new(Guarded(queue));
        let started = clock.monotonic();
        let (accepting, writing) = (Arc::clone(&queue), Arc::clone(&queue));
        let accepts = Gather::new(Arc::clone(&tasks), is_alone, move |executions: Vec<_>| {
            let accepting = Arc::clone(&accepting);
            Box::pin(async move {
                let accepted = accept_in(&*accepting, &executions).await;
                (executions, accepted)
            })
        });
        let writes = Gather::new(Arc::clone(&tasks), is_alone, move |changes: Vec<_>| {
            let writing = Arc::clone(&writing);
            Box::pin(async move {
                let written = writing.write(&changes).await;
                (changes, written)
            })
        });
        Self {
            queue,
            deliver,
            clock,
            chance: Chance::new(seed),
            attempts: Crew::new(Arc::clone(&tasks), attempt),
            tasks,
            accepts,
            writes,
            table: Mutex::new(Table::new(started, in_flight_max, bytes_max)),
            functions: Mutex::new([].into()),
            flying: Mutex::default(),
            repeated: Mutex::default(),
            wake: Notify::new(),
            place_given_back: Notify::new(),
            stage: Mutex::new(Stage::Running),
            stage_raised: Notify::new(),
            jobs: Mutex::default(),
            stops: Mutex::default(),
            informed: Mutex::new(Informed::new()),
            is_alone,
            pausing: tokio::sync::Mutex::default(),
            bytes_max,
            admission: Mutex::default(),
            exhaustion_told: Mutex::default(),
            audited_at: Mutex::new(Timestamp::from_millis(0)),
        }
    }

    /// Whether events may be taken in, or too many wait to be written.
    pub(crate) fn is_open(&self) -> bool {
        self.accepts.waiting_bytes() <= self.bytes_max && self.admission().is_open()
    }

    /// Who lets events in.
    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        locked(&self.admission)
    }

    /// Both clocks, now.
    pub(crate) fn moment(&self) -> Moment {
        let (now, monotonic) = self.clock.both();
        Moment { now, monotonic }
    }

    /// This moment, by the clocks that no store keeps.
    pub(crate) fn here(&self) -> Here {
        Here { monotonic: self.clock.monotonic(), wall: self.clock.wall() }
    }

    /// What this node knows of what is paused.
    pub(crate) fn informed(&self) -> MutexGuard<'_, Informed> {
        locked(&self.informed)
    }

    /// Whether this node knows which functions are paused: else it starts nothing.
    pub(crate) fn is_informed(&self) -> bool {
        self.is_alone || {
            let here = self.here();
            self.informed().is_informed(here)
        }
    }

    /// When all nodes know what this one knows of what is paused, by the monotonic clock.
    pub(crate) fn all_know_at(&self) -> Duration {
        if self.is_alone { Duration::ZERO } else { self.informed().all_know_at() }
    }

    /// Tells that this machine has run out of what deliveries need: seldom, because it is so for all of them at once.
    pub(crate) fn tell_exhausted(&self, cause: &Cause) {
        let now = self.clock.monotonic();
        let mut told = locked(&self.exhaustion_told);
        if told.is_none_or(|it| now.saturating_sub(it) >= TOLD_EVERY) {
            *told = Some(now);
            tracing::warn!(%cause, "deliveries wait, and were no attempts: raise what this process may open");
        }
    }

    /// The table, locked.
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    /// The functions that events are accepted for.
    pub(crate) fn functions(&self) -> Arc<[Arc<Function>]> {
        Arc::clone(&locked(&self.functions))
    }

    /// Drops what runs where it stands.
    pub(crate) fn end(&self) {
        self.tasks.end();
        self.attempts.dismiss();
        self.accepts.close();
        self.writes.close();
    }

    /// How far it is on its way to its end.
    pub(crate) fn stage(&self) -> Stage {
        *locked(&self.stage)
    }

    /// Nearer to its end.
    pub(crate) fn raise(&self, stage: Stage) {
        {
            let mut now = locked(&self.stage);
            *now = stage.max(*now);
        }
        self.stage_raised.notify_waiters();
    }

    /// Waits until it is that near to its end.
    pub(crate) async fn raised(&self, stage: Stage) {
        loop {
            // Made before the look, so that nothing is missed in between.
            let raised = self.stage_raised.notified();
            if self.stage() >= stage {
                return;
            }
            raised.await;
        }
    }

    /// Waits until no place is taken, by this count, or the time is over. Whether none is.
    pub(crate) async fn idle(&self, within: Duration, taken: impl Fn(&Table) -> u32) -> bool {
        let nothing_runs = async {
            loop {
                let given_back = self.place_given_back.notified();
                if taken(&self.table()) == 0 {
                    return;
                }
                given_back.await;
            }
        };
        tokio::select! {
            biased;
            () = nothing_runs => true,
            () = self.clock.sleep(within) => false,
        }
    }
}

/// A lock whose holder panicked is still a lock: what it guards is changed in steps that cannot be seen half done.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("stage", &self.stage()).finish_non_exhaustive()
    }
}
