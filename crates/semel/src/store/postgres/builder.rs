//! How a store finds its tables.

use super::{
    PostgresStore, Shared,
    error::{STORE, misconfigured, told},
    fences, lane, schema,
    statements::{Statements, Waiting},
    trust::{Trust, asks_in_doubt},
};
use crate::store::{
    offset::LearnedClock,
    sql::{ACQUIRE_MAX, Lanes, Table},
};
use semel_core::store::{StoreError, StoreErrorKind};
use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{str::FromStr, sync::Arc};
use tokio::time::timeout;

/// Most connections of a pool that the store makes itself, unless it is told otherwise.
const CONNECTIONS_MAX: u32 = 16;

/// Where a [`PostgresStore`] keeps its records, and how it gets there.
///
/// ```no_run
/// use semel::store::postgres::PostgresStore;
/// # async fn f() -> Result<(), semel::StoreError> {
/// let store = PostgresStore::builder()
///     .schema("billing")      // several applications in one database
///     .table("semel_records")
///     .create()               // makes or migrates the tables, if they are not as they should be
///     .connect("postgres://billing:secret@db/shop")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder builds nothing until it is connected"]
pub struct PostgresBuilder {
    schema: Option<String>,
    table: Option<String>,
    connections_max: Option<u32>,
    creates: bool,
}

impl PostgresBuilder {
    /// The schema (name space) that the tables are in; the connection's `search_path` decides unless this is
    /// set. It must exist.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// The table's name; `semel_records` unless set. Its sequence, index and version stand beside it, under names
    /// that begin with it.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Most connections that [`PostgresBuilder::connect`] opens; 16 unless set.
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.connections_max = Some(connections);
        self
    }

    /// Makes the tables if they are not there, and brings older ones up to date, before the store is used. The
    /// user must be allowed to.
    pub fn create(mut self) -> Self {
        self.creates = true;
        self
    }

    /// What [`PostgresBuilder::create`] would do, as SQL for a DBA. It may be run again.
    ///
    /// ```
    /// use semel::store::postgres::PostgresStore;
    /// let sql = PostgresStore::builder().table("orders_semel").schema_sql()?;
    /// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"orders_semel\""));
    /// # Ok::<(), semel::StoreError>(())
    /// ```
    pub fn schema_sql(&self) -> Result<String, StoreError> {
        Ok(schema::of_records(&self.checked()?).sql())
    }

    /// Connects, with a pool of its own, and makes sure that the tables are as they should be.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, StoreError> {
        let table = self.checked()?;
        let pool = pool_of(url, self.connections_max.unwrap_or(CONNECTIONS_MAX), &[], &table).await?;
        self.pool(pool).await
    }

    /// Uses this pool, and makes sure that the tables are as they should be. One of its connections is always left
    /// to others, if it has several.
    pub async fn pool(self, pool: PgPool) -> Result<PostgresStore, StoreError> {
        let table = self.checked()?;
        let clock = Arc::new(LearnedClock::new());
        let statements = Statements::new(&table, Arc::clone(&clock), Waiting::Bounded);
        let mut connection = lane::acquire(&pool).await?;
        let prepared = self.prepare(&mut connection, &table, &statements).await;
        lane::give_back(connection, prepared)?;
        let lanes_max = (pool.options().get_max_connections() as usize).saturating_sub(1).max(1);
        let shared = Shared {
            trust: Trust::default(),
            statements,
            within: Statements::new(&table, Arc::clone(&clock), Waiting::Theirs),
            lanes: Lanes::new(lanes_max),
            pool,
            clock,
        };
        Ok(PostgresStore { shared: Arc::new(shared) })
    }

    /// Makes sure that records can be kept there, and asks for the time.
    async fn prepare(
        &self,
        connection: &mut PgConnection,
        table: &Table,
        statements: &Statements,
    ) -> Result<(), StoreError> {
        refuse_standby(connection).await?;
        let schema = schema::of_records(table);
        if self.creates {
            schema::migrate(connection, &schema).await?;
        }
        schema::check(connection, &schema).await?;
        fences::keep_up(connection, table).await?;
        lane::in_time("asking for the time", statements.learn_time(connection)).await
    }

    fn checked(&self) -> Result<Table, StoreError> {
        if self.connections_max == Some(0) {
            return Err(misconfigured("a pool of no connections cannot be used: allow at least one"));
        }
        Table::new(STORE, self.schema.as_deref(), self.table.as_deref())
    }
}

/// A standby takes no record: that is told now, not at the first call.
async fn refuse_standby(connection: &mut PgConnection) -> Result<(), StoreError> {
    let doing = "asking whether this is the primary";
    let asked = sqlx::query_scalar("SELECT pg_is_in_recovery()");
    if lane::in_time(doing, asked.fetch_one(connection)).await? {
        let remedy = "the server is a standby, which is only read; connect to the primary, or promote it";
        return Err(StoreError::new(StoreErrorKind::Refused, STORE, format!("{doing}: {remedy}")));
    }
    Ok(())
}

/// A pool of so many connections, with these settings, to the server at this URL, which is there. They keep the fences of this
/// table ahead of what was given before.
pub async fn pool_of(
    url: &str,
    connections_max: u32,
    set: &[(&str, &str)],
    table: &Table,
) -> Result<PgPool, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| told("reading the URL", error))?;
    let options = options.options(set.iter().copied());
    reach(&options).await?;
    let pool = PgPoolOptions::new().max_connections(connections_max.max(1)).acquire_timeout(ACQUIRE_MAX);
    Ok(fences::kept_up(asks_in_doubt(pool), table).connect_lazy_with(options))
}

/// Makes sure that the server is there. A pool would go on trying, and say only that it waited in vain.
async fn reach(options: &PgConnectOptions) -> Result<(), StoreError> {
    let doing = "connecting";
    match timeout(ACQUIRE_MAX, PgConnection::connect_with(options)).await {
        Ok(Ok(connection)) => connection.close().await.map_err(|error| told(doing, error)),
        Ok(Err(error)) => Err(told(doing, error)),
        Err(_) => Err(told(doing, std::io::Error::from(std::io::ErrorKind::TimedOut).into())),
    }
}
