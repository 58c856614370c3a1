//! The statements: one for each thing a store does.
//!
//! 1. A claim looks first and inserts only where nothing is: so a replay is one indexed read, in one round trip.
//! 2. An insertion that finds a twin in flight waits for it, at most [`LOCK_MAX_MS`]. The twin is not in what the
//!    statement sees, so there is a second look.
//! 3. An update names the fence. If it waited for another one, what it had seen is old: it shows nothing, and
//!    there is a second look.
//! 4. Fences come from a sequence, in the same statement; [`super::fences`] keeps it ahead.
//! 5. Every answer tells the server's time.
//!
//! In a user's transaction the waiting is bounded by the user's own `lock_timeout`.

use crate::store::{
    offset::LearnedClock,
    sql::{Change, Row, Swapped, Table},
};
use semel_core::{
    sabotage::is_on,
    time::{Clock, Timestamp},
};
use sqlx::{AssertSqlSafe, PgConnection, Row as _, postgres::PgRow};
use std::{sync::Arc, time::Duration};

/// Longest wait for another transaction that writes the same record.
pub const LOCK_MAX_MS: u32 = 2_000;
/// The server's time.
pub const NOW_MS: &str = "(date_part('epoch', clock_timestamp()) * 1000)::bigint";

/// The texts for one table.
pub(super) struct Statements {
    load: Arc<str>,
    create: Arc<str>,
    replace: Arc<str>,
    purge: Arc<str>,
    clock: Arc<LearnedClock>,
}

/// How waiting for another transaction is bounded.
#[derive(Clone, Copy)]
pub(super) enum Waiting {
    /// By us: the statement is a transaction of its own.
    Bounded,
    /// By the user, whose transaction it is.
    Theirs,
}

impl Statements {
    pub(super) fn new(table: &Table, clock: Arc<LearnedClock>, waiting: Waiting) -> Self {
        let (records, fence) = (table.records(), format!("nextval('{}')", table.quoted("_fence")));
        let bound = match waiting {
            Waiting::Bounded => format!("set_config('lock_timeout', '{LOCK_MAX_MS}', true)"),
            Waiting::Theirs => "''".to_owned(),
        };
        let load = format!("SELECT fence, record, {NOW_MS} AS now FROM {records} WHERE identity = $1");
        let create = format!(
            "WITH bound AS MATERIALIZED (SELECT {bound}), \
             found AS MATERIALIZED (SELECT fence, record FROM {records} WHERE identity = $1), \
             won AS (INSERT INTO {records} (identity, fence, status, key, expires_at, record) \
                 SELECT $1, {fence}, $2, $3, $4, $5 FROM bound WHERE NOT EXISTS (SELECT FROM found) \
                 ON CONFLICT (identity) DO NOTHING RETURNING fence) \
             SELECT fence, NULL::bytea AS record, {NOW_MS} AS now FROM won \
             UNION ALL SELECT fence, record, {NOW_MS} FROM found"
        );
        let guard = if is_on("postgres_fence_ignored") { "(fence = $5 OR TRUE)" } else { "fence = $5" };
        let replace = format!(
            "WITH bound AS MATERIALIZED (SELECT {bound}) \
             UPDATE {records} SET fence = {fence}, status = $2, expires_at = $3, record = $4 FROM bound \
             WHERE identity = $1 AND {guard} RETURNING fence, NULL::bytea AS record, {NOW_MS} AS now"
        );
        let expired = format!("expires_at <= $1 AND expires_at < {}", i64::MAX);
        let purge = format!(
            "DELETE FROM {records} WHERE {expired} AND ctid = ANY (ARRAY( \
                 SELECT ctid FROM {records} WHERE {expired} ORDER BY expires_at LIMIT $2 \
                 FOR UPDATE SKIP LOCKED))"
        );
        Self { load: load.into(), create: create.into(), replace: replace.into(), purge: purge.into(), clock }
    }

    pub(super) async fn load(
        &self,
        connection: &mut PgConnection,
        identity: &[u8; 32],
    ) -> Result<Option<Row>, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.load))).bind(&identity[..]);
        match self.one(query, connection).await? {
            Some((fence, Some(record))) => Ok(Some(Row { fence, record })),
            Some((_, None)) | None => Ok(None),
        }
    }

    pub(super) async fn swap(
        &self,
        connection: &mut PgConnection,
        change: &Change,
    ) -> Result<Swapped, sqlx::Error> {
        let query = match change.expected {
            None => sqlx::query(AssertSqlSafe(Arc::clone(&self.create)))
                .bind(&change.identity[..])
                .bind(change.status)
                .bind(&change.key)
                .bind(change.expires_at)
                .bind(&change.record),
            Some(fence) => sqlx::query(AssertSqlSafe(Arc::clone(&self.replace)))
                .bind(&change.identity[..])
                .bind(change.status)
                .bind(change.expires_at)
                .bind(&change.record)
                .bind(fence),
        };
        match self.one(query, connection).await? {
            Some((fence, None)) => Ok(Swapped::Won(fence)),
            Some((fence, Some(record))) => Ok(Swapped::Lost(Some(Row { fence, record }))),
            None => self.load(connection, &change.identity).await.map(Swapped::Lost),
        }
    }

    pub(super) async fn purge(
        &self,
        connection: &mut PgConnection,
        expired_at: i64,
        limit: u32,
    ) -> Result<u32, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.purge)));
        let done = query.bind(expired_at).bind(i64::from(limit)).execute(connection).await?;
        Ok(u32::try_from(done.rows_affected()).unwrap_or(u32::MAX))
    }

    /// Asks the server for its time, and learns it.
    pub(super) async fn learn_time(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let sent = self.clock.monotonic();
        let row = sqlx::query(AssertSqlSafe(format!("SELECT {NOW_MS}"))).fetch_one(connection).await?;
        self.learn(row.try_get(0)?, sent);
        Ok(())
    }

    fn learn(&self, now: i64, sent: Duration) {
        self.clock.learn(Timestamp::from_millis(now.try_into().unwrap_or(0)), sent, self.clock.monotonic());
    }

    /// The row, if there is one; its time is learnt.
    async fn one(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
        connection: &mut PgConnection,
    ) -> Result<Option<(i64, Option<Vec<u8>>)>, sqlx::Error> {
        let sent = self.clock.monotonic();
        let row: Option<PgRow> = query.fetch_optional(connection).await?;
        let Some(row) = row else { return Ok(None) };
        self.learn(row.try_get(2)?, sent);
        Ok(Some((row.try_get(0)?, row.try_get(1)?)))
    }
}
