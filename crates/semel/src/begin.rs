//! What a caller may do with a key, as values.

use crate::{
    codec,
    error::{Error, ErrorKind},
    lease::Lease,
    observe::{Answer, Observed},
    seal::{Seal, Unopened},
};
use semel_core::{
    fence::Fence,
    key::Key,
    record::{Body, NotKept, Reason, State, Stored},
    time::Timestamp,
};
use serde::de::DeserializeOwned;
use std::{borrow::Cow, time::Duration};

/// What a caller may do.
#[must_use = "a lease that is dropped stands until it lapses"]
#[derive(Debug)]
pub enum Begin {
    /// Run the handler, then finish the lease.
    Run(Lease),
    /// It took effect before: here is its result, if it was kept.
    Replay(Replay),
    /// It failed for good before, or its outcome is unknown.
    Failed(Failure),
    /// Another holder runs it.
    Busy {
        /// Of the call.
        key: Key,
        /// When the other holder's lease lapses unless it is renewed.
        until: Timestamp,
    },
    /// It was claimed with another payload.
    Mismatch {
        /// Of the call.
        key: Key,
    },
}

impl Begin {
    pub(crate) fn of_finished(
        key: Key,
        stored: Box<Stored>,
        now: Timestamp,
        waited: bool,
        seal: &Seal,
    ) -> Self {
        match stored.record.state {
            State::Completed(_) => Self::Replay(Replay::new(key, stored, now, waited, seal)),
            State::Failed { reason, error } => {
                let error = seal.open_text(&key, error);
                Self::Failed(Failure::new(key, reason, error))
            }
            State::Pending { .. } | State::InProgress { .. } => {
                unreachable!("only a finished record is replayed")
            }
        }
    }
}

impl Begin {
    /// Of the call.
    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Run(lease) => lease.key(),
            Self::Replay(replay) => &replay.key,
            Self::Failed(failure) => &failure.key,
            Self::Busy { key, .. } | Self::Mismatch { key } => key,
        }
    }

    /// As it is counted.
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::Run(lease) => Answer::Run(lease.how()),
            Self::Replay(replay) => Answer::Replayed { age: replay.age() },
            Self::Failed(failure) if failure.reason == Reason::OutcomeUnknown => Answer::Unknown,
            Self::Failed(_) => Answer::FailedBefore,
            Self::Busy { .. } => Answer::Rejected,
            Self::Mismatch { .. } => Answer::Mismatch,
        }
    }
}

/// How a result came about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum How {
    /// The handler ran, for the first time within the retention.
    Fresh,
    /// The handler ran again after a retryable error.
    Retried,
    /// The handler ran again because an earlier holder's lease had lapsed.
    TakenOver,
    /// The handler ran under a lease that its holder had already.
    Reentered,
    /// The handler ran unprotected, because the store could not be reached and the call fails open.
    Unprotected,
    /// The handler did not run: this is the stored result.
    Replayed,
}

/// A result, and how it came about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome<T> {
    /// The handler's result.
    pub value: T,
    /// How it came about.
    pub how: How,
    /// Whether the call waited for another holder first.
    pub waited: bool,
    /// Which attempt it was that gave the result.
    pub attempt: u32,
    /// Of the claim, or of the replayed record.
    pub fence: Fence,
}

/// A call that took effect before.
#[derive(Clone, Debug)]
pub struct Replay {
    key: Key,
    /// Boxed: a record is large, and what a caller may do is moved from each future to the next.
    stored: Box<Stored>,
    /// When it was found.
    now: Timestamp,
    waited: bool,
    /// What its result was sealed by, if it was.
    seal: Seal,
}

impl Replay {
    /// Of a completed record.
    pub(crate) fn new(
        key: Key,
        stored: impl Into<Box<Stored>>,
        now: Timestamp,
        waited: bool,
        seal: &Seal,
    ) -> Self {
        Self { key, stored: stored.into(), now, waited, seal: seal.clone() }
    }

