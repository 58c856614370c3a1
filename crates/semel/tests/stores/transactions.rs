//! Outcomes committed with the user's own rows: the same rules on every database that has transactions.

#[cfg(feature = "postgres")]
mod line;

use semel::{Begin, BeginIn, ErrorKind, HandlerError, How, Key, Once, Status, Store, Swap};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

type Trouble = Box<dyn std::error::Error + Send + Sync>;

const EVENTS: u64 = 24;
const DELIVERIES: usize = 4;

/// The classic: `processed_events`, and a counter that must count each event once.
const TABLE: &str = "processed_events";
const CREATE: &str = "CREATE TABLE views (page TEXT PRIMARY KEY, view_count BIGINT NOT NULL)";
const INSERT: &str = "INSERT INTO views (page, view_count) VALUES ('home', 0)";
const COUNT: &str = "UPDATE views SET view_count = view_count + 1 WHERE page = 'home'";
const VIEWS: &str = "SELECT view_count FROM views WHERE page = 'home'";

/// Polls a future so often, then drops it, as a crash does. A statement is at least one of these polls.
async fn crash_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// What a delivery does, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Statement {
    Begin,
    Claim,
    Count,
    Complete,
    Commit,
}

impl Statement {
    const ALL: [Self; 5] = [Self::Begin, Self::Claim, Self::Count, Self::Complete, Self::Commit];
}

/// A crash after one of the statements: a delivery that gets there goes no further, and is dropped.
struct Crash {
    after: Statement,
    reached: tokio::sync::Notify,
}

impl Crash {
    fn new(after: Statement) -> Self {
        Self { after, reached: tokio::sync::Notify::new() }
    }

