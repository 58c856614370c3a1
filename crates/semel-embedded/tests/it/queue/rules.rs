//! The queue keeps every rule of queues, wherever its executions are at the moment.

use semel_embedded::EmbeddedQueue;
use semel_testkit::{ManualClock, conformance::queue};

#[tokio::test]
async fn the_embedded_queue_keeps_every_rule_of_queues() {
    let directory = tempfile::tempdir().unwrap();
    let queue = EmbeddedQueue::open(directory.path(), ManualClock::new().arc()).unwrap();
    queue::all(&queue).await;
    queue::purge_takes_the_expired_executions_at_once(&queue).await;
}
