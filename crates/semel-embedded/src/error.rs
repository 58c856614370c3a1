//! What the engine says when something is wrong: the thing, the cause, the remedy.

use semel_core::store::{StoreError, StoreErrorKind};
use std::io;

const STORE: &str = "embedded";

pub(crate) fn corrupt(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, STORE, context)
}

pub(crate) fn misconfigured(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context)
}

pub(crate) fn refused(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, STORE, context)
}

pub(crate) fn too_large(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::TooLarge, STORE, context)
}

/// The store stopped itself, because the disk no longer keeps what it is given.
pub(crate) fn poisoned(cause: &str) -> StoreError {
    refused(format!(
        "stopped after the journal could not be written ({cause}): mend the disk and restart the process; \
         nothing that was acknowledged is lost"
    ))
}

/// An error of the file system while doing this.
pub(crate) fn disk(doing: impl std::fmt::Display) -> impl FnOnce(io::Error) -> StoreError {
    move |cause| {
        let remedy = match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": free some space on the disk",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ": give this process the right to write there, or open another directory"
            }
            _ => "",
        };
        refused(format!("{doing}{remedy}")).because(cause)
    }
}

/// An error of SQLite while doing this.
pub(crate) fn sqlite(doing: impl std::fmt::Display) -> impl FnOnce(rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    move |cause| {
        let kind = match cause.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => StoreErrorKind::Corrupt,
            _ => StoreErrorKind::Refused,
        };
        StoreError::new(kind, STORE, doing.to_string()).because(cause)
    }
}
