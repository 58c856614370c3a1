//! The tables, their version, and the way from one version to the next.
//!
//! 1. A table of one row says which version the schema has. Each step leads from one version to the next and may
//!    be run twice.
//! 2. Who connects is told about a missing, older or newer schema; nothing is changed unless it was asked for.
//! 3. The same steps are a text that a DBA can run.
//!
//! It does not create schemas (name spaces) or databases: that takes rights that a service should not have.

use super::{
    error::{misconfigured, told},
    statements::NOW_MS,
};
use crate::store::sql::{PURGE_MAX, Table};
use semel_core::{store::StoreError, time::Timestamp};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

/// The version that this code reads and writes.
pub(super) const VERSION: i32 = 1;

/// What the server says about itself and the schema.
pub(super) struct Seen {
    pub(super) version: i32,
    pub(super) now: Timestamp,
}

/// Everything, as SQL for a DBA.
pub(super) fn sql(table: &Table) -> String {
    format!(
        "-- Records of Semel, schema version {VERSION}. May be run again.\nBEGIN;\n{}{}COMMIT;\n",
        steps(table).concat(),
        set_version(table)
    )
}

/// One step for each version, from the one before it.
fn steps(table: &Table) -> [String; VERSION as usize] {
    let (records, meta, fence) = (table.records(), table.quoted("_meta"), table.quoted("_fence"));
    let (index, never) = (table.bare("_expires_at"), i64::MAX);
    [format!(
        "\
-- Gives each write its number, which is never given again.
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
    )]
}

fn set_version(table: &Table) -> String {
    let meta = table.quoted("_meta");
    format!(
        "UPDATE {meta} SET version = {VERSION} WHERE version < {VERSION};\n\
         INSERT INTO {meta} (version) SELECT {VERSION} WHERE NOT EXISTS (SELECT FROM {meta});\n"
    )
}

/// Makes the tables if they are not there, and brings older ones up to date.
pub(super) async fn migrate(connection: &mut PgConnection, table: &Table) -> Result<(), StoreError> {
    let doing = "creating the tables";
    let mut transaction = connection.begin().await.map_err(|error| told(doing, error))?;
    // Two that create at once would meet in the catalogue, and one would fail. The number is any.
    let lock = sqlx::query("SELECT pg_advisory_xact_lock(7310579), to_regclass($1) IS NOT NULL AS is_there");
    let row = lock.bind(table.quoted("_meta")).fetch_one(&mut *transaction).await;
    let row = row.map_err(|error| told(doing, error))?;
    let is_there: bool = row.try_get("is_there").map_err(|error| told(doing, error))?;
    let version = if is_there { see(&mut transaction, table).await?.version } else { 0 };
    if version > VERSION {
        return Err(newer(version));
    }
    if version < VERSION {
        let done = usize::try_from(version).unwrap_or(0);
        let text = steps(table)[done..].concat() + &set_version(table);
        let run = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *transaction).await;
        run.map_err(|error| told(doing, error))?;
    }
    transaction.commit().await.map_err(|error| told(doing, error))
}

/// Makes sure that the schema is the one this code knows.
pub(super) async fn check(connection: &mut PgConnection, table: &Table) -> Result<Seen, StoreError> {
    let seen = see(connection, table).await?;
    match seen.version {
        VERSION => Ok(seen),
        found if found > VERSION => Err(newer(found)),
        found => Err(misconfigured(format!(
            "the tables have schema version {found}, and this Semel needs {VERSION}: connect with \
             `PostgresStore::builder().create()`, or run `schema_sql()`"
        ))),
    }
}

async fn see(connection: &mut PgConnection, table: &Table) -> Result<Seen, StoreError> {
    let doing = "looking at the tables";
    let text = format!(
        "SELECT coalesce(max(version), 0) AS version, {NOW_MS} AS now FROM {}",
        table.quoted("_meta")
    );
    let row = sqlx::query(AssertSqlSafe(text)).fetch_one(connection).await;
    let row = row.map_err(|error| told(doing, error))?;
    let read = || Ok::<_, sqlx::Error>((row.try_get("version")?, row.try_get("now")?));
    let (version, now): (i32, i64) = read().map_err(|error| told(doing, error))?;
    Ok(Seen { version, now: Timestamp::from_millis(now.try_into().unwrap_or(0)) })
}

fn newer(found: i32) -> StoreError {
    misconfigured(format!(
        "the tables have schema version {found}, and this Semel knows versions up to {VERSION}: upgrade Semel"
    ))
}
