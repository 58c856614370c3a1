//! The queue cannot tell what happened.

use super::{SECOND, World, event, orders};
use crate::support::{
    queue::{Method, When},
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::record::Status;
use semel_runtime::{CallOutcome, Called, Entry, Function, Refused};

#[tokio::test(start_paused = true)]
async fn an_accept_whose_answer_was_lost_is_recognised_and_delivered_at_once() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Accept, When::After, 1);
    let (id, entry) = world.accept(&event("evt-1")).await;
    assert_eq!(entry, Entry::New);
    world.pass(SECOND).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sender_is_told_to_come_again_while_events_cannot_be_stored() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Accept, When::Before, 100);
    let refused = world.runtime.accept(&[event("evt-1")], &HeaderMap::new()).await;
    assert!(matches!(refused, Err(Refused::Unavailable { .. })), "{refused:?}");
    world.queue.fail(Method::Accept, When::Before, 0);
    assert_eq!(world.accept(&event("evt-1")).await.1, Entry::New);
    world.pass(SECOND).await;
    assert_eq!(target.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_found_by_its_holder_and_run_before_its_lease_lapses() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let (id, _) = world.accept(&event("evt-1")).await;
    world.queue.fail(Method::Claim, When::After, 1);
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND * 5).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts), (Status::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_recognised() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Write, When::After, 1);
    let called = world.runtime.call(&event("evt-1"), &HeaderMap::new()).await.unwrap();
    let Called::Answered(answered) = called else { panic!("{called:?}") };
    assert!(matches!(answered[0].outcome, CallOutcome::Completed { .. }), "{answered:?}");
    assert_eq!(target.seen().len(), 1);
}

/// How often it came again is written every second, also between a write whose answer was lost and its repetition.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_recognised_although_its_event_came_again_meanwhile() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 97 / 100).await;
        status(200, "done")
    });
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Write, When::After, 1);
    let again = async {
        world.pass(SECOND / 2).await;
        world.accept(&event("evt-1")).await
    };
    let (event, headers) = (event("evt-1"), HeaderMap::new());
    let (called, (id, _)) = tokio::join!(world.runtime.call(&event, &headers), again);
    let Called::Answered(answered) = called.unwrap() else { panic!("it was taken") };
    assert!(matches!(answered[0].outcome, CallOutcome::Completed { .. }), "{answered:?}");
    assert_eq!(
        world.stored(id).await.value.repeats.same,
        1,
        "it was written between, else this proves nothing"
    );
    assert_eq!((target.seen().len(), world.runtime.status()[0].totals.superseded), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_written_is_abandoned_and_the_attempt_is_made_again_when_its_lease_has_lapsed()
{
    let target = Target::fine();
    let policy = orders().policy.with_timeout(SECOND * 5).unwrap();
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    world.queue.fail(Method::Write, When::Before, u32::MAX);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 14).await;
    assert_eq!(world.status(id).await, Status::InProgress);
    assert_eq!((target.seen().len(), world.runtime.status()[0].totals.abandoned), (1, 1));
    world.queue.fail(Method::Write, When::Before, 0);
    world.pass(SECOND * 3).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.attempts, target.seen().len()), (Status::Completed, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_so_long_ago_that_its_lease_has_lapsed_is_not_started() {
    let target = Target::fine();
    let policy = orders().policy.with_timeout(SECOND * 5).unwrap();
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    world.queue.delay(Method::Accept, SECOND * 20);
    let (id, entry) = world.accept(&event("evt-1")).await;
    assert_eq!(entry, Entry::New);
    let taken_over = world.stored(id).await.value;
    assert_eq!((taken_over.status(), taken_over.attempts), (Status::Completed, 2));
    world.pass(SECOND * 10).await;
    assert_eq!(target.seen().len(), 1, "it was started again after it was completed");
}

#[tokio::test(start_paused = true)]
async fn whoever_was_superseded_reports_nothing() {
    let target = Target::new(|delivery| async move {
        if delivery.headers["semel-attempt"] == "1" {
            tokio::time::sleep(SECOND * 4).await;
        }
        status(200, "done")
    });
    let policy = orders().policy.with_timeout(SECOND * 5).unwrap();
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    // The queue's clock jumps, and the lease with it: another attempt takes over.
    world.clock.jump(60_000);
    world.pass(SECOND * 2).await;
    let done = world.stored(id).await;
    assert_eq!((done.value.status(), done.value.attempts), (Status::Completed, 2));
    world.pass(SECOND * 10).await;
    assert_eq!(world.stored(id).await, done);
    assert_eq!(world.runtime.status()[0].totals.superseded, 1);
}

/// As often as to end everything that would end by it. An accept is tried three times.
const OFTEN: u32 = 3 * 7;

#[tokio::test(start_paused = true)]
async fn a_queue_that_panics_is_one_that_could_not_tell_and_goes_on_when_it_does_not() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Accept, When::Panics, OFTEN);
    while world.queue.calls(Method::Accept) < OFTEN {
        let refused = world.runtime.accept(&[event("evt-1")], &HeaderMap::new()).await;
        let Err(Refused::Unavailable { cause, .. }) = refused else { panic!("{refused:?}") };
        assert!(cause.to_string().contains("the queue is broken"), "{cause}");
    }
    world.queue.fail(Method::Write, When::Panics, OFTEN / 2);
    let (first, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 30).await;
    assert_eq!(world.status(first).await, Status::Completed);
    world.runtime.pause("orders", "ada").await.unwrap();
    let (second, _) = world.accept(&event("evt-2")).await;
    world.queue.fail(Method::Claim, When::Panics, OFTEN);
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(second).await, target.seen().len()), (Status::Completed, 2));
}
