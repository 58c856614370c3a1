//! Errors that are being stopped on this node, by a job that runs here.
//!
//! 1. What fails with one of them here is parked in the same write that tells of its failure, so that what is tried again at
//!    once is stopped, too: nobody would ever find it waiting.
//! 2. What fails on other nodes is found by the job while it waits for its next attempt, or fails here one of the next times.
//! 3. When the job is over, nothing is stopped any more.

use super::jobs::Progress;
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
pub(crate) struct Stops(BTreeMap<ErrorPrint, watch::Sender<Progress>>);

/// An error is being stopped until this is dropped.
pub(super) struct Stopping {
    engine: Arc<Engine>,
    print: ErrorPrint,
}

impl Stopping {
    pub(super) fn new(engine: &Arc<Engine>, print: ErrorPrint, tell: &watch::Sender<Progress>) -> Self {
        locked(&engine.stops).0.insert(print, tell.clone());
        Self { engine: Arc::clone(engine), print }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        locked(&self.engine.stops).0.remove(&self.print);
    }
}

/// What an attempt made of an execution; parked, if it is to be tried again after an error that is being stopped.
pub(crate) fn stopped(engine: &Engine, now: Timestamp, after: Execution) -> Execution {
    let Phase::Pending(Due::At(_)) = after.phase else { return after };
    let stops = locked(&engine.stops);
    if stops.0.is_empty() || is_on("errors_stopped_when_they_wait") {
        return after;
    }
    let tell = after.error().and_then(|error| stops.0.get(&ErrorPrint::of(error)));
    // No policy has a say in parking.
    let parked = step(now, &after, Input::Park, &RetryPolicy::default(), Jitter::LEAST);
    let (Some(tell), Ok(parked)) = (tell, parked) else { return after };
    tell.send_modify(|it| {
        it.matched += 1;
        it.done += 1;
    });
    parked
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopping").field(&self.print).finish()
    }
}
