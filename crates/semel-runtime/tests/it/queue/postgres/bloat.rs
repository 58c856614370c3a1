//! What is left behind of executions that came and went.

use super::{HOUR, completed, demand, due, queue};
use semel_core::{
    execution::Execution,
    queue::{Change, Queue, Written},
};
use semel_runtime::queue::postgres::PostgresQueue;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::{Duration, Instant};

const BATCH: usize = 500;
/// Of one round.
const BATCHES: usize = 8;
/// How long somebody may take who must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends so many through: accepted, claimed, completed, and purged.
async fn round(queue: &PostgresQueue, number: usize) {
    for batch in 0..BATCHES {
        let name = |it: usize| format!("evt-{number}-{batch}-{it}");
        let new: Vec<Execution> = (0..BATCH).map(|it| due(queue, &name(it), None)).collect();
        queue.accept(&new).await.unwrap();
        let held = queue.claim(&demand(BATCH as u32)).await.unwrap();
        assert_eq!(held.len(), BATCH);
        let now = queue.clock().now();
        let changes: Vec<_> = held
            .iter()
            .map(|it| Change {
                expected: it.fence,
                after: completed(&it.value, now - HOUR / 2),
                causes: Vec::new(),
            })
            .collect();
        let written = queue.write(&changes).await.unwrap();
        assert!(written.iter().all(|it| matches!(it, Written::Won(_))));
        let mut purged = 0;
        while purged < BATCH {
            let now = queue.clock().now();
            purged += queue.purge(now, BATCH as u32).await.unwrap() as usize;
        }
    }
}

async fn number(connection: &mut PgConnection, question: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(question.to_owned())).fetch_one(connection).await.unwrap()
}

/// What the tables take of the disk when the server has cleaned up, which it does by itself otherwise.
async fn size(connection: &mut PgConnection) -> i64 {
    for table in ["semel_queue", "semel_queue_counts", "semel_queue_epochs"] {
        let vacuum = format!("VACUUM (TRUNCATE off) {table}");
        sqlx::raw_sql(AssertSqlSafe(vacuum)).execute(&mut *connection).await.unwrap();
    }
    let all = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables";
    number(connection, all).await
}

/// F22: somebody who looks at the past for long keeps what is dead from being cleaned up, and only that long.
#[tokio::test(flavor = "multi_thread")]
async fn the_tables_grow_no_more_once_a_long_reader_is_gone() {
    let (queue, database) = queue().await;
    let mut reader = PgConnection::connect(&database.url).await.unwrap();
    let mut cleaner = PgConnection::connect(&database.url).await.unwrap();
    let look = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM semel_queue";
    sqlx::raw_sql(look).execute(&mut reader).await.unwrap();
    round(&queue, 0).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    assert_eq!(number(&mut cleaner, open).await, 1, "the reader's, and none of ours");
    let beside_it = size(&mut cleaner).await;
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    size(&mut cleaner).await;
    for later in 1..3 {
        round(&queue, later).await;
        let found = size(&mut cleaner).await;
        println!("{found} bytes after round {later}, {beside_it} before");
        // An index's empty pages are used again one cleaning later.
        assert!(found <= beside_it * 3 / 2, "{found} bytes after round {later}, {beside_it} before");
    }
    assert_eq!(number(&mut cleaner, open).await, 0, "nobody leaves a transaction open");
    let counts = queue.counts().await.unwrap().remove(0);
    assert_eq!(counts.purged, (3 * BATCHES * BATCH) as u64);
}

/// What is changed with every write (counters and epochs) is changed in place: its index does not grow.
#[tokio::test(flavor = "multi_thread")]
async fn counters_and_epochs_are_changed_in_place() {
    let (queue, database) = queue().await;
    round(&queue, 0).await;
    queue.pool().close().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    // A backend tells what it counted before it is gone, and is gone some time after its client.
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let since = Instant::now();
    while number(&mut connection, others).await > 0 {
        assert!(since.elapsed() < PATIENCE, "the connections of a closed pool are still there");
    }
    for table in ["semel_queue_counts", "semel_queue_epochs"] {
        let asked =
            format!("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{table}'");
        let (all, in_place): (i64, i64) =
            sqlx::query_as(AssertSqlSafe(asked)).fetch_one(&mut connection).await.unwrap();
        println!("{table}: {in_place} of {all} in place");
        assert!(all.unsigned_abs() >= 3 * BATCHES as u64, "{table} was changed {all} times");
        assert!(in_place * 100 >= all * 90, "{table}: only {in_place} of {all} in place");
    }
}
