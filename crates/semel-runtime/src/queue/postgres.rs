//! Executions in PostgreSQL, for several nodes.
//!
//! 1. Each method is one statement, and one round trip, for a whole batch; only what stands under an order takes
//!    three. Nothing is held between two calls, and no transaction is long.
//! 2. Any node takes, claims and changes any execution: the database decides, by row locks and fences.
//! 3. Leases are judged by the server's clock, which every answer tells.
//! 4. A statement is carried out also when whoever asked is gone. A reply that was lost is asked for again: every
//!    write carries a random writer, so that a node recognises its own.
//! 5. Deadlocks and serialization failures, which did nothing, are tried again a few times.
//! 6. A row that cannot be read stands in nobody's way: it is put aside, and [`PostgresQueue::damaged`] names it.
//! 7. The fences are a sequence's, which is ahead of everything that it ever gave, also in a database that went back in time.
//!    Whether it did is checked with every write, when a node begins, and when it purges: see [`WentBack`].
//! 8. A node that stands still in the middle of a transaction, or is cut off, is given up by the server within
//!    seconds, so that nobody waits for it for hours.
//! 9. Nodes tell each other what they leave to be claimed (`NOTIFY`), which shortens a sleep and is nowhere needed.
//!
//! It changes no schema unless it is asked to.
//! It keeps the key order of its rows in every batch, and promises nothing to those who lock its rows otherwise.

mod accept;
mod builder;
mod claim;
mod damaged;
mod epochs;
mod hints;
mod lines;
mod list;
mod past;
mod row;
mod schema;
mod send;
mod statements;
mod write;

pub use builder::PostgresQueueBuilder;
pub use past::WentBack;

use super::limits;
use damaged::Damaged;
use epochs::Epochs;
use hints::Hints;
use list::Turns;
use past::Past;
use semel::{
    doctor::Report,
    store::postgres::shared::{self, LearnedClock, PURGE_MAX, told},
};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, GoOn, Page, Queue, Written},
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use send::{Counted, Purge, Reading};
use sqlx::{AssertSqlSafe, PgPool};
use statements::Statements;
use std::{collections::BTreeMap, fmt, sync::Arc};

const QUEUE: &str = shared::STORE;

/// Executions in PostgreSQL. Cheap to clone; all clones share one pool.
///
/// ```no_run
/// use semel_runtime::queue::postgres::PostgresQueue;
/// # async fn f() -> Result<(), semel_core::store::StoreError> {
/// let queue = PostgresQueue::builder().create().connect("postgres://semel:secret@db/events").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresQueue {
    shared: Arc<Shared>,
}

struct Shared {
    pool: PgPool,
    statements: Statements,
    clock: Arc<LearnedClock>,
    epochs: Epochs,
    past: Past,
    damaged: Damaged,
    hints: Hints,
    lists: Turns,
}

impl PostgresQueue {
    /// Connects, with a pool of its own. The tables must be there; [`PostgresQueueBuilder::create`] makes them.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Names the tables, or makes them.
    pub fn builder() -> PostgresQueueBuilder {
        PostgresQueueBuilder::default()
    }

    /// The pool that it uses.
    pub fn pool(&self) -> &PgPool {
        &self.shared.pool
    }

    /// What this server really promises, as it is set up for this connection.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        shared::report(&self.shared.pool).await
    }

    /// Whether the database was found to have gone back in time. While it is so, nothing is accepted, claimed or
    /// written, until somebody decides: see [`Queue::go_on`].
    pub fn went_back(&self) -> Option<WentBack> {
        self.shared.epochs.alarm()
    }

    /// Some of the executions that this node met and could not read: their rows were changed by somebody else, or
    /// damaged. They are neither handed out nor listed.
    pub fn damaged(&self) -> Vec<ExecutionId> {
        self.shared.damaged.ids()
    }

    /// Carries something out, also when whoever asked is gone.
    async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match tokio::spawn(work).await {
            Ok(answer) => answer,
            Err(gone) => match gone.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(StoreError::new(
                    StoreErrorKind::Unavailable,
                    QUEUE,
                    "the request was dropped with the runtime that carried it: try again",
                )),
            },
        }
    }
}

impl Shared {
    async fn get(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Fenced<Execution>>>, StoreError> {
        let bytes: Vec<&[u8]> = ids.iter().map(|it| &it.identity().as_bytes()[..]).collect();
        let reading = || {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.statements.get))).bind(bytes.clone());
            Reading { doing: "looking for executions", query }
        };
        let mut found = BTreeMap::new();
        for row in self.read_surely(reading).await? {
            let it = row::read(&row, 0)?;
            found.insert(it.value.id(), it);
        }
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    async fn counts(&self) -> Result<Vec<Counts>, StoreError> {
        let reading = || {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.statements.counts)));
            Reading { doing: "reading the counters", query }
        };
        let rows = self.read_surely(reading).await?;
        rows.iter()
            .map(|row| Counted::read(row).map_err(|error| told("reading the counters", error)))
            .collect()
    }

    async fn purge(&self, expired_at: i64, limit: u32) -> Result<u32, StoreError> {
        let mut purged = 0;
        while purged < limit {
            let purge = Purge { expired_at, limit: PURGE_MAX.min(limit - purged) };
            let gone = purge.read(&self.send(&purge).await?.rows)?;
            purged += gone;
            if gone < purge.limit {
                break;
            }
        }
        Ok(purged)
    }
}

impl Queue for PostgresQueue {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        Box::pin(async move {
            limits::accept(QUEUE, new)?;
            let accepted = self.carry(accept::accept(Arc::clone(&self.shared), new.to_vec())).await?;
            self.shared.hints.tell_of(new, self.shared.clock.now());
            Ok(accepted)
        })
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            limits::claim(QUEUE, demand)?;
            self.carry(claim::claim(Arc::clone(&self.shared), demand.clone())).await
        })
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            limits::write(QUEUE, changes)?;
            let written = self.carry(write::write(Arc::clone(&self.shared), changes.to_vec())).await?;
            let after = changes.iter().flat_map(|it| it.causes.iter().chain([&it.after]));
            self.shared.hints.tell_of(after, self.shared.clock.now());
            Ok(written)
        })
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        Box::pin(async move {
            limits::get(QUEUE, ids)?;
            self.shared.get(ids).await
        })
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        Box::pin(list::list(&self.shared, filter, from, limits::page(limit)))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        Box::pin(self.shared.counts())
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(self.carry(async move {
            shared.look().await?;
            shared.purge(row::millis(expired_at), limit).await
        }))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<LearnedClock>::clone(&self.shared.clock)
    }

    fn went_back(&self) -> Option<String> {
        self.shared.epochs.alarm().map(|it| it.to_string())
    }

    fn go_on(&self, how: GoOn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.shared.go_on(how))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.hints.heard(&self.shared.pool))
    }
}

impl fmt::Debug for PostgresQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresQueue").finish_non_exhaustive()
    }
}
