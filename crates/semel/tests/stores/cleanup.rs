//! Purging in the background: on any store, so on one whose time is moved by hand.

use semel::{
    BoxFuture, Clock, Fence, Key, MemoryStore, Once, Record, Status, Store, StoreError, StoreErrorKind,
    Stored, Swap, Timestamp,
    cleanup::{Cleanup, SCOPE, Turn},
};
use semel_testkit::ManualClock;
use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

const DAY: Duration = Duration::from_hours(24);
const INTERVAL: Duration = Duration::from_mins(10);

/// A store that notes its purges, each of which takes a while.
struct Noting {
    inner: MemoryStore,
    /// When each purge began, how much it was asked to take at most, and how much it took.
    purges: Mutex<Vec<(Duration, u32, u32)>>,
    takes: Duration,
    hangs: AtomicBool,
    fails: AtomicBool,
}

impl Store for Noting {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.inner.load(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.inner.swap(key, expected, record)
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move {
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.fails.load(Ordering::Relaxed) {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "noting", "purge"));
            }
            let clock = self.inner.clock();
            let at = clock.monotonic();
            clock.sleep(self.takes).await;
            let took = self.inner.purge(expired_at, limit).await?;
            self.purges.lock().unwrap().push((at, limit, took));
            Ok(took)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
}

struct World {
    clock: ManualClock,
    store: Arc<Noting>,
    once: Once,
}

impl World {
    fn new() -> Self {
        Self::taking(Duration::from_millis(50))
    }

    fn taking(takes: Duration) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Noting {
            inner: MemoryStore::with_clock(clock.arc()),
            purges: Mutex::default(),
            takes,
            hangs: AtomicBool::new(false),
            fails: AtomicBool::new(false),
        });
        let once = Once::from_store(store.clone());
        Self { clock, store, once }
    }

    async fn completed(&self, ids: std::ops::Range<u32>, retention: Duration) {
        for id in ids {
            self.once.call("greet", id).retention(retention).run(async |_| Ok(id)).await.unwrap();
        }
    }

    /// A node of its own, on the same store.
    fn node(&self, seed: u64) -> Cleanup {
        Cleanup::new(Once::from_store(self.store.clone())).every(INTERVAL).batch(10).seed(seed)
    }

    async fn turn(&self, node: &Cleanup) -> Turn {
        self.clock.drive(node.turn()).await.unwrap()
    }

    fn purged(&self) -> u32 {
        self.store.purges.lock().unwrap().iter().map(|(_, _, took)| took).sum()
    }

    fn purges(&self) -> usize {
        self.store.purges.lock().unwrap().len()
    }

    /// Lets time pass as a running service sees it.
    async fn live(&self, duration: Duration) {
        self.clock.drive(self.clock.sleep(duration)).await;
    }
}

#[tokio::test]
async fn expired_records_are_invisible_before_they_are_purged() {
    let world = World::new();
    world.completed(0..1, DAY).await;
    world.clock.advance(DAY);
    assert_eq!(world.store.inner.len(), 1, "it is still stored");
    assert!(world.once.get("greet", 0).await.unwrap().is_none());
    assert_eq!(world.once.call("greet", 0).run(async |_| Ok(7)).await.unwrap(), 7, "it runs again");
}

#[tokio::test]
async fn a_round_takes_all_that_has_expired_in_batches_and_nothing_else() {
    let world = World::new();
    world.completed(0..35, DAY).await;
    world.completed(100..105, DAY * 3).await;
    world.clock.advance(DAY);
    assert_eq!(world.turn(&world.node(1)).await, Turn::Purged(35));
    let asked: Vec<_> = world.store.purges.lock().unwrap().iter().map(|it| (it.1, it.2)).collect();
    assert_eq!(asked, [(10, 10), (10, 10), (10, 10), (10, 5)], "it ends with the batch that is not full");
    assert_eq!(world.once.get("greet", 100).await.unwrap().unwrap().status(), Status::Completed);
}

#[tokio::test]
async fn live_traffic_gets_as_much_time_as_purging() {
    let world = World::taking(Duration::from_millis(80));
    world.completed(0..50, DAY).await;
    world.clock.advance(DAY);
    assert_eq!(world.turn(&world.node(1)).await, Turn::Purged(50));
    let purges = world.store.purges.lock().unwrap();
    let gaps: Vec<_> = purges.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    assert!(gaps.iter().all(|gap| *gap == Duration::from_millis(160)), "{gaps:?}");
}

#[tokio::test]
async fn two_nodes_do_one_nodes_work() {
    let world = World::new();
    world.completed(0..5, DAY).await;
    world.clock.advance(DAY);
    let nodes = [world.node(1), world.node(2)];
    assert_eq!(world.turn(&nodes[0]).await, Turn::Purged(5));
    assert_eq!(world.turn(&nodes[1]).await, Turn::Done);
    world.clock.advance(INTERVAL);
    assert_eq!(world.turn(&nodes[1]).await, Turn::Purged(0), "it is due again");
    assert_eq!(world.turn(&nodes[0]).await, Turn::Done);
}

