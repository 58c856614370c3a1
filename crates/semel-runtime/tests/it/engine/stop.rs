//! Stopping, in order and not.

use super::{SECOND, World, event, orders};
use crate::support::targets::{Target, status};
use http::HeaderMap;
use semel_core::{
    execution::Phase,
    record::{Reason, Status},
    retry::{Backoff, RetryPolicy},
};
use semel_runtime::{Function, Refused};
use std::sync::Arc;

fn slow() -> Arc<Target> {
    Target::new(|_| async {
        tokio::time::sleep(SECOND * 3).await;
        status(200, "")
    })
}

fn short() -> Function {
    let policy = orders().policy.with_timeout(SECOND * 5).unwrap();
    Function { policy, ..orders() }
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_finished_and_nothing_more_is_taken() {
    let world = World::new(&slow(), [short()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let stopping = tokio::spawn({
        let runtime = world.runtime.clone();
        async move { runtime.shutdown(SECOND * 10).await }
    });
    tokio::task::yield_now().await;
    let refused = world.runtime.accept(&[event("evt-2")], &HeaderMap::new()).await;
    assert!(matches!(refused, Err(Refused::Stopping)), "{refused:?}");
    assert!(stopping.await.unwrap());
    assert_eq!(world.status(id).await, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_comes_when_nothing_more_is_started_is_durable_and_left_to_others() {
    let target = slow();
    let world = World::new(&target, [short()]).await;
    let (first, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    world.runtime.start_nothing_more();
    let (second, _) = world.accept(&event("evt-2")).await;
    let refused = world.runtime.call(&event("evt-3"), &HeaderMap::new()).await;
    assert!(matches!(refused, Err(Refused::Stopping)), "{refused:?}");
    world.pass(SECOND * 10).await;
    assert_eq!((world.status(first).await, target.seen().len()), (Status::Completed, 1));
    let stored = world.stored(second).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Pending, 0));
    assert!(world.runtime.shutdown(SECOND).await);
    let other = world.node(&target, [short()]).await;
    world.pass(SECOND * 10).await;
    assert_eq!((world.status(second).await, target.seen().len()), (Status::Completed, 2));
    assert!(other.shutdown(SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_finished_in_time_counts_as_an_attempt_and_is_not_made_again_before_its_lease_would_have_lapsed()
 {
    let target = slow();
    let world = World::new(&target, [short()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let leased_until = world.stored(id).await.value.due_at().unwrap();
    assert!(world.runtime.shutdown(SECOND).await);
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Pending, 1));
    assert!(stored.due_at().unwrap() + SECOND >= leased_until, "{stored:?}");
    let other = world.node(&target, [short()]).await;
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Completed, 2));
    assert!(other.shutdown(SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn what_may_still_be_at_work_is_not_called_again_however_short_the_delays_are() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 50).await;
        status(200, "")
    });
    let hasty = || {
        let backoff = Backoff::Exponential { min: SECOND, max: SECOND * 5 };
        Function { policy: orders().policy.with_backoff(backoff).unwrap(), ..orders() }
    };
    let world = World::new(&target, [hasty()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 9).await;
    let leased_until = world.stored(id).await.value.due_at().unwrap();
    assert!(world.runtime.shutdown(SECOND).await);
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Pending, 1));
    assert_eq!(stored.due_at().unwrap(), leased_until, "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_yet_is_no_attempt_and_is_made_by_another_node_at_once() {
    let connecting = Target::new(|delivery| async move {
        delivery.departure.waits();
        std::future::pending().await
    });
    let world = World::new(&connecting, [short()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    assert!(world.runtime.shutdown(SECOND).await);
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Pending, 0));
    let other = world.node(&Target::fine(), [short()]).await;
    world.pass(SECOND).await;
    assert_eq!(world.status(id).await, Status::Completed);
    assert!(other.shutdown(SECOND).await);
}

/// Semantics 4: where retry is off there is one attempt, and the function may have seen it.
#[tokio::test(start_paused = true)]
async fn where_retry_is_off_what_is_not_finished_in_time_is_dropped_with_its_reason() {
    let target = slow();
    let once = || Function { policy: RetryPolicy::default().with_timeout(SECOND * 5).unwrap(), ..orders() };
    let world = World::new(&target, [once()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    assert!(world.runtime.shutdown(SECOND).await);
    let stored = world.stored(id).await.value;
    let Phase::Failed { reason: Reason::Dropped, error } = &stored.phase else { panic!("{stored:?}") };
    assert_eq!(error, "interrupted: the runtime was stopped");
    assert_eq!((stored.attempts, stored.history.len()), (1, 1));
    let other = world.node(&target, [once()]).await;
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 1, "there is one attempt");
    assert!(other.shutdown(SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_what_a_crashed_one_left_when_the_lease_has_lapsed() {
    let target = slow();
    let world = World::new(&target, [short()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let other = world.node(&target, [short()]).await;
    let World { runtime, queue, clock } = world;
    drop(runtime);
    let world = World { runtime: other, queue, clock };
    world.pass(SECOND * 12).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::InProgress, 1));
    world.pass(SECOND * 7).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts, target.seen().len()), (Status::Completed, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_has_nothing_to_do_stops_at_once_and_waits_for_nothing() {
    let world = World::new(&slow(), [short()]).await;
    let before = tokio::time::Instant::now();
    assert!(world.runtime.shutdown(SECOND * 10).await);
    assert_eq!(before.elapsed(), std::time::Duration::ZERO);
}
