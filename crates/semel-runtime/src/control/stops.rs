//! Errors that are being stopped on this node, by a job that runs here.
//!
//! 1. What fails with one of them here is parked in the same write that tells of its failure, so that what is tried again at
//!    once is stopped, too: nobody would ever find it waiting. So is its audit entry, as of whatever else the job parks.
//! 2. What fails on other nodes is found by the job while it waits for its next attempt, or fails here one of the next times.
//! 3. When the job is over, nothing is stopped any more.

use super::{Action, jobs::Progress, operate::By};
use crate::engine::{Engine, locked};
use semel_core::{
    execution::{Due, ErrorPrint, Execution, Input, Phase, step},
    retry::{Jitter, RetryPolicy},
    sabotage::is_on,
    time::Timestamp,
};
use std::{collections::BTreeMap, fmt, sync::Arc};
use tokio::sync::watch;

/// Which errors are being stopped, and whom to tell.
#[derive(Debug, Default)]
pub(crate) struct Stops(BTreeMap<ErrorPrint, Stop>);

/// For whom an error is being stopped.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) who: Arc<str>,
    pub(super) job: u64,
    pub(super) tell: watch::Sender<Progress>,
}

/// An error is being stopped until this is dropped.
pub(super) struct Stopping {
    engine: Arc<Engine>,
    print: ErrorPrint,
}

impl Stopping {
    pub(super) fn new(engine: &Arc<Engine>, print: ErrorPrint, stop: Stop) -> Self {
        locked(&engine.stops).0.insert(print, stop);
        Self { engine: Arc::clone(engine), print }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        locked(&self.engine.stops).0.remove(&self.print);
    }
}

/// What an attempt made of an execution; parked, if it is to be tried again after an error that is being stopped, and then with
/// what is written beside it.
pub(crate) fn stopped(engine: &Engine, now: Timestamp, after: Execution) -> (Execution, Vec<Execution>) {
    let Phase::Pending(Due::At(_)) = after.phase else { return (after, Vec::new()) };
    let stops = locked(&engine.stops);
    if stops.0.is_empty() || is_on("errors_stopped_when_they_wait") {
        return (after, Vec::new());
    }
    let stop = after.error().and_then(|error| stops.0.get(&ErrorPrint::of(error)));
    // No policy has a say in parking.
    let parked = step(now, &after, Input::Park, &RetryPolicy::default(), Jitter::LEAST);
    let (Some(Stop { who, job, tell }), Ok(parked)) = (stop, parked) else { return (after, Vec::new()) };
    tell.send_modify(|it| {
        it.matched += 1;
        it.done += 1;
    });
    let entries = By { who, job: Some(*job) }.entries(engine, &after, &Action::Park);
    (parked, entries)
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopping").field(&self.print).finish()
    }
}
