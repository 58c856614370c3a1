//! Calling functions while the sender waits: sync mode.
//!
//! 1. The event is accepted as claimed and delivered at once, and the sender is told what came of it. Where there is no place,
//!    nothing is kept, and the sender comes again.
//! 2. An event that comes again is judged by where its execution stands: completed and refused ones are replayed; one that
//!    waits for its next attempt is not started early; one whose attempts are over is started again, because the sender's own
//!    retry is what this mode is for. It is judged again if that changed meanwhile: somebody may be at it, or may only have
//!    noted that it came again.
//! 3. A failed attempt leaves its execution to the function's policy, as always: with retry on, the runtime goes on trying
//!    though the sender may have given up.
//!
//! A function that is called in order cannot be called while the sender waits: only the queue knows whose turn it is.

use super::{
    accept::{Entering, Existing, enter_called, is_within, note_repeat, place},
    attempt::Attempt,
    place::Place,
    receipt::{RETRY_AFTER, Refused},
    settle::{Settled, write_unless_ended},
    shared::{Engine, Stage, locked},
    table::lease,
    verdict::answered_status,
};
use crate::function::{
    Function,
    route::{Unroutable, route},
};
use http::{HeaderMap, StatusCode};
use semel_core::{
    execution::{Due, Execution, ExecutionId, Input, Phase, claimed, step},
    fingerprint::Fingerprint,
    queue::{Change, Fenced, Written},
    record::{Body, Holder, Reason},
    retry::Jitter,
    sabotage::is_on,
    time::Timestamp,
};
use semel_events::event::Event;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// What became of an event while its sender waited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Called {
    /// No function takes such events: nothing was kept.
    Unmatched,
    /// It has no key for one of the functions that take it: nothing was kept.
    Refused(Unroutable),
    /// What each function made of it.
    Answered(Vec<Answered>),
}

/// What one function made of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The function.
    pub function: Arc<str>,
    /// The execution that stands for the event there.
    pub id: ExecutionId,
    /// What became of it.
    pub outcome: CallOutcome,
}

/// What became of an execution that was called for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    /// It took effect, now or before.
    Completed {
        /// The result.
        body: Body,
        /// Whether it had been there before.
        is_replay: bool,
    },
    /// It failed for good, now or before.
    Failed {
        /// Why.
        reason: Reason,
        /// In the function's words.
        error: String,
        /// Whether it had before.
        is_replay: bool,
    },
    /// It did not take effect, and may later.
    Later {
        /// What went wrong, if it was tried.
        error: Option<String>,
        /// When to come again.
        after: Duration,
    },
    /// Somebody is at it.
    Running {
        /// When to come again: when its lease lapses, at the latest.
        after: Duration,
    },
    /// Another event had come before, under the same name and with another payload. This one is not run.
    Mismatch {
        /// Whether the function wants such events refused.
        is_strict: bool,
    },
    /// The function was called, and what came of it could not be written.
    Unconfirmed,
}

impl CallOutcome {
    /// The status that the function answered with when it did not take the event, if it answered by HTTP at all.
    pub fn answered(&self) -> Option<StatusCode> {
        match self {
            Self::Failed { error, .. } | Self::Later { error: Some(error), .. } => answered_status(error),
            Self::Completed { .. }
            | Self::Later { error: None, .. }
            | Self::Running { .. }
            | Self::Mismatch { .. }
            | Self::Unconfirmed => None,
        }
    }
}

/// What to do about an event that has come before.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Again {
    /// Say this.
    Say(CallOutcome),
    /// Write this, and run it.
    Run(Box<Execution>),
}

