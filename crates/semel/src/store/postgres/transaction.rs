//! Records in a user's own transaction.

use super::{
    PostgresStore, Shared,
    error::{STORE, told},
};
use crate::{
    effect::Transaction,
    store::sql::{self, Change},
};
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Record, Stored},
    store::{StoreError, Swap},
};
use sqlx::{PgConnection, Postgres};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A user's own transaction, in which the store's records can be written. What [`PostgresStore::within`] gives.
///
/// It is the connection, too: `sqlx::query(…).execute(&mut **tx)` works on it.
pub struct PostgresTransaction<'t, 'c> {
    transaction: &'t mut sqlx::Transaction<'c, Postgres>,
    shared: Arc<Shared>,
}

impl PostgresStore {
    /// Begins a transaction on the store's pool.
    pub async fn begin(&self) -> Result<sqlx::Transaction<'static, Postgres>, StoreError> {
        self.shared.pool.begin().await.map_err(|error| told("beginning a transaction", error))
    }

    /// This transaction, with the store's records in it: for [`Call::run_in`](crate::Call::run_in),
    /// [`Lease::complete_in`](crate::Lease::complete_in) and
    /// [`Effect::transactional`](crate::Effect::transactional).
    ///
    /// The tables must be in the transaction's database. A record that another transaction is writing is waited
    /// for: bound that with `SET LOCAL lock_timeout`.
    pub fn within<'t, 'c>(
        &self,
        transaction: &'t mut sqlx::Transaction<'c, Postgres>,
    ) -> PostgresTransaction<'t, 'c> {
        PostgresTransaction { transaction, shared: Arc::clone(&self.shared) }
    }
}

impl Transaction for PostgresTransaction<'_, '_> {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let statements = &self.shared.within;
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
            let swapped = self.shared.within.swap(&mut **self.transaction, &change).await;
            let swapped = swapped.map_err(|error| told("writing a record in a transaction", error))?;
            sql::swap(STORE, key, &swapped)
        })
    }
}

impl Deref for PostgresTransaction<'_, '_> {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        self.transaction
    }
}

impl DerefMut for PostgresTransaction<'_, '_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.transaction
    }
}

impl fmt::Debug for PostgresTransaction<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}
