//! Taking events in.
//!
//! 1. An event becomes an execution for each function that takes it. One that runs here is a duplicate without asking
//!    the queue.
//! 2. Where there is a place, the execution is written as claimed by this node, and is delivered from memory when the
//!    write is durable. Else it is written as pending, and its bytes are let go of.
//! 3. What is told is durable. If the queue cannot tell what happened, it is asked again; one's own is recognised by its
//!    holder. If it still cannot, the sender is told to come again, and will find a duplicate if the write had taken
//!    effect after all.
//! 4. What was begun is finished, also if the caller has gone.
//! 5. What waits to be written is bounded, in bytes and, where the queue is slow, in number: beyond that the sender is told
//!    to come again, before anything is kept.

use super::{
    attempt::Attempt,
    gate::share::Kind,
    gather::BATCH_BYTES_MAX,
    place::Place,
    receipt::{Entry, RETRY_AFTER, Receipt, Refused, Taken},
    settle::Settled,
    shared::{Engine, Stage, locked},
    table::{Moment, lease},
};
use crate::function::{Function, route::route};
use http::HeaderMap;
use semel_core::{
    execution::{Arrival, Execution, claimed},
    queue::{Accepted, BATCH_MAX, Fenced, Queue},
    record::Status,
    sabotage::is_on,
    store::StoreError,
};
use semel_events::event::Event;
use std::{mem, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// How often the queue is asked before the sender is told to come again.
pub(crate) const TRIES_MAX: u32 = 3;
/// How long after the first try the second comes; the third after twice that.
const PAUSE: Duration = Duration::from_millis(50);

/// An execution on its way into the queue.
struct Coming {
    function: Arc<Function>,
    /// Which of the receipts, and which part of it.
    slot: (usize, usize),
    /// The place that was taken for it, if it is written as claimed, and the event.
    start: Option<(Place, Event)>,
    /// Who waits for what becomes of it.
    called: Option<oneshot::Sender<Entering>>,
}

/// An execution that is there already, with what a new one would have had.
pub(crate) struct Existing {
    pub(crate) found: Fenced<Execution>,
    pub(crate) place: Place,
    pub(crate) event: Event,
}

/// What becomes of an execution that somebody waits for.
pub(crate) enum Entering {
    /// It runs; its end will be told.
    Started(oneshot::Receiver<Settled>),
    /// It is there already. The place that was taken for it is handed over.
    Duplicate(Box<Existing>),
    /// The queue could not tell.
    Lost(Arc<StoreError>),
}

/// Takes these events in.
pub(crate) async fn accept(
    engine: &Arc<Engine>,
    events: &[Event],
    headers: &HeaderMap,
    only: Option<&[Arc<str>]>,
) -> Result<Vec<Receipt>, Refused> {
    if engine.stage() >= Stage::Stopping {
        return Err(Refused::Stopping);
    }
    if !engine.is_open() {
        return Err(Refused::Busy { retry_after: RETRY_AFTER });
    }
    let functions = engine.functions();
    let at = engine.moment();
    let mut receipts = Vec::with_capacity(events.len());
    let mut batches = Batches::default();
    for (index, event) in events.iter().enumerate() {
        let matching = functions.iter().filter(|it| it.takes(event) && is_within(only, it));
        receipts.push(match route(event, headers, matching) {
            Err(refused) => Receipt::Refused(refused),
            Ok(routed) if routed.is_empty() => Receipt::Unmatched,
            Ok(routed) => {
                let arrivals = routed.into_iter().enumerate();
                let taken = arrivals.map(|(part, (function, arrival))| {
                    enter(engine, at, event, function, arrival, (index, part), &mut batches)
                });
                Receipt::Taken(taken.collect())
            }
        });
    }
    write(engine, at, batches, receipts).await
}

/// Whether a function is one of those that may be reached.
pub(crate) fn is_within(only: Option<&[Arc<str>]>, function: &Function) -> bool {
    only.is_none_or(|it| it.contains(function.name.shared()) || is_on("reaches_every_function"))
}

/// What becomes of an arrival before the queue is asked: a duplicate of what runs here, or one more to be written.
fn enter(
    engine: &Arc<Engine>,
    at: Moment,
    event: &Event,
    function: Arc<Function>,
    arrival: Arrival,
    slot: (usize, usize),
    batches: &mut Batches,
) -> Taken {
    let execution = Execution::accepted(at.now, arrival, at.now);
    let (name, id) = (Arc::clone(&execution.function), execution.id());
    let flying = locked(&engine.flying).get(&id);
    if let Some(known) = flying {
        let is_same = known.fingerprint == execution.fingerprint;
        note_repeat(engine, &execution, is_same);
        let entry = Entry::known(Status::InProgress, known.accepted_at, is_same, function.strict_mismatch);
        return Taken { function: name, id, entry };
    }
    let bytes = execution.event.as_ref().map_or(0, |it| it.len());
    let start = place(engine, at, &execution).map(|place| (place, event.clone()));
    let execution = if start.is_some() { leased(engine, at, &execution, &function) } else { execution };
    batches.push(execution, bytes, Coming { function, slot, start, called: None });
    // What it is, is known when the queue has answered.
    Taken { function: name, id, entry: Entry::New }
}

/// The execution as claimed by this node.
fn leased(engine: &Engine, at: Moment, execution: &Execution, function: &Function) -> Execution {
    let until = at.now + lease(function);
    let leased = claimed(at.now, execution, engine.chance.holder(), until).expect("it is due at once");
    if is_on("attempt_counted_after") { Execution { attempts: 0, ..leased } } else { leased }
}

/// A place for a fresh execution, if there is one. Where nothing more is started there is none.
pub(crate) fn place(engine: &Arc<Engine>, at: Moment, execution: &Execution) -> Option<Place> {
    let (name, bytes) = (&execution.function, execution.event.as_ref().map_or(0, |it| it.len()));
    let may_start = engine.stage() == Stage::Running || is_on("stopping_starts_calls");
    if !may_start || !engine.is_informed() {
        return None;
    }
    let mut table = engine.table();
    let is_admitted = table.admit(at, name, bytes, execution.order.is_some());
    let should_look = is_admitted && table.awaits_token(name);
    drop(table);
    if should_look {
        engine.wake.notify_one();
    }
    is_admitted.then(|| Place::of_taken(Arc::clone(engine), Arc::clone(name), Kind::Fresh, bytes))
}

/// Writes an execution that somebody waits for, in a place that was taken for it.
pub(crate) fn enter_called(
    engine: &Arc<Engine>,
    function: Arc<Function>,
    execution: &Execution,
    event: Event,
    place: Place,
) -> oneshot::Receiver<Entering> {
    let (called, entering) = oneshot::channel();
    let at = engine.moment();
    let bytes = execution.event.as_ref().map_or(0, |it| it.len());
    let execution = leased(engine, at, execution, &function);
    let mut batches = Batches::default();
    let coming = Coming { function, slot: (0, 0), start: Some((place, event)), called: Some(called) };
    batches.push(execution, bytes, coming);
    let _told_otherwise = submit(engine, at, batches.last);
    entering
}

/// One more of what had come before.
pub(crate) fn note_repeat(engine: &Engine, execution: &Execution, is_same: bool) {
    engine.table().count(&execution.function, |totals| {
        totals.duplicates += 1;
        totals.mismatches += u64::from(!is_same);
    });
    locked(&engine.repeated).note(engine.clock.now(), execution.id(), is_same);
}

/// What goes into the queue together.
#[derive(Default)]
struct Batches {
    full: Vec<Batch>,
    last: Batch,
}

#[derive(Default)]
struct Batch {
    executions: Vec<Execution>,
    comings: Vec<Coming>,
    bytes: usize,
}

impl Batches {
    fn push(&mut self, execution: Execution, bytes: usize, coming: Coming) {
        let last = &mut self.last;
        let fits = last.executions.len() < BATCH_MAX && last.bytes + bytes <= BATCH_BYTES_MAX;
        if !fits && !last.executions.is_empty() {
            self.full.push(mem::take(last));
        }
        if self.last.executions.is_empty() {
            // Most come alone, and they are large.
            self.last.executions.reserve_exact(1);
            self.last.comings.reserve_exact(1);
        }
        self.last.executions.push(execution);
        self.last.comings.push(coming);
        self.last.bytes += bytes;
    }

    fn all(self) -> impl Iterator<Item = Batch> {
        self.full.into_iter().chain([self.last]).filter(|it| !it.executions.is_empty())
    }
}

/// Writes them all, starts what can start, and completes the receipts.
async fn write(
    engine: &Arc<Engine>,
    at: Moment,
    batches: Batches,
    mut receipts: Vec<Receipt>,
) -> Result<Vec<Receipt>, Refused> {
    let waiting: Vec<_> = batches.all().map(|batch| submit(engine, at, batch)).collect();
    if is_on("acknowledged_before_durable") {
        return Ok(receipts);
    }
    for told in waiting {
        // The flight tells everybody, unless the runtime itself is gone.
        let entries = told
            .await
            .map_err(|_| Refused::Stopping)?
            .map_err(|cause| Refused::Unavailable { retry_after: RETRY_AFTER, cause })?;
        for ((index, part), entry) in entries {
            if let Receipt::Taken(taken) = &mut receipts[index] {
                taken[part].entry = entry;
            }
        }
    }
    Ok(receipts)
}

type Entries = Vec<((usize, usize), Entry)>;

fn submit(
    engine: &Arc<Engine>,
    at: Moment,
    batch: Batch,
) -> oneshot::Receiver<Result<Entries, Arc<StoreError>>> {
    let (tell, told) = oneshot::channel();
    let Batch { executions, comings, bytes } = batch;
    engine.admission().enter(executions.len());
    let engine_then = Arc::clone(engine);
    let done = move |executions: Vec<Execution>, answers: Result<Vec<Accepted>, Arc<StoreError>>| {
        engine_then.admission().leave(executions.len(), at.monotonic, engine_then.clock.monotonic());
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                for called in comings.into_iter().filter_map(|it| it.called) {
                    let _gone = called.send(Entering::Lost(Arc::clone(&error)));
                }
                let _gone = tell.send(Err(error));
                return;
            }
        };
        let written = executions.into_iter().zip(comings).zip(answers);
        let entries = written.map(|((execution, coming), answer)| {
            let slot = coming.slot;
            (slot, entered(&engine_then, at, execution, coming, answer))
        });
        let _gone = tell.send(Ok(entries.collect()));
    };
    engine.accepts.submit(executions, bytes, Box::new(done));
    told
}

