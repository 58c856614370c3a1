//! A database that went back in time.

use super::{accept, due, queue, run};
use semel_core::{queue::Queue, store::StoreErrorKind};
use semel_runtime::queue::postgres::{PostgresQueue, WentBack};
use std::error::Error;

const TABLES: [&str; 3] = ["semel_queue", "semel_queue_counts", "semel_queue_epochs"];

async fn back_up(queue: &PostgresQueue) {
    for table in TABLES {
        run(queue, &format!("CREATE TABLE backup_{table} AS TABLE {table}")).await;
    }
}

async fn restore(queue: &PostgresQueue) {
    for table in TABLES {
        run(queue, &format!("TRUNCATE {table}; INSERT INTO {table} SELECT * FROM backup_{table}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_yesterday_is_an_alarm_and_nothing_is_written_until_somebody_looked() {
    let (_, database) = queue().await;
    let queue = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    let _ = accept(&queue, &due(&queue, "yesterday", None)).await;
    back_up(&queue).await;
    let _ = accept(&queue, &due(&queue, "today", None)).await;
    assert_eq!(queue.went_back(), None);
    restore(&queue).await;
    let error = queue.accept(&[due(&queue, "tomorrow", None)]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    let cause = error.source().unwrap().downcast_ref::<WentBack>();
    assert_eq!(cause, queue.went_back().as_ref());
    assert!(queue.claim(&super::demand(1)).await.is_err(), "nothing is delivered either");
    assert!(queue.counts().await.is_ok(), "but one can look");
    queue.accept_the_past();
    assert_eq!(super::claim(&queue, 10).await.len(), 2, "of yesterday, and of tomorrow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_forgot_one_write_is_noticed_by_the_next() {
    let (_, database) = queue().await;
    let queue = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    for id in ["a", "b", "c"] {
        let _ = accept(&queue, &due(&queue, id, None)).await;
    }
    run(&queue, "DELETE FROM semel_queue WHERE name = 'c'").await;
    run(&queue, "UPDATE semel_queue_epochs SET epoch = epoch - 1 WHERE epoch > 0").await;
    assert!(queue.accept(&[due(&queue, "d", None)]).await.is_err());
    assert!(queue.went_back().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_write_is_no_alarm() {
    let (one, database) = queue().await;
    let two = PostgresQueue::connect(&database.url).await.unwrap();
    for number in 0..50 {
        let queue = if number % 2 == 0 { &one } else { &two };
        let _ = accept(queue, &due(queue, &number.to_string(), None)).await;
        let _ = accept(queue, &due(queue, "again", None)).await;
    }
    assert_eq!((one.went_back(), two.went_back()), (None, None));
}
