//! Seeing what happens: the one place that traces and counts.
//!
//! 1. Everything below is emitted by a wrapper around the driver and its store. Adapters emit nothing.
//! 2. Metrics go to the `metrics` facade (feature `metrics`), events and spans to `tracing` (feature
//!    `tracing`). Without a recorder or a subscriber they cost next to nothing.
//! 3. The only label that comes from users is the scope, and only the first [`SCOPES_MAX`] of them: the rest
//!    share the label `other`. Ids, payloads and results never become labels.
//!
//! | metric | kind | labels | what |
//! |---|---|---|---|
//! | `semel_calls_total` | counter | `scope`, `answer` | calls, by how they were answered: `fresh`, `retried`, `taken_over`, `reentered`, `failed_open`, `replayed`, `failed_before`, `unknown`, `rejected` (busy), `mismatch`, `store` (refused, because the store could not tell), `contended` |
//! | `semel_waited_total` | counter | `scope` | calls that waited for another holder |
//! | `semel_ended_total` | counter | `scope`, `end` | attempts, by how they ended: `completed`, `failed`, `unknown`, `released`, `unconfirmed`, `superseded`, `lapsed`, `dropped` |
//! | `semel_duplicate_age_seconds` | histogram | `scope` | how long after the first claim a replayed duplicate came |
//! | `semel_claim_seconds` | histogram | `scope` | from the call to its answer, waiting included |
//! | `semel_handler_seconds` | histogram | `scope` | from the claim to the handler's outcome |
//! | `semel_complete_seconds` | histogram | `scope` | writing the outcome |
//! | `semel_store_seconds` | histogram | `operation` | one request to the store: `load`, `swap`, `purge` |
//! | `semel_store_errors_total` | counter | `operation`, `kind` | requests that the store could not answer: `unavailable`, `refused`, `too_large`, `corrupt`, `misconfigured` |
//! | `semel_unopened_total` | counter | `cause` | results that are sealed and did not open: `no_keyring`, `unknown_key`, `damaged`, `malformed`; or are not, and were refused: `plain` |
//! | `semel_operator_changes_total` | counter | `change` | `forgotten` and `resolved` |
//!
//! Events have the target `semel`, those of operators `semel::audit`; handlers run in a span `semel.call` with
//! the key, the attempt and the fence.
//!
//! It does not time anything by itself: moments come from the store's clock, so tests see exact numbers.

mod count;
mod scopes;
mod trace;

use crate::{begin::How, operator::Receipt, seal::Unopened};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

pub(crate) use scopes::Scope;
use scopes::Scopes;
pub(crate) use trace::CallSpan;

/// Most scopes that get a label of their own.
pub const SCOPES_MAX: usize = 200;

/// A store, watched, and the one who counts what the driver makes of it.
pub(crate) struct Observed {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    scopes: Scopes,
}

/// How a call was answered.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Run(How),
    Replayed { age: Duration },
    FailedBefore,
    Unknown,
    Rejected,
    Mismatch,
    Store,
    Contended,
}

impl Answer {
    /// As they are counted.
    const NAMES: [&'static str; 12] = [
        "fresh",
        "retried",
        "taken_over",
        "reentered",
        "failed_open",
        "replayed",
        "failed_before",
        "unknown",
        "rejected",
        "mismatch",
        "store",
        "contended",
    ];

    /// Its place among [`Answer::NAMES`].
    fn index(self) -> usize {
        match self {
            Self::Run(How::Fresh) => 0,
            Self::Run(How::Retried) => 1,
            Self::Run(How::TakenOver) => 2,
            Self::Run(How::Reentered) => 3,
            Self::Run(How::Unprotected) => 4,
            Self::Run(How::Replayed) | Self::Replayed { .. } => 5,
            Self::FailedBefore => 6,
            Self::Unknown => 7,
            Self::Rejected => 8,
            Self::Mismatch => 9,
            Self::Store => 10,
            Self::Contended => 11,
        }
    }

    fn as_str(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Failed,
    Unknown,
    Released,
    Unconfirmed,
    Superseded,
    Lapsed,
    Dropped,
}

impl End {
    /// As they are counted, in the order of their declaration.
    const NAMES: [&'static str; 8] =
        ["completed", "failed", "unknown", "released", "unconfirmed", "superseded", "lapsed", "dropped"];

    fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What a store was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Load,
    Swap,
    Purge,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Swap => "swap",
            Self::Purge => "purge",
        }
    }
}

