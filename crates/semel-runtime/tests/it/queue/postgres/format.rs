//! What is in the tables stays readable: a queue as version 1 of them kept it, in `fixtures/`.
//!
//! `SEMEL_BLESS=1` prints the statements that fill them, if there are none. A program of version 2 has written both: that only
//! added the table `_past`, which is left out.

use super::{accept, claim, demand, due, queue};
use semel_core::{
    execution::{Due, ErrorPrint, Execution, Input, Origin, Phase, Repeats, step},
    queue::{Change, Fenced, Filter, Queue, Written},
    record::{Body, NotKept},
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use semel_runtime::queue::postgres::PostgresQueue;
use semel_testkit::servers;
use sqlx::AssertSqlSafe;
use std::time::Duration;

const TABLES: &str = include_str!("../../../fixtures/postgres-1/tables.sql");
const ROWS: &str = include_str!("../../../fixtures/postgres-1/rows.sql");
const TOLD: &str = include_str!("../../../fixtures/postgres-1/told.txt");
/// 2200: what is kept until then is kept.
const FAR: Timestamp = Timestamp::from_millis(7_258_118_400_000);
/// A name that PostgreSQL takes only escaped.
const HOSTILE: &str = "a\\b\0c'd";

/// One of every kind, in the order in which they are asked for.
fn ids() -> [&'static str; 12] {
    [
        "waits", "late", "parked", "hostile", "claimed", "failed", "fatal", "doubt", "done", "large",
        "first", "second",
    ]
}

const REPEATS: Repeats = Repeats { same: 2, other: 1, last_at: Some(FAR) };

/// Due then.
fn later(execution: Execution) -> Execution {
    Execution { phase: Phase::Pending(Due::At(FAR)), ..execution }
}

async fn change(queue: &PostgresQueue, held: &Fenced<Execution>, input: Input) {
    let now = queue.clock().now();
    let after = step(now, &held.value, input, &RetryPolicy::gen2(), Jitter::LEAST).unwrap();
    let expires_at = if after.expires_at < Timestamp::NEVER { FAR } else { after.expires_at };
    let phase = match after.phase {
        Phase::Completed(Body::Kept { bytes, .. }) => Phase::Completed(Body::Kept { bytes, until: FAR }),
        other => other,
    };
    let after = Execution { expires_at, phase, ..after };
    let written = queue.write(&[Change { expected: held.fence, after, causes: Vec::new() }]).await.unwrap();
    assert!(matches!(written[0], Written::Won(_)), "{written:?}");
}

/// Accepts one, and claims it for a second: whoever reads it later finds that lapsed.
async fn held(queue: &PostgresQueue, id: &str) -> Fenced<Execution> {
    let _ = accept(queue, &due(queue, id, None)).await;
    let mut demand = demand(1);
    demand.wants[0].lease = Duration::from_secs(1);
    queue.claim(&demand).await.unwrap().remove(0)
}

async fn fill(queue: &PostgresQueue) {
    let body = |cause| Body::NotKept { cause, size: 70_000, digest: [7; 32] };
    let ends = [
        ("done", Input::Complete(Body::Kept { bytes: b"done".to_vec(), until: FAR })),
        ("large", Input::Complete(body(NotKept::TooLarge))),
        ("fatal", Input::Reject { error: "answered 422".to_owned() }),
        ("doubt", Input::Doubt { error: "the answer was lost".to_owned(), was_made: true }),
        ("failed", Input::Fail { error: "answered 503".to_owned(), retry_after: None }),
    ];
    for (id, input) in ends {
        let held = held(queue, id).await;
        change(queue, &held, input).await;
    }
    drop(held(queue, "claimed").await);
    let _ = accept(queue, &due(queue, "waits", None)).await;
    let _ = accept(queue, &later(due(queue, "late", None))).await;
    for (id, name, input) in [("parked", "parked", Input::Park), ("hostile", HOSTILE, Input::Repeat(REPEATS))]
    {
        let new = due(queue, id, None);
        let new = Execution { origin: Origin { id: name.into(), ..new.origin.clone() }, ..new };
        let _ = accept(queue, &new).await;
        let found = queue.get(&[new.id()]).await.unwrap().remove(0).unwrap();
        change(queue, &found, input).await;
    }
    for id in ["first", "second"] {
        let _ = accept(queue, &due(queue, id, Some("customer-7"))).await;
    }
}

/// The statements that make the same rows, but for what says where the tables are.
async fn dumped(queue: &PostgresQueue) -> String {
    let mut statements = Vec::new();
    for table in ["semel_queue", "semel_queue_counts"] {
        let row = format!(
            "SELECT format('INSERT INTO {table} SELECT (%L::{table}).*;', it) FROM {table} it ORDER BY it"
        );
        statements.extend(
            sqlx::query_scalar::<_, String>(AssertSqlSafe(row)).fetch_all(queue.pool()).await.unwrap(),
        );
    }
    let others = [
        "SELECT format('UPDATE semel_queue_epochs SET epoch = %s WHERE slot = %s;', epoch, slot) FROM semel_queue_epochs",
        "SELECT format('SELECT setval(''semel_queue_fence'', %s);', last_value) FROM semel_queue_fence",
    ];
    for other in others {
        statements.extend(sqlx::query_scalar::<_, String>(other).fetch_all(queue.pool()).await.unwrap());
    }
    statements.push(String::new());
    statements.join("\n")
}

/// What it holds: where each execution stands, and what it was given; not the moments of its past.
async fn told(queue: &PostgresQueue) -> String {
    let ids: Vec<_> = ids().iter().map(|it| due(queue, it, None).id()).collect();
    let found = queue.get(&ids).await.unwrap();
    let line = |it: Option<Fenced<Execution>>| {
        let Fenced { value: it, fence } = it.expect("it was accepted");
        let event = it.event.as_deref().unwrap_or_default().escape_ascii().to_string();
        format!(
            "{:?} {event} {fence:?}\n  {:?}\n  {} attempts, generation {}, order {:?}, {:?}\n  error {:?}, {} attempts remembered\n",
            it.origin.id,
            it.phase,
            it.attempts,
            it.generation,
            it.order,
            it.repeats,
            it.error(),
            it.history.len()
        )
    };
    found.into_iter().map(line).collect()
}

/// Invariant 27.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_version_1_are_read_for_ever() {
    if ROWS.is_empty() && std::env::var_os("SEMEL_BLESS").is_some() {
        let (queue, _database) = queue().await;
        fill(&queue).await;
        panic!("the rows:\n{}", dumped(&queue).await);
    }
    let database = servers::postgres().await;
    let pool = sqlx::PgPool::connect(&database.url).await.unwrap();
    for statements in [TABLES, ROWS] {
        sqlx::raw_sql(statements).execute(&pool).await.unwrap();
    }
    let error = PostgresQueue::connect(&database.url).await.unwrap_err();
    assert!(error.to_string().contains("`PostgresQueue::builder().create()`"), "{error}");
    let queue = PostgresQueue::builder().create().connect(&database.url).await.unwrap();
    assert_eq!(queue.went_back(), None, "tables that never said where they are have not been elsewhere");
    assert_eq!(told(&queue).await, TOLD);
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!((counts.accepted, counts.pending, counts.in_progress, counts.completed), (12, 7, 1, 2));
    for filter in [
        Filter { name: Some(HOSTILE.into()), ..Filter::default() },
        Filter { error: Some(ErrorPrint::of("the answer was lost")), ..Filter::default() },
    ] {
        let page = queue.list(&filter, None, 10).await.unwrap();
        assert_eq!(page.items.len(), 1, "{filter:?}");
    }

    let mut claimed = claim(&queue, 100).await;
    claimed.sort_by_key(|it| it.value.accepted_at);
    let names: Vec<_> = claimed.iter().map(|it| &*it.value.origin.id).collect();
    assert_eq!(names, ["failed", "claimed", "waits", HOSTILE, "first"], "what is due, and what lapsed since");
    let first = claimed.pop().unwrap();
    change(&queue, &first, Input::Complete(Body::Kept { bytes: Vec::new(), until: FAR })).await;
    assert_eq!(&*claim(&queue, 100).await[0].value.origin.id, "second", "its turn has come");
}
