//! The queue in PostgreSQL, against a real server.

mod bloat;
mod broken_line;
mod crowds;
mod format;
mod frozen;
mod hints;
mod lists;
mod past;
mod tables;

use semel_core::{
    execution::{Arrival, Execution, Origin, Phase},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Demand, Fenced, Queue, Want},
    record::{Body, Holder},
    time::Timestamp,
};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::{
    conformance,
    servers::{self, Database},
};
use sqlx::AssertSqlSafe;
use std::{sync::Arc, time::Duration};

const HOUR: Duration = Duration::from_hours(1);

/// A queue in a fresh database, which is removed with it.
async fn queue() -> (PostgresQueue, Database) {
    let database = servers::postgres().await;
    (PostgresQueue::builder().create().connect(&database.url).await.unwrap(), database)
}

/// Runs a statement on the queue's database.
async fn run(queue: &PostgresQueue, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(queue.pool()).await.unwrap();
}

/// Sets this for everybody who connects from now on.
async fn set_for_database(queue: &PostgresQueue, setting: &str) {
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(queue.pool()).await.unwrap();
    run(queue, &format!("ALTER DATABASE \"{name}\" SET {setting}")).await;
}

/// An execution that is due, under this order if there is one.
fn due(queue: &PostgresQueue, id: &str, order: Option<&str>) -> Execution {
    let now = queue.clock().now();
    let arrival = Arrival {
        key: Key::new("orders", id).unwrap(),
        function: "orders".into(),
        origin: Origin { source: "/shop".into(), id: id.into(), kind: "order.created".into() },
        order: order.map(Into::into),
        fingerprint: Fingerprint::of_bytes(id.as_bytes()),
        event: id.as_bytes().into(),
        event_time: None,
        event_expires_at: None,
    };
    Execution::accepted(now, arrival, now - HOUR)
}

async fn accept(queue: &PostgresQueue, execution: &Execution) -> Accepted {
    queue.accept(std::slice::from_ref(execution)).await.unwrap().remove(0)
}

fn demand(limit: u32) -> Demand {
    let want = Want { function: "orders".into(), limit, lease: HOUR };
    Demand { holder: Holder(fastrand::u128(..)), wants: vec![want] }
}

async fn claim(queue: &PostgresQueue, limit: u32) -> Vec<Fenced<Execution>> {
    queue.claim(&demand(limit)).await.unwrap()
}

fn completed(before: &Execution, expires_at: Timestamp) -> Execution {
    let phase = Phase::Completed(Body::Kept { bytes: b"done".to_vec(), until: expires_at });
    Execution { phase, expires_at, ..before.clone() }
}

async fn keeps_every_rule(queue: PostgresQueue) {
    conformance::queue::all(&queue).await;
    conformance::queue::purge_takes_the_expired_executions_at_once(&queue).await;
    let queue: Arc<dyn Queue> = Arc::new(queue);
    for _ in 0..3 {
        conformance::queue::contended(Arc::clone(&queue), |task| drop(tokio::spawn(task))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_every_rule_for_queues() {
    let (queue, _database) = queue().await;
    keeps_every_rule(queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_for_queues_holds_on_one_connection_of_a_users_pool() {
    let database = servers::postgres().await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&database.url).await.unwrap();
    keeps_every_rule(PostgresQueue::builder().create().pool(pool).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_walks_on_postgres_follow_the_model() {
    let (queue, _database) = queue().await;
    for _ in 0..3 {
        conformance::queue::walk(&queue, fastrand::u64(..), 150).await;
    }
}
