//! The same by hand: one transaction for each step.

use crate::{EVENT, Trouble};
use sqlx::PgPool;
use std::sync::atomic::{AtomicI64, Ordering};

const INSERT: &str = "INSERT INTO bench_plain (id, function, status, due_at, event) \
                      VALUES ($1, 'orders', 'PENDING', now(), $2) ON CONFLICT (id) DO NOTHING";
const CLAIM: &str = "UPDATE bench_plain SET status = 'IN_PROGRESS', due_at = now() + interval '1 minute', \
                         attempts = attempts + 1 \
                     WHERE id = (SELECT id FROM bench_plain WHERE function = 'orders' AND due_at <= now() \
                         ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, event";
const COMPLETE: &str = "UPDATE bench_plain SET status = 'COMPLETED', due_at = NULL WHERE id = $1";

#[derive(Clone)]
pub(crate) struct Plain {
    pool: PgPool,
}

impl Plain {
    pub(crate) async fn new(pool: &PgPool) -> Result<Self, Trouble> {
        let create = "DROP TABLE IF EXISTS bench_plain; \
             CREATE TABLE bench_plain (id bigint PRIMARY KEY, function text NOT NULL, status text NOT NULL, \
                 attempts integer NOT NULL DEFAULT 0, due_at timestamptz, event bytea NOT NULL); \
             CREATE INDEX ON bench_plain (function, due_at) WHERE due_at IS NOT NULL";
        sqlx::raw_sql(create).execute(pool).await?;
        Ok(Self { pool: pool.clone() })
    }

    /// One event through its three steps.
    pub(crate) async fn one(self) -> Result<usize, Trouble> {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        sqlx::query(INSERT).bind(id).bind(&EVENT[..]).execute(&self.pool).await?;
        let claimed: Option<(i64, Vec<u8>)> = sqlx::query_as(CLAIM).fetch_optional(&self.pool).await?;
        // Somebody else may have been faster, and then has another of ours.
        let Some((id, _)) = claimed else { return Ok(0) };
        sqlx::query(COMPLETE).bind(id).execute(&self.pool).await?;
        Ok(1)
    }
}
