//! Replies that were lost, and connections that were ended.

use super::{accept, claim, completed, due, queue};
use semel_core::{
    execution::Execution,
    queue::{Accepted, Change, Queue, Written},
    record::Status,
};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::{Fault, FaultProxy, conformance};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Most messages of one life: with and without an order, and with an event that is edited.
const MESSAGES_MAX: u64 = 60;

/// Strikes every message of an execution's life in turn, and demands that nobody notices.
async fn nobody_notices(fault: Fault, order: Option<&str>) {
    let (direct, database) = queue().await;
    let proxy = FaultProxy::before(&database.url).await;
    let queue = PostgresQueue::builder().connections_max(1).connect(proxy.url()).await.unwrap();
    live(&queue, &direct, "warm-up", order).await;
    let mut strikes = 0;
    for nth in 1..MESSAGES_MAX {
        proxy.strike(nth, fault);
        live(&queue, &direct, &format!("evt-{nth}"), order).await;
        if proxy.heal() {
            break;
        }
        strikes += 1;
    }
    assert!((4..MESSAGES_MAX - 1).contains(&strikes), "{strikes} messages were struck");
    let counts = direct.counts().await.unwrap().remove(0);
    assert_eq!((counts.accepted, counts.completed), (strikes + 2, strikes + 2));
    assert!(counts.is_balanced());
}

/// Accepts, claims and completes one, each exactly as if there were no trouble.
async fn live(queue: &PostgresQueue, direct: &PostgresQueue, id: &str, order: Option<&str>) {
    let new = due(queue, id, order);
    let answer = accept(queue, &new).await;
    assert!(matches!(answer, Accepted::New(_)), "our own was taken for a duplicate: {answer:?}");
    let held = claim(queue, 1).await;
    assert_eq!(held.len(), 1, "`{id}` was not handed out");
    assert_eq!((held[0].value.id(), held[0].value.attempts), (new.id(), 1));
    let edited = Execution { event: Some(b"edited".as_slice().into()), ..held[0].value.clone() };
    let later = queue.clock().now() + super::HOUR;
    let caused = due(queue, id, order);
    let change = Change { expected: held[0].fence, after: completed(&edited, later), causes: vec![caused] };
    let written = queue.write(std::slice::from_ref(&change)).await.unwrap();
    let [Written::Won(fence)] = written[..] else { panic!("our own was taken for another's: {written:?}") };
    let stands = direct.get(&[new.id()]).await.unwrap().remove(0).unwrap();
    assert_eq!((stands.fence, stands.value.status()), (fence, Status::Completed));
    assert_eq!(stands.value, change.after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_lost_is_recognised_as_ones_own() {
    nobody_notices(Fault::CutReply, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_recognised_in_a_line_too() {
    nobody_notices(Fault::CutReply, Some("order-7")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_at_any_message_loses_and_doubles_nothing() {
    nobody_notices(Fault::Reset, None).await;
    nobody_notices(Fault::Reset, Some("order-7")).await;
}

/// Who only looks need not be told that a connection broke: to look again does no harm.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_while_somebody_looks_is_not_noticed() {
    let (direct, database) = queue().await;
    let proxy = FaultProxy::before(&database.url).await;
    let queue = PostgresQueue::builder().connections_max(1).connect(proxy.url()).await.unwrap();
    let new = due(&direct, "evt-1", None);
    assert!(matches!(accept(&direct, &new).await, Accepted::New(_)));
    let mut strikes = 0;
    for nth in 1..MESSAGES_MAX {
        proxy.strike(nth, Fault::Reset);
        let found = queue.get(&[new.id()]).await.unwrap().remove(0);
        assert_eq!(found.map(|it| it.value.id()), Some(new.id()));
        assert_eq!(queue.counts().await.unwrap()[0].accepted, 1);
        if proxy.heal() {
            break;
        }
        strikes += 1;
    }
    assert!((2..MESSAGES_MAX - 1).contains(&strikes), "{strikes} messages were struck");
}

/// Writes that are done between two connections that are ended.
const WRITES: i64 = 20;
/// So many times at least they struggle for the same executions, and so many connections are ended meanwhile.
const ROUNDS: usize = 5;
const ENDED: usize = 6;
/// More rounds than a slow machine needs for that.
const ROUNDS_MAX: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_ended_again_and_again_lose_and_double_nothing() {
    let (_, database) = queue().await;
    let killer = PostgresQueue::builder().connections_max(1).connect(&database.url).await.unwrap();
    let queue: Arc<dyn Queue> = Arc::new(PostgresQueue::connect(&database.url).await.unwrap());
    let ended = Arc::<AtomicUsize>::default();
    let killing = tokio::spawn(end_some(killer, Arc::clone(&ended)));
    let mut rounds = 0;
    while rounds < ROUNDS || ended.load(Ordering::Relaxed) < ENDED {
        assert!(rounds < ROUNDS_MAX && !killing.is_finished(), "nobody is disturbed");
        conformance::queue::contended(Arc::clone(&queue), |task| drop(tokio::spawn(task))).await;
        rounds += 1;
    }
    killing.abort();
}

/// Ends a connection in the middle of its work, again and again, and counts them.
async fn end_some(killer: PostgresQueue, ended: Arc<AtomicUsize>) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
               AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE 'WITH bound%' LIMIT 1";
    let written = "SELECT sum(epoch)::bigint FROM semel_queue_epochs";
    let mut last = 0;
    loop {
        let now: i64 = sqlx::query_scalar(written).fetch_one(killer.pool()).await.unwrap();
        if now >= last + WRITES {
            let rows = sqlx::query(end).fetch_all(killer.pool()).await.unwrap();
            ended.fetch_add(rows.len(), Ordering::Relaxed);
            last = if rows.is_empty() { last } else { now };
        }
    }
}
