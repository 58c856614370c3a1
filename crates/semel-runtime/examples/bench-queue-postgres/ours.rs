//! The queue, in batches.

use crate::{BATCH, EVENT, Trouble};
use semel_core::{
    execution::{Arrival, Execution, Origin, Phase, claimed},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, Demand, Fenced, Queue, Want, Written},
    record::{Body, Holder},
    time::Timestamp,
};
use semel_runtime::queue::postgres::PostgresQueue;
use sqlx::PgPool;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const LEASE: Duration = Duration::from_mins(1);
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// Events that no other batch has, due at once.
fn batch(now: Timestamp) -> Result<Vec<Execution>, Trouble> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let first = LAST.fetch_add(BATCH as u64, Ordering::Relaxed);
    let new = |number: u64| {
        let id = format!("evt-{number:012}");
        let arrival = Arrival {
            key: Key::new("orders", ("/shop", id.as_str()))?,
            function: "orders".into(),
            origin: Origin { source: "/shop".into(), id: id.into(), kind: "order.created".into() },
            order: None,
            fingerprint: Fingerprint::EMPTY,
            event: EVENT.as_slice().into(),
            event_time: None,
            event_expires_at: None,
        };
        Ok(Execution::accepted(now, arrival, now))
    };
    (first..first + BATCH as u64).map(new).collect()
}

fn holder() -> Holder {
    Holder(fastrand::u128(..))
}

async fn complete(queue: &PostgresQueue, held: &[Fenced<Execution>]) -> Result<usize, Trouble> {
    let now = queue.clock().now();
    let change = |it: &Fenced<Execution>| {
        let expires_at = now + RETENTION;
        let phase = Phase::Completed(Body::Kept { bytes: b"done".to_vec(), until: expires_at });
        let after = Execution { phase, expires_at, updated_at: now, ..it.value.clone() };
        Change { expected: it.fence, after, causes: Vec::new() }
    };
    let changes: Vec<Change> = held.iter().map(change).collect();
    let written = queue.write(&changes).await?;
    Ok(written.iter().filter(|it| matches!(it, Written::Won(_))).count())
}

/// Accept, claim, complete.
pub(crate) async fn steps(queue: Arc<PostgresQueue>) -> Result<usize, Trouble> {
    accepted(Arc::clone(&queue)).await?;
    let want = Want { function: "orders".into(), limit: BATCH as u32, lease: LEASE };
    let held = queue.claim(&Demand { holder: holder(), wants: vec![want] }).await?;
    complete(&queue, &held).await
}

/// Accept, and nothing more.
pub(crate) async fn accepted(queue: Arc<PostgresQueue>) -> Result<usize, Trouble> {
    // Due an hour ago, so that the clocks' difference does not matter.
    let new = batch(queue.clock().now() - Duration::from_hours(1))?;
    Ok(queue.accept(&new).await?.len())
}

/// Accept already leased, complete.
pub(crate) async fn leased(queue: Arc<PostgresQueue>) -> Result<usize, Trouble> {
    let (now, holder) = (queue.clock().now(), holder());
    let new = batch(now)?;
    let new: Vec<Execution> = new.iter().filter_map(|it| claimed(now, it, holder, now + LEASE)).collect();
    let answers = queue.accept(&new).await?;
    let held = answers.iter().zip(new).filter_map(|(answer, value)| match answer {
        Accepted::New(fence) => Some(Fenced { fence: *fence, value }),
        Accepted::Duplicate(_) => None,
    });
    complete(&queue, &held.collect::<Vec<_>>()).await
}

/// Completed events, for [`again`].
pub(crate) async fn known(queue: &PostgresQueue) -> Result<Vec<Execution>, Trouble> {
    let new = batch(queue.clock().now())?;
    let _ = queue.accept(&new).await?;
    Ok(new)
}

/// The same events, delivered again.
pub(crate) async fn again(queue: Arc<PostgresQueue>, known: Arc<Vec<Execution>>) -> Result<usize, Trouble> {
    Ok(queue.accept(&known).await?.len())
}

/// Fills the table with so many that are completed and retained.
pub(crate) async fn fill(pool: &PgPool, retained: i64) -> Result<(), Trouble> {
    let fill = "INSERT INTO bench_queue (id, fence, writer, function, phase, expires_at, accepted_at, name, \
            name_print, key_print, kind_print, execution, event_print, event) \
        SELECT sha256(n::text::bytea), nextval('bench_queue_fence'), '\\x00', 'orders', 2, 4102444800000 + n, \
            1700000000000 + n, 'filled/' || n, ('x' || left(md5(n::text), 16))::bit(64)::bigint, \
            ('x' || left(md5('k' || n::text), 16))::bit(64)::bigint, 1, \
            sha256(n::text::bytea) || sha256(n::text::bytea) || sha256(n::text::bytea), sha256('e'), \
            decode(repeat('78', 256), 'hex') \
        FROM generate_series(1, $1) n";
    sqlx::query(fill).bind(retained).execute(pool).await?;
    for what in ["VACUUM ANALYZE bench_queue", "CHECKPOINT"] {
        sqlx::query(what).execute(pool).await?;
    }
    Ok(())
}
