//! The queue in PostgreSQL, against a real server.

use semel_core::queue::Queue;
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::{
    conformance,
    servers::{self, Database},
};
use std::sync::Arc;

/// A queue in a fresh database, which is removed with it.
async fn queue() -> (PostgresQueue, Database) {
    let database = servers::postgres().await;
    (PostgresQueue::builder().create().connect(&database.url).await.unwrap(), database)
}

async fn keeps_every_rule(queue: PostgresQueue) {
    conformance::queue::all(&queue).await;
    conformance::queue::purge_takes_the_expired_executions_at_once(&queue).await;
    let queue: Arc<dyn Queue> = Arc::new(queue);
    for _ in 0..3 {
        conformance::queue::contended(Arc::clone(&queue), |task| drop(tokio::spawn(task))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_rule_for_queues() {
    let (queue, _database) = queue().await;
    keeps_every_rule(queue).await;
}
