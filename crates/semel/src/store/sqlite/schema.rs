//! The tables: what they are, and how they are looked at and made. What is to be done about their version is
//! [`Schema`]'s.

use super::error::{STORE, told};
use crate::store::sql::{Schema, Table};
use semel_core::store::StoreError;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

/// The tables of a store.
pub(super) fn of_records(table: &Table) -> Schema {
    let (records, meta, never) = (table.records(), Schema::meta_of(table), i64::MAX);
    let index = table.bare("_expires_at");
    let first = format!(
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
    fence   INTEGER NOT NULL DEFAULT 0 -- the last one given; it is never given again
);
"
    );
    Schema {
        store: STORE,
        title: "Records of Semel",
        meta,
        steps: vec![first],
        begin: "BEGIN IMMEDIATE",
        remedy: "open it with `SqliteStore::builder().create()`",
    }
}

/// The tables of repositories.
pub(super) fn of_documents(table: &Table) -> Schema {
    let (documents, meta) = (table.records(), Schema::meta_of(table));
    let first = format!(
        "\
CREATE TABLE IF NOT EXISTS {documents} (
    identity   BLOB    PRIMARY KEY, -- SHA-256 of collection and id
    collection TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    version    INTEGER NOT NULL,    -- grows by one with every write
    writer     BLOB    NOT NULL,    -- of the last write, random
    body       TEXT    NOT NULL     -- JSON
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {meta} (version INTEGER NOT NULL);
"
    );
    Schema {
        store: STORE,
        title: "Documents of Semel's repositories",
        meta,
        steps: vec![first],
        begin: "BEGIN IMMEDIATE",
        remedy: "use `SqliteDocuments::create`",
    }
}

/// Makes the tables if they are not there, and brings older ones up to date.
pub(super) async fn migrate(connection: &mut SqliteConnection, schema: &Schema) -> Result<(), StoreError> {
    let doing = "creating the tables";
    let found = version(connection, schema).await?;
    let Some(steps) = schema.migration(found)? else { return Ok(()) };
    let begun = connection.begin_with(schema.begin).await;
    let mut transaction = begun.map_err(|error| told(doing, error))?;
    let run = sqlx::raw_sql(AssertSqlSafe(steps)).execute(&mut *transaction).await;
    run.map_err(|error| told(doing, error))?;
    transaction.commit().await.map_err(|error| told(doing, error))
}

/// Makes sure that the tables are those that this code knows.
pub(super) async fn check(connection: &mut SqliteConnection, schema: &Schema) -> Result<(), StoreError> {
    schema.accept(version(connection, schema).await?)
}

/// The version of the tables; none if there are none.
async fn version(connection: &mut SqliteConnection, schema: &Schema) -> Result<Option<i64>, StoreError> {
    let doing = "looking at the tables";
    let is_there = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND '\"' || name || '\"' = $1";
    let row = sqlx::query(is_there).bind(&schema.meta).fetch_one(&mut *connection).await;
    let is_there: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| told(doing, error))?;
    if is_there == 0 {
        return Ok(None);
    }
    let text = format!("SELECT coalesce(max(version), 0) FROM {}", schema.meta);
    let row = sqlx::query(AssertSqlSafe(text)).fetch_one(connection).await;
    row.and_then(|row| row.try_get(0)).map(Some).map_err(|error| told(doing, error))
}
