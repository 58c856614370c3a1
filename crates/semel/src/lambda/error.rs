//! Errors as AWS Lambda knows them: a type to branch on, and a message.
//!
//! 1. A handler names its error with [`NamedError`]; every other one is a `HandlerError`. The message is the
//!    error with all of its causes.
//! 2. A fatal error is kept as `type: message`, and its replay has the same type and the same message.
//! 3. What became of a call is an error of type `Semel.…`, after [`ErrorKind`].
//!
//! It does not decide which errors are retried: whoever invoked the function does, by its settings.

use crate::{
    error::{Error, ErrorKind},
    handler_error::HandlerError,
};
use lambda_runtime::Diagnostic;
use std::{error::Error as StdError, fmt};

/// Longest error of a handler that is answered and kept, type and message together, in bytes; it is cut at a
/// character.
pub const ERROR_BYTES_MAX: usize = 2 * 1024;
/// Longest type of a handler's error, in bytes.
pub const ERROR_TYPE_BYTES_MAX: usize = 128;

/// The type of an error that its handler did not name.
const UNNAMED: &str = "HandlerError";

/// A handler's error with a type that callers can branch on, as Step Functions do with `ErrorEquals`.
///
/// ```
/// use semel::{HandlerError, lambda::NamedError};
/// fn charge(card: &str) -> Result<(), HandlerError> {
///     match card {
///         "declined" => Err(HandlerError::fatal(NamedError::new("CardDeclined", "the bank said no"))),
///         _ => Ok(()),
///     }
/// }
/// assert!(charge("declined").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedError {
    error_type: String,
    message: String,
}

impl NamedError {
    /// An error of this type. What is longer than Lambda's answers should have is cut.
    pub fn new(error_type: impl AsRef<str>, message: impl Into<String>) -> Self {
        // The type ends at the first `: ` when it is read back.
        let mut error_type = error_type.as_ref().trim().replace(": ", ":");
        if error_type.is_empty() {
            error_type.push_str(UNNAMED);
        }
        cut(&mut error_type, ERROR_TYPE_BYTES_MAX);
        let mut message = message.into();
        cut(&mut message, ERROR_BYTES_MAX - error_type.len());
        Self { error_type, message }
    }

    /// What callers branch on.
    pub fn error_type(&self) -> &str {
        &self.error_type
    }

    /// What people read.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What a handler's error is to its caller.
    pub(super) fn of(error: &HandlerError) -> Self {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*error.source);
        let mut error_type = UNNAMED;
        while let Some(error) = cause {
            if let Some(named) = error.downcast_ref::<Self>() {
                error_type = &named.error_type;
                break;
            }
            cause = error.source();
        }
        Self::new(error_type, Error::chain(&*error.source))
    }

    /// As it is kept with the record.
    pub(super) fn kept(&self) -> String {
        format!("{}: {}", self.error_type, self.message)
    }

    /// What [`NamedError::kept`] gave, read back.
    pub(super) fn from_kept(text: &str) -> Self {
        let (error_type, message) = text.split_once(": ").unwrap_or((UNNAMED, text));
        Self { error_type: error_type.to_owned(), message: message.to_owned() }
    }
}

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
}

impl fmt::Display for NamedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for NamedError {}

/// Why an event got no result.
#[derive(Debug)]
pub(super) enum Fault {
    /// The handler said so, now or before.
    Handler(NamedError),
    /// What became of the call.
    Semel(Error),
    /// The event is not what the handler takes.
    Event(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Semel(error)
    }
}

impl From<Fault> for Diagnostic {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Handler(NamedError { error_type, message: error_message }) => {
                Self { error_type, error_message }
            }
            Fault::Semel(error) => {
                Self { error_type: error_type(error.kind()).to_owned(), error_message: Error::chain(&error) }
            }
            Fault::Event(error_message) => {
                Self { error_type: "Semel.InvalidEvent".to_owned(), error_message }
            }
        }
    }
}

/// The type of what became of a call, for callers to branch on.
fn error_type(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::KeyRequired => "Semel.KeyRequired",
        ErrorKind::InvalidKey => "Semel.InvalidKey",
        ErrorKind::InvalidPayload => "Semel.InvalidPayload",
        ErrorKind::FailedBefore { .. } => "Semel.FailedBefore",
        ErrorKind::InProgress { .. } => "Semel.InProgress",
        ErrorKind::Expired => "Semel.Expired",
        ErrorKind::NotKept => "Semel.NotKept",
        ErrorKind::Sealed => "Semel.Sealed",
        ErrorKind::Mismatch => "Semel.Mismatch",
        ErrorKind::Superseded => "Semel.Superseded",
        ErrorKind::Lapsed => "Semel.Lapsed",
        ErrorKind::OutcomeUnknown => "Semel.OutcomeUnknown",
        ErrorKind::Unconfirmed => "Semel.Unconfirmed",
        ErrorKind::Handler => UNNAMED,
        ErrorKind::Store => "Semel.Store",
        ErrorKind::Contended => "Semel.Contended",
        ErrorKind::EffectReused => "Semel.EffectReused",
        ErrorKind::Refused => "Semel.Refused",
        ErrorKind::NotFound => "Semel.NotFound",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::record;

    #[test]
    fn an_error_that_was_kept_is_the_same_when_it_is_read_back() {
        for (error_type, message) in [
            ("CardDeclined", "the bank said no"),
            ("payments::Error", "declined: no money: really"),
            ("Has: a separator", ": begins with one"),
            ("", ""),
            ("  ", "only spaces"),
            (&"T".repeat(4_000), &"ä".repeat(4_000)),
        ] {
            let error = NamedError::new(error_type, message);
            assert_eq!(NamedError::from_kept(&error.kept()), error);
            assert!(error.kept().len() <= record::ERROR_BYTES_MAX, "it is not cut a second time");
            assert!(!error.error_type().is_empty());
        }
    }

    #[test]
    fn every_type_stands_in_the_documentation() {
        let (source, manual) = (include_str!("error.rs"), include_str!("../lambda.rs"));
        let types = source.split('"').filter(|it| it.len() > 6 && it.starts_with("Semel."));
        for error_type in types {
            assert!(manual.contains(&format!("`{error_type}`")), "`{error_type}` is not in the table");
        }
    }

    #[test]
    fn a_long_error_is_cut_at_the_limits() {
        let error = NamedError::new("T".repeat(4_000), "m".repeat(4_000));
        assert_eq!(error.error_type().len(), ERROR_TYPE_BYTES_MAX);
        assert_eq!(error.error_type().len() + error.message().len(), ERROR_BYTES_MAX);
    }

    #[test]
    fn the_name_is_found_wherever_the_handler_wrapped_it() {
        #[derive(Debug)]
        struct Outer(NamedError);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("could not pay")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let named = NamedError::of(&HandlerError::fatal(Outer(NamedError::new("CardDeclined", "no money"))));
        assert_eq!((named.error_type(), named.message()), ("CardDeclined", "could not pay: no money"));
        let plain = NamedError::of(&HandlerError::from("the bank is closed"));
        assert_eq!((plain.error_type(), plain.message()), ("HandlerError", "the bank is closed"));
    }
}
