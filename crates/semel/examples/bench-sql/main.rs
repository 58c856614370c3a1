//! What the SQL stores cost, as ratios within one run.
//!
//! - `postgres`: claim + complete pairs/s at 64 callers, beside the plain SQL pair (one INSERT … ON CONFLICT, one
//!   UPDATE by key, prepared) through a pool of the same size; and what a replay costs beside one indexed read.
//! - `postgres-size`: pairs/s at 10 k and at 1 M stored records, with purging under way.
//! - `sqlite`: pairs/s at 64 callers, beside one transaction per statement.
//!
//! Run it on an idle machine: `cargo run --release --example bench-sql --features postgres,sqlite -- all`, with a
//! server named by `SEMEL_TEST_POSTGRES`.

mod load;
mod on_postgres;
mod on_sqlite;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let chosen = std::env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    let is_chosen = |name: &str| chosen == "all" || chosen == name;
    if is_chosen("sqlite") {
        on_sqlite::run().await?;
    }
    if is_chosen("postgres") {
        on_postgres::run().await?;
    }
    if is_chosen("postgres-size") {
        on_postgres::run_sizes().await?;
    }
    Ok(())
}
