//! SQLite, beside one transaction per statement.

use crate::{
    Trouble,
    load::{RESULT, ROUNDS, compare, fresh, pair, rate},
};
use semel::store::sqlite::SqliteStore;
use sqlx::SqlitePool;

async fn plain_pair(pool: &SqlitePool) -> Result<(), Trouble> {
    let key = format!("bench/{}", fresh());
    let insert = "INSERT INTO plain (key, status) VALUES ($1, 'IN_PROGRESS') ON CONFLICT (key) DO NOTHING";
    sqlx::query(insert).bind(key.clone()).execute(pool).await?;
    let update = "UPDATE plain SET status = 'COMPLETED', result = $2 WHERE key = $1";
    sqlx::query(update).bind(key).bind(RESULT).execute(pool).await?;
    Ok(())
}

pub(crate) async fn run() -> Result<(), Trouble> {
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir_in(".")?;
        let store = SqliteStore::builder().create().connect(directory.path().join("bench.db")).await?;
        let create = "CREATE TABLE plain (key TEXT PRIMARY KEY, status TEXT NOT NULL, result BLOB)";
        sqlx::query(create).execute(store.pool()).await?;
        let pool = store.pool().clone();
        let plain = rate(move || {
            let pool = pool.clone();
            async move { plain_pair(&pool).await }
        });
        let plain = plain.await?;
        let batched = rate({
            let store = store.clone();
            move || {
                let store = store.clone();
                async move { pair(&store).await }
            }
        });
        compare("sqlite, pairs", batched.await?, "one transaction per statement", plain);
    }
    Ok(())
}
