//! Documents of repositories in SQLite: a table of their own.

use super::{
    error::{STORE, told},
    schema,
    settings::Settings,
    writer,
};
use crate::{
    repository::{Document, Documents, Put, Version},
    store::sql::{
        Table,
        document::{self, Request, Row, Rows, Statements, Value},
    },
};
use semel_core::{
    BoxFuture,
    key::Key,
    store::{StoreError, StoreErrorKind},
};
use sqlx::{AssertSqlSafe, Row as _, SqlitePool, sqlite::SqliteRow};
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

impl SqliteDocuments {
    /// Uses this table, which must be there, if the pool's commits survive a power cut.
    pub async fn open(pool: SqlitePool, table: &str) -> Result<Self, StoreError> {
        let table = Table::new(STORE, None, Some(table))?;
        let mut connection = writer::acquire(&pool).await?;
        Settings::read(&mut connection).await?.judged().accepted()?;
        schema::check(&mut connection, &schema::of_documents(&table)).await?;
        drop(connection);
        let documents = Self { pool, statements: Arc::new(statements(&table)) };
        document::look(&documents).await?;
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
}

impl Rows for SqliteDocuments {
    const STORE: &'static str = STORE;
    type Row = SqliteRow;

    fn statements(&self) -> &Statements {
        &self.statements
    }

    async fn fetch(&self, request: Request<'_>) -> Result<Option<SqliteRow>, StoreError> {
        let mut connection = writer::acquire(&self.pool).await?;
        let query = sqlx::query(AssertSqlSafe(request.text.to_owned()));
        let query = request.values.into_iter().fold(query, |query, value| match value {
            Value::Bytes(bytes) => query.bind(bytes),
            Value::Number(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
        });
        let fetched = query.fetch_optional(&mut *connection).await;
        fetched.map_err(|error| refused(request.doing, error))
    }

    fn read(row: &SqliteRow) -> Result<Row, StoreError> {
        let read = || Ok(Row { version: row.try_get(0)?, writer: row.try_get(1)?, body: row.try_get(2)? });
        read().map_err(|error| told("reading a document", error))
    }
}

fn statements(table: &Table) -> Statements {
    let table = table.records();
    Statements {
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

fn refused(doing: &str, error: sqlx::Error) -> StoreError {
    let is_missing = error.as_database_error().is_some_and(|it| it.message().starts_with("no such table"));
    if !is_missing {
        return told(doing, error);
    }
    let context =
        format!("{doing}: the table is missing; use `SqliteDocuments::create`, or run `schema_sql()`");
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context).because(error)
}

impl Documents for SqliteDocuments {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(document::load(self, key))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        document: &'a Document,
    ) -> BoxFuture<'a, Result<Put, StoreError>> {
        Box::pin(document::put(self, key, expected, document))
    }
}

impl fmt::Debug for SqliteDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteDocuments").finish_non_exhaustive()
    }
}
