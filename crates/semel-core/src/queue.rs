//! The port that every durable queue of the runtime implements.
//!
//! 1. A queue keeps one execution under an id, with the fence it gave the last write, and an index of when
//!    each is [due](crate::execution::Execution::due_at).
//! 2. Everything comes in batches, and the items of a batch are independent: each is won or lost by itself. A
//!    change and what it causes are one item, and stand or fall together.
//! 3. What a method answered is durable when it answers.
//! 4. Losing is a value. An error means that nobody could tell what happened, for the whole batch.
//! 5. It knows no policy. The one change it makes itself is [`crate::execution::claimed`]; all others it is
//!    handed, fenced.
//! 6. Of the executions of one function under one [order](crate::execution::Order) only the unfinished one with
//!    the lowest sequence is handed out.
//! 7. Counters are kept, never counted: [`Queue::counts`] costs the same at any backlog.
//!
//! It need not wake anybody: whoever waits asks again, by the clock.

use crate::{
    BoxFuture,
    execution::{ErrorPrint, Execution, ExecutionId, Phase},
    fence::Fence,
    record::{Holder, Reason, Status},
    store::StoreError,
    time::{Clock, Timestamp},
};
use std::{sync::Arc, time::Duration};

/// Most items in one batch; a longer one is the caller's mistake.
pub const BATCH_MAX: usize = 1_024;
/// Most executions that one change can cause.
pub const CAUSES_MAX: usize = 4;
/// Most functions in one demand.
pub const WANTS_MAX: usize = 1_024;
/// Most items of one page; more are not given, however many were asked for.
pub const PAGE_MAX: u32 = 500;
/// Longest cursor, in bytes.
pub const CURSOR_BYTES_MAX: usize = 256;
/// Largest event that every queue can keep, in bytes.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Where executions live. Convenience goes elsewhere.
pub trait Queue: Send + Sync + 'static {
    /// Inserts executions that are not there yet, or have expired, and answers for each in order. Of two with
    /// one id in the same batch, the second is a duplicate of the first.
    ///
    /// They may come [claimed](crate::execution::claimed) already, by a node that has room for them; those with
    /// an order must not, because only the queue knows who stands before them. They may also have ended
    /// already: a fact to be kept and listed.
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>>;

    /// Hands out due executions, the longest due first within each function, as
    /// [`crate::execution::claimed`] makes them. Nobody else is handed the same one until its lease lapses.
    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>>;

    /// Writes each change if the stored fence is the expected one, together with what it causes, and answers
    /// for each in order. A cause that is there already is left as it is.
    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>>;

    /// What stands under these ids, expired or not, in order.
    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>>;

    /// The executions that match, the latest accepted first, from where the last page ended.
    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>>;

    /// How many executions there are, by function, status and reason.
    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>>;

    /// Removes at most `limit` executions (or the queue's own unit of removal, if that is larger) that expired
    /// at or before this moment, and says how many.
    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>>;

    /// The clock by which dues, leases and retention are judged.
    fn clock(&self) -> Arc<dyn Clock>;

    /// What was found, if the queue forgot something that it had acknowledged: after a backup was restored, or after a
    /// failover to a server that lagged. It then takes, hands out and writes nothing until somebody decides how to
    /// [go on](Queue::go_on).
    fn went_back(&self) -> Option<String> {
        None
    }

    /// Somebody has looked at what the queue forgot: it goes on from what it has.
    fn go_on(&self, _how: GoOn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Resolves when somebody else may have left something that is due, so that whoever sleeps may ask at once. No more than
    /// that, and no queue has to: this one never does.
    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// How a queue goes on after it [went back](Queue::went_back).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GoOn {
    /// On this node, until it ends or somebody decides: what is there can be changed, and nothing is handed out.
    WithoutClaims,
    /// On all nodes, as if nothing had been.
    Wholly,
}

/// Something as it stands in a queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fenced<T> {
    /// Of the write that put it there.
    pub fence: Fence,
    /// What was written.
    pub value: T,
}

/// What became of an accepted execution.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it may be a duplicate"]
pub enum Accepted {
    /// Written, under this fence.
    New(Fence),
    /// Not written, because this is there already, durably. Whether it had the same payload is for the
    /// caller to compare.
    Duplicate(Box<Fenced<Execution>>),
}

