//! The PostgreSQL store.

mod bad_input;
mod crowds;
mod fences;
mod line;
mod server;
mod standby;
mod tables;

use semel::{Key, Once, store::postgres::PostgresStore};
use semel_testkit::{
    conformance,
    servers::{self, Database},
};
use sqlx::AssertSqlSafe;
use std::sync::Arc;

/// A store in a fresh database, which is removed with it.
pub(crate) async fn store() -> (PostgresStore, Database) {
    let database = servers::postgres().await;
    (PostgresStore::builder().create().connect(&database.url).await.unwrap(), database)
}

/// Runs a statement on the store's database.
async fn run(store: &PostgresStore, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(store.pool()).await.unwrap();
}

/// Sets this for everybody who connects from now on.
async fn set_for_database(store: &PostgresStore, setting: &str) {
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(store.pool()).await.unwrap();
    run(store, &format!("ALTER DATABASE \"{name}\" SET {setting}")).await;
}

async fn keeps_every_rule(store: PostgresStore) {
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_rule_for_stores() {
    let (store, _database) = store().await;
    keeps_every_rule(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_holds_where_repeatable_read_is_the_default() {
    let (first, database) = store().await;
    set_for_database(&first, "default_transaction_isolation = 'repeatable read'").await;
    keeps_every_rule(PostgresStore::connect(&database.url).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_holds_on_one_connection() {
    let database = servers::postgres().await;
    let builder = PostgresStore::builder().create().connections_max(1);
    keeps_every_rule(builder.connect(&database.url).await.unwrap()).await;
}

#[tokio::test]
async fn people_can_read_the_table() {
    let (store, _database) = store().await;
    let once = Once::new(store.clone());
    once.call("process-order", "it's \"7\"").run(async |_| Ok(())).await.unwrap();
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT key, status FROM semel_records").fetch_all(store.pool()).await.unwrap();
    assert_eq!(rows, [("process-order/it's \"7\"".to_owned(), "COMPLETED".to_owned())]);
}

#[tokio::test]
async fn the_doctor_tells_what_the_server_promises() {
    let (store, database) = store().await;
    let report = store.doctor().await.unwrap();
    assert_eq!(report.tier, semel::doctor::Tier::A, "{report}");
    assert!(!report.is_refused(), "{report}");
    for setting in ["synchronous_commit = off", "default_transaction_read_only = on"] {
        set_for_database(&store, setting).await;
    }
    let report = PostgresStore::connect(&database.url).await.unwrap().doctor().await.unwrap();
    assert_eq!(report.tier, semel::doctor::Tier::C, "{report}");
    let refused = report.accepted().unwrap_err().to_string();
    assert!(refused.contains("synchronous_commit") && refused.contains("primary"), "{refused}");
}

/// A key that nobody else uses.
fn key(id: &str) -> Key {
    Key::new("test", id).unwrap()
}
