//! Documents of repositories in SQLite: a table of their own.

use super::{
    error::{STORE, told},
    schema,
    settings::Settings,
    writer,
};
use crate::{
    repository::{Document, Documents, Put, Version},
    store::sql::{self, Table},
};
use semel_core::{
    BoxFuture,
    key::Key,
    store::{StoreError, StoreErrorKind},
};
use sqlx::{AssertSqlSafe, Row, Sqlite, SqlitePool, sqlite::SqliteRow};
use std::{fmt, sync::Arc};

/// Documents of repositories in a table of SQLite. Cheap to clone.
///
/// The values are JSON in the column `body`: yours to query.
///
/// ```
/// use semel::{repository::Repository, store::sqlite::{SqliteDocuments, SqliteStore}};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = SqliteStore::builder().create().connect(&path).await?;
/// let documents = SqliteDocuments::create(store.pool().clone(), "documents").await?;
/// let assets = Repository::<String>::new(documents, "assets");
/// assets.upsert("a-1", &"running".to_owned()).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteDocuments {
    pool: SqlitePool,
    statements: Arc<Statements>,
}

struct Statements {
    load: String,
    insert: String,
    update: String,
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments>;

impl SqliteDocuments {
    /// Uses this table, which must be there, if the pool's commits survive a power cut.
    pub async fn open(pool: SqlitePool, table: &str) -> Result<Self, StoreError> {
        let table = Table::new(STORE, None, Some(table))?;
        let mut connection = writer::acquire(&pool).await?;
        Settings::read(&mut connection).await?.judged().accepted()?;
        schema::check(&mut connection, &schema::of_documents(&table)).await?;
        drop(connection);
        let documents = Self { pool, statements: Arc::new(Statements::new(&table)) };
        let look = AssertSqlSafe(format!("{} LIMIT 0", documents.statements.load));
        documents.fetch("looking at the table of documents", sqlx::query(look).bind(&[0_u8][..])).await?;
        Ok(documents)
    }

    /// As [`SqliteDocuments::open`], and makes the table if it is not there, or brings an older one up to date.
    pub async fn create(pool: SqlitePool, table: &str) -> Result<Self, StoreError> {
        let schema = schema::of_documents(&Table::new(STORE, None, Some(table))?);
        let mut connection = writer::acquire(&pool).await?;
        schema::migrate(&mut connection, &schema).await?;
        drop(connection);
        Self::open(pool, table).await
    }

    /// What [`SqliteDocuments::create`] does, as SQL. It may be run again.
    ///
    /// ```
    /// use semel::store::sqlite::SqliteDocuments;
    /// assert!(SqliteDocuments::schema_sql("documents")?.contains("CREATE TABLE IF NOT EXISTS \"documents\""));
    /// # Ok::<(), semel::StoreError>(())
    /// ```
    pub fn schema_sql(table: &str) -> Result<String, StoreError> {
        Ok(schema::of_documents(&Table::new(STORE, None, Some(table))?).sql())
    }

    async fn fetch(&self, doing: &str, query: Query<'_>) -> Result<Option<SqliteRow>, StoreError> {
        let mut connection = writer::acquire(&self.pool).await?;
        query.fetch_optional(&mut *connection).await.map_err(|error| refused(doing, error))
    }

    async fn found(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        let query = sqlx::query(AssertSqlSafe(self.statements.load.clone()));
        let row = self.fetch("loading a document", query.bind(&key.identity().as_bytes()[..])).await?;
        row.map(|row| document(key, &row)).transpose()
    }

    async fn written(
        &self,
        key: &Key,
        expected: Option<Version>,
        document: &Document,
    ) -> Result<Put, StoreError> {
        let text = if expected.is_some() { &self.statements.update } else { &self.statements.insert };
        let (identity, writer) = (&key.identity().as_bytes()[..], document.writer.to_be_bytes());
        let query = sqlx::query(AssertSqlSafe(text.clone()))
            .bind(identity)
            .bind(sql::number(document.version))
            .bind(&writer[..])
            .bind(&document.json);
        let query = match expected {
            Some(version) => query.bind(sql::number(version)),
            None => query.bind(key.scope()).bind(key.id()),
        };
        match self.fetch("writing a document", query).await? {
            Some(_) => Ok(Put::Written),
            None => self.found(key).await.map(Put::Lost),
        }
    }
}

impl Statements {
    fn new(table: &Table) -> Self {
        let table = table.records();
        Self {
            load: format!("SELECT version, writer, body FROM {table} WHERE identity = ?1"),
            insert: format!(
                "INSERT INTO {table} (identity, version, writer, body, collection, id) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (identity) DO NOTHING RETURNING version"
            ),
            update: format!(
                "UPDATE {table} SET version = ?2, writer = ?3, body = ?4 \
                 WHERE identity = ?1 AND version = ?5 RETURNING version"
            ),
        }
    }
}

fn refused(doing: &str, error: sqlx::Error) -> StoreError {
    let is_missing = error.as_database_error().is_some_and(|it| it.message().starts_with("no such table"));
    if !is_missing {
        return told(doing, error);
    }
    let context =
        format!("{doing}: the table is missing; use `SqliteDocuments::create`, or run `schema_sql()`");
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context).because(error)
}

fn document(key: &Key, row: &SqliteRow) -> Result<Document, StoreError> {
    let read = || Ok::<_, sqlx::Error>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    let (version, writer, json): (i64, Vec<u8>, String) =
        read().map_err(|error| told("reading a document", error))?;
    sql::document(STORE, key, version, &writer, json)
}

impl Documents for SqliteDocuments {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(self.found(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>> {
        Box::pin(self.written(key, expected, document))
    }
}

impl fmt::Debug for SqliteDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteDocuments").finish_non_exhaustive()
    }
}
