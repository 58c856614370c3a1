//! The PostgreSQL store.

use semel::store::postgres::PostgresStore;
use semel_testkit::{
    conformance,
    servers::{self, Database},
};
use std::sync::Arc;

/// A store in a fresh database, which is removed with it.
pub(crate) async fn store() -> (PostgresStore, Database) {
    let database = servers::postgres().await;
    (PostgresStore::builder().create().connect(&database.url).await.unwrap(), database)
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_rule_for_stores() {
    let (store, _database) = store().await;
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}
