//! A view counter that counts each event once, and exactly.
//!
//! The classic: a table `processed_events` and a counter, `view_count + 1`. The record that says "processed" and
//! the counter change in one transaction, so there is no moment at which one of them is true and the other is not.
//! The program delivers each event several times at once, crashes some deliveries half way, and checks the sum.
//!
//! Run it: `cargo run --example counter --features sqlite`

use semel::{How, Once, store::sqlite::SqliteStore};
use std::{error::Error, time::Duration};
use tokio::task::JoinSet;

const EVENTS: u64 = 100;
const DELIVERIES: u64 = 3;

#[derive(Clone)]
struct Counter {
    store: SqliteStore,
    once: Once,
}

impl Counter {
    async fn open(path: &std::path::Path) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let store = SqliteStore::builder().table("processed_events").create().connect(path).await?;
        sqlx::query("CREATE TABLE views (page TEXT PRIMARY KEY, view_count INTEGER NOT NULL)")
            .execute(store.pool())
            .await?;
        let once = Once::builder().retention(Duration::from_hours(24 * 30)).store(store.clone());
        Ok(Self { store, once })
    }

    /// What an event source calls, once or more for each event.
    async fn viewed(&self, event: u64, page: &str) -> Result<How, Box<dyn Error + Send + Sync>> {
        let mut tx = self.store.begin().await?;
        let outcome = self
            .once
            .call("page-viewed", event)
            .payload(page)
            .run_outcome_in(&mut tx, async |tx| {
                sqlx::query(
                    "INSERT INTO views (page, view_count) VALUES ($1, 1) \
                     ON CONFLICT (page) DO UPDATE SET view_count = view_count + 1",
                )
                .bind(page.to_owned())
                .execute(&mut **tx)
                .await?;
                Ok(())
            })
            .await?;
        if event.is_multiple_of(7) && outcome.how == How::Fresh && fastrand::bool() {
            return Err("the process died before the commit".into()); // and the transaction with it
        }
        tx.commit().await?;
        Ok(outcome.how)
    }

    async fn views(&self, page: &str) -> Result<i64, sqlx::Error> {
        let views = sqlx::query_scalar("SELECT view_count FROM views WHERE page = $1");
        views.bind(page.to_owned()).fetch_one(self.store.pool()).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let directory = tempfile::tempdir()?;
    let counter = Counter::open(&directory.path().join("views.db")).await?;
    let mut deliveries = JoinSet::new();
    for delivery in 0..EVENTS * DELIVERIES {
        let counter = counter.clone();
        // An event source delivers again until it is told that the event was processed.
        deliveries.spawn(async move {
            let mut crashes = 0;
            loop {
                match counter.viewed(delivery % EVENTS, "home").await {
                    Ok(how) => return (how, crashes),
                    Err(_) => crashes += 1,
                }
            }
        });
    }
    let (mut fresh, mut replayed, mut crashed) = (0, 0, 0);
    while let Some(delivered) = deliveries.join_next().await {
        let (how, crashes) = delivered?;
        crashed += crashes;
        if how == How::Replayed { replayed += 1 } else { fresh += 1 }
    }
    let views = counter.views("home").await?;
    println!("{EVENTS} events, {fresh} counted, {replayed} duplicates, {crashed} crashes: {views} views");
    assert_eq!(views, 100, "each event is counted once");
    assert_eq!((fresh, replayed), (100, 200));
    println!("{}", counter.store.doctor().await?);
    Ok(())
}
