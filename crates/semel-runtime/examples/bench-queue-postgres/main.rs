//! What the queue on PostgreSQL costs, as ratios within one run.
//!
//! - `steps`: events/s through accept, claim and completion, in batches as the engine makes them, beside plain SQL that
//!   takes one transaction for each step (INSERT; claim with SKIP LOCKED; UPDATE), with the same pool.
//! - `leased`: the same where the node that accepts takes the work at once: two statements and no claim.
//! - `duplicates`: what an event costs that is there already, beside a fresh one.
//! - `size`: events/s at an empty table, and at a million that are retained.
//!
//! Run it on an idle machine, with a server named by `SEMEL_TEST_POSTGRES`: `cargo xtask bench queue-postgres`.

mod ours;
mod plain;

use semel_runtime::queue::postgres::PostgresQueue;
use sqlx::{
    AssertSqlSafe, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Connections of the pool, for both.
const CONNECTIONS: u32 = 16;
const ROUND: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
/// Callers of the plain statements: enough to keep every connection busy.
const CALLERS: usize = 64;
/// Batches under way at once, as the engine has them.
const BATCHES: usize = 4;
/// Events of a batch.
pub(crate) const BATCH: usize = 100;
/// As long as a small event.
pub(crate) const EVENT: [u8; 256] = [b'x'; 256];

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let chosen = std::env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    let is_chosen = |name: &str| chosen == "all" || chosen == name;
    let pool = pool()?;
    if is_chosen("steps") {
        for _ in 0..ROUNDS {
            steps(&pool).await?;
        }
    }
    if is_chosen("duplicates") {
        duplicates(&pool).await?;
    }
    if is_chosen("size") {
        sizes(&pool).await?;
    }
    Ok(())
}

fn pool() -> Result<PgPool, Trouble> {
    let url = std::env::var("SEMEL_TEST_POSTGRES").map_err(|_| "`SEMEL_TEST_POSTGRES` names no server")?;
    // As the queue sets its own connections up; what is done by hand follows its indexes, too.
    let set = [("enable_seqscan", "off"), ("plan_cache_mode", "force_generic_plan")];
    let options = PgConnectOptions::from_str(&url)?.options(set);
    Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect_lazy_with(options))
}

async fn fresh_queue(pool: &PgPool) -> Result<Arc<PostgresQueue>, Trouble> {
    for what in ["TABLE", "TABLE", "TABLE", "TABLE", "TABLE", "SEQUENCE"]
        .into_iter()
        .zip(["", "_counts", "_epochs", "_past", "_meta", "_fence"])
        .map(|(kind, suffix)| format!("{kind} IF EXISTS bench_queue{suffix}"))
    {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP {what}"))).execute(pool).await?;
    }
    Ok(Arc::new(PostgresQueue::builder().table("bench_queue").create().pool(pool.clone()).await?))
}

async fn steps(pool: &PgPool) -> Result<(), Trouble> {
    let by_hand = plain::Plain::new(pool).await?;
    let theirs = rate(CALLERS, move || by_hand.clone().one()).await?;
    let queue = fresh_queue(pool).await?;
    let ours = rate(BATCHES, move || ours::steps(Arc::clone(&queue))).await?;
    compare("accept, claim, complete", ours, "one transaction for each step", theirs);
    let queue = fresh_queue(pool).await?;
    let leased = rate(BATCHES, move || ours::leased(Arc::clone(&queue))).await?;
    compare("accept leased, complete", leased, "one transaction for each step", theirs);
    Ok(())
}

async fn duplicates(pool: &PgPool) -> Result<(), Trouble> {
    let queue = fresh_queue(pool).await?;
    let known = Arc::new(ours::known(&queue).await?);
    let again = rate(BATCHES, {
        let queue = Arc::clone(&queue);
        move || ours::again(Arc::clone(&queue), Arc::clone(&known))
    });
    let again = again.await?;
    let fresh = rate(BATCHES, move || ours::accepted(Arc::clone(&queue))).await?;
    compare("duplicates", again, "fresh events, accepted only", fresh);
    Ok(())
}

async fn sizes(pool: &PgPool) -> Result<(), Trouble> {
    let mut rates = Vec::new();
    for retained in [0, 1_000_000, 0, 1_000_000] {
        let queue = fresh_queue(pool).await?;
        ours::fill(pool, retained).await?;
        // After a checkpoint the server logs each page that is touched first as a whole: once for each.
        for _warm_up_and_measure in 0..2 {
            let queue = Arc::clone(&queue);
            rates.push(rate(BATCHES, move || ours::leased(Arc::clone(&queue))).await?);
        }
        println!("{retained:>9} retained {:>37.0}/s", rates[rates.len() - 1]);
    }
    println!("1 M beside none: ratio {:.2}", (rates[3] + rates[7]) / (rates[1] + rates[5]));
    Ok(())
}

/// Events per second of so many callers, each of which goes on as soon as it is answered.
async fn rate<F, C>(callers: usize, call: C) -> Result<f64, Trouble>
where
    F: Future<Output = Result<usize, Trouble>> + Send + 'static,
    C: Fn() -> F + Clone + Send + Sync + 'static,
{
    let (start, count) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let (call, count) = (call.clone(), Arc::clone(&count));
        running.spawn(async move {
            while start.elapsed() < ROUND {
                count.fetch_add(call().await? as u64, Ordering::Relaxed);
            }
            Ok::<_, Trouble>(())
        });
    }
    while let Some(caller) = running.join_next().await {
        caller??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// Prints two rates and what they are to each other.
fn compare(what: &str, ours: f64, beside: &str, theirs: f64) {
    println!("{what:<26} {ours:>9.0}/s   {beside:<32} {theirs:>9.0}/s   ratio {:.2}", ours / theirs);
}
