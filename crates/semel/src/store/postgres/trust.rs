//! Which connections are used without being asked first whether they are still there.
//!
//! 1. To ask costs a round trip, as much as a claim does: whoever comes alone would pay for every statement twice.
//! 2. A connection is believed that answered less than [`BELIEVED_FOR`] ago, unless one was found broken since: a
//!    server that went away broke all of them.
//! 3. Only lanes believe: what they carry is sent again by whoever asked for it, who knows its own record by its
//!    nonce. Connections for others (purging, users' transactions) are asked.
//!
//! A user's own pool does as its options say.

use semel_core::sabotage::is_on;
use sqlx::{Connection as _, PgPool, Postgres, pool::PoolConnection, postgres::PgPoolOptions};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long ago a connection may have answered that is used without being asked.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Whether whoever waits for a connection takes one that may be broken.
    static BELIEVES: bool;
}

/// What the lanes of a store know of its connections.
#[derive(Default)]
pub(super) struct Trust {
    broken_at: Mutex<Option<Instant>>,
}

impl Trust {
    /// A connection for somebody who sends again what is not answered.
    pub(super) async fn acquire(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        BELIEVES.scope(self.is_whole(), pool.acquire()).await
    }

    /// A connection was found broken.
    pub(super) fn shake(&self) {
        *self.broken_at() = Some(Instant::now());
    }

    fn is_whole(&self) -> bool {
        self.broken_at().is_none_or(|it| it.elapsed() >= BELIEVED_FOR) || is_on("postgres_trust_unshaken")
    }

    fn broken_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.broken_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a pool ask its connections, except for those who believe them.
pub(super) fn asks_in_doubt(pool: PgPoolOptions) -> PgPoolOptions {
    pool.test_before_acquire(false).before_acquire(|connection, used| {
        Box::pin(async move {
            let is_recent = used.idle_for < BELIEVED_FOR || is_on("postgres_trust_unshaken");
            let is_believed = is_recent && BELIEVES.try_with(|it| *it).unwrap_or(false);
            if !is_believed {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}