/// What somebody who runs functions has room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Who asks: the holder of every lease this gives. Random, one per demand, so that a demand whose answer was
    /// lost can be told from every other.
    pub holder: Holder,
    /// For each function, how much. One that is not named here gets nothing: that is how it is paused.
    pub wants: Vec<Want>,
}

/// What somebody has room for, of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Want {
    /// The function.
    pub function: Arc<str>,
    /// At most so many executions.
    pub limit: u32,
    /// How long they are leased, by the queue's clock.
    pub lease: Duration,
}

/// A change to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The fence the write must find.
    pub expected: Fence,
    /// What the execution becomes.
    pub after: Execution,
    /// Executions that come of it, such as a dead letter's forwarding: accepted if the change is won, in the
    /// same atomic step, and not at all if it is lost.
    pub causes: Vec<Execution>,
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a write may be lost"]
pub enum Written {
    /// Written, under this fence.
    Won(Fence),
    /// Not written: somebody else wrote first, or it is gone.
    Lost,
}

/// Which executions to list. What is `None` does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Of this function.
    pub function: Option<Arc<str>>,
    /// In this status.
    pub status: Option<Status>,
    /// Failed for this reason.
    pub reason: Option<Reason>,
    /// In progress under this holder: whoever never got the answer to a demand finds here what it was given.
    pub holder: Option<Holder>,
    /// Accepted at this moment or later.
    pub accepted_from: Option<Timestamp>,
    /// Accepted before this moment.
    pub accepted_before: Option<Timestamp>,
    /// Whose event has this id, or whose key has this text as its id.
    pub name: Option<Arc<str>>,
    /// Whose event has this type.
    pub kind: Option<Arc<str>>,
    /// Whose last [error](Execution::error) has this print.
    pub error: Option<ErrorPrint>,
}

impl Filter {
    /// Whether this execution is one of them.
    pub fn matches(&self, execution: &Execution) -> bool {
        self.function.as_ref().is_none_or(|it| *it == execution.function)
            && self.status.is_none_or(|it| it == execution.status())
            && self.reason.is_none_or(|it| Some(it) == execution.phase.reason())
            && self.holder.is_none_or(|it| Some(it) == execution.phase.holder())
            && self.accepted_from.is_none_or(|it| it <= execution.accepted_at)
            && self.accepted_before.is_none_or(|it| execution.accepted_at < it)
            && self.name.as_ref().is_none_or(|it| *it == execution.origin.id || **it == execution.key.id())
            && self.kind.as_ref().is_none_or(|it| *it == execution.origin.kind)
            && self.error.is_none_or(|it| execution.error().is_some_and(|error| ErrorPrint::of(error) == it))
    }
}

/// Where a page ended. Only the queue that made it can read it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cursor(pub Vec<u8>);

/// A part of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins, if there is one.
    pub next: Option<Cursor>,
}

/// How many executions of a function there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// The function.
    pub function: Arc<str>,
    /// Ever accepted as new.
    pub accepted: u64,
    /// Waiting, parked ones included.
    pub pending: u64,
    /// Handed out.
    pub in_progress: u64,
    /// Completed and still remembered.
    pub completed: u64,
    /// Failed and still remembered, by reason, in the order of [`Reason::ALL`].
    pub failed: [u64; Reason::ALL.len()],
    /// Ever purged, or accepted anew over what had expired.
    pub purged: u64,
}

impl Counts {
    /// Of a function that nothing was accepted for.
    pub const fn none(function: Arc<str>) -> Self {
        Self {
            function,
            accepted: 0,
            pending: 0,
            in_progress: 0,
            completed: 0,
            failed: [0; Reason::ALL.len()],
            purged: 0,
        }
    }

    /// The counter that an execution in this phase stands in.
    pub const fn of(&mut self, phase: &Phase) -> &mut u64 {
        match phase {
            Phase::Pending(_) => &mut self.pending,
            Phase::InProgress { .. } => &mut self.in_progress,
            Phase::Completed(_) => &mut self.completed,
            Phase::Failed { reason, .. } => &mut self.failed[*reason as usize],
        }
    }

    /// Whether nothing was lost: what was accepted is somewhere.
    pub fn is_balanced(&self) -> bool {
        let failed: u64 = self.failed.iter().sum();
        self.accepted == self.pending + self.in_progress + self.completed + failed + self.purged
    }
}

/// Compiles only while the port can be used as `dyn Queue`.
const _: fn(&dyn Queue) = |_| {};
