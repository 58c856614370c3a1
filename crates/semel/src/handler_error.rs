//! What a handler says about its own failure.
//!
//! 1. `?` takes any error. A plain one is retryable: the call may be run again.
//! 2. [`HandlerError::fatal`], or `.fatal()?` on a result, says that trying again is pointless: the failure is
//!    kept and replayed.
//! 3. [`HandlerError::unknown`] says that the effect may have happened: the call waits for somebody to resolve
//!    it.
//! 4. Semel's own errors, which an effect returns, keep their meaning on their way through.
//!
//! It is not a [`std::error::Error`]: that is what lets `?` turn every error into one.

use crate::error::{Error, ErrorKind};
use semel_core::key::Key;
use std::{error::Error as StdError, fmt};

/// A boxed error of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What a handler returns when it fails.
///
/// ```
/// use semel::{HandlerError, Classify};
/// fn pay(card: &str) -> Result<u32, HandlerError> {
///     let number = card.parse::<u32>().fatal()?;        // never will be a number
///     std::fs::metadata("/")?;                          // plain: retryable
///     if number == 0 {
///         return Err(HandlerError::unknown("the connection broke after the request was sent"));
///     }
///     Ok(number)
/// }
/// assert!(pay("x").unwrap_err().is_fatal());
/// ```
pub struct HandlerError {
    pub(crate) source: BoxError,
    pub(crate) said: Option<Class>,
}

/// What an error means for the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// It may be run again.
    Retryable,
    /// It will not be.
    Fatal,
    /// Nobody knows whether it took effect.
    Unknown,
    /// Somebody else holds it: nothing is to be written.
    NotOurs,
}

impl HandlerError {
    /// Trying again is pointless: the failure is kept, and duplicates get it.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self { source: error.into(), said: Some(Class::Fatal) }
    }

    /// The call may be run again, whatever `is_fatal` says.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self { source: error.into(), said: Some(Class::Retryable) }
    }

    /// The effect may or may not have happened: nothing runs again until somebody resolves it.
    pub fn unknown(error: impl Into<BoxError>) -> Self {
        Self { source: error.into(), said: Some(Class::Unknown) }
    }

    /// Whether it was said to be fatal.
    pub fn is_fatal(&self) -> bool {
        self.said == Some(Class::Fatal)
    }

    /// The error itself.
    pub fn into_source(self) -> BoxError {
        self.source
    }

    /// What it means for this call: as was said, else as the error of one of its effects says, else as the
    /// caller's closure says.
    pub(crate) fn class(&self, call: &Key, is_fatal: Option<&IsFatal>) -> Class {
        let plain = || match is_fatal {
            Some(is_fatal) if is_fatal(&*self.source) => Class::Fatal,
            Some(_) | None => Class::Retryable,
        };
        self.said.unwrap_or_else(|| self.own(call).map_or_else(plain, class_of))
    }

    /// Semel's error about this call or one of its effects, wherever the handler wrapped it. One about another
    /// call, which the handler made, is an error like any other.
    pub(crate) fn own(&self, call: &Key) -> Option<&Error> {
        let is_ours = |key: &Key| key == call || key.parent().as_ref() == Some(call);
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*self.source);
        while let Some(error) = cause {
            if let Some(own) = error.downcast_ref::<Error>() {
                return own.key().is_some_and(is_ours).then_some(own);
            }
            cause = error.source();
        }
        None
    }
}

/// Tells whether a handler's error is fatal.
pub(crate) type IsFatal = std::sync::Arc<dyn Fn(&(dyn StdError + 'static)) -> bool + Send + Sync>;

/// What an effect's error means for the call it belongs to.
pub(crate) fn class_of(error: &Error) -> Class {
    match error.kind() {
        ErrorKind::Superseded | ErrorKind::Lapsed => Class::NotOurs,
        ErrorKind::OutcomeUnknown => Class::Unknown,
        ErrorKind::Handler if error.is_transient() => Class::Retryable,
        ErrorKind::Handler
        | ErrorKind::FailedBefore { .. }
        | ErrorKind::Expired
        | ErrorKind::NotKept
        | ErrorKind::Mismatch => Class::Fatal,
        // A mistake in the handler or the keyring is mended by the next version; the call must survive until then.
        ErrorKind::KeyRequired
        | ErrorKind::InvalidKey
        | ErrorKind::InvalidPayload
        | ErrorKind::EffectReused
        | ErrorKind::Sealed
        | ErrorKind::InProgress { .. }
        | ErrorKind::Unconfirmed
        | ErrorKind::Store
        | ErrorKind::Contended
        | ErrorKind::Refused
        | ErrorKind::NotFound => Class::Retryable,
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self { source: error.into(), said: None }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("source", &self.source).field("said", &self.said).finish()
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// Says what a result's error means, on its way through `?`.
///
/// ```
/// use semel::{Classify, HandlerError};
/// fn read(text: &str) -> Result<u32, HandlerError> {
///     Ok(text.parse::<u32>().fatal()?)
/// }
/// assert!(read("x").unwrap_err().is_fatal());
/// ```
pub trait Classify<T> {
    /// Trying again is pointless.
    fn fatal(self) -> Result<T, HandlerError>;
    /// It may be tried again, whatever `is_fatal` says.
    fn retryable(self) -> Result<T, HandlerError>;
    /// The effect may or may not have happened.
    fn unknown(self) -> Result<T, HandlerError>;
}

impl<T, E: Into<BoxError>> Classify<T> for Result<T, E> {
    fn fatal(self) -> Result<T, HandlerError> {
        self.map_err(HandlerError::fatal)
    }
    fn retryable(self) -> Result<T, HandlerError> {
        self.map_err(HandlerError::retryable)
    }
    fn unknown(self) -> Result<T, HandlerError> {
        self.map_err(HandlerError::unknown)
    }
}
