//! One attempt, from its claim to its end.
//!
//! 1. What was claimed may still not be tried: its attempts are used up, or it waited too long. Then it lapses. Or nobody knows
//!    what the attempt before did, and the function wants that reported.
//! 2. Nothing is started late: a node that was frozen after the claim hands back what it holds. So it does if the function was
//!    paused meanwhile, or nobody knows whether it was, or its target is down, or as many calls as it may have take too long.
//! 3. One attempt is one call. It counts, whatever comes of it: the claim has counted it already. Its turn is another's before
//!    what became of it is written.
//! 4. A panic is a failed attempt, and nobody else's.
//! 5. An attempt that is interrupted, because the runtime stops, failed: it is not made again before its lease would
//!    have lapsed, because the function may still be at work. If nothing of its request has left, it was none: it is called
//!    off and handed back. So it is if this machine has run out of what it takes to send one.
//!
//! It does not decide when to try again: see [`semel_core::retry`].

use super::{
    caught::caught,
    flying::Known,
    place::Place,
    settle::{MARGIN, Settled, settle},
    shared::{Engine, Stage, locked},
    table::{LEASE_SLACK, Moment, lease},
    verdict::{Ended, Heard, doubted, ended, exhausted, interrupted},
};
use crate::{
    control::pause_by_runtime,
    deliver::{Answer, Delivery, Departure, Stage as Awaited},
    function::{Aim, Function, dispatch},
};
use bytes::Bytes;
use semel_core::{
    execution::{Execution, Input},
    queue::Fenced,
    retry::START_MARGIN,
    sabotage::is_on,
    time::Timestamp,
};
use semel_events::event::Event;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// How long after its claim an attempt may still be started.
pub(crate) const START_MAX: Duration = Duration::from_secs(5);
/// How much longer than its timeout a call is waited for: whoever delivers keeps the time, and this is for one that
/// does not.
const GRACE: Duration = Duration::from_secs(1);

const _: () = assert!(START_MAX.as_secs() < START_MARGIN.as_secs(), "what was cut short begins in time");
const _: () = assert!(START_MAX.as_secs() + GRACE.as_secs() + MARGIN.as_secs() < LEASE_SLACK.as_secs());

/// An execution that was claimed, with a place to run it.
pub(crate) struct Attempt {
    pub(crate) engine: Arc<Engine>,
    pub(crate) function: Arc<Function>,
    pub(crate) place: Place,
    pub(crate) held: Fenced<Execution>,
    /// The event, if it need not be read.
    pub(crate) event: Option<Event>,
    /// When the claim was asked for, by the monotonic clock: its lease is at least as young.
    pub(crate) began: Duration,
    /// Who waits for its end.
    pub(crate) report: Option<oneshot::Sender<Settled>>,
}

/// How an attempt begins.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Opening {
    /// Not at all.
    Not(Input),
    /// With this deadline.
    Call(Timestamp),
}

fn opening(at: Moment, held: &Execution, function: &Function, began: Duration, may_start: bool) -> Opening {
    let policy = &function.policy;
    if let Some(input) = doubted(held, function.on_lost) {
        return Opening::Not(input);
    }
    if held.refusal(at.now, policy).is_some() && !is_on("refusal_ignored") {
        return Opening::Not(Input::Lapse);
    }
    let is_late = at.monotonic.saturating_sub(began) > START_MAX && !is_on("started_late");
    if is_late || !may_start {
        return Opening::Not(Input::HandBack { delay: Duration::ZERO });
    }
    Opening::Call(at.now + policy.timeout())
}

/// Makes the attempt, and writes down what became of it. It stays where it is: it is large, and a future would move it from
/// step to step.
pub(crate) async fn attempt(mut attempt: Box<Attempt>) {
    let Attempt { engine, function, place, held, event, began, report } = &mut *attempt;
    let (engine, function, held, began) = (&*engine, &*function, &*held, *began);
    let flying = InFlight::new(engine, &held.value);
    let may_start =
        place.turn(began + START_MAX).await && engine.stage() != Stage::Interrupting && engine.is_informed();
    let opening = opening(engine.moment(), &held.value, function, began, may_start);
    let input = match opening {
        Opening::Not(input) => input,
        Opening::Call(deadline) => {
            place.calls();
            engine.table().count(function.name.as_str(), |totals| totals.attempts += 1);
            let ended = call(engine, function, held, event, deadline).await;
            place.called(Some(&function.aim), ended.health);
            if ended.stops {
                stop(engine, function, &ended.input);
            }
            ended.input
        }
    };
    let until = (began + lease(function)).saturating_sub(MARGIN);
    let settled = settle(engine, function, held, input, until).await;
    drop(flying);
    if let Some(report) = report.take() {
        let _gone = report.send(settled);
    }
}