/// Decides by where the execution stands.
fn again(
    now: Timestamp,
    found: &Execution,
    event: &Arc<[u8]>,
    print: Fingerprint,
    function: &Function,
    holder: Holder,
) -> Again {
    if found.fingerprint != print {
        return Again::Say(CallOutcome::Mismatch { is_strict: function.strict_mismatch });
    }
    let run = |execution: &Execution| claimed(now, execution, holder, now + lease(function)).map(Box::new);
    match &found.phase {
        Phase::Completed(body) => Again::Say(CallOutcome::Completed { body: body.clone(), is_replay: true }),
        Phase::Failed { reason: Reason::Dropped | Reason::Exhausted | Reason::Window, .. } => {
            let redrive = Input::Redrive { event: Some(Arc::clone(event)) };
            let restarted = step(now, found, redrive, &function.policy, Jitter::LEAST);
            let running = restarted.ok().as_ref().and_then(run);
            running.map_or(Again::Say(later(None, RETRY_AFTER)), Again::Run)
        }
        Phase::Failed { reason, error } => {
            Again::Say(CallOutcome::Failed { reason: *reason, error: error.clone(), is_replay: true })
        }
        Phase::Pending(Due::Parked { .. }) => Again::Say(later(found.last_error.clone(), PARKED)),
        Phase::Pending(Due::At(at)) => {
            let waits = || Again::Say(later(found.last_error.clone(), at.since(now)));
            // One with an order waits for its turn, and only the queue knows when that is.
            run(found).filter(|_| found.order.is_none()).map_or_else(waits, Again::Run)
        }
        Phase::InProgress { lease_until, .. } => run(found)
            .map_or_else(|| Again::Say(CallOutcome::Running { after: lease_until.since(now) }), Again::Run),
    }
}

/// When to come again for something that an operator has parked.
const PARKED: Duration = Duration::from_mins(1);

const fn later(error: Option<String>, after: Duration) -> CallOutcome {
    CallOutcome::Later { error, after }
}

/// How often it is judged where an event stands that comes again, while others change that.
const TRIES_MAX: u32 = 3;

/// Calls the functions that take this event, and waits for what comes of it.
pub(crate) async fn call(
    engine: &Arc<Engine>,
    event: &Event,
    headers: &HeaderMap,
    only: Option<&[Arc<str>]>,
) -> Result<Called, Refused> {
    if engine.stage() != Stage::Running {
        return Err(Refused::Stopping);
    }
    if !engine.is_open() {
        return Err(Refused::Busy { retry_after: RETRY_AFTER });
    }
    let functions = engine.functions();
    let matching = functions.iter().filter(|it| it.takes(event) && is_within(only, it));
    let routed = match route(event, headers, matching) {
        Ok(routed) if routed.is_empty() => return Ok(Called::Unmatched),
        Ok(routed) => routed,
        Err(refused) => return Ok(Called::Refused(refused)),
    };
    let at = engine.moment();
    let mut placed = Vec::with_capacity(routed.len());
    for (function, arrival) in routed {
        if arrival.order.is_some() {
            return Err(Refused::InOrder { function: arrival.function });
        }
        let execution = Execution::accepted(at.now, arrival, at.now);
        // All places first: where one is missing, nothing is kept.
        let place = match known(engine, &function, &execution) {
            Some(outcome) => Err(outcome),
            None => Ok(place(engine, at, &execution).ok_or(Refused::Busy { retry_after: RETRY_AFTER })?),
        };
        placed.push((function, execution, place));
    }
    let begun: Vec<_> = placed.into_iter().map(|it| begin(engine, event, it)).collect();
    let mut answered = Vec::with_capacity(begun.len());
    for begun in begun {
        let (name, id) = (Arc::clone(begun.function.name.shared()), begun.id);
        let outcome = finish(engine, begun).await?;
        answered.push(Answered { function: name, id, outcome });
    }
    Ok(Called::Answered(answered))
}

struct Begun {
    function: Arc<Function>,
    id: ExecutionId,
    event: Arc<[u8]>,
    fingerprint: Fingerprint,
    how: How,
}

enum How {
    Known(CallOutcome),
    Entering(oneshot::Receiver<Entering>),
}

/// What can be said without asking the queue: it runs here.
fn known(engine: &Engine, function: &Function, execution: &Execution) -> Option<CallOutcome> {
    let known = locked(&engine.flying).get(&execution.id())?;
    Some(if known.fingerprint == execution.fingerprint {
        CallOutcome::Running { after: RETRY_AFTER }
    } else {
        CallOutcome::Mismatch { is_strict: function.strict_mismatch }
    })
}

type Placed = (Arc<Function>, Execution, Result<Place, CallOutcome>);

fn begin(engine: &Arc<Engine>, event: &Event, (function, execution, place): Placed) -> Begun {
    let (id, fingerprint) = (execution.id(), execution.fingerprint);
    let bytes = execution.event.clone().expect("it was just accepted");
    let how = match place {
        Err(outcome) => {
            // Here, and not where it was found: until all places are taken, the whole may yet be refused.
            note_repeat(engine, &execution, !matches!(outcome, CallOutcome::Mismatch { .. }));
            How::Known(outcome)
        }
        Ok(place) => {
            How::Entering(enter_called(engine, Arc::clone(&function), &execution, event.clone(), place))
        }
    };
    Begun { function, id, event: bytes, fingerprint, how }
}

