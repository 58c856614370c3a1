//! Records in SQLite, in the user's own pool and transactions.
//!
//! 1. One row per key: its identity, its fence, the record as Semel encodes it, and, for people, the key and the
//!    status.
//! 2. Swaps that come while a commit is under way are gathered into the next one: one sync of the disk for all of
//!    them. Nobody is told before it.
//! 3. What is read, and what is replayed, waits for no commit and costs none.
//! 4. A database whose commits may be lost with the power is refused when it is opened.
//! 5. [`SqliteStore::within`] puts records into a user's own transaction.
//!
//! Several processes of one machine may share the file. It is not for network file systems, as SQLite is not.

mod builder;
mod documents;
mod error;
mod schema;
mod settings;
mod statements;
mod transaction;
mod writer;

pub use builder::SqliteBuilder;
pub use documents::SqliteDocuments;
pub use transaction::SqliteTransaction;

use super::sql::{self, Change, Lanes, PURGE_MAX};
use crate::clock::SystemClock;
use error::{STORE, told};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use sqlx::SqlitePool;
use statements::Statements;
use std::{fmt, path::Path, sync::Arc};
use tokio::sync::oneshot;
use writer::Request;

/// Records in SQLite. Cheap to clone; all clones share one pool.
///
/// ```
/// use semel::{Once, store::sqlite::SqliteStore};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::new(SqliteStore::builder().create().connect(&path).await?);
/// let first: u32 = once.call("answer", 1).run(async |_| Ok(42)).await?;
/// let again: u32 = once.call("answer", 1).run(async |_| Ok(43)).await?;
/// assert_eq!((first, again), (42, 42));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    pool: SqlitePool,
    /// One: SQLite has one writer.
    lanes: Lanes<Request>,
    statements: Statements,
    clock: Arc<SystemClock>,
}

impl SqliteStore {
    /// Opens a file, by its path or by a URL that begins with `sqlite:`, with a pool of its own. The tables must
    /// be there; [`SqliteBuilder::create`] makes them.
    pub async fn connect(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().connect(file).await
    }

    /// Uses this pool. The tables must be there; [`SqliteBuilder::create`] makes them.
    pub async fn new(pool: SqlitePool) -> Result<Self, StoreError> {
        Self::builder().pool(pool).await
    }

    /// Names the tables, or makes them.
    pub fn builder() -> SqliteBuilder {
        SqliteBuilder::default()
    }

    /// The pool that it uses.
    pub fn pool(&self) -> &SqlitePool {
        &self.shared.pool
    }

    async fn purge_some(&self, expired_at: i64, limit: u32) -> Result<u32, StoreError> {
        let mut purged = 0;
        while purged < limit {
            let some = PURGE_MAX.min(limit - purged);
            // Given back in between, so that others may write.
            let mut connection = writer::acquire(&self.shared.pool).await?;
            let removed = self.shared.statements.purge(&mut connection, expired_at, some).await;
            let removed = removed.map_err(|error| told("purging", error))?;
            purged += removed;
            if removed < some {
                break;
            }
        }
        Ok(purged)
    }
}

impl Store for SqliteStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let mut connection = writer::acquire(&self.shared.pool).await?;
            let row = self.shared.statements.load(&mut connection, key.identity().as_bytes()).await;
            let row = row.map_err(|error| told("loading a record", error))?;
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
            let request = Request { change: Change::new(key, expected, record), reply };
            if let Some(lane) = self.shared.lanes.push(request) {
                tokio::spawn(writer::serve(lane, Arc::clone(&self.shared)));
            }
            sql::swap(STORE, key, &sql::answer(STORE, answer).await?)
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(self.purge_some(expired_at.as_millis().cast_signed(), limit))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<SystemClock>::clone(&self.shared.clock)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}
