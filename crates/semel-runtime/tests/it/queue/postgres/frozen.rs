//! Nodes that stand still, or are cut off, in the middle of something.

use super::{accept, due, queue, run, set_for_database};
use semel_core::queue::{Accepted, Queue};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::{Fault, FaultProxy};

/// Messages of an acceptance into a line, and of looking whether the connection is there.
const MESSAGES: u64 = 4;
const ORDER: Option<&str> = Some("order-7");

/// Its connection stays open, and it says nothing more: the server ends what it began.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_in_the_middle_of_a_line_does_not_keep_it() {
    let (direct, database) = queue().await;
    set_for_database(&direct, "idle_in_transaction_session_timeout = '200ms'").await;
    let proxy = FaultProxy::before(&database.url).await;
    for nth in 1..=MESSAGES {
        let frozen = PostgresQueue::builder().connections_max(1).connect(proxy.url()).await.unwrap();
        let _ = accept(&frozen, &due(&frozen, &format!("before-{nth}"), ORDER)).await;
        let troubled = proxy.traffic().troubled;
        proxy.strike(nth, Fault::BlackHole);
        let new = due(&frozen, &format!("evt-{nth}"), ORDER);
        let accepting = tokio::spawn(async move { frozen.accept(&[new]).await });
        while proxy.traffic().troubled == troubled {
            tokio::task::yield_now().await;
        }
        let other = accept(&direct, &due(&direct, &format!("other-{nth}"), ORDER)).await;
        assert!(matches!(other, Accepted::New(_)), "{other:?}");
        assert!(!accepting.is_finished(), "it stands still");
        accepting.abort();
        proxy.heal();
    }
}

/// In a user's own pool, too, whose connections say nothing about it.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_a_line_is_waited_for_for_seconds_and_not_for_hours() {
    let (first, database) = queue().await;
    let note = "CREATE TABLE noted (bound interval); \
                CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                    INSERT INTO noted VALUES (current_setting('idle_in_transaction_session_timeout')::interval); \
                    RETURN NEW; END $$; \
                CREATE TRIGGER note BEFORE INSERT ON semel_queue FOR EACH ROW EXECUTE FUNCTION note()";
    run(&first, note).await;
    for (set, wanted) in [("0", 5_000), ("'1h'", 5_000), ("'3s'", 3_000)] {
        set_for_database(&first, &format!("idle_in_transaction_session_timeout = {set}")).await;
        let pool = sqlx::PgPool::connect(&database.url).await.unwrap();
        let theirs = PostgresQueue::builder().pool(pool).await.unwrap();
        let ours = PostgresQueue::connect(&database.url).await.unwrap();
        for queue in [theirs, ours] {
            let _ = accept(&queue, &due(&queue, &fastrand::u64(..).to_string(), ORDER)).await;
            let noted = "WITH gone AS (DELETE FROM noted RETURNING bound) \
                         SELECT (date_part('epoch', max(bound)) * 1000)::bigint FROM gone";
            let noted: i64 = sqlx::query_scalar(noted).fetch_one(queue.pool()).await.unwrap();
            assert_eq!(noted, wanted, "milliseconds, where the server was set to {set}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_told_to_give_up_connections_that_lead_nowhere() {
    let (queue, _database) = queue().await;
    let mut found = Vec::new();
    for setting in
        ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"]
    {
        let asked = sqlx::query_scalar("SELECT setting FROM pg_settings WHERE name = $1").bind(setting);
        let value: String = asked.fetch_one(queue.pool()).await.unwrap();
        found.push(value);
    }
    assert_eq!(found, ["10", "5", "4", "30000"], "seconds, a count, and milliseconds");
}
