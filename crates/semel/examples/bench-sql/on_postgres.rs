//! PostgreSQL, beside plain SQL.

use crate::{
    Trouble,
    load::{RESULT, ROUNDS, compare, fresh, pair, rate, replay},
};
use semel::{Key, Store, Timestamp, store::postgres::PostgresStore};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const CONNECTIONS: u32 = 16;

fn pool() -> Result<PgPool, Trouble> {
    let url = std::env::var("SEMEL_TEST_POSTGRES").map_err(|_| "`SEMEL_TEST_POSTGRES` names no server")?;
    let options = PgConnectOptions::from_str(&url)?;
    Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect_lazy_with(options))
}

async fn fresh_store(pool: &PgPool) -> Result<PostgresStore, Trouble> {
    for what in [
        "TABLE IF EXISTS bench_semel",
        "TABLE IF EXISTS bench_semel_meta",
        "SEQUENCE IF EXISTS bench_semel_fence",
    ] {
        sqlx::query(sqlx::AssertSqlSafe(format!("DROP {what}"))).execute(pool).await?;
    }
    Ok(PostgresStore::builder().table("bench_semel").create().pool(pool.clone()).await?)
}

async fn fresh_plain(pool: &PgPool) -> Result<(), Trouble> {
    sqlx::query("DROP TABLE IF EXISTS bench_plain").execute(pool).await?;
    let create = "CREATE TABLE bench_plain (key text PRIMARY KEY, status text NOT NULL, result bytea, \
                  expires_at bigint NOT NULL)";
    sqlx::query(create).execute(pool).await?;
    let index = "CREATE INDEX ON bench_plain (expires_at) WHERE expires_at < 9223372036854775807";
    sqlx::query(index).execute(pool).await?;
    Ok(())
}

const INSERT: &str = "INSERT INTO bench_plain (key, status, expires_at) VALUES ($1, 'IN_PROGRESS', $2) \
                      ON CONFLICT (key) DO NOTHING";
const UPDATE: &str =
    "UPDATE bench_plain SET status = 'COMPLETED', result = $2, expires_at = $3 WHERE key = $1";

/// The plain pair, as somebody would write it by hand.
async fn plain_pair(pool: &PgPool) -> Result<(), Trouble> {
    let key = format!("bench/{}", fresh());
    sqlx::query(INSERT).bind(&key).bind(i64::MAX).execute(pool).await?;
    sqlx::query(UPDATE).bind(&key).bind(RESULT).bind(1_900_000_000_000_i64).execute(pool).await?;
    Ok(())
}

/// The same on one connection for both statements: what it costs without the pool's own round trips in between.
async fn plain_pair_on_one(pool: &PgPool) -> Result<(), Trouble> {
    let key = format!("bench/{}", fresh());
    let mut connection = pool.acquire().await?;
    sqlx::query(INSERT).bind(&key).bind(i64::MAX).execute(&mut *connection).await?;
    let update = sqlx::query(UPDATE).bind(&key).bind(RESULT).bind(1_900_000_000_000_i64);
    update.execute(&mut *connection).await?;
    Ok(())
}

pub(crate) async fn run() -> Result<(), Trouble> {
    let pool = pool()?;
    for _ in 0..ROUNDS {
        let store = fresh_store(&pool).await?;
        fresh_plain(&pool).await?;
        let plain = rate({
            let pool = pool.clone();
            move || {
                let pool = pool.clone();
                async move { plain_pair(&pool).await }
            }
        });
        let plain = plain.await?;
        let plain_on_one = rate({
            let pool = pool.clone();
            move || {
                let pool = pool.clone();
                async move { plain_pair_on_one(&pool).await }
            }
        });
        let plain_on_one = plain_on_one.await?;
        let ours = pairs(&store).await?;
        compare("postgres, pairs", ours, "plain SQL pair", plain);
        compare("postgres, pairs", ours, "plain SQL pair, one connection for both", plain_on_one);
        replays(&pool, &store).await?;
    }
    Ok(())
}

async fn pairs(store: &PostgresStore) -> Result<f64, Trouble> {
    let store = store.clone();
    rate(move || {
        let store = store.clone();
        async move { pair(&store).await }
    })
    .await
}

async fn replays(pool: &PgPool, store: &PostgresStore) -> Result<(), Trouble> {
    let key = Key::new("bench", "replayed")?;
    semel::Once::new(store.clone()).call_key(key.clone()).run(async |_| Ok(())).await?;
    let ours = rate({
        let store = store.clone();
        move || {
            let (store, key) = (store.clone(), key.clone());
            async move { replay(&store, &key).await }
        }
    });
    let ours = ours.await?;
    let pool = pool.clone();
    let read = rate(move || {
        let pool = pool.clone();
        async move {
            let read = sqlx::query("SELECT status, result FROM bench_plain WHERE key = $1");
            read.bind("bench/1").fetch_optional(&pool).await?;
            Ok(())
        }
    });
    compare("postgres, replays", ours, "one indexed read", read.await?);
    Ok(())
}

/// How many expired records there are to purge, beside those that stay.
const EXPIRED: i64 = 50_000;

/// Fills the table with so many records that stay, and those that are expired.
async fn fill(pool: &PgPool, records: i64) -> Result<(), Trouble> {
    let fill = "INSERT INTO bench_semel (identity, fence, status, key, expires_at, record) \
        SELECT sha256(n::text::bytea), nextval('bench_semel_fence'), 'COMPLETED', 'filled/' || n, \
            CASE WHEN n <= $2 THEN 1000 + n ELSE 4102444800000 END, \
            sha256(n::text::bytea) || sha256(n::text::bytea) \
        FROM generate_series(1, $1 + $2) n";
    sqlx::query(fill).bind(records).bind(EXPIRED).execute(pool).await?;
    sqlx::query("VACUUM ANALYZE bench_semel").execute(pool).await?;
    sqlx::query("CHECKPOINT").execute(pool).await?;
    Ok(())
}

/// Purges in small bites until it is told to stop.
async fn purge(store: PostgresStore, stop: Arc<AtomicBool>) -> Result<u64, Trouble> {
    let mut purged = 0;
    while !stop.load(Ordering::Relaxed) {
        purged += u64::from(store.purge(Timestamp::from_millis(2_000_000), 200).await?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(purged)
}

pub(crate) async fn run_sizes() -> Result<(), Trouble> {
    let pool = pool()?;
    let mut rates = Vec::new();
    for records in [10_000, 1_000_000, 10_000, 1_000_000] {
        let store = fresh_store(&pool).await?;
        fill(&pool, records).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let purging = tokio::spawn(purge(store.clone(), Arc::clone(&stop)));
        // After a checkpoint the server logs each page that is touched first as a whole: once for each.
        pairs(&store).await?;
        let rate = pairs(&store).await?;
        stop.store(true, Ordering::Relaxed);
        let purged = purging.await??;
        println!("postgres, {records:>9} records          {rate:>9.0}/s   {purged} purged meanwhile");
        rates.push(rate);
    }
    println!("postgres, 1 M beside 10 k: ratio {:.2}", (rates[1] + rates[3]) / (rates[0] + rates[2]));
    Ok(())
}
