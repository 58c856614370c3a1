//! A database that went back in time.

use super::{accept, claim, demand, due, queue, run};
use semel_core::{
    fence::Fence,
    queue::{Accepted, GoOn, Queue},
    store::StoreErrorKind,
    time::Timestamp,
};
use semel_runtime::queue::postgres::{PostgresQueue, WentBack};
use sqlx::{Connection, PgConnection};
use std::{error::Error, process::Command, time::Duration};

const TABLES: [&str; 3] = ["semel_queue", "semel_queue_counts", "semel_queue_epochs"];

/// What a backup's sequence may have come to.
const FENCES_ANEW: &str = "SELECT setval('semel_queue_fence', 1)";
/// More often than anything else in a test asks for a fence.
const CLAIMS: usize = 50;

async fn back_up(queue: &PostgresQueue) {
    for table in TABLES {
        run(queue, &format!("CREATE TABLE backup_{table} AS TABLE {table}")).await;
    }
}

async fn restore(queue: &PostgresQueue) {
    run(queue, FENCES_ANEW).await;
    for table in TABLES {
        run(queue, &format!("TRUNCATE {table}; INSERT INTO {table} SELECT * FROM backup_{table}")).await;
    }
}

/// The last of many fences that what is due was handed out with.
async fn last_of_many(queue: &PostgresQueue) -> Fence {
    let mut last = None;
    for _ in 0..CLAIMS {
        let mut demand = demand(1);
        demand.wants[0].lease = Duration::ZERO;
        let claimed = queue.claim(&demand).await.unwrap();
        let fence = claimed.iter().map(|it| it.fence).max();
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
    }
    last.unwrap()
}

/// Invariant 7. A function that refuses older fences takes what is delivered again.
#[tokio::test(flavor = "multi_thread")]
async fn every_fence_after_a_decision_is_greater_than_every_one_before() {
    for how in [GoOn::WithoutClaims, GoOn::Wholly] {
        let (_, database) = queue().await;
        let queue = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
        let _ = accept(&queue, &due(&queue, "yesterday", None)).await;
        back_up(&queue).await;
        let before = last_of_many(&queue).await;
        restore(&queue).await;
        queue.accept(&[due(&queue, "today", None)]).await.unwrap_err();
        queue.go_on(how).await.unwrap();
        let accepted = accept(&queue, &due(&queue, "tomorrow", None)).await;
        let Accepted::New(accepted) = accepted else { panic!("{accepted:?}") };
        assert!(accepted > before, "{accepted:?} was accepted after {before:?}");
        queue.go_on(GoOn::Wholly).await.unwrap();
        let claimed = claim(&queue, 10).await;
        assert_eq!(claimed.len(), 3);
        let fences: Vec<_> = claimed.iter().map(|it| it.fence).collect();
        assert!(fences.iter().all(|it| *it > before), "{fences:?} were handed out after {before:?}");
    }
}

/// A failover to a standby that lagged, which nobody has noticed yet.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_out_on_a_new_connection_has_a_newer_fence_than_everything_before() {
    let (queue, database) = queue().await;
    let _ = accept(&queue, &due(&queue, "a", Some("order-7"))).await;
    let before = last_of_many(&queue).await;
    run(&queue, FENCES_ANEW).await;
    let later = PostgresQueue::connect(&database.url).await.unwrap();
    let then = last_of_many(&later).await;
    assert!(then > before, "a node that was started later gave {then:?} after {before:?}");
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let ended = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::raw_sql(FENCES_ANEW).execute(&mut other).await.unwrap();
    let ended: i64 = sqlx::query_scalar(ended).fetch_one(&mut other).await.unwrap();
    assert!(ended > 0);
    let last = last_of_many(&later).await;
    assert!(last > then, "a node that lived on gave {last:?} after {then:?}");
    let next = accept(&later, &due(&later, "b", Some("order-7"))).await;
    assert!(
        matches!(next, Accepted::New(_)),
        "there is room behind such a number for a line's places: {next:?}"
    );
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
    let later = PostgresQueue::connect(&database.url).await.unwrap();
    assert!(matches!(later.went_back(), Some(WentBack::Told(_))), "a node that is started then is told");
    assert!(queue.claim(&demand(1)).await.is_err(), "nothing is delivered either");
    assert!(queue.counts().await.is_ok(), "but one can look");
    queue.go_on(GoOn::Wholly).await.unwrap();
    assert_eq!(claim(&queue, 10).await.len(), 2, "of yesterday, and of tomorrow");
    assert_eq!(queue.went_back(), None);
    goes_on(&later).await;
}

