//! Writes whose answers are lost.

use crate::support::{Fault, MINUTE, SECOND, World, settle};
use semel::{Begin, ErrorKind, HandlerError, How, Status};
use std::cell::Cell;

#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_recognised_as_ones_own() {
    let world = World::new();
    world.store.script([Fault::After]);
    let outcome = world.call().run_outcome(async |lease| Ok(lease.attempt())).await.unwrap();
    assert_eq!((outcome.value, outcome.how), (1, How::Fresh));
}

#[tokio::test]
async fn a_completion_whose_reply_was_lost_is_recognised_as_ones_own() {
    let world = World::new();
    world.store.script([Fault::None, Fault::After]);
    let result = world.clock.drive(world.call().run(async |_| Ok(7))).await;
    assert_eq!(result.unwrap(), 7);
    assert_eq!(world.call().run(async |_| Ok(8)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_completion_is_tried_until_the_store_is_back() {
    let world = World::new();
    let call = world.call();
    let store = world.store.clone();
    let task = tokio::spawn(async move {
        call.run(async move |_| {
            store.always(Fault::Before);
            Ok(7)
        })
        .await
    });
    settle().await;
    for _ in 0..30 {
        world.clock.advance(SECOND);
        settle().await;
    }
    assert!(!task.is_finished());
    world.store.always(Fault::None);
    world.clock.advance(SECOND);
    settle().await;
    assert_eq!(task.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_completion_that_is_never_confirmed_is_neither_success_nor_failure() {
    for fault in [Fault::Before, Fault::Refused, Fault::Hang] {
        let world = World::new();
        let store = world.store.clone();
        let call = world.call().run(async move |_| {
            store.always(fault);
            Ok(7)
        });
        let error = world.clock.drive(call).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unconfirmed, true));
        let waited = semel::Clock::monotonic(&world.clock);
        assert!((MINUTE..MINUTE + SECOND * 2).contains(&waited), "it gave up after {waited:?}");
    }
}

#[tokio::test]
async fn a_completion_that_is_refused_during_a_failover_is_kept_with_its_result() {
    let world = World::new();
    world.store.script([Fault::None, Fault::Refused, Fault::Refused, Fault::Refused, Fault::Before]);
    let result = world.clock.drive(world.call().run(async |_| Ok(7))).await;
    assert_eq!(result.unwrap(), 7);
    assert_eq!(world.call().run(async |_| Ok(8)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_claim_that_is_refused_is_told_at_once() {
    let world = World::new();
    world.store.script([Fault::Refused]);
    let error = world.call().run(async |_| Ok(7)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert_eq!(world.store.swaps.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_failure_that_cannot_be_kept_is_still_the_handlers() {
    let world = World::new();
    let store = world.store.clone();
    let call = world.call().run(async move |_| {
        store.always(Fault::Before);
        Err::<(), _>(HandlerError::fatal("no such card"))
    });
    let error = world.clock.drive(call).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Handler);
}

#[tokio::test]
async fn somebody_elses_record_is_never_taken_for_ones_own() {
    let world = World::new();
    let runs = Cell::new(0);
    let Begin::Run(first) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    world.lapse();
    world.store.script([Fault::After]);
    let Begin::Run(second) = world.call().begin().await.unwrap() else { panic!("it lapsed") };
    runs.set(runs.get() + 1);
    assert_eq!(first.complete(&1).await.unwrap_err().kind(), ErrorKind::Superseded);
    second.complete(&2).await.unwrap();
    assert_eq!(world.once.get("pay", "evt-1").await.unwrap().unwrap().status(), Status::Completed);
    assert_eq!(world.call().run(async |_| Ok(3)).await.unwrap(), 2);
}
