//! Senders in sync mode: they wait for what the function says, and send again on everything else, and where its answer was lost.
//!
//! 1. Told that it took effect, it has, and that is written.
//! 2. Told that it took effect, it is told the same when it comes again.
//! 3. Whatever it is told of an execution, the execution is there, and ends.
//!
//! All that is so until the execution has expired: then its event is new.

use super::{run::NODES, world::Shared};
use crate::sim::node::Node;
use http::HeaderMap;
use semel_core::{
    queue::Queue,
    record::{Reason, Status},
    time::Clock,
};
use semel_events::event::Event;
use semel_runtime::{Answered, CallOutcome, Called, Refused};
use std::{sync::Arc, time::Duration};

/// How often a sender sends before it gives up.
const TRIES: u32 = 50;
/// Longest that it waits in between, whatever it is told.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What a sender does next.
enum Next {
    /// It is content, or was told not to come again.
    Rest,
    /// It sends again, after this.
    Again(Duration),
}

/// Sends an event until its function took it or refused it.
pub(super) async fn send(shared: Arc<Shared>, nodes: Arc<Vec<Node>>, event: Event) {
    let mut was_done = None;
    for tries in 0..TRIES {
        let number = shared.chance(|it| it.usize(0..NODES));
        let runtime = nodes[number].runtime.lock().unwrap().clone();
        let next = match runtime {
            None => Next::Again(Duration::from_millis(500)),
            Some(runtime) => {
                shared.injected(|it| {
                    it.sync_calls += 1;
                    it.sync_retries += u64::from(tries > 0);
                });
                let called = runtime.call(&event, &HeaderMap::new()).await;
                heard(&shared, called, &mut was_done).await
            }
        };
        match next {
            Next::Rest => return,
            Next::Again(wait) => shared.clock.sleep(wait.min(WAIT_MAX)).await,
        }
    }
}

/// What a sender makes of an answer.
async fn heard(shared: &Shared, called: Result<Called, Refused>, was_done: &mut Option<u32>) -> Next {
    let answered = match called {
        Ok(Called::Answered(answered)) => answered,
        Ok(other @ (Called::Unmatched | Called::Refused(_))) => panic!("{other:?}"),
        Err(_) => return Next::Again(Duration::from_millis(500)),
    };
    let [Answered { id, outcome, .. }] = &answered[..] else { panic!("{answered:?}") };
    let stored = shared.queue.get(&[*id]).await.unwrap().pop().flatten();
    let status = stored.as_ref().map(|it| it.value.status());
    let now = shared.clock.now();
    let life = shared.oracle().life(*id);
    let may_be_gone = shared.oracle().may_be_gone(now, *id);
    let is_there = status.is_some() || may_be_gone;
    shared.oracle().check(is_there, || format!("{id} was answered for, and is not stored"));
    shared.oracle().acknowledged.insert(*id);
    shared.trace(&format!("sync {id}: {outcome:?}"));
    let is_done = matches!(outcome, CallOutcome::Completed { .. });
    let is_known = *was_done == Some(life) && !may_be_gone;
    shared.oracle().check(is_done || !is_known, || format!("{id} took effect, and then {outcome:?}"));
    match outcome {
        CallOutcome::Completed { is_replay, .. } => {
            shared.oracle().check(status == Some(Status::Completed) || may_be_gone, || {
                format!("{id} was said to have taken effect, and is {status:?}")
            });
            let is_first = !is_known;
            *was_done = Some(life);
            shared.oracle().check(*is_replay || is_first, || format!("{id} took effect twice"));
            shared.injected(|it| it.sync_replays += u64::from(*is_replay));
            let is_lost = is_first && shared.chance(|it| it.u32(0..100)) < 15;
            if is_lost { Next::Again(Duration::from_millis(200)) } else { Next::Rest }
        }
        CallOutcome::Failed { reason, .. } => match reason {
            Reason::Dropped | Reason::Exhausted | Reason::Window => Next::Again(Duration::from_secs(1)),
            Reason::Fatal | Reason::TooOld | Reason::Cancelled | Reason::OutcomeUnknown => Next::Rest,
        },
        CallOutcome::Later { after, .. } | CallOutcome::Running { after } => {
            Next::Again((*after).max(Duration::from_millis(50)))
        }
        CallOutcome::Unconfirmed => Next::Again(Duration::from_secs(1)),
        CallOutcome::Mismatch { .. } => panic!("{id}: it is the same event"),
    }
}
