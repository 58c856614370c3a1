//! Draining: when it is said that nothing of a function runs, nothing does, and nothing starts.

use super::{SECOND, World, control::told, event, orders};
use crate::support::{
    queue::{Method, When},
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::{record::Status, time::Clock as _};
use semel_runtime::Runtime;

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_runs() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 3).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    assert!(!world.runtime.drain("orders", "ada", SECOND).await.unwrap());
    assert!(world.runtime.drain("orders", "ada", SECOND * 6).await.unwrap());
    assert_eq!(world.status(id).await, Status::Completed);
}

/// It reads every other second what is paused, and takes an event before it has.
#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_a_node_starts_that_has_not_heard_of_it() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 20).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&target, [orders()]).await;
    world.pass(SECOND * 10 + SECOND / 2).await;
    let late = async {
        world.pass(SECOND / 100).await;
        other.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    };
    let (drained, ()) = tokio::join!(world.runtime.drain("orders", "ada", SECOND * 60), late);
    assert!(drained.unwrap());
    let counts = world.runtime.counts().await.unwrap();
    let orders = counts.iter().find(|it| &*it.function == "orders").unwrap();
    assert_eq!((orders.in_progress, orders.completed), (0, 1), "it was not drained");
    other.accept(&[event("evt-2")], &HeaderMap::new()).await.unwrap();
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 1, "something was started after that");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_what_is_paused_starts_nothing_until_it_can() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    world.queue.fail(Method::Get, When::Before, u32::MAX);
    world.pass(SECOND * 6).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
    world.queue.fail(Method::Get, When::Before, 0);
    world.pass(SECOND * 4).await;
    assert_eq!((world.status(id).await, world.stored(id).await.value.attempts), (Status::Completed, 1));
}

/// What it asked for before the function was paused is answered after.
#[tokio::test(start_paused = true)]
async fn an_old_answer_does_not_let_a_function_go_on() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    world.queue.delay(Method::Get, SECOND * 3);
    world.pass(SECOND * 2).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let (id, _) = world.accept(&event("evt-1")).await;
    for _ in 0..40 {
        world.pass(SECOND / 4).await;
        assert!(world.runtime.status()[0].is_paused);
    }
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_drained_is_known_to_be_and_who_is_alone_waits_for_nobody() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    assert!(!world.runtime.drain("orders", "ada", SECOND).await.unwrap(), "others may not have heard");
    assert!(world.runtime.drain("orders", "ada", SECOND * 6).await.unwrap());
    assert!(world.runtime.drain("orders", "ada", SECOND).await.unwrap());
    let alone = Runtime::builder(world.queue.clone(), target.clone()).alone(true).functions([orders()]);
    let alone = alone.seed(9).start().await.unwrap();
    alone.resume("orders", "ada").await.unwrap();
    let began = world.clock.monotonic();
    assert!(alone.drain("orders", "ada", SECOND * 60).await.unwrap());
    assert!(world.clock.monotonic() < began + SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_resumes_meanwhile_is_not_drained() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&target, [orders()]).await;
    let resume = async |again: bool| {
        world.pass(SECOND * 2).await;
        other.resume("orders", "bob").await.unwrap();
        if again {
            other.pause("orders", "bob").await.unwrap();
        }
    };
    let (drained, ()) = tokio::join!(world.runtime.drain("orders", "ada", SECOND * 60), resume(false));
    assert!(!drained.unwrap());
    let began = world.clock.monotonic();
    let (drained, ()) = tokio::join!(world.runtime.drain("orders", "ada", SECOND * 60), resume(true));
    assert!(drained.unwrap());
    assert!(world.clock.monotonic() >= began + SECOND * 7, "somebody may have begun something in between");
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_runs_on_other_nodes() {
    let (target, _) = told();
    let slow = Target::new(|_| async {
        tokio::time::sleep(SECOND * 20).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&slow, [orders()]).await;
    other.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    assert!(!world.runtime.drain("orders", "ada", SECOND).await.unwrap());
    let began = world.clock.monotonic();
    assert!(world.runtime.drain("orders", "ada", SECOND * 60).await.unwrap());
    assert!(world.clock.monotonic() > began + SECOND * 10);
    other.crash();
}

/// What a node that is gone has held is nobody's, and is not taken over while the function is paused.
#[tokio::test(start_paused = true)]
async fn draining_does_not_wait_for_a_node_that_is_gone() {
    let (target, _) = told();
    let slow = Target::new(|_| std::future::pending());
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&slow, [orders()]).await;
    other.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    assert!(!world.runtime.drain("orders", "ada", SECOND * 10).await.unwrap());
    other.crash();
    assert!(world.runtime.drain("orders", "ada", SECOND * 300).await.unwrap());
}

/// A claim takes places, and gives back what it did not fill.
#[tokio::test(start_paused = true)]
async fn draining_waits_for_a_claim_that_brings_nothing_and_no_longer() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    world.queue.delay(Method::Claim, SECOND * 60);
    let asked = world.queue.calls(Method::Claim);
    world.pass(SECOND * 5).await;
    assert!(world.queue.calls(Method::Claim) > asked, "a claim is under way");
    assert!(!world.runtime.drain("orders", "ada", SECOND).await.unwrap());
    assert!(world.runtime.drain("orders", "ada", SECOND * 300).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_drain_does_not_undo_what_somebody_resumed() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 3).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    world.accept(&event("evt-1")).await;
    assert!(!world.runtime.drain("orders", "ada", SECOND).await.unwrap());
    world.runtime.resume("orders", "bob").await.unwrap();
    assert!(!world.runtime.drained("orders", SECOND * 60).await.unwrap());
    assert!(!world.runtime.status()[0].is_paused, "it was paused again");
    world.runtime.pause("orders", "ada").await.unwrap();
    assert!(world.runtime.drained("orders", SECOND * 60).await.unwrap());
}
