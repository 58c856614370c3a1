//! The PostgreSQL store.

use semel::store::postgres::PostgresStore;
use semel_testkit::conformance;
use std::sync::Arc;

/// A store in a fresh database, and that database's URL.
pub(crate) async fn store() -> (PostgresStore, String) {
    let url = database().await;
    (PostgresStore::builder().create().connect(&url).await.unwrap(), url)
}

/// A fresh database, as a URL.
pub(crate) async fn database() -> String {
    use sqlx::{AssertSqlSafe, Connection};
    let server = std::env::var("SEMEL_TEST_POSTGRES").expect("SEMEL_TEST_POSTGRES is not set");
    let name = format!("semel_{:016x}", fastrand::u64(..));
    let mut connection = sqlx::PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
    format!("{server}/{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_rule_for_stores() {
    let (store, _) = store().await;
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}