/// A node that was stopped finds out by itself that somebody decided.
async fn goes_on(queue: &PostgresQueue) {
    let again = due(queue, "again", None);
    while queue.accept(std::slice::from_ref(&again)).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.went_back(), None);
}

/// It remembers what the database forgot, but somebody decided on another node.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_on_one_node_is_one_for_all() {
    let (_, database) = queue().await;
    let one = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    let two = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    back_up(&one).await;
    for (number, queue) in [&one, &two, &one, &two].into_iter().enumerate() {
        let _ = accept(queue, &due(queue, &number.to_string(), None)).await;
    }
    restore(&one).await;
    assert!(one.accept(&[due(&one, "a", None)]).await.is_err());
    one.go_on(GoOn::Wholly).await.unwrap();
    let _ = accept(&two, &due(&two, "b", None)).await;
    assert_eq!((one.went_back(), two.went_back()), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_somebody_decides_what_is_there_can_be_changed_and_nothing_is_handed_out() {
    let (one, database) = queue().await;
    let _ = accept(&one, &due(&one, "a", None)).await;
    run(&one, "UPDATE semel_queue_past SET alarm = 'a fire'").await;
    let two = PostgresQueue::connect(&database.url).await.unwrap();
    assert_eq!(two.went_back(), Some(WentBack::Told("a fire".into())));
    assert!(two.accept(&[due(&two, "b", None)]).await.is_err());
    two.go_on(GoOn::WithoutClaims).await.unwrap();
    let _ = accept(&two, &due(&two, "b", None)).await;
    assert!(two.claim(&demand(1)).await.is_err());
    assert!(two.went_back().is_some());
    two.go_on(GoOn::Wholly).await.unwrap();
    assert_eq!(claim(&two, 10).await.len(), 2);
}

fn tool(name: &str, url: &str, more: &[&str]) {
    let done = Command::new(name).args(["--dbname", url]).args(more).output().unwrap();
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The tables are dropped and read in again, as they were: nobody remembers that there was more.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_were_restored_from_a_dump_are_an_alarm_for_nodes_that_remember_nothing() {
    let (first, database) = queue().await;
    let _ = accept(&first, &due(&first, "yesterday", None)).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.sql");
    let file = file.to_str().unwrap();
    tool("pg_dump", &database.url, &["--clean", "--file", file, "--table", "semel_queue*"]);
    let _ = accept(&first, &due(&first, "today", None)).await;
    first.pool().close().await;
    tool("psql", &database.url, &["--set", "ON_ERROR_STOP=1", "--quiet", "--file", file]);
    let later = PostgresQueue::connect(&database.url).await.unwrap();
    assert_eq!(later.went_back(), Some(WentBack::Copied));
    assert!(later.claim(&demand(1)).await.is_err());
    later.go_on(GoOn::Wholly).await.unwrap();
    assert_eq!(claim(&later, 10).await.len(), 1);
    let last = PostgresQueue::connect(&database.url).await.unwrap();
    assert_eq!(last.went_back(), None, "it is decided");
}

/// After a failover, or a server that was set back to a backup.
#[tokio::test(flavor = "multi_thread")]
async fn another_timeline_is_an_alarm_unless_a_node_lived_through_it() {
    let (lived, database) = queue().await;
    let _ = accept(&lived, &due(&lived, "a", None)).await;
    let idle = PostgresQueue::connect(&database.url).await.unwrap();
    run(&lived, "UPDATE semel_queue_past SET timeline = timeline + 1").await;
    idle.purge(Timestamp::EPOCH, 1).await.unwrap_err();
    assert!(matches!(idle.went_back(), Some(WentBack::Timeline { .. })), "it remembers nothing: {idle:?}");
    run(&lived, "UPDATE semel_queue_past SET alarm = NULL").await;
    lived.purge(Timestamp::EPOCH, 1).await.unwrap();
    assert_eq!(lived.went_back(), None, "nothing that it remembers is lost");
    let later = PostgresQueue::connect(&database.url).await.unwrap();
    assert_eq!(later.went_back(), None, "and it vouched for it");
    goes_on(&idle).await;

    let lived = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    let _ = accept(&lived, &due(&lived, "b", None)).await;
    run(&lived, "UPDATE semel_queue_past SET timeline = timeline + 1").await;
    run(&lived, "UPDATE semel_queue_epochs SET epoch = 0").await;
    lived.purge(Timestamp::EPOCH, 1).await.unwrap_err();
    assert!(matches!(lived.went_back(), Some(WentBack::Forgot { .. })), "something is lost");
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
