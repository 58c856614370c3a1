//! Lists that take long.

use super::{accept, claim, completed, due, queue, run, set_for_database};
use semel_core::{
    queue::{Change, Filter, Queue, Written},
    record::Status,
};
use semel_runtime::queue::postgres::PostgresQueue;
use tokio::task::JoinSet;

const CONNECTIONS: u32 = 4;
/// Makes the server stand still when somebody asks for what failed: it compares phases, and nothing else does it this way.
const SLOW: &str = "CREATE SCHEMA slow; \
    CREATE FUNCTION slow.compare(smallint, integer) RETURNS boolean LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_sleep(60); RETURN $1::integer >= $2; END $$; \
    CREATE OPERATOR slow.>= (LEFTARG = smallint, RIGHTARG = integer, FUNCTION = slow.compare)";

/// F7.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_hang_do_not_keep_outcomes_from_being_written() {
    let (first, database) = queue().await;
    run(&first, SLOW).await;
    set_for_database(&first, "search_path = slow, pg_catalog, public").await;
    let _ = accept(&first, &due(&first, "evt-1", None)).await;
    let queue = PostgresQueue::builder().connections_max(CONNECTIONS).connect(&database.url).await.unwrap();
    let mut lists = JoinSet::new();
    for _ in 0..2 * CONNECTIONS {
        let queue = queue.clone();
        let filter = Filter { status: Some(Status::Failed), ..Filter::default() };
        lists.spawn(async move { queue.list(&filter, None, 10).await });
    }
    let hanging = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let mut found: i64 = 0;
    while found == 0 {
        found = sqlx::query_scalar(hanging).fetch_one(first.pool()).await.unwrap();
    }
    let held = claim(&queue, 1).await;
    let after = completed(&held[0].value, queue.clock().now() + super::HOUR);
    let change = Change { expected: held[0].fence, after, causes: Vec::new() };
    let written = queue.write(&[change]).await.unwrap();
    assert!(matches!(written[..], [Written::Won(_)]), "{written:?}");
    assert_eq!(lists.len(), 2 * CONNECTIONS as usize);
    assert!(lists.try_join_next().is_none(), "they hang still");
}
