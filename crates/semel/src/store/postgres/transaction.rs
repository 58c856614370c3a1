//! Records in a user's own transaction.

use super::{
    PostgresStore, Shared,
    error::{STORE, told},
    lane,
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

/// A transaction in which the store's records are written beside the user's own rows. Dropping it rolls it back.
///
/// It is the connection, too: `sqlx::query(…).execute(&mut *tx)` works on it.
pub struct PostgresTransaction {
    transaction: sqlx::Transaction<'static, Postgres>,
    shared: Arc<Shared>,
}

impl PostgresStore {
    /// Begins a transaction on the store's pool, in bounded time.
    pub async fn begin(&self) -> Result<PostgresTransaction, StoreError> {
        let begun = lane::in_time("beginning a transaction", self.shared.pool.begin()).await;
        begun.map(|it| self.within(it))
    }

    /// A transaction that the user began, with the store's records in it: for
    /// [`Call::run_in`](crate::Call::run_in), [`Lease::complete_in`](crate::Lease::complete_in) and
    /// [`Effect::transactional`](crate::Effect::transactional).
    ///
    /// The tables must be in the transaction's database. A record that another transaction is writing is waited
    /// for: bound that with `SET LOCAL lock_timeout`. Begin a transaction of a stricter isolation than READ
    /// COMMITTED after the claim, if it is to complete a lease.
    pub fn within(&self, transaction: sqlx::Transaction<'static, Postgres>) -> PostgresTransaction {
        PostgresTransaction { transaction, shared: Arc::clone(&self.shared) }
    }
}

impl PostgresTransaction {
    /// Commits everything, or gives up in bounded time. After an error nobody can tell: deliver again, and the record
    /// says what came of it.
    pub async fn commit(self) -> Result<(), StoreError> {
        lane::in_time("committing", self.transaction.commit()).await
    }

    /// Undoes everything. If the server does not answer in time, it does so itself when the connection ends.
    pub async fn rollback(self) -> Result<(), StoreError> {
        lane::in_time("rolling back", self.transaction.rollback()).await
    }

    /// The transaction as it was, uncommitted.
    pub fn into_inner(self) -> sqlx::Transaction<'static, Postgres> {
        self.transaction
    }
}

impl Transaction for PostgresTransaction {
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let statements = &self.shared.within;
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
            let swapped = self.shared.within.swap(&mut self.transaction, &change).await;
            let swapped = swapped.map_err(|error| told("writing a record in a transaction", error))?;
            sql::swap(STORE, key, &swapped)
        })
    }
}

impl Deref for PostgresTransaction {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.transaction
    }
}

impl DerefMut for PostgresTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}

impl fmt::Debug for PostgresTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}
