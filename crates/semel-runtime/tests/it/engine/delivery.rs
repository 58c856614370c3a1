//! Events go in, functions are called, outcomes are stored.

use super::{World, event};
use crate::support::targets::{Target, at, status};
use semel_core::execution::Phase;
use semel_core::{
    record::{Body, Reason, Status},
    retry::{Backoff, RetryPolicy},
};
use semel_runtime::{Entry, Function};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

fn orders() -> Function {
    Function { policy: RetryPolicy::gen2(), ..Function::new("orders".parse().unwrap(), at("orders")) }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_event_is_delivered_once_and_its_outcome_is_stored() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]);
    let (id, entry) = world.accept(&event("evt-1")).await;
    assert_eq!(entry, Entry::New);
    world.pass(SECOND).await;
    let stored = world.stored(id).await.value;
    assert!(
        matches!(&stored.phase, Phase::Completed(Body::Kept { bytes, .. }) if bytes == b"done"),
        "{stored:?}"
    );
    assert_eq!((stored.attempts, target.ids()), (1, vec!["evt-1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_again_is_a_duplicate_and_is_not_delivered_again() {
    let target = Target::new(|_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        status(200, "done")
    });
    let world = World::new(&target, [orders()]);
    let (id, _) = world.accept(&event("evt-1")).await;
    let (_, running) = world.accept(&event("evt-1")).await;
    assert!(matches!(running, Entry::Duplicate { status: Status::InProgress, .. }), "{running:?}");
    world.pass(SECOND).await;
    let (again, done) = world.accept(&event("evt-1")).await;
    assert_eq!(again, id);
    assert!(matches!(done, Entry::Duplicate { status: Status::Completed, .. }), "{done:?}");
    world.pass(SECOND * 5).await;
    assert_eq!(target.seen().len(), 1);
    assert_eq!(world.stored(id).await.value.repeats.same, 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_made_again_with_the_same_key_and_a_higher_fence() {
    let calls = AtomicU32::new(0);
    let target = Target::new(move |_| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move { if call < 2 { status(503, "later") } else { status(200, "done") } }
    });
    let world = World::new(&target, [orders()]);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 120).await;
    let seen = target.seen();
    assert_eq!(seen.iter().map(|it| it.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen.windows(2).all(|it| it[0].key == it[1].key && it[0].fence < it[1].fence), "{seen:?}");
    assert_eq!(world.stored(id).await.value.status(), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_its_function_refuses_is_a_dead_letter_at_once() {
    let target = Target::new(|_| async { status(422, "no such customer") });
    let world = World::new(&target, [orders()]);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let stored = world.stored(id).await.value;
    assert!(stored.is_dead_letter());
    assert_eq!(stored.phase.reason(), Some(Reason::Fatal));
    assert!(stored.error().unwrap().contains("no such customer"));
}

#[tokio::test(start_paused = true)]
async fn a_function_without_retry_gets_one_attempt_and_the_event_is_dropped() {
    let target = Target::new(|_| async { status(500, "") });
    let once = Function { policy: RetryPolicy::default(), ..orders() };
    let world = World::new(&target, [once]);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 3_600).await;
    assert_eq!(target.seen().len(), 1);
    assert_eq!(world.stored(id).await.value.phase.reason(), Some(Reason::Dropped));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_place_waits_in_the_queue_and_runs_when_there_is_one() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, "")
    });
    let one = Function { concurrency: 1.try_into().unwrap(), ..orders() };
    let world = World::new(&target, [one]);
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.accept(&event(&format!("evt-{n}"))).await.0);
    }
    world.pass(Duration::from_millis(500)).await;
    assert_eq!(target.seen().len(), 1);
    world.pass(SECOND * 10).await;
    for id in ids {
        assert_eq!(world.stored(id).await.value.status(), Status::Completed);
    }
    assert!(world.queue_is_balanced().await);
}

#[tokio::test(start_paused = true)]
async fn attempts_end_when_the_policy_says_so() {
    let target = Target::new(|_| async { status(404, "") });
    let policy = RetryPolicy::immediate().with_attempts_max(Some(5)).unwrap();
    assert_eq!(policy.backoff(), &Backoff::Immediate);
    let world = World::new(&target, [Function { policy, ..orders() }]);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 5);
    assert_eq!(world.stored(id).await.value.phase.reason(), Some(Reason::Exhausted));
}
