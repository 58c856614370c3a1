//! What goes over the line to the server, and what comes of a server that does not answer.

use super::{key, store};
use semel::{Clock as _, Once, Store, StoreError, StoreErrorKind, Swap, store::postgres::PostgresStore};
use semel_testkit::{Fault, FaultProxy, servers};
use sqlx::PgPool;
use std::time::{Duration, Instant};

/// What a busy machine may add to any time.
const SLACK: Duration = Duration::from_secs(20);
/// Longest that a request may take, and getting a connection for it.
const BOUND: Duration = Duration::from_secs(15);

fn is_silence<T: std::fmt::Debug>(since: Instant, answer: Result<T, StoreError>, doing: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(doing), "{error}");
    assert!(since.elapsed() < BOUND + SLACK, "{error} after {:?}", since.elapsed());
}

#[tokio::test]
async fn a_lone_caller_does_not_ask_whether_the_server_is_there_before_every_statement() {
    const CALLS: u64 = 10;
    let (_store, database) = store().await;
    let proxy = FaultProxy::before(&database.url).await;
    // Of several, one more might be opened while another is on its way back into the pool.
    let builder = PostgresStore::builder().connections_max(1);
    let once = Once::new(builder.connect(proxy.url()).await.unwrap());
    let run = async |id: u64| once.call("trips", id).run(async |_| Ok(())).await.unwrap();
    // The statements are prepared.
    run(0).await;
    let before = proxy.traffic();
    for id in 1..=CALLS {
        run(id).await;
    }
    let after = proxy.traffic();
    assert_eq!(after.connections, before.connections, "it is kept");
    // A claim and a completion, and the pool's question about a connection that is given back, which is there for a
    // second then. To ask before each would be two more for each call.
    let requests = after.requests - before.requests;
    assert!((CALLS * 2..CALLS * 5).contains(&requests), "{requests} messages for {CALLS} calls");
}

/// As after a restart of the server: none of them has been asked since it answered last.
#[tokio::test]
async fn connections_that_broke_together_cost_no_failed_claim() {
    const CONNECTIONS: usize = 12;
    let (operator, database) = store().await;
    let store = PostgresStore::connect(&database.url).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(store.pool().acquire().await.unwrap());
    }
    drop(held);
    while store.pool().num_idle() < CONNECTIONS {
        tokio::task::yield_now().await;
    }
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut last = operator.pool().acquire().await.unwrap();
    while sqlx::query_scalar::<_, i64>(cut).fetch_one(&mut *last).await.unwrap() > 0 {}
    let once = Once::new(store);
    for id in 0..CONNECTIONS {
        assert_eq!(once.call("after", id).run(async |_| Ok(id)).await.unwrap(), id);
    }
}

#[tokio::test]
async fn a_connection_to_a_server_that_is_only_read_is_given_up() {
    let database = servers::postgres().await;
    let builder = PostgresStore::builder().create().connections_max(1);
    let store = builder.connect(&database.url).await.unwrap();
    Once::new(store.clone()).call("test", "first").run(async |_| Ok(())).await.unwrap();
    let record = store.load(&key("first")).await.unwrap().unwrap().record;
    // As the only connection looks after its server has become a standby, and the name leads elsewhere.
    let mut connection = store.pool().acquire().await.unwrap();
    let read_only = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";
    sqlx::raw_sql(read_only).execute(&mut *connection).await.unwrap();
    drop(connection);
    let refused = store.swap(&key("second"), None, &record).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Refused, "{refused}");
    let written = store.swap(&key("second"), None, &record).await.unwrap();
    assert!(matches!(written, Swap::Won(_)), "{written:?}");
}

#[tokio::test]
async fn the_doctor_gives_up_on_a_server_that_does_not_answer() {
    let (_store, database) = store().await;
    let proxy = FaultProxy::before(&database.url).await;
    let store = PostgresStore::connect(proxy.url()).await.unwrap();
    proxy.set(Fault::BlackHole);
    let since = Instant::now();
    is_silence(since, store.doctor().await, "");
    proxy.heal();
    store.doctor().await.unwrap();
}

#[tokio::test]
async fn a_commit_that_is_not_answered_is_told_in_bounded_time() {
    let (_store, database) = store().await;
    let proxy = FaultProxy::before(&database.url).await;
    let store = PostgresStore::connect(proxy.url()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    Once::new(store.clone()).call("test", 1).run_in(&mut tx, async |_| Ok(())).await.unwrap();
    proxy.set(Fault::BlackHole);
    let since = Instant::now();
    is_silence(since, tx.commit().await, "committing");
}

#[tokio::test]
async fn a_transaction_that_is_not_begun_is_told_in_bounded_time() {
    let (_store, database) = store().await;
    let proxy = FaultProxy::before(&database.url).await;
    let store = PostgresStore::connect(proxy.url()).await.unwrap();
    proxy.set(Fault::BlackHole);
    let since = Instant::now();
    is_silence(since, store.begin().await, "beginning a transaction");
}

#[tokio::test]
async fn making_the_tables_is_given_up_on_a_server_that_does_not_answer() {
    let database = servers::postgres().await;
    let proxy = FaultProxy::before(&database.url).await;
    let pool = PgPool::connect(proxy.url()).await.unwrap();
    // Is it there, is it the primary (to prepare that, and to ask), and then it begins.
    proxy.strike(4, Fault::BlackHole);
    let since = Instant::now();
    is_silence(since, PostgresStore::builder().create().pool(pool).await, "creating the tables");
    PostgresStore::builder().create().connect(&database.url).await.unwrap();
}

/// The server's clock is an hour ahead, and is another one later: leases go by what its answers tell.
#[tokio::test]
async fn a_servers_clock_that_is_an_hour_ahead_decides_leases() {
    let (first, database) = store().await;
    let ahead = |hours: u32| {
        format!(
            "CREATE OR REPLACE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
             AS $$ SELECT pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
        )
    };
    super::run(&first, "CREATE SCHEMA ahead").await;
    super::run(&first, &ahead(1)).await;
    super::set_for_database(&first, "search_path = ahead, public, pg_catalog").await;
    let store = PostgresStore::connect(&database.url).await.unwrap();
    let ours = semel::SystemClock::new();
    for hours in [1, 3] {
        super::run(&first, &ahead(hours)).await;
        let once = Once::new(store.clone());
        let semel::Begin::Run(lease) = once.call("ahead", hours).begin().await.unwrap() else {
            panic!("it is fresh")
        };
        // The first claim after the change was made by the clock of before; its answer tells the new one.
        lease.renew().await.unwrap();
        let lease_until = once.get("ahead", hours).await.unwrap().unwrap().lease_until().unwrap();
        let apart = lease_until.since(ours.now());
        let expected = Duration::from_hours(hours.into()) + Duration::from_mins(1);
        assert!(apart.abs_diff(expected) < SLACK, "a lease of a minute ends in {apart:?}");
        lease.release("over").await.unwrap();
    }
}
