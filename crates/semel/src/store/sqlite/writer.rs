//! The one who writes: many swaps, one commit.
//!
//! 1. SQLite has one writer, and a commit costs a sync of the disk whatever is in it. So whoever comes while a
//!    commit is under way is gathered into the next one.
//! 2. Nobody is told before the commit. If it fails, everybody in it is told that nobody can tell.
//! 3. Swaps in a batch are made in the order of their coming, each on what the one before it left.
//! 4. A batch that only lost writes nothing, so its commit costs no sync.

use super::{
    Shared,
    error::{is_busy, told, told_all},
    statements::Statements,
};
use crate::store::sql::{ACQUIRE_MAX, Change, Lane, Swapped};
use semel_core::{
    store::StoreError,
    time::{Clock, Timestamp},
};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection};
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::timeout};

/// Most swaps in one commit.
const BATCH_MAX: usize = 512;
/// How long one that was turned away waits until it knocks again.
const TURNED_AWAY_PAUSE: Duration = Duration::from_millis(5);
/// Most commits before the writer gives its connection back.
const COMMITS_MAX: u32 = 64;

/// A swap that waits to be made.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) reply: oneshot::Sender<Result<Swapped, StoreError>>,
}

/// Writes until nobody waits.
pub(super) async fn serve(mut lane: Lane<Request>, shared: Arc<Shared>) {
    while let Some(first) = lane.next() {
        match acquire(&shared.pool).await {
            Ok(connection) => write(&mut lane, connection, first, &shared).await,
            Err(error) => drop(first.reply.send(Err(error))),
        }
    }
}

/// A connection of the pool, in bounded time.
pub(super) async fn acquire(pool: &SqlitePool) -> Result<PoolConnection<Sqlite>, StoreError> {
    let opening = async {
        loop {
            match pool.acquire().await {
                // Whoever gives a new file its write-ahead log has it alone, and SQLite turns others away at once.
                Err(error) if is_busy(&error) => tokio::time::sleep(TURNED_AWAY_PAUSE).await,
                acquired => return acquired,
            }
        }
    };
    match timeout(ACQUIRE_MAX, opening).await {
        Ok(acquired) => acquired.map_err(|error| told("opening the database", error)),
        Err(_) => Err(told("opening the database", sqlx::Error::PoolTimedOut)),
    }
}

async fn write(
    lane: &mut Lane<Request>,
    mut connection: PoolConnection<Sqlite>,
    mut first: Request,
    shared: &Shared,
) {
    for commits in 1.. {
        let mut batch = vec![first];
        batch.extend(lane.more(BATCH_MAX - 1));
        batch.retain(|it| !it.reply.is_closed());
        commit(&mut connection, batch, shared).await;
        if commits == COMMITS_MAX {
            return;
        }
        match lane.next() {
            Some(next) => first = next,
            None => return,
        }
    }
}

async fn commit(connection: &mut SqliteConnection, batch: Vec<Request>, shared: &Shared) {
    if batch.is_empty() {
        return;
    }
    let changes: Vec<&Change> = batch.iter().map(|it| &it.change).collect();
    match made(connection, &changes, &shared.statements, shared.clock.now()).await {
        Ok(swapped) => {
            for (request, swapped) in batch.into_iter().zip(swapped) {
                drop(request.reply.send(Ok(swapped)));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for request in batch {
                drop(request.reply.send(Err(told_all("writing records", &error))));
            }
        }
    }
}

async fn made(
    connection: &mut SqliteConnection,
    changes: &[&Change],
    statements: &Statements,
    now: Timestamp,
) -> Result<Vec<Swapped>, sqlx::Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let swapped = statements.swap_all(&mut transaction, changes, now).await?;
    transaction.commit().await?;
    Ok(swapped)
}
