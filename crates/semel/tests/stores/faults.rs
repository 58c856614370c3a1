//! Every store, with trouble on the line, and with a thousand callers.

#[cfg(any(
    feature = "dynamodb",
    feature = "firestore",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
mod broken_line;
mod race;

use semel::Once;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_way_race_in_memory_has_one_winner() {
    let store = Arc::new(semel::MemoryStore::new());
    race::for_one_key(|| Once::from_store(store.clone())).await;
}

#[cfg(feature = "embedded")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_way_race_in_the_embedded_store_has_one_winner() {
    let directory = tempfile::tempdir().unwrap();
    let once = Once::open(directory.path()).await.unwrap();
    race::for_one_key(|| once.clone()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_way_race_in_sqlite_has_one_winner() {
    let directory = tempfile::tempdir().unwrap();
    let store = semel::store::sqlite::SqliteStore::builder().create();
    let store = Arc::new(store.connect(directory.path().join("race.sqlite")).await.unwrap());
    race::for_one_key(|| Once::from_store(store.clone())).await;
}
