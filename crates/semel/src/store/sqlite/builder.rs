//! How a store finds its tables.

use super::{
    Shared, SqliteStore,
    error::{STORE, misconfigured, told},
    schema,
    settings::Settings,
    statements::Statements,
    writer,
};
use crate::{
    clock::SystemClock,
    store::sql::{ACQUIRE_MAX, Lanes, Table},
};
use semel_core::store::StoreError;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{path::Path, str::FromStr, sync::Arc, time::Duration};

/// Longest wait for another connection that writes.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Most connections that the store opens itself: one writes, the others read.
const CONNECTIONS_MAX: u32 = 8;

/// Where a [`SqliteStore`] keeps its records.
///
/// ```
/// use semel::store::sqlite::SqliteStore;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = SqliteStore::builder().table("orders_semel").create().connect(&path).await?;
/// # Ok::<(), semel::StoreError>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder builds nothing until it is connected"]
pub struct SqliteBuilder {
    table: Option<String>,
    creates: bool,
}

impl SqliteBuilder {
    /// The table's name; `semel_records` unless set. Its index, version and counter stand beside it, under names
    /// that begin with it.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Makes the file and the tables if they are not there, and brings older ones up to date.
    pub fn create(mut self) -> Self {
        self.creates = true;
        self
    }

    /// What [`SqliteBuilder::create`] would do, as SQL. It may be run again.
    ///
    /// ```
    /// use semel::store::sqlite::SqliteStore;
    /// let sql = SqliteStore::builder().schema_sql()?;
    /// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"semel_records\""));
    /// # Ok::<(), semel::StoreError>(())
    /// ```
    pub fn schema_sql(&self) -> Result<String, StoreError> {
        Ok(schema::of_records(&self.checked()?).sql())
    }

    /// Opens a file, by its path or by a URL that begins with `sqlite:`, with a pool of its own: with a
    /// write-ahead log, and every commit on the disk before it is told.
    pub async fn connect(self, file: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let options = options_of(file.as_ref())?;
        let options = if self.creates { options.create_if_missing(true) } else { options };
        let options = options
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_MAX);
        let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(ACQUIRE_MAX);
        self.pool(pool.connect_lazy_with(options)).await
    }

    /// Uses this pool, if its commits survive a power cut, and makes sure that the tables are as they should be.
    pub async fn pool(self, pool: SqlitePool) -> Result<SqliteStore, StoreError> {
        let table = self.checked()?;
        let mut connection = writer::acquire(&pool).await?;
        Settings::read(&mut connection).await?.judged().accepted()?;
        let schema = schema::of_records(&table);
        if self.creates {
            schema::migrate(&mut connection, &schema).await?;
        }
        schema::check(&mut connection, &schema).await?;
        let shared = Shared {
            statements: Statements::new(&table),
            clock: Arc::new(SystemClock::new()),
            lanes: Lanes::new(1),
            pool,
        };
        Ok(SqliteStore { shared: Arc::new(shared) })
    }

    fn checked(&self) -> Result<Table, StoreError> {
        Table::new(STORE, None, self.table.as_deref())
    }
}

/// By path, or by a URL that begins with `sqlite:`.
fn options_of(file: &Path) -> Result<SqliteConnectOptions, StoreError> {
    match file.to_str().filter(|it| it.starts_with("sqlite:")) {
        Some(url) => SqliteConnectOptions::from_str(url).map_err(|error| told("reading the URL", error)),
        None if file.as_os_str().is_empty() => {
            Err(misconfigured("no file was named: give a path, or `sqlite://file.db`"))
        }
        None => Ok(SqliteConnectOptions::new().filename(file)),
    }
}
