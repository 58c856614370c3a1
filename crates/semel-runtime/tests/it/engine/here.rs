//! Functions in this process, and what goes wrong in them.

use super::{SECOND, World, event, orders};
use crate::support::targets::Target;
use semel_core::{
    execution::Phase,
    record::{Body, Reason, Status},
};
use semel_runtime::{Function, HandleError, handler};

#[tokio::test(start_paused = true)]
async fn a_function_in_this_process_is_told_its_attempt_and_its_result_is_stored() {
    let aim = handler(|event, attempt| async move {
        if attempt.number == 1 {
            return Err(HandleError::retry("not yet"));
        }
        Ok(format!("{} after {}", event.id(), attempt.number).into_bytes())
    });
    let world = World::new(&Target::fine(), [Function { aim, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 30).await;
    let stored = world.stored(id).await.value;
    assert!(
        matches!(&stored.phase, Phase::Completed(Body::Kept { bytes, .. }) if bytes == b"evt-1 after 2"),
        "{stored:?}"
    );
    assert_eq!(stored.history[0].error.as_deref(), Some("not yet"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt_and_nobody_elses() {
    let aim = handler(|event, _| async move {
        assert!(event.id() != "evt-1", "that one again");
        Ok(Vec::new())
    });
    let world = World::new(&Target::fine(), [Function { aim, ..orders() }]).await;
    let (bad, _) = world.accept(&event("evt-1")).await;
    let (good, _) = world.accept(&event("evt-2")).await;
    world.pass(SECOND).await;
    assert_eq!(world.status(good).await, Status::Completed);
    let bad = world.stored(bad).await.value;
    assert_eq!(bad.status(), Status::Pending);
    assert!(bad.error().unwrap().contains("that one again"));
    assert_eq!(world.runtime.status()[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_takes_too_long_is_given_up() {
    let aim = handler(|_, _| std::future::pending());
    let policy = orders().policy.with_timeout(SECOND * 5).unwrap();
    let world = World::new(&Target::fine(), [Function { aim, policy, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 4).await;
    assert_eq!(world.status(id).await, Status::InProgress);
    world.pass(SECOND * 2).await;
    assert_eq!(world.status(id).await, Status::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_function_can_say_that_it_never_will() {
    let aim = handler(|_, _| async { Err(HandleError::fatal("no such customer")) });
    let world = World::new(&Target::fine(), [Function { aim, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    assert_eq!(world.stored(id).await.value.phase.reason(), Some(Reason::Fatal));
}
