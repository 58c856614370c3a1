//! The SQLite store.

use semel::store::sqlite::SqliteStore;
use semel_testkit::conformance;
use std::sync::Arc;
use tempfile::TempDir;

/// A store in a fresh directory, which is removed with it.
pub(crate) async fn store() -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    (SqliteStore::builder().create().connect(path).await.unwrap(), directory)
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_every_rule_for_stores() {
    let (store, _directory) = store().await;
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}
