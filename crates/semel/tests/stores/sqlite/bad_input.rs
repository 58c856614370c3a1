//! Everything that a person can get wrong: a typed error that says what to do, and nothing runs.

use super::{file, key, run, store};
use semel::{ErrorKind, Once, Store, StoreError, StoreErrorKind, store::sqlite::SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use std::time::Duration;

fn check(error: &StoreError, kind: StoreErrorKind, remedy: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(remedy), "`{error}` does not say `{remedy}`");
}

#[tokio::test]
async fn what_cannot_be_opened_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let no_database = directory.path().join("text.db");
    std::fs::write(
        &no_database,
        "this is a text, and long enough to be read as a header: not a database".repeat(9),
    )
    .unwrap();
    let misconfigured = StoreErrorKind::Misconfigured;
    let cases = [
        (directory.path().join("missing/app.db"), misconfigured, "is its directory there"),
        (directory.path().to_owned(), misconfigured, "cannot be opened"),
        (no_database, misconfigured, "no SQLite database"),
        ("".into(), misconfigured, "no file was named"),
        ("sqlite://app.db?mode=nonsense".into(), misconfigured, "sqlite://file.db"),
        ("sqlite::memory:".into(), misconfigured, "MemoryStore"),
    ];
    for (path, kind, remedy) in cases {
        check(&SqliteStore::builder().create().connect(path).await.unwrap_err(), kind, remedy);
    }
    let error = SqliteStore::connect(file(&directory)).await.unwrap_err();
    check(&error, misconfigured, "cannot be opened");
}

#[tokio::test]
async fn a_missing_table_is_told_with_the_remedy() {
    let (_store, directory) = store().await;
    let error = SqliteStore::builder().table("other").connect(file(&directory)).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "SqliteStore::builder().create()");
}

#[tokio::test]
async fn a_table_that_vanished_runs_nothing() {
    let (store, _directory) = store().await;
    run(&store, "DROP TABLE semel_records").await;
    let call =
        Once::new(store).call("pay", 1).run(async |_| -> Result<(), _> { panic!("it ran unprotected") });
    let error = call.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    check(error.find::<StoreError>().unwrap(), StoreErrorKind::Misconfigured, "the table is missing");
}

#[tokio::test]
async fn another_schema_version_is_told_apart() {
    let (store, directory) = store().await;
    run(&store, "UPDATE semel_records_meta SET version = 99").await;
    let error = SqliteStore::connect(file(&directory)).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "upgrade Semel");
    let error = SqliteStore::builder().create().connect(file(&directory)).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "upgrade Semel");
    run(&store, "UPDATE semel_records_meta SET version = 0").await;
    let error = SqliteStore::connect(file(&directory)).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "create()");
    SqliteStore::builder().create().connect(file(&directory)).await.unwrap();
    SqliteStore::connect(file(&directory)).await.unwrap();
}

#[tokio::test]
async fn a_read_only_file_refuses() {
    let (_store, directory) = store().await;
    let url = format!("sqlite://{}?mode=ro", file(&directory).display());
    let store = SqliteStore::connect(url).await.unwrap();
    let error = Once::new(store).call("pay", 1).run(async |_| Ok(())).await.unwrap_err();
    check(error.find::<StoreError>().unwrap(), StoreErrorKind::Refused, "read-only");
}

#[tokio::test]
async fn a_pool_whose_commits_may_be_lost_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (synchronous, name) in [(SqliteSynchronous::Off, "off"), (SqliteSynchronous::Normal, "normal")] {
        let options = SqliteConnectOptions::new().filename(file(&directory)).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options.synchronous(synchronous)).await.unwrap();
        let error = SqliteStore::builder().create().pool(pool).await.unwrap_err();
        check(&error, StoreErrorKind::Misconfigured, name);
        check(&error, StoreErrorKind::Misconfigured, "synchronous = FULL");
    }
}

#[tokio::test]
async fn a_writer_who_does_not_end_is_told_of_in_bounded_time() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(file(&directory)).create_if_missing(true);
    let pool = SqlitePoolOptions::new().connect_with(options.busy_timeout(Duration::from_millis(20)));
    let store = SqliteStore::builder().create().pool(pool.await.unwrap()).await.unwrap();
    Once::new(store.clone()).call("test", "any").run(async |_| Ok(())).await.unwrap();
    let record = store.load(&key("any")).await.unwrap().unwrap().record;
    let tx = store.begin().await.unwrap();
    let error = store.swap(&key("other"), None, &record).await.unwrap_err();
    check(&error, StoreErrorKind::Unavailable, "another connection writes");
    tx.rollback().await.unwrap();
    assert!(matches!(store.swap(&key("other"), None, &record).await.unwrap(), semel::Swap::Won(_)));
}

#[tokio::test]
async fn a_damaged_row_is_never_taken_for_absent() {
    let (store, _directory) = store().await;
    let once = Once::new(store.clone());
    once.call("test", "damaged").run(async |_| Ok(())).await.unwrap();
    run(&store, "UPDATE semel_records SET record = x'0101'").await;
    check(&store.load(&key("damaged")).await.unwrap_err(), StoreErrorKind::Corrupt, "test/damaged");
    assert!(once.call("test", "damaged").run(async |_| Ok(())).await.is_err());
}

#[tokio::test]
async fn a_closed_pool_is_told() {
    let (store, _directory) = store().await;
    store.pool().close().await;
    check(&store.load(&key("any")).await.unwrap_err(), StoreErrorKind::Misconfigured, "keep it open");
}

#[tokio::test]
async fn what_is_no_name_is_refused() {
    for name in ["", "a\"; DROP TABLE x", "a b", "1a", "ä"] {
        let error = SqliteStore::builder().table(name).schema_sql().unwrap_err();
        check(&error, StoreErrorKind::Misconfigured, "no name for a table");
    }
}
