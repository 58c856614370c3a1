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
//! 5. What waits to be written is bounded: beyond that the sender is told to come again, before anything is kept.

use super::{
    attempt::{Attempt, attempt},
    engine::{Engine, Stage, locked},
    gate::share::Kind,
    gather::BATCH_BYTES_MAX,
    place::Place,
    receipt::{Entry, RETRY_AFTER, Receipt, Refused, Taken},
    settle::Settled,
    table::{Moment, lease},
};
use crate::function::{Function, route::route};
use semel_core::{
    execution::{Arrival, Execution, claimed},
    queue::{Accepted, BATCH_MAX, Fenced, Queue},
    record::Status,
    sabotage::is_on,
    store::StoreError,
    time::Clock,
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
    report: Option<oneshot::Sender<Settled>>,
}

/// Takes these events in.
pub(crate) async fn accept(engine: &Arc<Engine>, events: &[Event]) -> Result<Vec<Receipt>, Refused> {
    if engine.stage() != Stage::Running {
        return Err(Refused::Stopping);
    }
    if engine.accepts.waiting_bytes() > engine.bytes_max {
        return Err(Refused::Busy { retry_after: RETRY_AFTER });
    }
    let functions = engine.functions();
    let at = engine.moment();
    let mut receipts = Vec::with_capacity(events.len());
    let mut batches = Batches::default();
    for (index, event) in events.iter().enumerate() {
        let matching = functions.iter().filter(|it| it.takes(event));
        receipts.push(match route(event, matching) {
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
    let place = place(engine, at, &execution, bytes);
    let start = place.map(|place| (place, event.clone()));
    let execution = if start.is_some() {
        let until = at.now + lease(&function);
        claimed(at.now, &execution, engine.chance.holder(), until).expect("it is due at once")
    } else {
        execution
    };
    batches.push(execution, bytes, Coming { function, slot, start, report: None });
    // What it is, is known when the queue has answered.
    Taken { function: name, id, entry: Entry::New }
}

fn place(engine: &Arc<Engine>, at: Moment, execution: &Execution, bytes: usize) -> Option<Place> {
    let name = &execution.function;
    let is_admitted = engine.table().admit(at, name, bytes, execution.order.is_some());
    is_admitted.then(|| Place::of_taken(Arc::clone(engine), Arc::clone(name), Kind::Fresh, bytes))
}

fn note_repeat(engine: &Engine, execution: &Execution, is_same: bool) {
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
    let kept = executions.clone();
    let engine_then = Arc::clone(engine);
    let done = move |answers: Result<Vec<Accepted>, Arc<StoreError>>| {
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                let _gone = tell.send(Err(error));
                return;
            }
        };
        let written = kept.into_iter().zip(comings).zip(answers);
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
    let Coming { function, start, report, .. } = coming;
    let fence = match answer {
        Accepted::New(fence) => fence,
        Accepted::Duplicate(found) => {
            let is_same = found.value.fingerprint == execution.fingerprint;
            note_repeat(engine, &execution, is_same);
            return Entry::again(&found.value, is_same, function.strict_mismatch);
        }
    };
    engine.table().count(&execution.function, |totals| {
        totals.accepted += 1;
        totals.accepted_claimed += u64::from(start.is_some());
    });
    if let Some((place, event)) = start {
        let held = Fenced { fence, value: execution };
        let engine_of = Arc::clone(engine);
        engine.tasks.spawn(attempt(Attempt {
            engine: engine_of,
            function,
            place,
            held,
            event: Some(event),
            began: at.monotonic,
            report,
        }));
    } else if let Some(due_at) = execution.due_at()
        && engine.table().note(&execution.function, due_at)
    {
        engine.wake.notify_one();
    }
    Entry::New
}

/// Asks the queue to accept, again if it cannot tell, and recognises what it had accepted before.
pub(crate) async fn accept_in(
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    executions: Vec<Execution>,
) -> Result<Vec<Accepted>, StoreError> {
    let mut tries = 1;
    loop {
        match queue.accept(&executions).await {
            Ok(answers) if tries == 1 || is_on("own_accept_not_recognised") => return Ok(answers),
            Ok(answers) => return Ok(executions.iter().zip(answers).map(own_is_new).collect()),
            Err(error) if tries == TRIES_MAX || !error.is_transient() => return Err(error),
            Err(error) => tracing::warn!(%error, tries, "events could not be stored"),
        }
        clock.sleep(PAUSE * tries).await;
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
