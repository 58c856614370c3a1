//! The loop that claims what is due.
//!
//! 1. It asks for what there are places for, of all functions in one call, and starts what it gets.
//! 2. It sleeps until something is due, a place is free, or it is woken; every second it looks for what other nodes left,
//!    and sooner if they say so.
//! 3. If the queue cannot tell what it handed out, it is asked what stands under the demand's holder, until it can: what
//!    was handed out is run, or handed back where there is no more place.
//! 4. What belongs to a function that is no more is handed back.

use super::{
    attempt::Attempt,
    gate::{asking::POLL, share::Kind},
    place::Place,
    settle::{PAUSE_MAX, PAUSE_MIN, write_once},
    shared::{Engine, Stage},
    table::{Demanded, Moment},
};
use semel_core::{
    execution::{Execution, Input, step},
    queue::{Change, Demand, Fenced, Filter, PAGE_MAX, Want},
    record::Holder,
    retry::RetryPolicy,
    sabotage::is_on,
    store::StoreError,
};
use std::{sync::Arc, time::Duration};

/// How long it takes until what was handed back for want of a function or a place is due again.
const HAND_BACK: Duration = Duration::from_secs(1);

/// Claims what is due, until the runtime stops.
pub(crate) async fn claim_due(engine: Arc<Engine>) {
    while engine.stage() == Stage::Running {
        let at = engine.moment();
        // Who does not know what is paused is woken when it does.
        let demanded = if engine.is_informed() { engine.table().demand(at) } else { Demanded::Wait(POLL) };
        match demanded {
            Demanded::Wants(wants) => claim(&engine, at, wants).await,
            Demanded::Wait(wait) => tokio::select! {
                biased;
                () = engine.wake.notified() => {}
                () = engine.queue.hint() => engine.table().hinted(engine.clock.now()),
                () = engine.clock.sleep(wait) => {}
                () = engine.raised(Stage::Keeping) => {}
            },
        }
    }
}

async fn claim(engine: &Arc<Engine>, at: Moment, wants: Vec<Want>) {
    let demand = Demand { holder: engine.chance.holder(), wants };
    match engine.queue.claim(&demand).await {
        Ok(given) => start(engine, at, &demand.wants, given),
        Err(error) => {
            tracing::warn!(%error, "due executions could not be claimed");
            engine.table().unclaimed(engine.moment(), &demand.wants);
            engine.place_given_back.notify_waiters();
            if !is_on("lost_claim_forgotten") {
                recover(engine, at, demand.holder).await;
            }
        }
    }
}

/// Starts what was handed out; the places for it are taken.
fn start(engine: &Arc<Engine>, at: Moment, wants: &[Want], given: Vec<Fenced<Execution>>) {
    let now = engine.moment();
    let mut table = engine.table();
    for want in wants {
        let count = given.iter().filter(|it| it.value.function == want.function).count();
        table.claimed(now, want, u32::try_from(count).unwrap_or(u32::MAX));
    }
    drop(table);
    engine.place_given_back.notify_waiters();
    for held in given {
        run(engine, at, held);
    }
}

/// Runs an execution that a place was taken for.
fn run(engine: &Arc<Engine>, at: Moment, held: Fenced<Execution>) {
    let bytes = held.value.event.as_ref().map_or(0, |it| it.len());
    let mut table = engine.table();
    table.load(bytes);
    let function = table.function(&held.value.function);
    drop(table);
    let place = Place::of_taken(Arc::clone(engine), Arc::clone(&held.value.function), Kind::Backlog, bytes);
    let Some(function) = function else { return };
    engine.attempts.give(Box::new(Attempt {
        engine: Arc::clone(engine),
        function,
        place,
        held,
        event: None,
        began: at.monotonic,
        report: None,
    }));
}

/// Finds what was handed out under this holder, when nobody could tell.
async fn recover(engine: &Arc<Engine>, at: Moment, holder: Holder) {
    let mut pause = PAUSE_MIN;
    while engine.stage() == Stage::Running {
        engine.clock.sleep(pause).await;
        match handed_out(engine, holder).await {
            Ok(found) => {
                for held in found {
                    adopt(engine, at, held);
                }
                return;
            }
            Err(error) => tracing::warn!(%error, "what was claimed could not be found"),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn handed_out(engine: &Engine, holder: Holder) -> Result<Vec<Fenced<Execution>>, StoreError> {
    let filter = Filter { holder: Some(holder), ..Filter::default() };
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = engine.queue.list(&filter, from.as_ref(), PAGE_MAX).await?;
        found.extend(page.items);
        from = page.next;
        if from.is_none() {
            return Ok(found);
        }
    }
}

fn adopt(engine: &Arc<Engine>, at: Moment, held: Fenced<Execution>) {
    let has_place = engine.table().adopt(engine.moment(), &held.value.function);
    if has_place {
        run(engine, at, held);
    } else {
        let engine_of = Arc::clone(engine);
        engine.tasks.spawn(async move { hand_back(&engine_of, held).await });
    }
}

/// Gives back what was claimed and cannot be run here. If that cannot be written, its lease lapses.
async fn hand_back(engine: &Engine, held: Fenced<Execution>) {
    let input = Input::HandBack { delay: HAND_BACK };
    // The policy has no say in handing back.
    let after = step(engine.clock.now(), &held.value, input, &RetryPolicy::default(), engine.chance.jitter());
    if let Ok(after) = after {
        let change = Change { expected: held.fence, after, causes: Vec::new() };
        let _left_to_lapse = write_once(engine, change).await;
    }
}
