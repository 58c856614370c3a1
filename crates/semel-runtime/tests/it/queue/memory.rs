//! The queue in memory.

use semel_core::queue::Queue;
use semel_runtime::queue::memory::MemoryQueue;
use semel_testkit::{ManualClock, conformance};
use std::{sync::Arc, time::Duration};

fn queue() -> MemoryQueue {
    let clock = ManualClock::new();
    clock.advance(Duration::from_hours(24));
    MemoryQueue::new(clock.arc())
}

#[tokio::test]
async fn the_memory_queue_keeps_every_rule() {
    let queue = queue();
    conformance::queue::all(&queue).await;
    conformance::queue::all(&queue).await;
    conformance::queue::purge_takes_the_expired_executions_at_once(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_queue_is_right_with_a_task_for_each_caller() {
    let queue: Arc<dyn Queue> = Arc::new(queue());
    for _ in 0..10 {
        conformance::queue::contended(Arc::clone(&queue), |task| drop(tokio::spawn(task))).await;
    }
}

#[tokio::test]
async fn long_walks_follow_the_model() {
    for seed in 0..20 {
        conformance::queue::walk(&queue(), seed, 300).await;
    }
}

#[tokio::test]
async fn the_same_calls_at_the_same_times_give_the_same_answers() {
    let mut lists = Vec::new();
    for _ in 0..2 {
        let queue = queue();
        conformance::queue::walk(&queue, 7, 100).await;
        let counts = queue.counts().await.unwrap();
        lists.push((queue.len(), counts));
    }
    assert_eq!(lists[0], lists[1]);
}
