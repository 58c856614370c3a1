//! What can go wrong with a call, told so that a program can branch and a person can act.
//!
//! 1. [`Error::kind`] says what happened; [`Error::is_transient`] whether the same call may succeed later.
//! 2. The text is a fragment: the key, what happened, and what to do about it. Causes are in the source chain
//!    and are never repeated in the text.
//! 3. A duplicate of a failed call, a busy key and an unknown outcome are errors of [`Call::run`] because it
//!    has no result to give; [`Call::begin`] gives the same as values.
//!
//! [`Call::run`]: crate::Call::run
//! [`Call::begin`]: crate::Call::begin

use semel_core::{
    key::{Key, KeyError},
    record::Reason,
    store::StoreError,
    time::Timestamp,
};
use std::{error::Error as StdError, fmt};

/// Why a call gave no result.
///
/// ```
/// use semel::{ErrorKind, Once};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::memory();
/// let error = once.call("greet", None::<&str>).run(async |_| Ok(())).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::KeyRequired);
/// # Ok::<(), std::io::Error>(()) })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    /// Of the call or effect that the error is about; none if it had no valid key.
    key: Option<Key>,
    /// What the record or the key check said, where the kind alone does not.
    detail: Option<String>,
    is_transient: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What happened to a call, to branch on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key was missing: empty, blank, `None`, or a composite of nothing else. Nothing ran.
    KeyRequired,
    /// The key was too long or contained control characters. Nothing ran.
    InvalidKey,
    /// The payload could not be fingerprinted. Nothing ran.
    InvalidPayload,
    /// The call, or the effect, failed for good before; this is that failure, replayed.
    FailedBefore {
        /// Why it failed.
        reason: Reason,
    },
    /// Another holder runs the call.
    InProgress {
        /// When its lease lapses unless it is renewed.
        until: Timestamp,
    },
    /// The call took effect, but its result is older than the body retention.
    Expired,
    /// The call took effect, but its result was not kept, or cannot be read.
    NotKept,
    /// The call took effect, but its result is sealed and does not open: see [`seal`](crate::seal).
    Sealed,
    /// The key was claimed with another payload. Nothing ran.
    Mismatch,
    /// Another holder took the call over; nothing that this one did is reported as success.
    Superseded,
    /// The lease could not be renewed in time, so the handler was stopped. Another holder will take over.
    Lapsed,
    /// Whether the effect happened cannot be told. Somebody must find out and resolve it.
    OutcomeUnknown,
    /// The handler succeeded, but the store did not confirm it before the lease ran out.
    Unconfirmed,
    /// The handler returned an error; it is the source.
    Handler,
    /// The store could not tell what happened.
    Store,
    /// The key changed hands too often while it was being claimed.
    Contended,
    /// One effect was used twice in one attempt: a mistake in the handler.
    EffectReused,
    /// The record's status does not allow what an operator asked.
    Refused,
    /// There is no record under the key.
    NotFound,
}

impl ErrorKind {
    /// As written in labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyRequired => "key_required",
            Self::InvalidKey => "invalid_key",
            Self::InvalidPayload => "invalid_payload",
            Self::FailedBefore { .. } => "failed_before",
            Self::InProgress { .. } => "in_progress",
            Self::Expired => "expired",
            Self::NotKept => "not_kept",
            Self::Sealed => "sealed",
            Self::Mismatch => "mismatch",
            Self::Superseded => "superseded",
            Self::Lapsed => "lapsed",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Unconfirmed => "unconfirmed",
            Self::Handler => "handler",
            Self::Store => "store",
            Self::Contended => "contended",
            Self::EffectReused => "effect_reused",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
        }
    }

    const fn is_transient(self) -> bool {
        match self {
            Self::InProgress { .. }
            | Self::Superseded
            | Self::Lapsed
            | Self::Unconfirmed
            | Self::Contended => true,
            Self::KeyRequired
            | Self::InvalidKey
            | Self::InvalidPayload
            | Self::FailedBefore { .. }
            | Self::Expired
            | Self::NotKept
            | Self::Sealed
            | Self::Mismatch
            | Self::OutcomeUnknown
            | Self::Handler
            | Self::Store
            | Self::EffectReused
            | Self::Refused
            | Self::NotFound => false,
        }
    }
}

