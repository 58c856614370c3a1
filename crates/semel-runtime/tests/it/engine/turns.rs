//! More is held of a quick function than is called at once.

use super::{SECOND, World, event, orders};
use crate::support::{
    queue::Method,
    targets::{Target, status},
};
use semel_core::{execution::ExecutionId, record::Status};
use semel_runtime::{
    Function,
    engine::gate::{
        breaker::FAILURES_MAX,
        pace::{HELD_PER_CALL, QUICK},
    },
};
use std::{sync::Arc, time::Duration};

/// Answers events named so at once, and hangs on others until it is given up.
fn quick_with(quick: &'static str) -> Arc<Target> {
    Target::new(move |delivery| async move {
        if !delivery.headers["ce-id"].to_str().unwrap().starts_with(quick) {
            tokio::time::sleep(delivery.timeout).await;
        }
        status(200, "")
    })
}

/// A world with one function, which was called and is known to be quick.
async fn known_quick(target: &Arc<Target>, concurrency: u32) -> World {
    let world =
        World::new(target, [Function { concurrency: concurrency.try_into().unwrap(), ..orders() }]).await;
    world.accept(&event("quick")).await;
    world.pass(Duration::from_millis(1)).await;
    assert_eq!(world.runtime.status()[0].totals.completed, 1);
    world
}

/// Takes in as many events as may be held.
async fn held(world: &World, concurrency: u32) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for n in 0..concurrency * HELD_PER_CALL {
        ids.push(world.accept(&event(&format!("evt-{n}"))).await.0);
    }
    ids
}

async fn count(world: &World, ids: &[ExecutionId], status: Status) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(world.status(*id).await == status);
    }
    count
}

#[tokio::test(start_paused = true)]
async fn a_call_begins_while_what_became_of_another_is_being_written() {
    let target = Target::fine();
    let world = known_quick(&target, 1).await;
    world.queue.delay(Method::Write, SECOND);
    for n in 0..HELD_PER_CALL {
        world.accept(&event(&format!("evt-{n}"))).await;
    }
    world.pass(SECOND / 2).await;
    assert_eq!(target.seen().len(), 1 + HELD_PER_CALL as usize, "nobody waits for a write");
    let status = world.runtime.status().remove(0);
    assert_eq!(
        (status.in_flight, status.held),
        (0, HELD_PER_CALL),
        "nothing is called, and not all is written"
    );
    world.accept(&event("evt-more")).await;
    world.pass(SECOND / 4).await;
    assert_eq!(target.seen().len(), 1 + HELD_PER_CALL as usize, "what is held is bounded");
    world.pass(SECOND * 3).await;
    assert_eq!(world.runtime.status()[0].totals.completed, 2 + u64::from(HELD_PER_CALL));
}

#[tokio::test(start_paused = true)]
async fn of_a_slow_function_no_more_is_held_than_is_called() {
    let target = Target::new(|_| async {
        tokio::time::sleep(QUICK * 2).await;
        status(200, "")
    });
    let world = World::new(&target, [Function { concurrency: 2.try_into().unwrap(), ..orders() }]).await;
    for round in 0..3 {
        for n in 0..6 {
            world.accept(&event(&format!("evt-{round}-{n}"))).await;
        }
        world.pass(QUICK).await;
        assert_eq!(world.runtime.status()[0].in_flight, 2);
        assert_eq!(world.runtime.counts().await.unwrap()[0].in_progress, 2, "round {round}");
        world.pass(SECOND * 2).await;
    }
    assert_eq!(world.runtime.status()[0].totals.completed, 18);
}

#[tokio::test(start_paused = true)]
async fn what_waited_too_long_for_its_turn_is_handed_back_and_was_no_attempt() {
    let target = quick_with("quick");
    let world = known_quick(&target, 2).await;
    let ids = held(&world, 2).await;
    world.pass(SECOND * 4).await;
    assert_eq!(count(&world, &ids, Status::InProgress).await, ids.len());
    assert_eq!((target.seen().len(), world.runtime.status()[0].in_flight), (1 + 2, 2));
    world.pass(SECOND * 2).await;
    assert_eq!(count(&world, &ids, Status::Pending).await, ids.len() - 2);
    world.pass(SECOND * 3_600).await;
    assert_eq!(count(&world, &ids, Status::Completed).await, ids.len());
    assert!(target.seen().iter().all(|it| it.attempt == 1), "{:?}", target.seen());
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_is_handed_back_when_its_function_is_paused() {
    let target = quick_with("quick");
    let world = known_quick(&target, 2).await;
    let ids = held(&world, 2).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    world.pass(Duration::from_millis(1)).await;
    assert_eq!(count(&world, &ids, Status::Pending).await, ids.len() - 2);
    assert_eq!(target.seen().len(), 1 + 2);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_is_handed_back_when_its_target_is_found_down() {
    let target = Target::new(|delivery| async move {
        let is_quick = delivery.headers["ce-id"] == "quick";
        tokio::time::sleep(Duration::from_micros(if is_quick { 0 } else { 100 })).await;
        status(if is_quick { 200 } else { 503 }, "")
    });
    let world = known_quick(&target, FAILURES_MAX).await;
    let ids = held(&world, FAILURES_MAX).await;
    world.pass(Duration::from_millis(50)).await;
    let calls = target.seen().len() - 1;
    assert!(calls < 2 * FAILURES_MAX as usize, "{calls} calls of a target that is down");
    assert_eq!(count(&world, &ids, Status::Pending).await, ids.len());
    assert_eq!(world.runtime.status()[0].totals.handed_back, (ids.len() - calls) as u64);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_is_handed_back_when_the_runtime_stops() {
    let target = quick_with("quick");
    let world = known_quick(&target, 2).await;
    let ids = held(&world, 2).await;
    assert!(world.runtime.shutdown(SECOND).await);
    assert_eq!(count(&world, &ids, Status::Pending).await, ids.len());
    assert_eq!(target.seen().len(), 1 + 2);
}
