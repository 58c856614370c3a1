//! Many at once, on several nodes.

use super::{claim, completed, due, queue};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue, Written},
    store::StoreError,
    time::{Clock, Timestamp},
};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::{conformance, servers};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Barrier, task::JoinSet};

const NODES: usize = 3;
const CALLERS: usize = 1_000;

/// Several nodes on one database, each with its own pool: every call goes to the next.
struct Nodes {
    nodes: Vec<PostgresQueue>,
    turn: AtomicUsize,
}

impl Nodes {
    async fn on(url: &str) -> Self {
        let mut nodes =
            vec![PostgresQueue::builder().create().connections_max(8).connect(url).await.unwrap()];
        while nodes.len() < NODES {
            nodes.push(PostgresQueue::builder().connections_max(8).connect(url).await.unwrap());
        }
        Self { nodes, turn: AtomicUsize::new(0) }
    }

    fn next(&self) -> &PostgresQueue {
        &self.nodes[self.turn.fetch_add(1, Ordering::Relaxed) % NODES]
    }

    /// How many deadlocks the server had to end, once everybody has gone.
    async fn deadlocks(self, url: &str) -> i64 {
        for node in &self.nodes {
            node.pool().close().await;
        }
        let queue = PostgresQueue::connect(url).await.unwrap();
        let asked = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar(asked).fetch_one(queue.pool()).await.unwrap()
    }
}

impl Queue for Nodes {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        self.next().accept(new)
    }
    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        self.next().claim(demand)
    }
    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        self.next().write(changes)
    }
    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        self.next().get(ids)
    }
    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        self.next().list(filter, from, limit)
    }
    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        self.next().counts()
    }
    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.next().purge(expired_at, limit)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.nodes[0].clock()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_are_one_queue_and_never_in_each_others_way() {
    let database = servers::postgres().await;
    let nodes = Arc::new(Nodes::on(&database.url).await);
    for _ in 0..5 {
        let queue: Arc<dyn Queue> = nodes.clone();
        conformance::queue::contended(queue, |task| drop(tokio::spawn(task))).await;
    }
    conformance::queue::walk(&*nodes, fastrand::u64(..), 100).await;
    let nodes = Arc::into_inner(nodes).unwrap();
    assert_eq!(nodes.deadlocks(&database.url).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_deliveries_of_one_event_one_is_new() {
    let database = servers::postgres().await;
    let nodes = Arc::new(Nodes::on(&database.url).await);
    let (event, start) = (due(&nodes.nodes[0], "evt-1", None), Arc::new(Barrier::new(CALLERS)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (nodes, event, start) = (nodes.clone(), event.clone(), start.clone());
        callers.spawn(async move {
            start.wait().await;
            nodes.accept(&[event]).await.unwrap().remove(0)
        });
    }
    let answers = callers.join_all().await;
    let new = answers.iter().filter(|it| matches!(it, Accepted::New(_))).count();
    assert_eq!(new, 1, "of {CALLERS}");
    let counts = nodes.counts().await.unwrap().remove(0);
    assert_eq!((counts.accepted, counts.pending), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_in_any_sequence_with_and_without_orders_end_without_a_deadlock() {
    let database = servers::postgres().await;
    let nodes = Arc::new(Nodes::on(&database.url).await);
    let order = |it: usize| it.is_multiple_of(3).then(|| format!("order-{}", it % 7));
    let batch: Vec<Execution> =
        (0..200).map(|it| due(&nodes.nodes[0], &format!("evt-{it}"), order(it).as_deref())).collect();
    let mut callers = JoinSet::new();
    for caller in 0..12 {
        let (nodes, mut batch) = (nodes.clone(), batch.clone());
        fastrand::shuffle(&mut batch);
        callers.spawn(async move {
            let node = &nodes.nodes[caller % NODES];
            let mut done = Vec::new();
            for part in batch.chunks(50) {
                node.accept(part).await.unwrap();
                done.extend(settle(node).await);
            }
            done
        });
    }
    let mut done: Vec<ExecutionId> = callers.join_all().await.into_iter().flatten().collect();
    loop {
        let more = settle(&nodes.nodes[0]).await;
        if more.is_empty() {
            break;
        }
        done.extend(more);
    }
    let different: BTreeSet<&ExecutionId> = done.iter().collect();
    assert_eq!((done.len(), different.len()), (batch.len(), batch.len()));
    let nodes = Arc::into_inner(nodes).unwrap();
    assert_eq!(nodes.deadlocks(&database.url).await, 0);
}

/// Completes a few, in any sequence.
async fn settle(queue: &PostgresQueue) -> Vec<ExecutionId> {
    let mut held = claim(queue, 20).await;
    fastrand::shuffle(&mut held);
    let later = queue.clock().now() + super::HOUR;
    let change = |it: &Fenced<Execution>| Change {
        expected: it.fence,
        after: completed(&it.value, later),
        causes: Vec::new(),
    };
    let changes: Vec<Change> = held.iter().map(change).collect();
    let written = queue.write(&changes).await.unwrap();
    assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "nobody else holds these");
    held.iter().map(|it| it.value.id()).collect()
}

/// A node that dies says nothing. What it held is taken over when its leases lapse, and its attempts count.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_held_is_taken_over_when_its_leases_lapse() {
    let (dead, database) = queue().await;
    let living = PostgresQueue::connect(&database.url).await.unwrap();
    let batch: Vec<Execution> = (0..30).map(|it| due(&dead, &format!("evt-{it}"), None)).collect();
    dead.accept(&batch).await.unwrap();
    let mut demand = super::demand(20);
    demand.wants[0].lease = Duration::ZERO;
    assert_eq!(dead.claim(&demand).await.unwrap().len(), 20);
    demand = super::demand(5);
    assert_eq!(dead.claim(&demand).await.unwrap().len(), 5, "for an hour");
    dead.pool().close().await;
    let taken = claim(&living, 100).await;
    assert_eq!(taken.len(), 25, "all but those whose lease stands");
    assert_eq!(taken.iter().filter(|it| it.value.attempts == 2).count(), 20);
}
