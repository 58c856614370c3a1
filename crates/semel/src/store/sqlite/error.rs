//! What SQLite says, as what to do about it.

use semel_core::store::{StoreError, StoreErrorKind};
use std::sync::Arc;

pub(super) const STORE: &str = "sqlite";

/// What went wrong while doing this.
pub(super) fn told(doing: &str, error: sqlx::Error) -> StoreError {
    let (kind, remedy) = diagnosis(&error);
    StoreError::new(kind, STORE, format!("{doing}: {remedy}")).because(error)
}

/// The same for one of many who were in it together.
pub(super) fn told_all(doing: &str, error: &Arc<sqlx::Error>) -> StoreError {
    let (kind, remedy) = diagnosis(error);
    StoreError::new(kind, STORE, format!("{doing}: {remedy}")).because(Arc::clone(error))
}

pub(super) fn misconfigured(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context)
}

/// Whether somebody else had the file, or a table of it.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(
        error.as_database_error().and_then(|it| it.code()?.parse::<i32>().ok()).map(|it| it & 0xff),
        Some(5 | 6)
    )
}

fn diagnosis(error: &sqlx::Error) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Corrupt, Misconfigured, Unavailable};
    match error {
        sqlx::Error::Database(it) => by_code(it.code().and_then(|it| it.parse().ok()), it.message()),
        sqlx::Error::Configuration(_) => {
            (Misconfigured, "the URL is not understood; wanted `sqlite://file.db`")
        }
        sqlx::Error::PoolTimedOut => {
            (Unavailable, "no connection became free in time; enlarge the pool, or hold connections for less")
        }
        sqlx::Error::PoolClosed => {
            (Misconfigured, "the pool was closed; keep it open while the store is used")
        }
        sqlx::Error::ColumnNotFound(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            (Corrupt, "the table is not as Semel made it")
        }
        _ => (Unavailable, "the database could not be used; try again"),
    }
}

/// By SQLite's result code, whose last byte is the general one.
fn by_code(code: Option<i32>, message: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Corrupt, Misconfigured, Refused, TooLarge, Unavailable};
    match code.map(|it| it & 0xff) {
        Some(5 | 6) => (Unavailable, "another connection writes for too long; try again"),
        Some(8) => (Refused, "the file is read-only; mend its rights, or open it read-write"),
        Some(3 | 23) => (Refused, "access was denied; mend the rights of the file and its directory"),
        Some(13) => (Refused, "the disk is full; make room"),
        Some(10) => (Refused, "the disk could not be read or written; look at it"),
        Some(18) => (TooLarge, "the record is larger than what a row holds; lower `body_bytes_max`"),
        Some(11) => (Corrupt, "the file is damaged; restore it"),
        Some(26) => (Misconfigured, "the file is no SQLite database; name another one"),
        Some(14) => (Misconfigured, "the file cannot be opened; is its directory there, and writable?"),
        Some(1) if message.starts_with("no such table") => (
            Misconfigured,
            "the table is missing; open it with `SqliteStore::builder().create()`, or run `schema_sql()`",
        ),
        Some(1) => (Misconfigured, "the table is not as Semel made it; use a name of its own"),
        Some(_) | None => (Refused, "the database refused"),
    }
}