/// What an execution is, now that the queue has answered; it is started if it was written as claimed.
fn entered(
    engine: &Arc<Engine>,
    at: Moment,
    execution: Execution,
    coming: Coming,
    answer: Accepted,
) -> Entry {
    let Coming { function, start, called, .. } = coming;
    let fence = match answer {
        Accepted::New(fence) => fence,
        Accepted::Duplicate(found) => {
            let is_same = found.value.fingerprint == execution.fingerprint;
            note_repeat(engine, &execution, is_same);
            let entry = Entry::again(&found.value, is_same, function.strict_mismatch);
            if let (Some(called), Some((place, event))) = (called, start) {
                let _gone =
                    called.send(Entering::Duplicate(Box::new(Existing { found: *found, place, event })));
            }
            return entry;
        }
    };
    engine.table().count(&execution.function, |totals| {
        totals.accepted += 1;
        totals.accepted_claimed += u64::from(start.is_some());
    });
    match start {
        Some((place, event)) => {
            let report = called.map(|called| {
                let (report, settled) = oneshot::channel();
                let _gone = called.send(Entering::Started(settled));
                report
            });
            let held = Fenced { fence, value: execution };
            let (began, event, engine_of) = (at.monotonic, Some(event), Arc::clone(engine));
            let begun = Attempt { engine: engine_of, function, place, held, event, began, report };
            engine.attempts.give(Box::new(begun));
        }
        None => note_due(engine, &execution),
    }
    Entry::New
}