    /// The typed result.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match self.body()? {
            Some(bytes) => codec::value(&bytes).ok_or_else(|| self.not_kept(UNREADABLE)),
            None => codec::nothing().ok_or_else(|| self.not_kept(RESOLVED)),
        }
    }

    /// The result as bytes: what [`Lease::complete_bytes`] was given, or the JSON of a typed result.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        match self.body()? {
            Some(bytes) => codec::content(&bytes).ok_or_else(|| self.not_kept(UNREADABLE)),
            None => Err(self.not_kept(RESOLVED)),
        }
    }

    /// As [`Replay::bytes`], for whoever needs nothing else: not copied, if it was stored as it is.
    #[cfg(feature = "http")]
    pub(crate) fn into_bytes(mut self) -> Result<bytes::Bytes, Error> {
        let encoded = match self.body()? {
            Some(Cow::Owned(opened)) => opened,
            Some(Cow::Borrowed(_)) => self.take_kept(),
            None => return Err(self.not_kept(RESOLVED)),
        };
        codec::into_content(encoded).ok_or_else(|| self.not_kept(UNREADABLE))
    }

    #[cfg(feature = "http")]
    fn take_kept(&mut self) -> Vec<u8> {
        match &mut self.stored.record.state {
            State::Completed(Body::Kept { bytes, .. }) => std::mem::take(bytes),
            _ => unreachable!("what was borrowed is there"),
        }
    }

    /// Whether an operator said that it took effect, and gave no result: [`Replay::value`] makes `null` of that.
    #[cfg(feature = "lambda")]
    pub(crate) fn is_resolved(&self) -> bool {
        matches!(&self.stored.record.state, State::Completed(Body::NotKept { cause: NotKept::Resolved, .. }))
    }

    /// The encoded result; none if an operator said that it took effect, and nobody had the result.
    fn body(&self) -> Result<Option<Cow<'_, [u8]>>, Error> {
        let State::Completed(body) = &self.stored.record.state else {
            unreachable!("a replay is of a completed call")
        };
        match body {
            Body::Kept { until, .. } if *until <= self.now => {
                Err(Error::new(ErrorKind::Expired, self.key.clone()))
            }
            Body::Kept { bytes, .. } => match self.seal.open(&self.key, bytes) {
                Ok(encoded) => Ok(Some(encoded)),
                Err(unopened) => Err(self.unopened(&unopened)),
            },
            Body::NotKept { cause: NotKept::Resolved, .. } => Ok(None),
            Body::NotKept { cause: NotKept::TooLarge, size, .. } => {
                Err(self.not_kept(&format!("it was too large ({size} bytes); raise `body_bytes_max`")))
            }
            Body::NotKept { cause: NotKept::Unserializable, .. } => {
                Err(self.not_kept("its type refused to be serialised"))
            }
        }
    }

    fn not_kept(&self, detail: &str) -> Error {
        Error::new(ErrorKind::NotKept, self.key.clone()).with_detail(detail)
    }

    fn unopened(&self, why: &Unopened) -> Error {
        Observed::unopened(&self.key, why);
        Error::new(ErrorKind::Sealed, self.key.clone()).with_detail(why.to_string())
    }

    /// Of the call.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Of the stored record.
    pub fn fence(&self) -> Fence {
        self.stored.fence
    }

    /// How many attempts the call took.
    pub fn attempts(&self) -> u32 {
        self.stored.record.attempts
    }

    /// How long after the first claim this duplicate came.
    pub fn age(&self) -> Duration {
        self.now.since(self.stored.record.created_at)
    }

    /// Whether the caller waited for another holder to finish it.
    pub fn waited(&self) -> bool {
        self.waited
    }
}

const UNREADABLE: &str = "what is stored is not of this type; was it written by another version?";
const RESOLVED: &str = "an operator said that it took effect, and gave no result";

/// A call that failed for good before, or whose outcome is unknown.
#[derive(Clone, Debug)]
pub struct Failure {
    key: Key,
    reason: Reason,
    error: String,
}

impl Failure {
    pub(crate) fn new(key: Key, reason: Reason, error: String) -> Self {
        Self { key, reason, error }
    }

    /// Of the call.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Why it failed.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// In the handler's words.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// As the error that [`Call::run`](crate::Call::run) gives.
    pub fn into_error(self) -> Error {
        let kind = match self.reason {
            Reason::OutcomeUnknown => ErrorKind::OutcomeUnknown,
            reason @ (Reason::Fatal
            | Reason::Exhausted
            | Reason::Window
            | Reason::TooOld
            | Reason::Cancelled
            | Reason::Dropped) => ErrorKind::FailedBefore { reason },
        };
        Error::new(kind, self.key).with_detail(self.error)
    }
}
