//! What can go wrong with a request.

use crate::{error::Error, handler_error::BoxError};
use std::{error::Error as StdError, fmt};

/// Why a request got no response: the inner service's own error, or what became of the call.
///
/// ```
/// use semel::{ErrorKind, service::ServiceError};
/// fn is_worth_retrying(error: &ServiceError<std::io::Error>) -> bool {
///     match error {
///         ServiceError::Inner(error) => error.kind() == std::io::ErrorKind::TimedOut,
///         ServiceError::Semel(error) => error.is_transient(),
///     }
/// }
/// assert!(is_worth_retrying(&ServiceError::Inner(std::io::ErrorKind::TimedOut.into())));
/// ```
#[derive(Debug)]
pub enum ServiceError<E> {
    /// The inner service was called, or polled, and this is its error, as it is.
    Inner(E),
    /// The inner service was not called, or its response does not count: this says why.
    Semel(Error),
}

impl<E> ServiceError<E> {
    /// The inner service's error, if it is one.
    pub fn inner(&self) -> Option<&E> {
        match self {
            Self::Inner(error) => Some(error),
            Self::Semel(_) => None,
        }
    }

    /// What became of the call, if the inner service's error is not the reason.
    pub fn semel(&self) -> Option<&Error> {
        match self {
            Self::Inner(_) => None,
            Self::Semel(error) => Some(error),
        }
    }
}

impl<E: Into<BoxError>> ServiceError<E> {
    /// The error it holds, boxed: for stacks whose errors are boxed, with `map_err`.
    ///
    /// ```
    /// use semel::{BoxError, service::ServiceError};
    /// let error: ServiceError<BoxError> = ServiceError::Inner("the bank is closed".into());
    /// assert_eq!(error.into_boxed().to_string(), "the bank is closed");
    /// ```
    pub fn into_boxed(self) -> BoxError {
        match self {
            Self::Inner(error) => error.into(),
            Self::Semel(error) => error.into(),
        }
    }
}

impl<E> From<Error> for ServiceError<E> {
    fn from(error: Error) -> Self {
        Self::Semel(error)
    }
}

impl<E: fmt::Display> fmt::Display for ServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::Semel(error) => error.fmt(f),
        }
    }
}

/// Stands for the error it holds: that error's source is this one's.
impl<E: StdError + 'static> StdError for ServiceError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Inner(error) => error.source(),
            Self::Semel(error) => error.source(),
        }
    }
}
