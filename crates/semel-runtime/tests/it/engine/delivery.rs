//! Events go in, functions are called, outcomes are stored.

use super::{SECOND, World, event, orders};
use crate::support::{
    queue::Method,
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::{
    execution::Phase,
    record::{Body, Reason, Status},
    retry::{Backoff, RetryPolicy},
};
use semel_events::{
    event::Event,
    filter::{Compare, Filter},
};
use semel_runtime::{
    Entry, Function, Receipt,
    deliver::{Answer, Cause, Trouble},
};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

#[tokio::test(start_paused = true)]
async fn an_accepted_event_is_delivered_once_and_its_outcome_is_stored() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
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
    let world = World::new(&target, [orders()]).await;
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
    let world = World::new(&target, [orders()]).await;
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
    let world = World::new(&target, [orders()]).await;
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
    let world = World::new(&target, [once]).await;
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
    let world = World::new(&target, [one]).await;
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
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 5);
    assert_eq!(world.stored(id).await.value.phase.reason(), Some(Reason::Exhausted));
}

#[tokio::test(start_paused = true)]
async fn an_event_with_the_same_name_and_another_payload_is_not_run_and_noted() {
    let target = Target::fine();
    let world =
        World::new(&target, [orders(), Function { strict_mismatch: true, ..super::function("strict") }])
            .await;
    let other = Event::builder("evt-1", "/shop", "order.created").json(r#"{"total": 13}"#).build().unwrap();
    world.runtime.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    world.pass(SECOND).await;
    let receipts = world.runtime.accept(&[other], &HeaderMap::new()).await.unwrap();
    let [Receipt::Taken(taken)] = &receipts[..] else { panic!("{receipts:?}") };
    let strict: Vec<_> = taken
        .iter()
        .map(|it| match it.entry {
            Entry::Mismatch { is_strict, status: Status::Completed, .. } => is_strict,
            _ => panic!("{it:?}"),
        })
        .collect();
    assert_eq!(strict, [false, true]);
    world.pass(SECOND * 5).await;
    assert_eq!(target.seen().len(), 2);
    assert_eq!(world.stored(taken[0].id).await.value.repeats.other, 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_no_function_takes_is_not_kept_and_that_is_said() {
    let target = Target::fine();
    let filter = Filter::compare(Compare::Prefix, "type", "invoice.").unwrap();
    let world = World::new(&target, [Function { filter: Some(filter), ..orders() }]).await;
    let receipts = world.runtime.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    assert_eq!(receipts, [Receipt::Unmatched]);
    assert_eq!(world.queue.calls(Method::Accept), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lone_event_costs_one_accept_and_one_write_and_no_claim() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.pass(Duration::from_millis(10)).await;
    let claims = world.queue.calls(Method::Claim);
    world.accept(&event("evt-1")).await;
    world.pass(Duration::from_millis(10)).await;
    assert_eq!(target.seen().len(), 1);
    let calls = [Method::Accept, Method::Write].map(|it| world.queue.calls(it));
    assert_eq!((calls, world.queue.calls(Method::Claim) - claims), ([1, 1], 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_when_its_turn_comes_is_not_delivered() {
    let target = Target::fine();
    let policy = RetryPolicy::gen2().with_event_age_max(Some(SECOND * 60));
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    let old = Event::builder("evt-1", "/shop", "order.created").time("2025-12-31T00:00:00Z").build().unwrap();
    let (id, _) = world.accept(&old).await;
    world.pass(SECOND).await;
    assert_eq!(world.stored(id).await.value.phase.reason(), Some(Reason::TooOld));
    assert_eq!(target.seen().len(), 0);
}

/// Ten minutes of window, of which the first attempt takes four; then it could be due at the end itself.
#[tokio::test(start_paused = true)]
async fn the_last_attempt_of_a_window_is_made_although_claiming_it_takes_a_while() {
    let target = Target::new(|delivery| async move {
        let is_first = delivery.headers["semel-attempt"] == "1";
        if is_first {
            tokio::time::sleep(SECOND * 240).await;
        }
        if is_first { status(503, "later") } else { status(200, "done") }
    });
    let backoff = Backoff::Exponential { min: SECOND * 300, max: SECOND * 600 };
    let policy = RetryPolicy::gen2().with_window(SECOND * 600).unwrap().with_timeout(SECOND * 300).unwrap();
    let policy = policy.with_backoff(backoff).unwrap();
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    world.queue.delay(Method::Claim, SECOND * 2);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 700).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), target.seen().len()), (Status::Completed, 2), "{stored:?}");
    let last = stored.history.last().unwrap().began_at.since(stored.history[0].began_at);
    assert!(last >= SECOND * 585, "jitter had it cut short, else this proves nothing: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn executions_of_one_order_run_one_after_the_other_and_a_blocked_one_blocks_only_its_own() {
    let target = Target::new(|delivery| async move {
        let is_blocked = delivery.headers["ce-id"] == "a-1" && delivery.headers["semel-attempt"] == "1";
        if is_blocked { status(503, "") } else { status(200, "") }
    });
    let order = Some("subject".parse().unwrap());
    let world = World::new(&target, [Function { order, ..orders() }]).await;
    for id in ["a-1", "a-2", "a-3", "b-1", "b-2"] {
        let event = Event::builder(id, "/shop", "order.created").subject(&id[..1]).build().unwrap();
        world.accept(&event).await;
    }
    world.pass(SECOND * 5).await;
    assert_eq!(target.ids(), ["a-1", "b-1", "b-2"]);
    world.pass(SECOND * 60).await;
    assert_eq!(target.ids(), ["a-1", "b-1", "b-2", "a-1", "a-2", "a-3"]);
}

/// F19: where retry is off, one attempt is all there is, and none was made.
#[tokio::test(start_paused = true)]
async fn what_this_machine_had_nothing_left_to_send_with_was_no_attempt_and_is_tried_again_after_a_pause() {
    let tries = AtomicU32::new(0);
    let target = Target::new(move |_| {
        let is_exhausted = tries.fetch_add(1, Ordering::Relaxed) < 30;
        async move {
            if is_exhausted {
                return Answer::NotSent(Cause::new(Trouble::Exhausted, "Too many open files"));
            }
            status(200, "done")
        }
    });
    let once = Function { policy: RetryPolicy::default(), ..orders() };
    let world = World::new(&target, [once]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 10).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts, stored.history.len()), (Status::Pending, 0, 0));
    let tried = target.seen().len();
    assert!((5..=11).contains(&tried), "it was tried {tried} times in ten seconds");
    world.pass(SECOND * 60).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts, target.seen().len()), (Status::Completed, 1, 31));
    assert!(target.seen().iter().all(|it| it.attempt == 1), "{:?}", target.seen());
}
