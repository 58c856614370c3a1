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

/// A user's own transaction, in which the store's records can be written. What [`SqliteStore::within`] gives.
///
/// It is the connection, too: `sqlx::query(…).execute(&mut **tx)` works on it.
pub struct SqliteTransaction<'t, 'c> {
    transaction: &'t mut sqlx::Transaction<'c, Sqlite>,
    shared: Arc<Shared>,
}

impl SqliteStore {
    /// Begins a transaction on the store's pool that writes: it has the write lock from its beginning, so that it
    /// need not be begun again because of others.
    pub async fn begin(&self) -> Result<sqlx::Transaction<'static, Sqlite>, StoreError> {
        let begun = self.shared.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(|error| told("beginning a transaction", error))
    }

    /// This transaction, with the store's records in it: for [`Call::run_in`](crate::Call::run_in),
    /// [`Lease::complete_in`](crate::Lease::complete_in) and
    /// [`Effect::transactional`](crate::Effect::transactional).
    ///
    /// The tables must be in the transaction's database. While it is open nobody else writes, and no lease is
    /// renewed: keep it short.
    pub fn within<'t, 'c>(
        &self,
        transaction: &'t mut sqlx::Transaction<'c, Sqlite>,
    ) -> SqliteTransaction<'t, 'c> {
        SqliteTransaction { transaction, shared: Arc::clone(&self.shared) }
    }
}

impl SqliteTransaction<'_, '_> {
    async fn swapped(&mut self, change: &Change) -> Result<Swapped, sqlx::Error> {
        let Shared { statements, clock, .. } = &*self.shared;
        statements.lock(&mut **self.transaction).await?;
        let mut swapped = statements.swap_all(&mut **self.transaction, &[change], clock.now()).await?;
        Ok(swapped.pop().expect("one change has one outcome"))
    }
}

impl Transaction for SqliteTransaction<'_, '_> {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let statements = &self.shared.statements;
            let locked = statements.lock(&mut **self.transaction).await;
            locked.map_err(|error| told("loading a record in a transaction", error))?;
            let row = statements.load(&mut **self.transaction, key.identity().as_bytes()).await;
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

impl Deref for SqliteTransaction<'_, '_> {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        self.transaction
    }
}

impl DerefMut for SqliteTransaction<'_, '_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.transaction
    }
}

impl fmt::Debug for SqliteTransaction<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTransaction").finish_non_exhaustive()
    }
}
