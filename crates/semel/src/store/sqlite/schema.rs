//! The tables, their version, and the way from one version to the next.
//!
//! 1. A table of one row says which version the schema has, and which fence was given last. Each step leads from
//!    one version to the next and may be run twice.
//! 2. Who opens it is told about a missing, older or newer schema; nothing is changed unless it was asked for.
//! 3. The same steps are a text that a person can run.

use super::error::{misconfigured, told};
use crate::store::sql::Table;
use semel_core::store::StoreError;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

/// The version that this code reads and writes.
pub(super) const VERSION: i64 = 1;

/// Everything, as SQL.
pub(super) fn sql(table: &Table) -> String {
    format!(
        "-- Records of Semel, schema version {VERSION}. May be run again.\nBEGIN IMMEDIATE;\n{}{}COMMIT;\n",
        steps(table).concat(),
        set_version(table)
    )
}

/// One step for each version, from the one before it.
fn steps(table: &Table) -> [String; VERSION as usize] {
    let (records, meta, never) = (table.records(), table.quoted("_meta"), i64::MAX);
    let index = table.bare("_expires_at");
    [format!(
        "\
CREATE TABLE IF NOT EXISTS {records} (
    identity   BLOB    PRIMARY KEY, -- SHA-256 of the key
    fence      INTEGER NOT NULL,    -- of the last write
    status     TEXT    NOT NULL,    -- for people; the record says it, too
    key        TEXT    NOT NULL,    -- for people; the record says it, too
    expires_at INTEGER NOT NULL,    -- milliseconds since 1970; {never} is never
    record     BLOB    NOT NULL     -- as Semel encodes it
);
-- What is unfinished never expires, and is not in it.
CREATE INDEX IF NOT EXISTS {index} ON {records} (expires_at) WHERE expires_at < {never};
CREATE TABLE IF NOT EXISTS {meta} (
    version INTEGER NOT NULL,
    fence   INTEGER NOT NULL -- the last one given; it is never given again
);
"
    )]
}

fn set_version(table: &Table) -> String {
    let meta = table.quoted("_meta");
    format!(
        "UPDATE {meta} SET version = {VERSION} WHERE version < {VERSION};\n\
         INSERT INTO {meta} (version, fence) SELECT {VERSION}, 0 WHERE NOT EXISTS (SELECT 1 FROM {meta});\n"
    )
}

/// Makes the tables if they are not there, and brings older ones up to date.
pub(super) async fn migrate(connection: &mut SqliteConnection, table: &Table) -> Result<(), StoreError> {
    let doing = "creating the tables";
    let version = version(connection, table).await?;
    if let Some(found) = version.filter(|it| *it > VERSION) {
        return Err(newer(found));
    }
    if version == Some(VERSION) {
        return Ok(());
    }
    let begun = connection.begin_with("BEGIN IMMEDIATE").await;
    let mut transaction = begun.map_err(|error| told(doing, error))?;
    let done = usize::try_from(version.unwrap_or(0)).unwrap_or(0);
    let text = steps(table)[done..].concat() + &set_version(table);
    let run = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *transaction).await;
    run.map_err(|error| told(doing, error))?;
    transaction.commit().await.map_err(|error| told(doing, error))
}

/// Makes sure that the schema is the one this code knows.
pub(super) async fn check(connection: &mut SqliteConnection, table: &Table) -> Result<(), StoreError> {
    match version(connection, table).await? {
        Some(VERSION) => Ok(()),
        Some(found) if found > VERSION => Err(newer(found)),
        Some(found) => Err(misconfigured(format!(
            "the tables have schema version {found}, and this Semel needs {VERSION}: open it with \
             `SqliteStore::builder().create()`, or run `schema_sql()`"
        ))),
        None => Err(misconfigured(
            "the table is missing: open it with `SqliteStore::builder().create()`, or run `schema_sql()`",
        )),
    }
}

/// The version of the schema; none if there is no schema.
async fn version(connection: &mut SqliteConnection, table: &Table) -> Result<Option<i64>, StoreError> {
    let doing = "looking at the tables";
    let is_there = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND '\"' || name || '\"' = $1";
    let row = sqlx::query(is_there).bind(table.quoted("_meta")).fetch_one(&mut *connection).await;
    let is_there: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| told(doing, error))?;
    if is_there == 0 {
        return Ok(None);
    }
    let text = format!("SELECT coalesce(max(version), 0) FROM {}", table.quoted("_meta"));
    let row = sqlx::query(AssertSqlSafe(text)).fetch_one(connection).await;
    row.and_then(|row| row.try_get(0)).map(Some).map_err(|error| told(doing, error))
}

fn newer(found: i64) -> StoreError {
    misconfigured(format!(
        "the tables have schema version {found}, and this Semel knows versions up to {VERSION}: upgrade Semel"
    ))
}
