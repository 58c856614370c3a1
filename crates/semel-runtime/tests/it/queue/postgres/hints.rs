//! What nodes tell each other.

use super::{accept, due, queue, run};
use semel_core::queue::Queue as _;
use semel_runtime::queue::postgres::PostgresQueue;
use std::time::Duration;

/// Far longer than a hint takes, and no test waits for it to pass.
const SOON: Duration = Duration::from_mins(1);

async fn hint(queue: &PostgresQueue) {
    tokio::time::timeout(SOON, queue.hint()).await.expect("somebody told something");
}

/// Two nodes that listen: the first hint says that whatever was told before was missed.
async fn nodes() -> (PostgresQueue, PostgresQueue, semel_testkit::servers::Database) {
    let (here, database) = queue().await;
    let there = PostgresQueue::connect(&database.url).await.unwrap();
    hint(&here).await;
    hint(&there).await;
    (here, there, database)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_what_another_leaves_to_be_claimed() {
    let (here, there, _database) = nodes().await;
    for id in ["evt-1", "evt-2"] {
        let _ = accept(&here, &due(&here, id, None)).await;
        hint(&there).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connection_broke_listens_again() {
    let (here, there, _database) = nodes().await;
    let listeners = "FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'";
    run(&here, &format!("SELECT pg_terminate_backend(pid) {listeners}")).await;
    hint(&there).await;
    let _ = accept(&here, &due(&here, "evt-1", None)).await;
    hint(&there).await;
}
