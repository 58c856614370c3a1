//! The SQLite store.

mod bad_input;
mod tables;

use semel::{Key, Once, Store, doctor::Tier, store::sqlite::SqliteStore};
use semel_testkit::conformance;
use sqlx::AssertSqlSafe;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

/// A store in a fresh directory, which is removed with it.
pub(crate) async fn store() -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (SqliteStore::builder().create().connect(file(&directory)).await.unwrap(), directory)
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("app.db")
}

/// Runs a statement on the store's database.
async fn run(store: &SqliteStore, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(store.pool()).await.unwrap();
}

fn key(id: &str) -> Key {
    Key::new("test", id).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_every_rule_for_stores() {
    let (store, _directory) = store().await;
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_holds_in_a_pool_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(file(&directory)).create_if_missing(true);
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = SqliteStore::builder().create().pool(pool).await.unwrap();
    conformance::all(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_open_the_same_file_share_it() {
    let (first, directory) = store().await;
    let second = SqliteStore::connect(file(&directory)).await.unwrap();
    let calls = |store: SqliteStore, number: u32| {
        let once = Once::builder().on_busy(semel::OnBusy::Wait { max: Duration::from_mins(1) }).store(store);
        tokio::spawn(async move {
            let mut results = Vec::new();
            for id in 0..50 {
                results.push(once.call("shared", id).run(async |_| Ok(number)).await.unwrap());
            }
            results
        })
    };
    let (first, second) = (calls(first, 1), calls(second, 2));
    assert_eq!(first.await.unwrap(), second.await.unwrap());
}

#[tokio::test]
async fn each_of_many_in_one_commit_gets_its_own_answer() {
    let (store, _directory) = store().await;
    let once = Once::new(store);
    let ids = 0..150;
    for id in ids.clone().step_by(3) {
        once.call("many", id).run(async |_| Ok(id)).await.unwrap();
    }
    // On one thread all of them are in line before the writer takes the first.
    let calls = ids.clone().chain(ids).map(|id| {
        let once = once.clone();
        tokio::spawn(async move { (id, once.call("many", id).run(async |_| Ok(id + 1_000)).await.unwrap()) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (id, result) = call.await.unwrap();
        assert_eq!(result, if id % 3 == 0 { id } else { id + 1_000 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_race_for_one_key_and_one_runs() {
    let (store, _directory) = store().await;
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
async fn what_was_acknowledged_is_there_after_a_restart() {
    let (store, directory) = store().await;
    Once::new(store.clone()).call("test", 1).run(async |_| Ok(7)).await.unwrap();
    store.pool().close().await;
    let store = SqliteStore::connect(file(&directory)).await.unwrap();
    assert_eq!(Once::new(store).call("test", 1).run(async |_| Ok(8)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_file_restored_from_a_copy_gives_no_fence_again() {
    let (store, directory) = store().await;
    let copy = directory.path().join("copy.db");
    run(&store, &format!("VACUUM INTO '{}'", copy.display())).await;
    let once = Once::new(store.clone());
    once.call("test", "a").run(async |_| Ok(())).await.unwrap();
    let before = store.load(&key("a")).await.unwrap().unwrap().fence;
    let restored = SqliteStore::connect(copy).await.unwrap();
    Once::new(restored.clone()).call("test", "a").run(async |_| Ok(())).await.unwrap();
    assert!(restored.load(&key("a")).await.unwrap().unwrap().fence > before);
}

#[tokio::test]
async fn a_replay_writes_nothing() {
    let (store, directory) = store().await;
    let once = Once::new(store.clone());
    once.call("test", 1).run(async |_| Ok(())).await.unwrap();
    let log = || std::fs::metadata(directory.path().join("app.db-wal")).unwrap().len();
    let before = log();
    for _ in 0..20 {
        once.call("test", 1).run(async |_| Ok(())).await.unwrap();
    }
    assert_eq!(log(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn purging_under_traffic_takes_the_expired_and_nothing_else() {
    let (store, _directory) = store().await;
    run(
        &store,
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000) \
         INSERT INTO semel_records (identity, fence, status, key, expires_at, record) \
         SELECT randomblob(32), n, 'COMPLETED', 'old/' || n, n, x'' FROM n",
    )
    .await;
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
    for id in 0..200 {
        assert_eq!(once.call("live", id).run(async |_| Ok(1_000)).await.unwrap(), id);
    }
}

#[tokio::test]
async fn the_doctor_tells_what_the_file_promises() {
    let (store, _directory) = store().await;
    let report = store.doctor().await.unwrap();
    assert_eq!(report.tier, Tier::A, "{report}");
    assert!(!report.is_refused(), "{report}");
}
