//! Documents of repositories in PostgreSQL: a table of their own.

use super::{
    error::{STORE, code, is_answer, told},
    lane::{self, give_back},
    schema,
};
use crate::{
    repository::{Document, Documents, Put, Version},
    store::sql::{
        ANSWER_MAX, Table,
        document::{self, Request, Row, Rows, Statements, Value},
    },
};
use semel_core::{
    BoxFuture,
    key::Key,
    store::{StoreError, StoreErrorKind},
};
use sqlx::{AssertSqlSafe, PgPool, Row as _, postgres::PgRow};
use std::{fmt, sync::Arc};
use tokio::time::timeout;

/// Documents of repositories in a table of PostgreSQL. Cheap to clone.
///
/// The values are JSON in the column `body`: yours to query.
///
/// ```no_run
/// # async fn start(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use semel::{repository::Repository, store::postgres::PostgresDocuments};
/// let documents = PostgresDocuments::create(pool, "documents").await?;
/// let assets = Repository::<String>::new(documents, "assets");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresDocuments {
    pool: PgPool,
    statements: Arc<Statements>,
}

impl PostgresDocuments {
    /// Uses this table, which must be there: `documents`, or `billing.documents` for one in a schema.
    pub async fn open(pool: PgPool, table: &str) -> Result<Self, StoreError> {
        let table = named(table)?;
        let mut connection = lane::acquire(&pool).await?;
        let checked = schema::check(&mut connection, &schema::of_documents(&table)).await;
        give_back(connection, checked)?;
        let documents = Self { pool, statements: Arc::new(statements(&table)) };
        document::look(&documents).await?;
        Ok(documents)
    }

    /// As [`PostgresDocuments::open`], and makes the table if it is not there, or brings an older one up to date.
    pub async fn create(pool: PgPool, table: &str) -> Result<Self, StoreError> {
        let schema = schema::of_documents(&named(table)?);
        let mut connection = lane::acquire(&pool).await?;
        let migrated = schema::migrate(&mut connection, &schema).await;
        give_back(connection, migrated)?;
        Self::open(pool, table).await
    }

    /// What [`PostgresDocuments::create`] does, as SQL for a DBA. It may be run again.
    ///
    /// ```
    /// use semel::store::postgres::PostgresDocuments;
    /// let sql = PostgresDocuments::schema_sql("billing.documents")?;
    /// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"billing\".\"documents\""));
    /// assert!(PostgresDocuments::schema_sql("documents; DROP TABLE users").is_err());
    /// # Ok::<(), semel::StoreError>(())
    /// ```
    pub fn schema_sql(table: &str) -> Result<String, StoreError> {
        Ok(schema::of_documents(&named(table)?).sql())
    }
}

impl Rows for PostgresDocuments {
    const STORE: &'static str = STORE;
    type Row = PgRow;

    fn statements(&self) -> &Statements {
        &self.statements
    }

    /// In bounded time.
    async fn fetch(&self, request: Request<'_>) -> Result<Option<PgRow>, StoreError> {
        let Request { doing, text, values } = request;
        let mut connection = lane::acquire(&self.pool).await?;
        let query = sqlx::query(AssertSqlSafe(text.to_owned()));
        let query = values.into_iter().fold(query, |query, value| match value {
            Value::Bytes(bytes) => query.bind(bytes),
            Value::Number(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
        });
        let fetched = timeout(ANSWER_MAX, query.fetch_optional(&mut *connection)).await;
        if !matches!(&fetched, Ok(Ok(_))) && !matches!(&fetched, Ok(Err(error)) if is_answer(error)) {
            connection.close_on_drop();
        }
        fetched.map_err(|_| lane::silent(doing))?.map_err(|error| refused(doing, error))
    }

    fn read(row: &PgRow) -> Result<Row, StoreError> {
        let read = || Ok(Row { version: row.try_get(0)?, writer: row.try_get(1)?, body: row.try_get(2)? });
        read().map_err(|error| told("reading a document", error))
    }
}

fn statements(table: &Table) -> Statements {
    let table = table.records();
    Statements {
        load: format!("SELECT version, writer, body::text AS body FROM {table} WHERE identity = $1"),
        insert: format!(
            "INSERT INTO {table} (identity, version, writer, body, collection, id) \
             VALUES ($1, $2, $3, $4::json, $5, $6) ON CONFLICT (identity) DO NOTHING RETURNING version"
        ),
        update: format!(
            "UPDATE {table} SET version = $2, writer = $3, body = $4::json, updated_at = now() \
             WHERE identity = $1 AND version = $5 RETURNING version"
        ),
    }
}

fn named(table: &str) -> Result<Table, StoreError> {
    match table.split_once('.') {
        Some((schema, name)) => Table::new(STORE, Some(schema), Some(name)),
        None => Table::new(STORE, None, Some(table)),
    }
}

fn refused(doing: &str, error: sqlx::Error) -> StoreError {
    if code(&error).as_deref() != Some("42P01") {
        return told(doing, error);
    }
    let context =
        format!("{doing}: the table is missing; use `PostgresDocuments::create`, or run `schema_sql()`");
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context).because(error)
}

impl Documents for PostgresDocuments {
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

impl fmt::Debug for PostgresDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresDocuments").finish_non_exhaustive()
    }
}
