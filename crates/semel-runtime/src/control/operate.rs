//! What an operator does to one execution.
//!
//! 1. The execution is read, stepped, and written under the fence that was read, with its audit entry. If somebody else wrote
//!    first, it is read again.
//! 2. An attempt that runs when its execution is cancelled is superseded: whatever it finds out is not written.
//! 3. A redriven execution is due at once.
//! 4. Its audit entry is of the execution, whether it was changed by itself or by a job, which is then named. Of an event that
//!    was edited it says what is different, and never the content.

use super::{Auditing, words};
use crate::engine::{Engine, Runtime};
use semel_core::{
    call::Resolution,
    execution::{Execution, ExecutionId, Input, Refused, step},
    queue::{Change, Fenced, Written},
    retry::{Jitter, RetryPolicy},
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};
use semel_events::event::Event;

/// How often an operation is tried while others write the same execution.
const TRIES_MAX: u32 = 16;

/// What an operator does to an execution.
#[derive(Clone, Debug)]
pub enum Action {
    /// Ends it.
    Cancel,
    /// Lets it wait until it is unparked.
    Park,
    /// Lets it go on.
    Unpark,
    /// Starts it again after it failed, with its own event or another one.
    Redrive(Option<Box<Event>>),
    /// Says what became of it, after nobody could tell.
    Resolve(Resolution),
}

impl Action {
    /// As written in the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Park => "park",
            Self::Unpark => "unpark",
            Self::Redrive(None) => "redrive",
            Self::Redrive(Some(_)) => "edit and redrive",
            Self::Resolve(Resolution::Happened(_)) => "resolve: happened",
            Self::Resolve(Resolution::DidNot) => "resolve: did not happen",
        }
    }

    fn input(&self) -> Input {
        match self {
            Self::Cancel => Input::Cancel,
            Self::Park => Input::Park,
            Self::Unpark => Input::Unpark,
            Self::Redrive(event) => Input::Redrive { event: event.as_ref().map(|it| it.encode().into()) },
            Self::Resolve(resolution) => Input::Resolve(resolution.clone()),
        }
    }
}

/// What became of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it may have been refused"]
pub enum Operated {
    /// Done; this is what stands now.
    Done(Box<Fenced<Execution>>),
    /// There is no such execution.
    NotFound,
    /// It makes no sense where the execution stands.
    Refused(Refused),
}

/// On whose behalf something is done to an execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct By<'a> {
    pub(super) who: &'a str,
    /// As part of this job.
    pub(super) job: Option<u64>,
}

impl By<'_> {
    /// What is written with the change of this execution.
    pub(super) fn entries(self, engine: &Engine, before: &Execution, action: &Action) -> Vec<Execution> {
        if self.job.is_some() && is_on("job_changes_unaudited") {
            return Vec::new();
        }
        let edited = match action {
            Action::Redrive(Some(event)) => Some(words::edited(before.event.as_deref(), event)),
            Action::Redrive(None) | Action::Cancel | Action::Park | Action::Unpark | Action::Resolve(_) => {
                None
            }
        };
        let detail = edited.or_else(|| self.job.map(|it| format!("job {it}"))).unwrap_or_default();
        let subject = before.id().to_string();
        let entry = Auditing { who: self.who, what: action.as_str(), subject: &subject, detail: &detail };
        vec![entry.execution(engine)]
    }
}

impl Runtime {
    /// Does this to an execution.
    pub async fn operate(&self, id: ExecutionId, action: &Action, who: &str) -> Result<Operated, StoreError> {
        operate(self.engine(), id, action, By { who, job: None }).await
    }
}

pub(super) async fn operate(
    engine: &Engine,
    id: ExecutionId,
    action: &Action,
    by: By<'_>,
) -> Result<Operated, StoreError> {
    for _ in 0..TRIES_MAX {
        let now = engine.clock.now();
        let Some(found) = found(engine, now, id).await? else { return Ok(Operated::NotFound) };
        let function = engine.table().function(&found.value.function);
        let policy = function.map(|it| it.policy.clone()).unwrap_or_default();
        let after = match step(now, &found.value, action.input(), &policy, engine.chance.jitter()) {
            Ok(after) => after,
            Err(refused) => return Ok(Operated::Refused(refused)),
        };
        if is_on("redrive_swallowed") && matches!(action, Action::Redrive(_)) {
            return Ok(Operated::Done(Box::new(found)));
        }
        let causes = by.entries(engine, &found.value, action);
        let change = Change { expected: found.fence, after: after.clone(), causes };
        if let [Written::Won(fence)] = engine.queue.write(&[change]).await?[..] {
            note(engine, &after);
            return Ok(Operated::Done(Box::new(Fenced { fence, value: after })));
        }
    }
    Err(StoreError::new(StoreErrorKind::Unavailable, "control", format!("too many write execution {id}")))
}

/// Whether an operation makes sense where an execution stands. No policy has a say in that.
pub(super) fn makes_sense(now: Timestamp, execution: &Execution, action: &Action) -> bool {
    step(now, execution, action.input(), &RetryPolicy::default(), Jitter::LEAST).is_ok()
}

/// What stands under this id, unless it is a thing of the runtime's own or has expired.
async fn found(
    engine: &Engine,
    now: Timestamp,
    id: ExecutionId,
) -> Result<Option<Fenced<Execution>>, StoreError> {
    let found = engine.queue.get(&[id]).await?.pop().flatten();
    Ok(found.filter(|it| is_anybodys(&it.value) && !it.value.is_expired(now)))
}

/// Whether an execution is of a function of somebody, not of the runtime's own books.
pub(super) fn is_anybodys(execution: &Execution) -> bool {
    !matches!(&*execution.function, "$control" | "$audit")
}

fn note(engine: &Engine, after: &Execution) {
    let Some(due_at) = after.due_at() else { return };
    let should_look = engine.table().note(&after.function, due_at);
    if should_look {
        engine.wake.notify_one();
    }
}
