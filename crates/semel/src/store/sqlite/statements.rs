//! The statements: what a store does, inside a transaction that holds the write lock.
//!
//! 1. SQLite has one writer at a time, so what a transaction that writes sees is what is there.
//! 2. Each statement names the fence it expects; who lost is shown what stands there instead.
//! 3. Fences are counted in a row of their own, in the same transaction. They follow the clock, too, so that a
//!    file that was restored from a copy does not give one again.
//!
//! In a user's transaction that has read before it writes, somebody else may have written in between: SQLite then
//! refuses to write, and the transaction must be rolled back and begun again. `BEGIN IMMEDIATE` avoids that.

use crate::store::sql::{Change, Row, Swapped, Table};
use semel_core::{fence::Fence, sabotage, time::Timestamp};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, sqlite::SqliteRow};
use std::sync::Arc;

/// The texts for one table.
pub(super) struct Statements {
    load: Arc<str>,
    create: Arc<str>,
    replace: Arc<str>,
    purge: Arc<str>,
    fence: Arc<str>,
    set_fence: Arc<str>,
    lock: Arc<str>,
}

impl Statements {
    pub(super) fn new(table: &Table) -> Self {
        let (records, meta) = (table.records(), table.quoted("_meta"));
        let expired = format!("expires_at <= $1 AND expires_at < {}", i64::MAX);
        // Either way the statement takes the same parameters.
        let guard = if sabotage::is_on("sqlite_fence_ignored") { "$6 > 0" } else { "fence = $6" };
        let text = |text: String| Arc::<str>::from(text);
        Self {
            load: text(format!("SELECT fence, record FROM {records} WHERE identity = $1")),
            create: text(format!(
                "INSERT INTO {records} (identity, fence, status, key, expires_at, record) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (identity) DO NOTHING"
            )),
            replace: text(format!(
                "UPDATE {records} SET fence = $2, status = $3, expires_at = $4, record = $5 \
                 WHERE identity = $1 AND {guard}"
            )),
            purge: text(format!(
                "DELETE FROM {records} WHERE {expired} AND identity IN \
                 (SELECT identity FROM {records} WHERE {expired} ORDER BY expires_at LIMIT $2)"
            )),
            fence: text(format!("SELECT fence FROM {meta}")),
            set_fence: text(format!("UPDATE {meta} SET fence = $1")),
            // It changes nothing, and takes the write lock for that.
            lock: text(format!("UPDATE {meta} SET fence = fence WHERE false")),
        }
    }

    pub(super) async fn load(
        &self,
        connection: &mut SqliteConnection,
        identity: &[u8; 32],
    ) -> Result<Option<Row>, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.load))).bind(identity.to_vec());
        let row: Option<SqliteRow> = query.fetch_optional(connection).await?;
        row.map(|row| Ok(Row { fence: row.try_get(0)?, record: row.try_get(1)? })).transpose()
    }

    /// Makes these changes in turn, each on what the one before it left.
    pub(super) async fn swap_all(
        &self,
        connection: &mut SqliteConnection,
        changes: &[&Change],
        now: Timestamp,
    ) -> Result<Vec<Swapped>, sqlx::Error> {
        let before = self.last_fence(connection).await?;
        let mut last = before;
        let mut swapped = Vec::with_capacity(changes.len());
        for change in changes {
            let next = Fence::next(last, now);
            let made = self.swap(connection, change, next.get().cast_signed()).await?;
            if let Swapped::Won(_) = made {
                last = Some(next);
            }
            swapped.push(made);
        }
        if let Some(fence) = last.filter(|_| last != before) {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.set_fence)));
            query.bind(fence.get().cast_signed()).execute(connection).await?;
        }
        Ok(swapped)
    }

    /// Writes under this fence, if the stored one is the expected one.
    async fn swap(
        &self,
        connection: &mut SqliteConnection,
        change: &Change,
        fence: i64,
    ) -> Result<Swapped, sqlx::Error> {
        let query = match change.expected {
            None => sqlx::query(AssertSqlSafe(Arc::clone(&self.create)))
                .bind(change.identity.to_vec())
                .bind(fence)
                .bind(change.status)
                .bind(change.key.clone())
                .bind(change.expires_at)
                .bind(change.record.clone()),
            Some(expected) => sqlx::query(AssertSqlSafe(Arc::clone(&self.replace)))
                .bind(change.identity.to_vec())
                .bind(fence)
                .bind(change.status)
                .bind(change.expires_at)
                .bind(change.record.clone())
                .bind(expected),
        };
        if query.execute(&mut *connection).await?.rows_affected() == 1 {
            return Ok(Swapped::Won(fence));
        }
        self.load(connection, &change.identity).await.map(Swapped::Lost)
    }

    /// Takes the write lock, so that nobody writes between what this transaction reads and what it writes.
    pub(super) async fn lock(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(AssertSqlSafe(Arc::clone(&self.lock))).execute(connection).await.map(|_| ())
    }

    async fn last_fence(&self, connection: &mut SqliteConnection) -> Result<Option<Fence>, sqlx::Error> {
        let row = sqlx::query(AssertSqlSafe(Arc::clone(&self.fence))).fetch_one(connection).await?;
        let last: i64 = row.try_get(0)?;
        Ok(u64::try_from(last).ok().and_then(Fence::new))
    }

    pub(super) async fn purge(
        &self,
        connection: &mut SqliteConnection,
        expired_at: i64,
        limit: u32,
    ) -> Result<u32, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.purge)));
        let done = query.bind(expired_at).bind(i64::from(limit)).execute(connection).await?;
        Ok(u32::try_from(done.rows_affected()).unwrap_or(u32::MAX))
    }
}