impl Error {
    /// What happened.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed when it is made again.
    pub fn is_transient(&self) -> bool {
        self.0.is_transient
    }

    /// Of the call or effect that the error is about, if it had a valid one.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// What a failed record says in the handler's words, or what was wrong with a key.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The handler's own error, if it is of this type, wherever it stands in the chain.
    ///
    /// ```
    /// # use semel::Once;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let error = once.call("parse", 1).run(async |_| Ok("x".parse::<u32>()?)).await.unwrap_err();
    /// assert!(error.find::<std::num::ParseIntError>().is_some());
    /// # Ok::<(), std::io::Error>(()) })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    pub(crate) fn new(kind: ErrorKind, key: Key) -> Self {
        let is_transient = kind.is_transient();
        Self(Box::new(Inner { kind, key: Some(key), detail: None, is_transient, source: None }))
    }

    pub(crate) fn keyless(kind: ErrorKind, detail: String) -> Self {
        let is_transient = kind.is_transient();
        Self(Box::new(Inner { kind, key: None, detail: Some(detail), is_transient, source: None }))
    }

    pub(crate) fn bad_key(error: KeyError) -> Self {
        let kind = if error.is_missing() { ErrorKind::KeyRequired } else { ErrorKind::InvalidKey };
        Self::keyless(kind, error.to_string())
    }

    pub(crate) fn store(key: Option<Key>, error: StoreError) -> Self {
        let is_transient = error.is_transient();
        let source = Some(error.into());
        Self(Box::new(Inner { kind: ErrorKind::Store, key, detail: None, is_transient, source }))
    }

    /// About this call, if it had no key of its own.
    pub(crate) fn about(mut self, call: &Key) -> Self {
        self.0.key.get_or_insert_with(|| call.clone());
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn transient(mut self, is_transient: bool) -> Self {
        self.0.is_transient = is_transient;
        self
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What to keep with a record: the whole chain, since nobody can ask it for its sources later.
    pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.0.detail.as_deref().unwrap_or("no detail was kept");
        if let Some(key) = &self.0.key {
            write!(f, "`{key}`: ")?;
        }
        match self.0.kind {
            ErrorKind::KeyRequired | ErrorKind::InvalidKey | ErrorKind::Refused => f.write_str(detail),
            ErrorKind::InvalidPayload => {
                write!(
                    f,
                    "the payload has no fingerprint ({detail}): pass bytes, or a fingerprint of your own"
                )
            }
            ErrorKind::FailedBefore { reason } => {
                write!(f, "failed before ({reason}): {detail}; forget it to let it run again")
            }
            ErrorKind::InProgress { .. } => {
                f.write_str("another holder runs it: come again when it is done, or its lease has lapsed")
            }
            ErrorKind::Expired => f.write_str(
                "took effect, but its result is past the body retention: raise it to replay for longer",
            ),
            ErrorKind::NotKept => write!(f, "took effect, but its result cannot be replayed: {detail}"),
            ErrorKind::Sealed => write!(f, "took effect, but its result cannot be opened: {detail}"),
            ErrorKind::Mismatch => {
                f.write_str("was claimed with another payload: use one key for one operation")
            }
            ErrorKind::Superseded => f.write_str(
                "another holder took over, so this one's result does not count: call again to get the other's",
            ),
            ErrorKind::Lapsed => {
                f.write_str("the lease could not be renewed in time, and the handler was stopped: call again")
            }
            ErrorKind::OutcomeUnknown => {
                write!(f, "whether it took effect is unknown ({detail}): find out, then resolve it")
            }
            ErrorKind::Unconfirmed => f.write_str(
                "done, but unconfirmed: the store did not answer before the lease ran out; call again",
            ),
            ErrorKind::Handler => f.write_str("the handler returned an error"),
            ErrorKind::Store => f.write_str("the store could not tell what happened"),
            ErrorKind::Contended => f.write_str("changed hands too often to be claimed: call again"),
            ErrorKind::EffectReused => {
                f.write_str("was used twice in one attempt: give each effect a name of its own")
            }
            ErrorKind::NotFound => f.write_str("there is no record of it"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, key, detail, is_transient, source } = &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("key", key)
            .field("detail", detail)
            .field("is_transient", is_transient)
            .field("source", source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|it| it as &(dyn StdError + 'static))
    }
}