async fn finish(engine: &Arc<Engine>, begun: Begun) -> Result<CallOutcome, Refused> {
    let entering = match begun.how {
        How::Known(outcome) => return Ok(outcome),
        How::Entering(entering) => entering.await.map_err(|_| Refused::Stopping)?,
    };
    match entering {
        Entering::Started(_) if is_on("sync_answers_before_the_end") => {
            let body = Body::Kept { bytes: Vec::new(), until: engine.clock.now() };
            Ok(CallOutcome::Completed { body, is_replay: false })
        }
        Entering::Started(settled) => Ok(told(settled.await)),
        Entering::Lost(cause) => Err(Refused::Unavailable { retry_after: RETRY_AFTER, cause }),
        Entering::Duplicate(existing) => {
            let Begun { function, event, fingerprint, .. } = begun;
            judge(engine, function, &event, fingerprint, *existing).await
        }
    }
}

/// Says or does what is to be done about an event that has come before, by where it stands when that is written.
async fn judge(
    engine: &Arc<Engine>,
    function: Arc<Function>,
    bytes: &Arc<[u8]>,
    print: Fingerprint,
    existing: Existing,
) -> Result<CallOutcome, Refused> {
    let Existing { mut found, place, event } = existing;
    let unavailable = |cause| Refused::Unavailable { retry_after: RETRY_AFTER, cause };
    for _ in 0..TRIES_MAX {
        let (now, holder) = (engine.clock.now(), engine.chance.holder());
        let after = match again(now, &found.value, bytes, print, &function, holder) {
            Again::Say(outcome) => return Ok(outcome),
            Again::Run(after) => *after,
        };
        let began = engine.clock.monotonic();
        let id = after.id();
        let change = Change { expected: found.fence, after, causes: Vec::new() };
        let (change, written) = write_unless_ended(engine, change).await.map_err(|_| Refused::Stopping)?;
        let fence = match written {
            Ok(Written::Won(fence)) => Some(fence),
            Ok(Written::Lost) if is_on("sync_runs_what_it_lost") => Some(change.expected),
            Ok(Written::Lost) => None,
            Err(cause) => return Err(unavailable(cause)),
        };
        if let Some(fence) = fence {
            let held = Fenced { fence, value: change.after };
            return Ok(run(engine, function, held, place, event, began).await);
        }
        if is_on("sync_lost_is_running") {
            return Ok(CallOutcome::Running { after: RETRY_AFTER });
        }
        let read = engine.queue.get(&[id]).await.map_err(|error| unavailable(Arc::new(error)))?;
        let Some(other) = read.into_iter().next().flatten() else { break };
        found = other;
    }
    // It is gone, or is written all the time: the sender comes again, and is judged again.
    Ok(later(None, RETRY_AFTER))
}

/// Runs what was claimed again.
async fn run(
    engine: &Arc<Engine>,
    function: Arc<Function>,
    held: Fenced<Execution>,
    place: Place,
    event: Event,
    began: Duration,
) -> CallOutcome {
    let (report, settled) = oneshot::channel();
    let attempt_of = Attempt {
        engine: Arc::clone(engine),
        function,
        place,
        held,
        event: Some(event),
        began,
        report: Some(report),
    };
    engine.attempts.give(Box::new(attempt_of));
    told(settled.await)
}

fn told(settled: Result<Settled, oneshot::error::RecvError>) -> CallOutcome {
    let Ok(Settled::Written(stored)) = settled else { return CallOutcome::Unconfirmed };
    let Fenced { value, .. } = *stored;
    let updated_at = value.updated_at;
    match value.phase {
        Phase::Completed(body) => CallOutcome::Completed { body, is_replay: false },
        Phase::Failed { reason, error } => CallOutcome::Failed { reason, error, is_replay: false },
        Phase::Pending(Due::At(at)) => later(value.last_error, at.since(updated_at)),
        Phase::Pending(Due::Parked { .. }) => later(value.last_error, PARKED),
        Phase::InProgress { lease_until, .. } => {
            CallOutcome::Running { after: lease_until.since(updated_at) }
        }
    }
}