#[tokio::test]
async fn ten_nodes_in_the_background_do_about_one_round_an_interval() {
    let world = World::new();
    let running: Vec<_> = (0..10).map(|seed| world.node(seed).start()).collect();
    world.live(INTERVAL * 20).await;
    let rounds = world.purges();
    assert!((16..=23).contains(&rounds), "{rounds} rounds in 20 intervals");
    for node in running {
        world.clock.drive(node.stop()).await;
    }
    world.live(INTERVAL * 3).await;
    assert_eq!(world.purges(), rounds, "those that were stopped do nothing");
}

#[tokio::test]
async fn a_node_alone_purges_what_expires_while_it_runs() {
    let world = World::new();
    let running = world.node(7).start();
    world.completed(0..25, DAY).await;
    world.live(DAY / 2).await;
    assert_eq!(world.once.get("greet", 3).await.unwrap().unwrap().status(), Status::Completed);
    world.live(DAY).await;
    assert!(world.purged() >= 25);
    assert_eq!(world.store.inner.len(), 1, "its own round is all that is left");
    world.clock.drive(running.stop()).await;
}

#[tokio::test]
async fn a_dead_leader_is_replaced_after_its_lease() {
    let world = World::new();
    world.completed(0..5, DAY).await;
    world.clock.advance(DAY);
    world.store.hangs.store(true, Ordering::Relaxed);
    die_in(world.node(1).turn());
    world.store.hangs.store(false, Ordering::Relaxed);

    let heir = world.node(2);
    let Turn::Busy { until } = world.turn(&heir).await else { panic!("its lease stands") };
    let lease = until.since(world.clock.now());
    assert!(lease <= INTERVAL, "it is not waited for longer than for a living one");
    world.clock.advance(lease.saturating_sub(Duration::from_millis(1)));
    assert!(matches!(world.turn(&heir).await, Turn::Busy { .. }));
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.turn(&heir).await, Turn::Purged(5));
}

#[tokio::test]
async fn a_background_node_takes_over_when_the_lease_ends_not_an_interval_later() {
    let world = World::new();
    world.completed(0..5, DAY).await;
    world.clock.advance(DAY);
    world.store.hangs.store(true, Ordering::Relaxed);
    die_in(world.node(1).turn());
    world.store.hangs.store(false, Ordering::Relaxed);
    let running = world.node(2).every(DAY).start();
    // Two pauses with a jitter of a quarter of an interval at most, and the lease.
    world.live(DAY / 2 + Duration::from_mins(1)).await;
    assert_eq!(world.purged(), 5);
    world.clock.drive(running.stop()).await;
}

#[tokio::test]
async fn a_round_that_failed_is_run_again_by_whoever_comes_next() {
    let world = World::new();
    world.completed(0..5, DAY).await;
    world.clock.advance(DAY);
    world.store.fails.store(true, Ordering::Relaxed);
    world.node(1).turn().await.unwrap_err();
    let snapshot = world.once.get(SCOPE, "round").await.unwrap().unwrap();
    assert_eq!(snapshot.status(), Status::Pending, "{snapshot}");
    world.store.fails.store(false, Ordering::Relaxed);
    assert_eq!(world.turn(&world.node(2)).await, Turn::Purged(5));
}

#[tokio::test]
async fn a_background_node_survives_a_store_that_is_down() {
    let world = World::new();
    world.completed(0..5, DAY).await;
    world.clock.advance(DAY);
    world.store.fails.store(true, Ordering::Relaxed);
    let running = world.node(1).start();
    world.live(INTERVAL * 5).await;
    assert_eq!(world.purged(), 0);
    world.store.fails.store(false, Ordering::Relaxed);
    world.live(INTERVAL * 2).await;
    assert_eq!(world.purged(), 5);
    world.clock.drive(running.stop()).await;
}

#[tokio::test]
async fn a_round_ends_with_its_interval_however_much_is_left() {
    let world = World::taking(Duration::from_mins(2));
    world.completed(0..200, DAY).await;
    world.clock.advance(DAY);
    let Turn::Purged(purged) = world.turn(&world.node(1)).await else { panic!("nobody else is there") };
    assert_eq!(purged, 30, "three batches of ten: 2 minutes of work and 2 of rest, in 10 minutes");
}

#[tokio::test]
async fn stopping_lets_the_batch_at_hand_end_and_begins_no_other() {
    let world = World::new();
    world.completed(0..100, DAY).await;
    world.clock.advance(DAY);
    let running = world.node(1).every(Duration::from_secs(1)).start();
    while world.purges() == 0 {
        world.live(Duration::from_millis(10)).await;
    }
    world.clock.drive(running.stop()).await;
    let purged = world.purged();
    assert!(purged < 100 && purged.is_multiple_of(10), "{purged}");
    world.live(DAY).await;
    assert_eq!(world.purged(), purged);
    let snapshot = world.once.get(SCOPE, "round").await.unwrap();
    assert!(snapshot.is_none_or(|it| it.status() == Status::Completed), "it left no lease behind");
}

/// Runs a future until it waits, and drops it there: a process that is killed.
fn die_in<F: Future>(future: F) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        assert!(future.as_mut().poll(&mut context).is_pending(), "it should have died before it ended");
    }
}