fn note_due(engine: &Engine, execution: &Execution) {
    let should_look = execution.due_at().is_some_and(|at| engine.table().note(&execution.function, at));
    if should_look {
        engine.wake.notify_one();
    }
}

/// Asks the queue to accept, again if it cannot tell, and recognises what it had accepted before.
pub(crate) async fn accept_in(
    queue: &dyn Queue,
    executions: &[Execution],
) -> Result<Vec<Accepted>, StoreError> {
    let mut tries = 1;
    loop {
        match queue.accept(executions).await {
            Ok(answers) if tries == 1 || is_on("own_accept_not_recognised") => return Ok(answers),
            Ok(answers) => return Ok(executions.iter().zip(answers).map(own_is_new).collect()),
            Err(error) if tries == TRIES_MAX || !error.is_transient() => return Err(error),
            Err(error) => tracing::warn!(%error, tries, "events could not be stored"),
        }
        queue.clock().sleep(PAUSE * tries).await;
        tries += 1;
    }
}

/// A duplicate of what was sent just before is no duplicate: its answer was lost.
fn own_is_new((sent, answer): (&Execution, Accepted)) -> Accepted {
    match answer {
        Accepted::Duplicate(found) if is_own(sent, &found.value) => Accepted::New(found.fence),
        Accepted::Duplicate(_) | Accepted::New(_) => answer,
    }
}

fn is_own(sent: &Execution, found: &Execution) -> bool {
    match sent.phase.holder() {
        Some(holder) => found.phase.holder() == Some(holder),
        None => sent == found,
    }
}