    async fn pass(&self, statement: Statement) {
        if statement == self.after {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// The rules, for one database.
macro_rules! rules {
    ($module:ident, $feature:literal, $Store:ty, $waits:path, $open:expr) => {
        #[cfg(feature = $feature)]
        mod $module {
            use super::*;

            /// The store, whatever keeps its database alive, and what calls it.
            struct World<K> {
                store: $Store,
                once: Once,
                _kept: K,
            }

            async fn world() -> World<impl Sized> {
                let (store, kept) = $open.await;
                for statement in [CREATE, INSERT] {
                    sqlx::query(statement).execute(store.pool()).await.unwrap();
                }
                World { once: Once::new(store.clone()), store, _kept: kept }
            }

            async fn views(store: &$Store) -> i64 {
                sqlx::query_scalar(VIEWS).fetch_one(store.pool()).await.unwrap()
            }

            /// One delivery of an event.
            async fn deliver(store: &$Store, once: &Once, event: u64) -> Result<How, Trouble> {
                let mut tx = store.begin().await?;
                let outcome = once
                    .call("view", event)
                    .run_outcome_in(&mut tx, async |tx| {
                        sqlx::query(COUNT).execute(&mut **tx).await?;
                        Ok(())
                    })
                    .await?;
                tx.commit().await?;
                Ok(outcome.how)
            }

            #[tokio::test]
            async fn a_duplicate_is_counted_once() {
                let world = world().await;
                let mut hows = Vec::new();
                for _ in 0..3 {
                    hows.push(deliver(&world.store, &world.once, 1).await.unwrap());
                }
                assert_eq!(hows, [How::Fresh, How::Replayed, How::Replayed]);
                assert_eq!(views(&world.store).await, 1);
            }

            /// Delivers until a delivery comes through; each one before that crashes somewhere.
            async fn deliver_with_crashes(store: $Store, once: Once, event: u64, seed: u64) {
                let mut random = fastrand::Rng::with_seed(seed);
                for attempt in 0.. {
                    assert!(attempt < 200, "event {event} never came through (seed {seed})");
                    let polls = if attempt < 6 { random.usize(0..16) } else { usize::MAX };
                    let delivery = deliver(&store, &once, event);
                    if let Some(Ok(_)) = crash_after(polls, delivery).await {
                        return;
                    }
                }
            }

            /// As `deliver`, with a place between each two statements.
            async fn deliver_past(
                store: &$Store,
                once: &Once,
                event: u64,
                crash: &Crash,
            ) -> Result<How, Trouble> {
                let mut tx = store.begin().await?;
                crash.pass(Statement::Begin).await;
                let outcome = once
                    .call("view", event)
                    .run_outcome_in(&mut tx, async |tx| {
                        crash.pass(Statement::Claim).await;
                        sqlx::query(COUNT).execute(&mut **tx).await?;
                        crash.pass(Statement::Count).await;
                        Ok(())
                    })
                    .await?;
                crash.pass(Statement::Complete).await;
                tx.commit().await?;
                crash.pass(Statement::Commit).await;
                Ok(outcome.how)
            }

            #[tokio::test]
            async fn a_crash_after_any_statement_leaves_the_sum_exact() {
                let World { store, once, _kept } = world().await;
                for (number, after) in Statement::ALL.into_iter().enumerate() {
                    let (event, crash) = (number as u64, Crash::new(after));
                    tokio::select! {
                        delivered = deliver_past(&store, &once, event, &crash) => {
                            panic!("there was no crash after {after:?}: {delivered:?}");
                        }
                        () = crash.reached.notified() => {}
                    }
                    let is_counted = i64::from(after == Statement::Commit);
                    assert_eq!(views(&store).await, event.cast_signed() + is_counted, "after {after:?}");
                    let how = deliver(&store, &once, event).await.unwrap();
                    let expected = if after == Statement::Commit { How::Replayed } else { How::Fresh };
                    assert_eq!(how, expected, "after {after:?}");
                    assert_eq!(views(&store).await, event.cast_signed() + 1, "after {after:?}");
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn the_sum_is_exact_whatever_crashes_in_between() {
                let world = world().await;
                let seed =
                    std::env::var("SEMEL_SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
                println!("SEMEL_SEED={seed}");
                let mut tasks = Vec::new();
                for delivery in 0..EVENTS * DELIVERIES as u64 {
                    let (store, once) = (world.store.clone(), world.once.clone());
                    let seed = seed.wrapping_add(delivery);
                    tasks.push(tokio::spawn(deliver_with_crashes(store, once, delivery % EVENTS, seed)));
                }
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!(views(&world.store).await, EVENTS.cast_signed(), "SEMEL_SEED={seed}");
            }

            #[tokio::test]
            async fn a_handlers_error_leaves_nothing_behind_if_it_is_rolled_back() {
                let World { store, once, _kept } = world().await;
                let mut tx = store.begin().await.unwrap();
                let call = once.call("view", 1).run_in(&mut tx, async |tx| {
                    sqlx::query(COUNT).execute(&mut **tx).await?;
                    Err::<(), _>(HandlerError::fatal("no such page"))
                });
                assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Handler);
                tx.rollback().await.unwrap();
                assert_eq!(views(&store).await, 0);
                assert!(once.get("view", 1).await.unwrap().is_none());
                assert_eq!(deliver(&store, &once, 1).await.unwrap(), How::Fresh);
            }

            #[tokio::test]
            async fn the_second_call_of_one_transaction_is_a_duplicate_too() {
                let World { store, once, _kept } = world().await;
                let mut tx = store.begin().await.unwrap();
                for expected in [How::Fresh, How::Replayed] {
                    let call = once.call("view", 1);
                    let outcome = call.run_outcome_in(&mut tx, async |_| Ok(7)).await.unwrap();
                    assert_eq!((outcome.value, outcome.how), (7, expected));
                }
            }

            #[tokio::test]
            async fn what_was_claimed_with_another_payload_is_not_run() {
                let World { store, once, _kept } = world().await;
                let call = |payload: u32| once.call("view", 1).payload(&payload);
                call(1).run(async |_| Ok(())).await.unwrap();
                let mut tx = store.begin().await.unwrap();
                let other = call(2).run_in(&mut tx, async |_| Ok(())).await.unwrap_err();
                assert_eq!(other.kind(), ErrorKind::Mismatch);
            }

            #[tokio::test]
            async fn a_call_under_a_lease_is_busy_for_a_transaction() {
                let World { store, once, _kept } = world().await;
                let Begin::Run(lease) = once.call("view", 1).begin().await.unwrap() else {
                    panic!("it is fresh")
                };
                let mut tx = store.begin().await.unwrap();
                let begun = once.begin_in(&mut tx, "view", 1).await.unwrap();
                assert!(matches!(begun, BeginIn::Busy { .. }), "{begun:?}");
                drop(begun);
                tx.rollback().await.unwrap();
                lease.release("never mind").await.unwrap();
                assert_eq!(deliver(&store, &once, 1).await.unwrap(), How::Retried);
            }

            #[tokio::test]
            async fn a_claim_completed_by_hand_is_replayed() {
                let World { store, once, _kept } = world().await;
                let mut tx = store.begin().await.unwrap();
                let BeginIn::Run(mut claimed) = once.begin_in(&mut tx, "view", 1).await.unwrap() else {
                    panic!("it is fresh")
                };
                sqlx::query(COUNT).execute(&mut **claimed.transaction()).await.unwrap();
                claimed.complete("done").await.unwrap();
                tx.commit().await.unwrap();
                assert_eq!(once.call("view", 1).run(async |_| Ok(String::new())).await.unwrap(), "done");
                assert_eq!(views(&store).await, 1);
            }

            #[tokio::test]
            async fn an_outcome_under_a_lease_commits_with_the_rows() {
                let World { store, once, _kept } = world().await;
                let Begin::Run(lease) = once.call("view", 1).begin().await.unwrap() else {
                    panic!("it is fresh")
                };
                lease.renew().await.unwrap();
                let mut tx = store.begin().await.unwrap();
                sqlx::query(COUNT).execute(&mut *tx).await.unwrap();
                lease.complete_in(&mut tx, "done").await.unwrap();
                tx.commit().await.unwrap();
                assert_eq!(once.call("view", 1).run(async |_| Ok(String::new())).await.unwrap(), "done");
                assert_eq!(views(&store).await, 1);
            }

            #[tokio::test]
            async fn an_outcome_under_a_lease_is_rolled_back_with_the_rows() {
                let World { store, once, _kept } = world().await;
                let Begin::Run(lease) = once.call("view", 1).begin().await.unwrap() else {
                    panic!("it is fresh")
                };
                let mut tx = store.begin().await.unwrap();
                lease.complete_in(&mut tx, "done").await.unwrap();
                tx.rollback().await.unwrap();
                let snapshot = once.get("view", 1).await.unwrap().unwrap();
                assert_eq!(
                    snapshot.status(),
                    Status::InProgress,
                    "it stands until it lapses, as after a crash"
                );
            }

            #[tokio::test]
            async fn a_superseded_holder_commits_nothing() {
                let World { store, once, _kept } = world().await;
                let Begin::Run(lease) = once.call("view", 1).begin().await.unwrap() else {
                    panic!("it is fresh")
                };
                let key = Key::new("view", 1).unwrap();
                let found = store.load(&key).await.unwrap().unwrap();
                let taken_over = store.swap(&key, Some(found.fence), &found.record).await.unwrap();
                assert!(matches!(taken_over, Swap::Won(_)));
                let mut tx = store.begin().await.unwrap();
                sqlx::query(COUNT).execute(&mut *tx).await.unwrap();
                let lost = lease.complete_in(&mut tx, "done").await.unwrap_err();
                assert_eq!(lost.kind(), ErrorKind::Superseded);
                tx.rollback().await.unwrap();
                assert_eq!(views(&store).await, 0);
            }

            #[tokio::test]
            async fn an_effect_commits_with_the_rows() {
                let World { store, once, _kept } = world().await;
                for _ in 0..2 {
                    let call = once.call("visit", fastrand::u64(..));
                    let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
                    let mut tx = store.begin().await.unwrap();
                    let count = lease
                        .effect("count")
                        .transactional(&mut tx)
                        .run(async |tx| sqlx::query(COUNT).execute(&mut **tx).await.map(|_| 1));
                    assert_eq!(count.await.unwrap(), 1);
                    tx.commit().await.unwrap();
                    lease.complete(&()).await.unwrap();
                }
                assert_eq!(views(&store).await, 2);
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_duplicate_waits_for_the_first_ones_commit() {
                let World { store, once, _kept } = world().await;
                let once = Arc::new(once);
                let mut tx = store.begin().await.unwrap();
                let BeginIn::Run(claimed) = once.begin_in(&mut tx, "view", 1).await.unwrap() else {
                    panic!("it is fresh")
                };
                claimed.complete(&()).await.unwrap();
                let second = tokio::spawn({
                    let (store, once) = (store.clone(), Arc::clone(&once));
                    async move { deliver(&store, &once, 1).await.map_err(|error| error.to_string()) }
                });
                $waits(&store).await;
                assert!(!second.is_finished(), "it did not wait");
                tx.commit().await.unwrap();
                assert_eq!(second.await.unwrap().unwrap(), How::Replayed);
                assert_eq!(views(&store).await, 0);
            }
        }
    };
}

/// Until one transaction waits for another.
#[cfg(feature = "postgres")]
async fn until_one_waits(store: &semel::store::postgres::PostgresStore) {
    let asked = "SELECT EXISTS (SELECT FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(asked).fetch_one(store.pool()).await.unwrap() {}
}

/// SQLite tells nobody who waits for whom: the second has had its turns, at least.
#[cfg(feature = "sqlite")]
async fn others_had_their_turns(_store: &semel::store::sqlite::SqliteStore) {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

rules!(postgres, "postgres", semel::store::postgres::PostgresStore, until_one_waits, async {
    let database = semel_testkit::servers::postgres().await;
    let builder = semel::store::postgres::PostgresStore::builder().table(TABLE).create();
    (builder.connect(&database.url).await.unwrap(), database)
});

rules!(sqlite, "sqlite", semel::store::sqlite::SqliteStore, others_had_their_turns, async {
    let directory = tempfile::tempdir().unwrap();
    let builder = semel::store::sqlite::SqliteStore::builder().table(TABLE).create();
    (builder.connect(directory.path().join("app.db")).await.unwrap(), directory)
});
