//! What PostgreSQL says, as what to do about it.

use semel_core::store::{StoreError, StoreErrorKind};

/// Whose errors these are.
pub const STORE: &str = "postgres";

/// What went wrong while doing this.
pub fn told(doing: &str, error: sqlx::Error) -> StoreError {
    let (kind, remedy) = diagnosis(&error);
    StoreError::new(kind, STORE, format!("{doing}: {remedy}")).because(error)
}

/// Something was set up wrongly.
pub fn misconfigured(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context)
}

/// Whether the statement did nothing and may simply be sent again: two transactions were in each other's way.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("40001" | "40P01"))
}

/// Whether the connection may be used again. One that the server ends may not; nor one to a server that is only read:
/// the next may lead elsewhere, once a failover has moved the name.
pub fn is_answer(error: &sqlx::Error) -> bool {
    let is_useless =
        |code: &str| matches!(code, "25006" | "25P03") || code.starts_with("57P") || code.starts_with("08");
    code(error).is_some_and(|it| !is_useless(&it))
}

pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).map(std::borrow::Cow::into_owned)
}

fn diagnosis(error: &sqlx::Error) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Corrupt, Misconfigured, Unavailable};
    match error {
        sqlx::Error::Database(_) => by_code(code(error).unwrap_or_default().as_str()),
        sqlx::Error::Configuration(_) => {
            (Misconfigured, "the URL is not understood; wanted `postgres://user:password@host/database`")
        }
        sqlx::Error::Tls(_) => (Misconfigured, "TLS failed; check `sslmode`, and sqlx's `tls-…` features"),
        sqlx::Error::PoolTimedOut => (
            Unavailable,
            "no connection in time; enlarge the pool, hold connections for less, or look whether the server is there",
        ),
        sqlx::Error::PoolClosed => {
            (Misconfigured, "the pool was closed; keep it open while the store is used")
        }
        sqlx::Error::ColumnNotFound(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            (Corrupt, "the table is not as Semel made it")
        }
        _ => (Unavailable, "the server could not be reached, or hung up; try again"),
    }
}

/// By SQLSTATE, the most special first.
fn by_code(code: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Corrupt, Misconfigured, Refused, TooLarge, Unavailable};
    let class = code.get(..2).unwrap_or_default();
    match (code, class) {
        ("25006", _) => (Refused, "the server is read-only, a replica perhaps; connect to the primary"),
        ("42501", _) => (
            Refused,
            "the user lacks the right; grant SELECT, INSERT, UPDATE, DELETE, and USAGE and UPDATE on the sequence",
        ),
        ("53100", _) => (Refused, "the server's disk is full; make room"),
        ("54000", _) => (TooLarge, "the record is larger than what a row holds; lower `body_bytes_max`"),
        ("42P01" | "3F000", _) => (
            Misconfigured,
            "the table is missing; connect with `PostgresStore::builder().create()`, or run `schema_sql()`",
        ),
        ("42703", _) => (Misconfigured, "the table has other columns than Semel's; use a name of its own"),
        ("3D000", _) => (Misconfigured, "there is no such database; create it, or mend the URL"),
        ("22021" | "22P05", _) => {
            (Misconfigured, "the database cannot hold Unicode; create it with the encoding UTF8")
        }
        ("25P03", _) => (Unavailable, "the connection stood still in the middle of a transaction; try again"),
        ("25P02", _) => {
            (Unavailable, "an earlier statement of the transaction failed; roll it back, and begin again")
        }
        ("55P03" | "57014", _) => {
            (Unavailable, "another transaction holds the record for too long; try again")
        }
        ("40001" | "40P01", _) => {
            (Unavailable, "other transactions were in the way, again and again; try again")
        }
        (_, "28") => (Misconfigured, "the server does not let this user in; check the user and the password"),
        (_, "08" | "40" | "53" | "57" | "58") => (Unavailable, "the server cannot answer now; try again"),
        (_, "XX") => (Corrupt, "the server says that its data is damaged; look at its log"),
        (_, "42" | "26" | "34") => {
            (Misconfigured, "the server does not understand the statement; is it PostgreSQL 12 or newer?")
        }
        _ => (Refused, "the server refused"),
    }
}
