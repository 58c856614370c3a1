//! Records in PostgreSQL, in the user's own pool and transactions.
//!
//! 1. One row per key: its identity, its fence, the record as Semel encodes it, and, for people, the key and the
//!    status. One statement per swap; the fence comes from a sequence in the same statement, and is never given
//!    again, also after a purge, and after a backup was restored.
//! 2. A fresh call costs one round trip to claim and one to complete; a replay costs one indexed read. A pool of the
//!    store's own asks a connection whether it is still there only if that is in doubt; a user's pool does as it is told,
//!    which is before every use unless `test_before_acquire(false)` was said.
//! 3. Leases are judged by the server's clock, which every answer tells.
//! 4. Requests share connections in lanes, and nobody waits for ever: not for a connection, not for another
//!    transaction's lock, not for a silent server.
//! 5. Deadlocks and serialization failures, which did nothing, are tried again a few times. Nothing else is.
//! 6. [`PostgresStore::within`] puts records into a user's own transaction.
//!
//! It keeps no rows of users, and it changes no schema unless it is asked to. It speaks TLS if the user's own
//! `sqlx` has one of its `tls-…` features.

mod builder;
mod doctor;
mod documents;
mod error;
mod fences;
mod lane;
mod schema;
mod statements;
mod transaction;
mod trust;

/// What the queue of `semel-runtime` shares with this store. Not for others: it changes without notice.
#[doc(hidden)]
pub mod shared {
    pub use super::{
        builder::pool_of,
        doctor::report,
        error::{STORE, is_answer, is_conflict, misconfigured, told},
        fences::{keep_up, leap},
        lane::{SENDS_MAX, acquire, in_time, silent},
        schema::{check, migrate},
        statements::{LOCK_MAX_MS, NOW_MS},
    };
    pub use crate::store::{
        offset::LearnedClock,
        sql::{ANSWER_MAX, PURGE_MAX, Schema, Table, fence},
    };
}

pub use builder::PostgresBuilder;
pub use documents::PostgresDocuments;
pub use transaction::PostgresTransaction;

use super::{
    offset::LearnedClock,
    sql::{self, Change, Lanes, PURGE_MAX},
};
use error::STORE;
use lane::Request;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use sqlx::PgPool;
use statements::Statements;
use std::{fmt, sync::Arc};
use tokio::sync::oneshot;
use trust::Trust;

/// Records in PostgreSQL. Cheap to clone; all clones share one pool.
///
/// ```no_run
/// use semel::{Once, store::postgres::PostgresStore};
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::builder().create().connect("postgres://app:secret@localhost/app").await?;
/// let once = Once::new(store.clone());
/// once.call("count-view", "evt-1").run(async |_| Ok(())).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    pool: PgPool,
    lanes: Lanes<Request>,
    trust: Trust,
    statements: Statements,
    /// The same, for users' transactions.
    within: Statements,
    clock: Arc<LearnedClock>,
}

impl PostgresStore {
    /// Connects, with a pool of its own. The tables must be there; [`PostgresBuilder::create`] makes them.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Uses this pool. The tables must be there; [`PostgresBuilder::create`] makes them.
    pub async fn new(pool: PgPool) -> Result<Self, StoreError> {
        Self::builder().pool(pool).await
    }

    /// Names the tables, or makes them.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// The pool that it uses.
    pub fn pool(&self) -> &PgPool {
        &self.shared.pool
    }

    fn send(&self, request: Request) {
        let shared = &self.shared;
        if let Some(lane) = shared.lanes.push(request) {
            tokio::spawn(lane::serve(lane, Arc::clone(shared)));
        }
    }

    async fn purge_some(&self, expired_at: i64, limit: u32) -> Result<u32, StoreError> {
        let mut connection = lane::acquire(&self.shared.pool).await?;
        let mut purged = 0;
        while purged < limit {
            let some = PURGE_MAX.min(limit - purged);
            let purge = self.shared.statements.purge(&mut connection, expired_at, some);
            let removed = lane::in_time("purging", purge).await;
            if removed.is_err() {
                connection.close_on_drop();
            }
            let removed = removed?;
            purged += removed;
            if removed < some {
                break;
            }
        }
        Ok(purged)
    }
}

impl Store for PostgresStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Request::Load { identity: *key.identity().as_bytes(), reply });
            let row = sql::answer(STORE, answer).await?;
            row.as_ref().map(|it| sql::stored(STORE, key, it)).transpose()
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Request::Swap { change: Change::new(key, expected, record), reply });
            sql::swap(STORE, key, &sql::answer(STORE, answer).await?)
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(self.purge_some(expired_at.as_millis().cast_signed(), limit))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<LearnedClock>::clone(&self.shared.clock)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
