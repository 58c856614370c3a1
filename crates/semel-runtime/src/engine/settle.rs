//! Writing down what became of an attempt.
//!
//! 1. The write names the fence that the attempt holds. If it is lost, somebody else has taken over: superseded, and
//!    nothing is reported.
//! 2. While the queue cannot tell what happened, the write is repeated, with growing pauses, until little of the lease is
//!    left. Then it is abandoned, not assumed: whoever takes over finds out.
//! 3. What is to be tried again after an error that somebody stops is parked in the same write.
//! 4. What failed for good is logged, once, when that is written.
//! 5. A repeated write that is lost may have been won before: what is stored is read, and one's own is recognised, also if it
//!    was noted there meanwhile that the event came again.

use super::{forward::forwarded, shared::Engine};
use crate::{control::stopped, function::Function};
use semel_core::{
    execution::{Execution, Input, Phase, step},
    queue::{Change, Fenced, Written},
    record::Status,
    sabotage::is_on,
    store::StoreError,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// First pause before a write is repeated.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest one.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// What is left of a lease when its end is no longer tried to be written.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);

/// How an attempt that was none ends.
const HANDED_BACK: &str = "hand back";

/// What became of writing down an attempt's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// Written, and this is what stands now.
    Written(Box<Fenced<Execution>>),
    /// Somebody else has taken over.
    Superseded,
    /// Nobody could tell in time.
    Abandoned,
}

/// Writes down what became of the attempt that holds this, until the given moment of the monotonic clock.
pub(crate) async fn settle(
    engine: &Engine,
    function: &Function,
    held: &Fenced<Execution>,
    input: Input,
    until: Duration,
) -> Settled {
    let now = engine.clock.now();
    let name = input.as_str();
    let after = match step(now, &held.value, input, &function.policy, engine.chance.jitter()) {
        Ok(after) => after,
        Err(refused) => {
            tracing::error!(id = %held.value.id(), input = name, %refused, "an attempt ended in a way that makes no sense");
            return Settled::Abandoned;
        }
    };
    // What was handed back did not fail.
    let after = if name == HANDED_BACK { after } else { stopped(engine, now, after) };
    let (after, mut causes) = forwarded(now, function, after);
    let apart = if is_on("forwarded_apart") { std::mem::take(&mut causes) } else { Vec::new() };
    let settled = write(engine, Change { expected: held.fence, after, causes }, until).await;
    if !apart.is_empty() {
        let _lost = engine.queue.accept(&apart).await;
    }
    tell(engine, &settled, &held.value.function, name);
    if let Settled::Written(stored) = &settled {
        log(&stored.value);
    }
    settled
}

async fn write(engine: &Engine, mut change: Change, until: Duration) -> Settled {
    let mut pause = PAUSE_MIN;
    let mut is_repeated = false;
    loop {
        let (back, written) = write_once(engine, change).await;
        change = back;
        match written {
            Ok(Written::Won(fence)) => {
                return Settled::Written(Box::new(Fenced { fence, value: change.after }));
            }
            Ok(Written::Lost) if is_on("settled_without_fence") => {
                if let Ok(Some(found)) =
                    engine.queue.get(&[change.after.id()]).await.map(|mut it| it.remove(0))
                {
                    change.expected = found.fence;
                }
            }
            Ok(Written::Lost) if !is_repeated => return Settled::Superseded,
            Ok(Written::Lost) => match own(engine, &change.after).await {
                Ok(settled) => return settled,
                Err(error) => tracing::warn!(%error, "what became of an execution could not be read"),
            },
            Err(error) => tracing::warn!(%error, "what became of an attempt could not be written"),
        }
        is_repeated = true;
        if engine.clock.monotonic() + pause >= until {
            return Settled::Abandoned;
        }
        engine.clock.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A change that was written, or of which nobody could tell.
pub(crate) type Wrote = (Change, Result<Written, Arc<StoreError>>);

/// Writes with whoever else writes now, and gives the change back, unless the runtime ends before. It goes at once: a future
/// would have room for it.
pub(crate) fn write_unless_ended(engine: &Engine, change: Change) -> oneshot::Receiver<Wrote> {
    let (tell, told) = oneshot::channel();
    let bytes = change.after.event.as_ref().map_or(0, |it| it.len());
    let done = Box::new(move |mut changes: Vec<Change>, told: Result<Vec<Written>, Arc<StoreError>>| {
        let change = changes.pop().expect("it is given back");
        let _gone = tell.send((change, told.map(|it| it[0])));
    });
    engine.writes.submit(vec![change], bytes, done);
    told
}

/// The same for a task of the runtime's own, which ends with it.
pub(crate) fn write_once(engine: &Engine, change: Change) -> impl Future<Output = Wrote> + Send + use<> {
    let told = write_unless_ended(engine, change);
    async {
        match told.await {
            Ok(told) => told,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Whether what is stored is what was to be written; how often the event came again is written by others.
async fn own(engine: &Engine, after: &Execution) -> Result<Settled, StoreError> {
    let found = engine.queue.get(&[after.id()]).await?.pop().flatten();
    if is_on("own_write_not_recognised") {
        return Ok(Settled::Superseded);
    }
    let is_own = |found: &Execution| {
        let repeats = if is_on("own_write_counted_again") { found.repeats } else { after.repeats };
        Execution { repeats, ..found.clone() } == *after
    };
    Ok(found.filter(|it| is_own(&it.value)).map_or(Settled::Superseded, |it| Settled::Written(Box::new(it))))
}

/// Writes to the log what failed for good: where retry is off, nothing else remains of it.
fn log(failed: &Execution) {
    let Phase::Failed { reason, error } = &failed.phase else { return };
    tracing::warn!(
        function = &*failed.function,
        event_id = &*failed.origin.id,
        source = &*failed.origin.source,
        id = %failed.id(),
        reason = reason.as_str(),
        attempts = failed.attempts,
        error = without_body(error),
        "an event failed for good"
    );
}

/// An error without what the function answered, which may contain what it was sent.
fn without_body(error: &str) -> &str {
    let status = error.starts_with("answered ").then(|| error.split_once(": ")).flatten();
    status.map_or(error, |(status, _)| status)
}

fn tell(engine: &Engine, settled: &Settled, function: &Arc<str>, input: &'static str) {
    let mut table = engine.table();
    let should_look = match settled {
        Settled::Written(stored) => {
            table.count(function, |totals| match stored.value.status() {
                Status::Completed => totals.completed += 1,
                Status::Failed => totals.dead += 1,
                Status::Pending if input == HANDED_BACK => totals.handed_back += 1,
                Status::Pending => totals.retried += 1,
                Status::InProgress => {}
            });
            stored.value.due_at().is_some_and(|due_at| table.note(function, due_at))
        }
        Settled::Superseded => {
            table.count(function, |totals| totals.superseded += 1);
            false
        }
        Settled::Abandoned => {
            table.count(function, |totals| totals.abandoned += 1);
            false
        }
    };
    drop(table);
    if should_look {
        engine.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 32.
    #[test]
    fn what_a_function_answered_is_not_logged() {
        assert_eq!(
            without_body("answered 422 Unprocessable Entity: ann's card: 4242"),
            "answered 422 Unprocessable Entity"
        );
        for whole in ["answered 410 Gone", "interrupted: the runtime was stopped", "no answer: in time"] {
            assert_eq!(without_body(whole), whole);
        }
    }
}
