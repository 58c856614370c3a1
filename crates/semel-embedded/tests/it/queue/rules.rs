//! The queue keeps every rule of queues, wherever its executions are at the moment.

use semel_embedded::{EmbeddedQueue, Options};
use semel_testkit::{ManualClock, conformance::queue};
use std::{sync::Arc, time::Duration};

/// Everything moves all the time.
fn tiny() -> Options {
    Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 }
}

#[tokio::test]
async fn the_embedded_queue_keeps_every_rule_of_queues() {
    let directory = tempfile::tempdir().unwrap();
    let queue = EmbeddedQueue::open(directory.path(), ManualClock::new().arc()).unwrap();
    queue::all(&queue).await;
    queue::purge_takes_the_expired_executions_at_once(&queue).await;
}

#[tokio::test]
async fn the_embedded_queue_keeps_every_rule_while_everything_moves() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let queue = EmbeddedQueue::builder(directory.path(), clock.arc()).options(tiny()).open().unwrap();
    queue::all(&queue).await;
    for seed in 0..3 {
        clock.advance(Duration::from_mins(20));
        queue::walk(&queue, seed, 250).await;
    }
    assert!(queue.sizes().1 > 0, "something must have moved");
    assert_eq!(queue.damaged(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_queue_keeps_its_rules_under_contention() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let queue = EmbeddedQueue::builder(directory.path(), clock.arc()).options(tiny()).open().unwrap();
    queue::contended(Arc::new(queue), |task| drop(tokio::spawn(task))).await;
}
