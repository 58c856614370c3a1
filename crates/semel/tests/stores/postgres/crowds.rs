//! Many at once, and others' transactions in the way.

use super::{key, run, store};
use semel::{Once, Store, StoreErrorKind, Swap, Transaction, store::postgres::PostgresStore};
use std::time::Duration;

const YEAR: Duration = Duration::from_hours(24 * 365);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_race_for_one_key_and_one_runs() {
    let (store, _database) = store().await;
    let once = Once::builder().on_busy(semel::OnBusy::Wait { max: Duration::from_mins(1) }).store(store);
    let tasks: Vec<_> = (0..1_000)
        .map(|number| {
            let once = once.clone();
            tokio::spawn(async move { once.call("race", 1).run(async |_| Ok(number)).await })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap().unwrap());
    }
    assert!(results.iter().all(|it| *it == results[0]), "more than one ran");
}

#[tokio::test]
async fn a_claim_whose_twin_is_in_an_open_transaction_is_told_in_bounded_time() {
    let (store, _database) = store().await;
    let key = key("twin");
    let other = Once::new(store.clone());
    other.call("test", "other").run(async |_| Ok(())).await.unwrap();
    let record = store.load(&super::key("other")).await.unwrap().unwrap().record;
    let mut tx = store.begin().await.unwrap();
    let Swap::Won(fence) = tx.swap(&key, None, &record).await.unwrap() else { panic!("it is absent") };
    let error = store.swap(&key, None, &record).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    tx.commit().await.unwrap();
    let lost = store.swap(&key, None, &record).await.unwrap();
    assert!(matches!(lost, Swap::Lost(Some(it)) if it.fence == fence));
}

#[tokio::test]
async fn purging_does_not_wait_for_those_who_hold_a_record() {
    let (store, _database) = store().await;
    let once = Once::new(store.clone());
    for id in 0..3 {
        once.call("test", id).run(async |_| Ok(())).await.unwrap();
    }
    let mut tx = store.begin().await.unwrap();
    let lock = "SELECT 1 FROM semel_records WHERE key = 'test/1' FOR UPDATE";
    sqlx::query(lock).execute(&mut *tx).await.unwrap();
    let far = store.clock().now() + YEAR;
    assert_eq!(store.purge(far, u32::MAX).await.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(store.purge(far, u32::MAX).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn purging_under_traffic_takes_the_expired_and_nothing_else() {
    let (store, _database) = store().await;
    let fill = "INSERT INTO semel_records (identity, fence, status, key, expires_at, record) \
        SELECT sha256(n::text::bytea), nextval('semel_records_fence'), 'COMPLETED', 'old/' || n, n, '' \
        FROM generate_series(1, 5000) n";
    run(&store, fill).await;
    let once = Once::new(store.clone());
    let traffic = tokio::spawn(async move {
        for id in 0..200 {
            once.call("live", id).run(async |_| Ok(id)).await.unwrap();
        }
        once
    });
    let mut purged = 0;
    while purged < 5_000 {
        purged += store.purge(store.clock().now(), 700).await.unwrap();
    }
    let once = traffic.await.unwrap();
    assert_eq!(store.purge(store.clock().now(), u32::MAX).await.unwrap(), 0);
    for id in 0..200 {
        assert_eq!(once.call("live", id).run(async |_| Ok(1_000)).await.unwrap(), id);
    }
}

#[tokio::test]
async fn a_connection_that_was_cut_is_replaced() {
    let (store, _database) = store().await;
    let once = Once::new(store.clone());
    for round in 0..4 {
        once.call("test", round).run(async |_| Ok(())).await.unwrap();
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(cut).execute(store.pool()).await.unwrap();
    }
}

/// Writes fail with this SQLSTATE so many times; a sequence is not rolled back, so it counts them.
async fn conflicts(store: &PostgresStore, code: &str, times: u32) {
    let statements = format!(
        "DROP SEQUENCE IF EXISTS conflicts; CREATE SEQUENCE conflicts; \
         CREATE OR REPLACE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('conflicts') <= {times} THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '{code}'; END IF; \
             RETURN NEW; END $$; \
         CREATE OR REPLACE TRIGGER conflict BEFORE INSERT ON semel_records \
             FOR EACH ROW EXECUTE FUNCTION conflict()"
    );
    run(store, &statements).await;
}

#[tokio::test]
async fn deadlocks_and_serialization_failures_are_sent_again_within_a_bound() {
    const SENDS_MAX: u32 = 8;
    let (store, _database) = store().await;
    Once::new(store.clone()).call("test", "first").run(async |_| Ok(())).await.unwrap();
    let record = store.load(&key("first")).await.unwrap().unwrap().record;
    for code in ["40P01", "40001"] {
        conflicts(&store, code, SENDS_MAX - 1).await;
        let written = store.swap(&key(code), None, &record).await.unwrap();
        assert!(matches!(written, Swap::Won(_)), "{code}: {written:?}");
        conflicts(&store, code, SENDS_MAX).await;
        let error = store.swap(&key("beyond"), None, &record).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{code}: {error}");
        assert!(error.to_string().contains("in the way, again and again"), "{error}");
        let sends: i64 =
            sqlx::query_scalar("SELECT last_value FROM conflicts").fetch_one(store.pool()).await.unwrap();
        assert_eq!(sends, i64::from(SENDS_MAX), "{code}");
        assert!(store.load(&key("beyond")).await.unwrap().is_none());
    }
}