impl Observed {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let clock = store.clock();
        Self { store, clock, scopes: Scopes::new() }
    }

    pub(crate) async fn load(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let since = self.clock.monotonic();
        self.request(Operation::Load, since, self.store.load(key)).await.0
    }

    pub(crate) async fn swap(
        &self,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
    ) -> Result<Swap, StoreError> {
        let since = self.clock.monotonic();
        self.request(Operation::Swap, since, self.store.swap(key, expected, record)).await.0
    }

    /// As [`Observed::swap`], which is sent at `since`, on the monotonic clock; tells when its reply was there.
    pub(crate) fn swap_since<'a>(
        &'a self,
        since: Duration,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> Swapping<'a> {
        Swapping(self.request(Operation::Swap, since, self.store.swap(key, expected, record)))
    }

    pub(crate) async fn purge(&self, expired_at: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let since = self.clock.monotonic();
        self.request(Operation::Purge, since, self.store.purge(expired_at, limit)).await.0
    }

    fn request<'a, T>(
        &'a self,
        operation: Operation,
        since: Duration,
        reply: BoxFuture<'a, Result<T, StoreError>>,
    ) -> Request<'a, T> {
        Request { clock: &*self.clock, operation, since, reply }
    }

    /// The key's scope, as a label.
    pub(crate) fn scope(&self, key: &Key) -> Scope {
        self.scopes.of(key)
    }

    /// A call was answered.
    pub(crate) fn answered(&self, scope: Scope, key: &Key, answer: Answer, waited: bool, took: Duration) {
        count::answered(self.scopes.names(scope), answer, waited, took);
        trace::answered(key, answer, waited);
    }

    /// An attempt ended.
    pub(crate) fn ended(&self, scope: Scope, key: &Key, end: End, worked: Duration, wrote: Duration) {
        count::ended(self.scopes.names(scope), end, worked, wrote);
        trace::ended(key, end);
    }

    /// A result did not open.
    pub(crate) fn unopened(key: &Key, why: &Unopened) {
        count::unopened(why.as_str());
        trace::unopened(key, why);
    }

    /// A record of a batch is to be delivered again; its answer tells nobody why.
    #[cfg(feature = "lambda")]
    pub(crate) fn record_failed(id: &str, why: &lambda_runtime::Diagnostic) {
        trace::record_failed(id, why);
    }

    /// An operator changed something.
    pub(crate) fn audit(receipt: &Receipt) {
        count::audited(receipt.change);
        trace::audited(receipt);
    }
}

/// A request to the store, watched. Gives the reply, and when it was there: moments are handed on from one to the next,
/// since to read a clock takes longer than most of what is done in between.
// Written by hand: it is moved through many futures, and small.
pub(crate) struct Request<'a, T> {
    clock: &'a dyn Clock,
    operation: Operation,
    since: Duration,
    reply: BoxFuture<'a, Result<T, StoreError>>,
}

impl<T> Request<'_, T> {
    /// Counts the reply, and tells when it was there.
    fn replied(&self, reply: &Result<T, StoreError>) -> Duration {
        let replied_at = self.clock.monotonic();
        count::requested(self.operation, replied_at.saturating_sub(self.since));
        if let Err(error) = reply {
            count::store_failed(self.operation, kind(error));
            trace::store_failed(self.operation.as_str(), error);
        }
        replied_at
    }
}

impl<T> Future for Request<'_, T> {
    type Output = (Result<T, StoreError>, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.reply.as_mut().poll(context));
        let replied_at = self.replied(&reply);
        Poll::Ready((reply, replied_at))
    }
}

/// A swap that is watched, as [`Request`]. What is large in its reply is boxed at once: it is moved through many futures, and
/// most swaps are won.
pub(crate) struct Swapping<'a>(Request<'a, Swap>);

/// What became of a swap, as [`Swap`].
pub(crate) enum Swapped {
    Won(Fence),
    Lost(Option<Box<Stored>>),
}

impl From<Swapped> for Swap {
    fn from(swapped: Swapped) -> Self {
        match swapped {
            Swapped::Won(fence) => Self::Won(fence),
            Swapped::Lost(found) => Self::Lost(found.map(|it| *it)),
        }
    }
}

impl Future for Swapping<'_> {
    type Output = (Result<Swapped, Box<StoreError>>, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.0.reply.as_mut().poll(context));
        let replied_at = self.0.replied(&reply);
        let swapped = match reply {
            Ok(Swap::Won(fence)) => Ok(Swapped::Won(fence)),
            Ok(Swap::Lost(found)) => Ok(Swapped::Lost(found.map(Box::new))),
            Err(error) => Err(Box::new(error)),
        };
        Poll::Ready((swapped, replied_at))
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error.kind() {
        StoreErrorKind::Unavailable => "unavailable",
        StoreErrorKind::Refused => "refused",
        StoreErrorKind::TooLarge => "too_large",
        StoreErrorKind::Corrupt => "corrupt",
        StoreErrorKind::Misconfigured => "misconfigured",
        _ => "other",
    }
}
