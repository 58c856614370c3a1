//! Functions are called while the sender waits.

use super::{SECOND, World, event, orders};
use crate::support::{
    queue::Method,
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::{
    record::{Body, Reason, Status},
    retry::RetryPolicy,
};
use semel_events::event::Event;
use semel_runtime::{CallOutcome, Called, Function, Refused};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

async fn call(world: &World, event: &Event) -> CallOutcome {
    let called = world.runtime.call(event, &HeaderMap::new()).await.unwrap();
    let Called::Answered(mut answered) = called else { panic!("{called:?}") };
    assert_eq!(answered.len(), 1);
    answered.remove(0).outcome
}

/// Answers 503 the first time, and 200 from then on.
fn better_later() -> std::sync::Arc<Target> {
    let calls = AtomicU32::new(0);
    Target::new(move |_| {
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if is_first { status(503, "later") } else { status(200, "done") } }
    })
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_waits_is_told_the_result_and_the_same_one_when_it_comes_again() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    for replayed in [false, true] {
        match call(&world, &event("evt-1")).await {
            CallOutcome::Completed { body: Body::Kept { bytes, .. }, is_replay } => {
                assert_eq!((&bytes[..], is_replay), (&b"done"[..], replayed));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(target.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_retry_the_senders_own_retry_runs_the_function_again() {
    let target = better_later();
    let world = World::new(&target, [Function { policy: RetryPolicy::default(), ..orders() }]).await;
    let first = call(&world, &event("evt-1")).await;
    assert!(
        matches!(first, CallOutcome::Failed { reason: Reason::Dropped, is_replay: false, .. }),
        "{first:?}"
    );
    let second = call(&world, &event("evt-1")).await;
    assert!(matches!(second, CallOutcome::Completed { is_replay: false, .. }), "{second:?}");
    assert_eq!(target.seen().len(), 2);
}

/// Nobody is at it: what was written meanwhile is that it came again.
#[tokio::test(start_paused = true)]
async fn what_only_was_counted_meanwhile_is_judged_again_and_run() {
    let target = better_later();
    let world = World::new(&target, [Function { policy: RetryPolicy::default(), ..orders() }]).await;
    let first = call(&world, &event("evt-1")).await;
    assert!(matches!(first, CallOutcome::Failed { reason: Reason::Dropped, .. }), "{first:?}");
    let (id, _) = world.accept(&event("evt-1")).await;
    let before = world.stored(id).await.fence;
    world.queue.delay(Method::Accept, SECOND * 2);
    let counted = async {
        world.pass(SECOND * 3 / 2).await;
        assert!(world.stored(id).await.fence > before, "it was counted, else this proves nothing");
    };
    let again = event("evt-1");
    let (second, ()) = tokio::join!(call(&world, &again), counted);
    assert!(matches!(second, CallOutcome::Completed { is_replay: false, .. }), "{second:?}");
    assert_eq!(target.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_retry_the_sender_is_told_when_and_finds_the_runtimes_own_result() {
    let target = better_later();
    let world = World::new(&target, [orders()]).await;
    let first = call(&world, &event("evt-1")).await;
    let CallOutcome::Later { error: Some(error), after } = first else { panic!("{first:?}") };
    assert!(error.contains("later") && after >= SECOND * 10, "{error} after {after:?}");
    let early = call(&world, &event("evt-1")).await;
    assert!(matches!(early, CallOutcome::Later { .. }), "{early:?}");
    world.pass(after + SECOND * 2).await;
    let then = call(&world, &event("evt-1")).await;
    assert!(matches!(then, CallOutcome::Completed { is_replay: true, .. }), "{then:?}");
    assert_eq!(target.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fatal_answer_is_replayed() {
    let target = Target::new(|_| async { status(422, "never") });
    let world = World::new(&target, [orders()]).await;
    for replayed in [false, true] {
        let outcome = call(&world, &event("evt-1")).await;
        assert!(
            matches!(outcome, CallOutcome::Failed { reason: Reason::Fatal, is_replay, .. } if is_replay == replayed),
            "{outcome:?}"
        );
    }
    assert_eq!(target.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_place_nothing_is_kept_and_the_sender_comes_again() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, "")
    });
    let world = World::new(&target, [Function { concurrency: 1.try_into().unwrap(), ..orders() }]).await;
    world.accept(&event("evt-1")).await;
    let refused = world.runtime.call(&event("evt-2"), &HeaderMap::new()).await;
    assert!(matches!(refused, Err(Refused::Busy { .. })), "{refused:?}");
    assert_eq!(world.queue.calls(Method::Accept), 1);
    let running = call(&world, &event("evt-1")).await;
    assert!(matches!(running, CallOutcome::Running { .. }), "{running:?}");
    world.pass(SECOND * 2).await;
    assert!(matches!(call(&world, &event("evt-2")).await, CallOutcome::Completed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_sender_gave_up_is_finished_all_the_same() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let (event_given_up, headers) = (event("evt-1"), HeaderMap::new());
    let given_up = world.runtime.call(&event_given_up, &headers);
    assert!(tokio::time::timeout(Duration::from_millis(500), given_up).await.is_err());
    world.pass(SECOND).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    assert_eq!(world.status(id).await, Status::Completed);
    assert_eq!(target.seen().len(), 1);
}

/// Its last attempt failed, the sender's own retry starts it again, and the runtime ends before that is written.
#[tokio::test(start_paused = true)]
async fn a_sender_that_waits_is_told_that_the_runtime_has_ended() {
    let target = better_later();
    let world = World::new(&target, [Function { policy: RetryPolicy::default(), ..orders() }]).await;
    let first = call(&world, &event("evt-1")).await;
    assert!(matches!(first, CallOutcome::Failed { .. }), "{first:?}");
    world.queue.delay(Method::Write, SECOND * 10);
    let (event, headers) = (event("evt-1"), HeaderMap::new());
    let end = async {
        world.pass(SECOND).await;
        world.runtime.crash();
    };
    let (refused, ()) = tokio::join!(world.runtime.call(&event, &headers), end);
    assert!(matches!(refused, Err(Refused::Stopping)), "{refused:?}");
    assert_eq!(target.seen().len(), 1);
}