/// The function wants no more events: it is paused.
fn stop(engine: &Arc<Engine>, function: &Arc<Function>, said: &Input) {
    let why = if let Input::Reject { error } = said { error.clone() } else { String::new() };
    let (engine_of, function) = (Arc::clone(engine), Arc::clone(function));
    engine.tasks.spawn(async move { pause_by_runtime(&engine_of, function.name.as_str(), &why).await });
}

/// Calls the function, for as long as it may take, unless the runtime stops.
async fn call(
    engine: &Engine,
    function: &Function,
    held: &Fenced<Execution>,
    event: &mut Option<Event>,
    deadline: Timestamp,
) -> Ended {
    if event.is_none() {
        match read(&held.value) {
            Ok(read) => *event = Some(read),
            Err(error) => return Ended::unheard(Input::Reject { error }),
        }
    }
    let timeout = function.policy.timeout();
    let departure = Departure::default();
    let heard = tokio::select! {
        biased;
        heard = caught(ask(engine, function, held, event, deadline, &departure)) => heard,
        () = engine.clock.sleep(timeout + GRACE) => Ok(Heard::Answer(Answer::TimedOut(Awaited::Head))),
        () = engine.raised(Stage::Interrupting) => {
            if departure.call_off() && !is_on("unsent_counts_as_an_attempt") {
                return Ended::unheard(Input::HandBack { delay: Duration::ZERO });
            }
            return Ended::unheard(interrupted(function.on_lost));
        }
    };
    match heard {
        Ok(heard) => {
            if let Some(cause) = exhausted(&heard) {
                engine.tell_exhausted(cause);
            }
            ended(heard, function, engine.clock.now())
        }
        Err(panic) => {
            let error = format!("the attempt panicked: {panic}");
            Ended::unheard(Input::Fail { error, retry_after: None })
        }
    }
}

async fn ask(
    engine: &Engine,
    function: &Function,
    held: &Fenced<Execution>,
    event: &mut Option<Event>,
    deadline: Timestamp,
    departure: &Departure,
) -> Heard {
    const READ: &str = "it was read";
    let attempted = dispatch::attempted(held, deadline);
    let timeout = function.policy.timeout();
    match &function.aim {
        Aim::Url(target) => {
            let read = event.as_ref().expect(READ);
            let delivery = dispatch::delivery(function, target, read, &attempted, engine.clock.wall());
            *event = None;
            let delivering = engine.deliver.deliver(Delivery { departure: departure.clone(), ..delivery });
            Heard::Answer(delivering.await)
        }
        Aim::Here(handle) => tokio::select! {
            biased;
            result = handle.handle(event.take().expect(READ), attempted) => Heard::Result(result),
            () = engine.clock.sleep(timeout) => Heard::Answer(Answer::TimedOut(Awaited::Head)),
        },
    }
}

/// The event as it was stored, without a copy.
fn read(execution: &Execution) -> Result<Event, String> {
    let bytes = execution.event.clone().ok_or_else(|| "the event was not kept".to_owned())?;
    Event::decode(&Bytes::from_owner(bytes))
        .map_err(|error| format!("the stored event cannot be read: {error}"))
}

/// An execution is known to run here until this is dropped.
struct InFlight<'a> {
    engine: &'a Engine,
    execution: &'a Execution,
}

impl<'a> InFlight<'a> {
    fn new(engine: &'a Engine, execution: &'a Execution) -> Self {
        let known = Known { fingerprint: execution.fingerprint, accepted_at: execution.accepted_at };
        locked(&engine.flying).insert(execution.id(), known);
        Self { engine, execution }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        locked(&self.engine.flying).remove(&self.execution.id());
    }
}
