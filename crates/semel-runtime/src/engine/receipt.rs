//! What is told to whoever brings events.

use crate::function::route::Unroutable;
use semel_core::{
    execution::{Execution, ExecutionId},
    record::Status,
    store::StoreErrorKind,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

/// What became of an event. Whatever it says of an execution is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// No function takes such events: nothing was kept.
    Unmatched,
    /// It has no key for one of the functions that take it: nothing was kept.
    Refused(Unroutable),
    /// These functions have it.
    Taken(Vec<Taken>),
}

/// What became of an event for one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The function.
    pub function: Arc<str>,
    /// The execution that stands for the event there.
    pub id: ExecutionId,
    /// Whether it is a new one.
    pub entry: Entry,
}

/// Whether an execution is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// It is.
    New,
    /// The event had come before.
    Duplicate {
        /// Where its execution stands.
        status: Status,
        /// Since when it is there.
        since: Timestamp,
    },
    /// Another event had come before, under the same name and with another payload. This one is not run.
    Mismatch {
        /// Where the other one's execution stands.
        status: Status,
        /// Since when it is there.
        since: Timestamp,
        /// Whether the function wants such events refused.
        is_strict: bool,
    },
}

/// Why nothing was taken, or nobody can tell. The sender keeps its events and comes again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no room.
    #[error("there is no room for more events at the moment")]
    Busy {
        /// When there may be.
        retry_after: Duration,
    },
    /// The queue could not tell whether it has them.
    #[error("the events could not be stored")]
    Unavailable {
        /// When it may.
        retry_after: Duration,
        /// What it said.
        #[source]
        cause: Arc<semel_core::store::StoreError>,
    },
    /// A function that takes the event is called in order, and cannot be called while the sender waits.
    #[error("function `{function}` is called in order, and not while a sender waits")]
    InOrder {
        /// Which one.
        function: Arc<str>,
    },
    /// The runtime is being stopped.
    #[error("the runtime is being stopped")]
    Stopping,
}

impl Refused {
    /// When to come again.
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::Busy { retry_after } | Self::Unavailable { retry_after, .. } => *retry_after,
            Self::Stopping | Self::InOrder { .. } => RETRY_AFTER,
        }
    }

    /// What kind of trouble the queue is in, if it is.
    pub fn store_error(&self) -> Option<StoreErrorKind> {
        match self {
            Self::Unavailable { cause, .. } => Some(cause.kind()),
            Self::Busy { .. } | Self::InOrder { .. } | Self::Stopping => None,
        }
    }
}

/// When senders are asked to come again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Entry {
    /// For an event whose execution is there already.
    pub(crate) fn again(found: &Execution, is_same: bool, is_strict: bool) -> Self {
        Self::known(found.status(), found.accepted_at, is_same, is_strict)
    }

    /// As [`Entry::again`], by what is known of it.
    pub(crate) const fn known(status: Status, since: Timestamp, is_same: bool, is_strict: bool) -> Self {
        if is_same { Self::Duplicate { status, since } } else { Self::Mismatch { status, since, is_strict } }
    }
}
