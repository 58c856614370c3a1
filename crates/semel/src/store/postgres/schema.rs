//! The tables: what they are, and how they are looked at and made. What is to be done about their version is
//! [`Schema`]'s.
//!
//! It does not create schemas (name spaces) or databases: that takes rights that a service should not have.

use super::{error::STORE, lane};
use crate::store::sql::{PURGE_MAX, Schema, Table};
use semel_core::store::StoreError;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;

/// Longest that tables are made or changed for, or somebody else is waited for who does.
const MIGRATE_MAX: Duration = Duration::from_mins(5);

/// The tables of a store.
pub(super) fn of_records(table: &Table) -> Schema {
    let (records, meta, fence) = (table.records(), Schema::meta_of(table), table.quoted("_fence"));
    let (index, never) = (table.bare("_expires_at"), i64::MAX);
    let first = format!(
        "\
-- Gives each write its number, which is never given again. It follows the clock, eight microseconds a number.
CREATE SEQUENCE IF NOT EXISTS {fence};
CREATE TABLE IF NOT EXISTS {records} (
    identity   bytea  PRIMARY KEY, -- SHA-256 of the key
    fence      bigint NOT NULL,    -- of the last write
    status     text   NOT NULL,    -- for people; the record says it, too
    key        text   NOT NULL,    -- for people; the record says it, too
    expires_at bigint NOT NULL,    -- milliseconds since 1970; {never} is never
    record     bytea  NOT NULL     -- as Semel encodes it
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- What is unfinished never expires, and is not in it. Purging takes {PURGE_MAX} records at a time from its front.
CREATE INDEX IF NOT EXISTS {index} ON {records} (expires_at) WHERE expires_at < {never};
CREATE TABLE IF NOT EXISTS {meta} (version integer NOT NULL);
"
    );
    Schema {
        store: STORE,
        title: "Records of Semel",
        meta,
        steps: vec![first],
        begin: "BEGIN",
        remedy: "connect with `PostgresStore::builder().create()`",
    }
}

/// The tables of repositories.
pub(super) fn of_documents(table: &Table) -> Schema {
    let (documents, meta) = (table.records(), Schema::meta_of(table));
    let first = format!(
        "\
CREATE TABLE IF NOT EXISTS {documents} (
    identity   bytea       PRIMARY KEY,           -- SHA-256 of collection and id
    collection text        NOT NULL,
    id         text        NOT NULL,
    version    bigint      NOT NULL,              -- grows by one with every write
    writer     bytea       NOT NULL,              -- of the last write, random
    body       json        NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS {meta} (version integer NOT NULL);
"
    );
    Schema {
        store: STORE,
        title: "Documents of Semel's repositories",
        meta,
        steps: vec![first],
        begin: "BEGIN",
        remedy: "use `PostgresDocuments::create`",
    }
}

/// Makes the tables if they are not there, and brings older ones up to date. A connection on which that failed is of no
/// more use: nobody knows what it was left in.
pub async fn migrate(connection: &mut PgConnection, schema: &Schema) -> Result<(), StoreError> {
    let doing = "creating the tables";
    let mut transaction = lane::in_time(doing, connection.begin()).await?;
    // Two that create at once would meet in the catalogue, and one would fail. The number is any.
    let lock = sqlx::query("SELECT pg_advisory_xact_lock(7310579)").execute(&mut *transaction);
    lane::within(MIGRATE_MAX, doing, lock).await?;
    let found = version(&mut transaction, schema).await?;
    if let Some(steps) = schema.migration(found)? {
        let run = sqlx::raw_sql(AssertSqlSafe(steps)).execute(&mut *transaction);
        lane::within(MIGRATE_MAX, doing, run).await?;
    }
    lane::in_time(doing, transaction.commit()).await
}

/// Makes sure that the tables are those that this code knows.
pub async fn check(connection: &mut PgConnection, schema: &Schema) -> Result<(), StoreError> {
    schema.accept(version(connection, schema).await?)
}

/// The version of the tables; none if there are none.
async fn version(connection: &mut PgConnection, schema: &Schema) -> Result<Option<i64>, StoreError> {
    let doing = "looking at the tables";
    let is_there = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(&schema.meta);
    if !lane::in_time(doing, is_there.fetch_one(&mut *connection)).await? {
        return Ok(None);
    }
    let version = format!("SELECT coalesce(max(version), 0)::bigint FROM {}", schema.meta);
    let version = sqlx::query_scalar(AssertSqlSafe(version));
    lane::in_time(doing, version.fetch_one(connection)).await.map(Some)
}
