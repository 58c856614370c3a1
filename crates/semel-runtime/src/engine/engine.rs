//! What the parts of the engine share.

use super::{
    chance::Chance,
    flying::Flying,
    gather::Gather,
    repeats::Repeated,
    table::{Moment, Table},
    tasks::Tasks,
};
use crate::{deliver::Deliver, function::Function};
use semel_core::{
    execution::Execution,
    queue::{Accepted, Change, Queue, Written},
    time::Clock,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, watch};

/// How far a runtime is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// It takes everything.
    Running,
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
    pub(crate) stage: watch::Sender<Stage>,
    /// Most bytes of events that wait to be written.
    pub(crate) bytes_max: usize,
}

impl Engine {
    /// Both clocks, now.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), monotonic: self.clock.monotonic() }
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
        self.accepts.clear();
        self.writes.clear();
    }

    /// How far it is on its way to its end.
    pub(crate) fn stage(&self) -> Stage {
        *self.stage.borrow()
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
