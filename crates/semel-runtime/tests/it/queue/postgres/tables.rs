//! The tables: made, looked at, and refused.

use super::{accept, claim, completed, demand, due, queue, run};
use semel_core::{
    execution::Execution,
    queue::{Accepted, Change, EVENT_BYTES_MAX, Fenced, Filter, Queue, Written},
    store::StoreErrorKind,
};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::servers;
use sqlx::AssertSqlSafe;
use std::time::Duration;

#[tokio::test]
async fn missing_and_newer_tables_are_told_with_their_remedy() {
    let database = servers::postgres().await;
    let error = PostgresQueue::connect(&database.url).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("`PostgresQueue::builder().create()`"), "{error}");
    let queue = PostgresQueue::builder().create().connect(&database.url).await.unwrap();
    run(&queue, "UPDATE semel_queue_meta SET version = 99").await;
    for builder in [PostgresQueue::builder(), PostgresQueue::builder().create()] {
        let error = builder.connect(&database.url).await.unwrap_err();
        assert!(error.to_string().contains("upgrade Semel"), "{error}");
    }
}

#[tokio::test]
async fn the_printed_sql_makes_the_tables_and_may_be_run_again() {
    let database = servers::postgres().await;
    let sql = PostgresQueue::builder().table("orders_queue").schema_sql().unwrap();
    let pool = sqlx::PgPool::connect(&database.url).await.unwrap();
    for _ in 0..2 {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&pool).await.unwrap();
    }
    let queue = PostgresQueue::builder().table("orders_queue").connect(&database.url).await.unwrap();
    assert!(matches!(accept(&queue, &due(&queue, "evt-1", None)).await, Accepted::New(_)));
}

#[tokio::test]
async fn two_queues_in_one_database_share_nothing() {
    let (one, database) = queue().await;
    let two = PostgresQueue::builder().table("another").create().connect(&database.url).await.unwrap();
    for queue in [&one, &two] {
        assert!(matches!(accept(queue, &due(queue, "evt-1", None)).await, Accepted::New(_)));
    }
    assert_eq!(one.counts().await.unwrap()[0].accepted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_make_the_tables_at_once_are_not_turned_away() {
    let database = servers::postgres().await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = database.url.clone();
        nodes.spawn(async move { PostgresQueue::builder().create().connections_max(1).connect(&url).await });
    }
    for node in nodes.join_all().await {
        node.unwrap();
    }
}

#[tokio::test]
async fn people_can_read_the_table() {
    let (queue, _database) = queue().await;
    let _ = accept(&queue, &due(&queue, "it's \"7\"", None)).await;
    let asked = "SELECT function, name, phase FROM semel_queue";
    let rows: Vec<(String, String, i16)> = sqlx::query_as(asked).fetch_all(queue.pool()).await.unwrap();
    assert_eq!(rows, [("orders".to_owned(), "it's \"7\"".to_owned(), 0)]);
}

#[tokio::test]
async fn what_is_over_a_limit_is_refused_before_anything_is_done() {
    let (queue, _database) = queue().await;
    let mut large = due(&queue, "large", None);
    large.event = Some(vec![0; EVENT_BYTES_MAX + 1].into());
    let error = queue.accept(&[due(&queue, "small", None), large]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(queue.counts().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_row_that_somebody_changed_is_told_and_blocks_no_other() {
    let (queue, _database) = queue().await;
    for id in ["good", "bad"] {
        let _ = accept(&queue, &due(&queue, id, None)).await;
    }
    run(&queue, "UPDATE semel_queue SET execution = '\\x00' WHERE name = 'bad'").await;
    let [good, bad] = ["good", "bad"].map(|it| due(&queue, it, None).id());
    assert_eq!(queue.get(&[bad]).await.unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert!(queue.get(&[good]).await.unwrap()[0].is_some());
    let handed_out = claim(&queue, 10).await;
    assert_eq!(handed_out.len(), 1, "one bad row does not stop the others");
    assert!(claim(&queue, 10).await.is_empty(), "it is put aside");
    let listed = queue.list(&Filter::default(), None, 10).await.unwrap();
    assert_eq!((listed.items.len(), queue.damaged()), (1, vec![bad]));
}

/// Invariant 16, awa #388: whatever became of the bad ones, all others come in the next round.
#[tokio::test]
async fn bad_rows_stop_neither_the_rescue_nor_the_purge_of_others() {
    let (queue, _database) = queue().await;
    for id in ["done-bad", "done-good", "held-bad", "held-good"] {
        let _ = accept(&queue, &due(&queue, id, None)).await;
    }
    let mut lapsing = demand(4);
    lapsing.wants[0].lease = Duration::ZERO;
    let held = queue.claim(&lapsing).await.unwrap();
    assert_eq!(held.len(), 4);
    let expired = queue.clock().now() - Duration::from_mins(1);
    let done = held.iter().filter(|it| it.value.origin.id.starts_with("done"));
    let change = |it: &Fenced<Execution>| Change {
        expected: it.fence,
        after: completed(&it.value, expired),
        causes: Vec::new(),
    };
    let changes: Vec<_> = done.map(change).collect();
    let written = queue.write(&changes).await.unwrap();
    assert!(matches!(written[..], [Written::Won(_), Written::Won(_)]), "{written:?}");
    run(&queue, "UPDATE semel_queue SET execution = '\\x00' WHERE name LIKE '%-bad'").await;

    let rescued = claim(&queue, 10).await;
    let names: Vec<_> = rescued.iter().map(|it| &*it.value.origin.id).collect();
    assert_eq!(names, ["held-good"], "its lease had lapsed beside that of a bad one");
    assert_eq!(queue.purge(queue.clock().now(), 10).await.unwrap(), 2, "a bad one goes with the others");
    assert_eq!(queue.damaged(), [due(&queue, "held-bad", None).id()]);
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced() && counts.purged == 2, "{counts:?}");
}

#[tokio::test]
async fn the_doctor_tells_what_the_server_promises() {
    let (queue, _database) = queue().await;
    let report = queue.doctor().await.unwrap();
    assert!(report.to_string().contains("synchronous_standby_names"), "{report}");
}
