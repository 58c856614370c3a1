//! Records in a user's own transaction.

use super::{
    Shared, SqliteStore,
    error::{STORE, told},
};
use crate::{
    effect::Transaction,
    store::sql::{self, Change, Swapped},
};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{StoreError, Swap},
    time::Clock,
};
use sqlx::{Sqlite, SqliteConnection};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A transaction in which the store's records are written beside the user's own rows. Dropping it rolls it back.
///
/// It is the connection, too: `sqlx::query(…).execute(&mut *tx)` works on it.
pub struct SqliteTransaction {
    transaction: sqlx::Transaction<'static, Sqlite>,
    shared: Arc<Shared>,
}

impl SqliteStore {
    /// Begins a transaction on the store's pool. It has the write lock from its beginning: while it is open nobody
    /// else writes, and no lease is renewed. Keep it short.
    pub async fn begin(&self) -> Result<SqliteTransaction, StoreError> {
        let begun = self.shared.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.map(|it| self.within(it)).map_err(|error| told("beginning a transaction", error))
    }

    /// A transaction that the user began, with the store's records in it: for
    /// [`Call::run_in`](crate::Call::run_in), [`Lease::complete_in`](crate::Lease::complete_in) and
    /// [`Effect::transactional`](crate::Effect::transactional).
    ///
    /// The tables must be in the transaction's database. Begin it with `BEGIN IMMEDIATE`, or write before you read:
    /// else it may have to be begun again because of others.
    pub fn within(&self, transaction: sqlx::Transaction<'static, Sqlite>) -> SqliteTransaction {
        SqliteTransaction { transaction, shared: Arc::clone(&self.shared) }
    }
}

impl SqliteTransaction {
    /// Commits everything. After an error nobody can tell: deliver again, and the record says what came of it.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.transaction.commit().await.map_err(|error| told("committing", error))
    }

    /// Undoes everything.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.transaction.rollback().await.map_err(|error| told("rolling back", error))
    }

    /// The transaction as it was, uncommitted.
    pub fn into_inner(self) -> sqlx::Transaction<'static, Sqlite> {
        self.transaction
    }

    async fn swapped(&mut self, change: &Change) -> Result<Swapped, sqlx::Error> {
        let Shared { statements, clock, .. } = &*self.shared;
        statements.lock(&mut self.transaction).await?;
        let mut swapped = statements.swap_all(&mut self.transaction, &[change], clock.now()).await?;
        Ok(swapped.pop().expect("one change has one outcome"))
    }
}

impl Transaction for SqliteTransaction {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let statements = &self.shared.statements;
            let locked = statements.lock(&mut self.transaction).await;
            locked.map_err(|error| told("loading a record in a transaction", error))?;
            let row = statements.load(&mut self.transaction, key.identity().as_bytes()).await;
            let row = row.map_err(|error| told("loading a record in a transaction", error))?;
            row.as_ref().map(|it| sql::stored(STORE, key, it)).transpose()
        })
    }

    fn swap<'a>(
        &'a mut self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let change = Change::new(key, expected, record);
            let swapped = self.swapped(&change).await;
            let swapped = swapped.map_err(|error| told("writing a record in a transaction", error))?;
            sql::swap(STORE, key, &swapped)
        })
    }
}

impl Deref for SqliteTransaction {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.transaction
    }
}

impl DerefMut for SqliteTransaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }
}

impl fmt::Debug for SqliteTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTransaction").finish_non_exhaustive()
    }
}
