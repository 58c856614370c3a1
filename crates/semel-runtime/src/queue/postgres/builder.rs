//! How a queue finds its tables.

use super::{
    PostgresQueue, Shared,
    damaged::Damaged,
    epochs::Epochs,
    hints::Hints,
    list::Turns,
    past::Past,
    schema::{self, TABLE},
    statements::Statements,
};
use semel::store::postgres::shared::{
    LearnedClock, STORE, Table, acquire, check, in_time, keep_up, migrate, misconfigured, pool_of,
};
use semel_core::{store::StoreError, time::Clock as _};
use sqlx::{AssertSqlSafe, PgPool};
use std::sync::Arc;

/// Most connections of a pool that the queue makes itself, unless it is told otherwise.
const CONNECTIONS_MAX: u32 = 16;
/// The plans of its statements are known: they follow indexes, and need not be made anew for every batch.
const PLANNER: [(&str, &str); 2] = [("enable_seqscan", "off"), ("plan_cache_mode", "force_generic_plan")];
/// The server gives a connection up that leads nowhere, and what it holds, within half a minute.
const LINE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "4"),
    ("tcp_user_timeout", "30000"),
];

/// Where a [`PostgresQueue`] keeps its executions, and how it gets there.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder builds nothing until it is connected"]
pub struct PostgresQueueBuilder {
    schema: Option<String>,
    table: Option<String>,
    connections_max: Option<u32>,
    creates: bool,
}

impl PostgresQueueBuilder {
    /// The schema (name space) that the tables are in; the connection's `search_path` decides unless this is
    /// set. It must exist.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// The table's name; `semel_queue` unless set. What belongs to it stands beside it, under names that begin
    /// with it.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Most connections that [`PostgresQueueBuilder::connect`] opens; 16 unless set.
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.connections_max = Some(connections);
        self
    }

    /// Makes the tables if they are not there, and brings older ones up to date, before the queue is used. The
    /// user must be allowed to.
    pub fn create(mut self) -> Self {
        self.creates = true;
        self
    }

    /// What [`PostgresQueueBuilder::create`] would do, as SQL for a DBA. It may be run again.
    ///
    /// ```
    /// use semel_runtime::queue::postgres::PostgresQueue;
    /// let sql = PostgresQueue::builder().table("orders_queue").schema_sql()?;
    /// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"orders_queue\""));
    /// # Ok::<(), semel_core::store::StoreError>(())
    /// ```
    pub fn schema_sql(&self) -> Result<String, StoreError> {
        Ok(schema::of_queue(&self.checked()?).sql())
    }

    /// Connects, with a pool of its own, and makes sure that the tables are as they should be.
    pub async fn connect(self, url: &str) -> Result<PostgresQueue, StoreError> {
        let table = self.checked()?;
        let set: Vec<_> = PLANNER.into_iter().chain(LINE).collect();
        let pool = pool_of(url, self.connections_max.unwrap_or(CONNECTIONS_MAX), &set, &table).await?;
        self.pool(pool).await
    }

    /// Uses this pool, and makes sure that the tables are as they should be.
    ///
    /// Batches are planned faster on connections that have `plan_cache_mode = force_generic_plan`.
    pub async fn pool(self, pool: PgPool) -> Result<PostgresQueue, StoreError> {
        let table = self.checked()?;
        let mut connection = acquire(&pool).await?;
        let schema = schema::of_queue(&table);
        if self.creates {
            migrate(&mut connection, &schema).await?;
        }
        check(&mut connection, &schema).await?;
        let kept_up = keep_up(&mut connection, &table).await;
        if kept_up.is_err() {
            connection.close_on_drop();
        }
        kept_up?;
        drop(connection);
        let clock = Arc::new(LearnedClock::new());
        let (statements, epochs) = (Statements::new(&table), Epochs::default());
        let hints = Hints::new(table.name("_due"));
        let (damaged, past) = (Damaged::default(), Past::new(&table));
        let lists = Turns::of(pool.options().get_max_connections());
        let shared = Shared { pool, statements, clock, epochs, past, damaged, hints, lists };
        shared.learn_time().await?;
        shared.begin().await?;
        Ok(PostgresQueue { shared: Arc::new(shared) })
    }

    fn checked(&self) -> Result<Table, StoreError> {
        if self.connections_max == Some(0) {
            return Err(misconfigured("a pool of no connections cannot be used: allow at least one"));
        }
        Table::new(STORE, self.schema.as_deref(), Some(self.table.as_deref().unwrap_or(TABLE)))
    }
}

impl Shared {
    /// Asks the server for its time, and learns it.
    async fn learn_time(&self) -> Result<(), StoreError> {
        let mut connection = acquire(&self.pool).await?;
        let sent = self.clock.monotonic();
        let query = sqlx::query_scalar(AssertSqlSafe(Arc::clone(&self.statements.learn)));
        let now: i64 = in_time("asking for the time", query.fetch_one(&mut *connection)).await?;
        self.learn(now, sent);
        Ok(())
    }
}
