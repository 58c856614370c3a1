//! Calls that were made, and whose answers were lost.

use super::{SECOND, World, event, orders};
use crate::support::targets::{Target, status};
use http::HeaderMap;
use semel_core::{
    call::Resolution,
    execution::{Execution, ExecutionId},
    record::{Reason, Status},
};
use semel_runtime::{Action, Function, OnLost, Operated};

fn reporting() -> Function {
    Function { on_lost: OnLost::Report, ..orders() }
}

/// A node that takes an event, calls its function, and is gone.
async fn gone_with_one(world: &World, function: Function) -> ExecutionId {
    let silent = Target::new(|_| std::future::pending());
    let other = world.node(&silent, [function]).await;
    other.accept(&[event("evt-1")], &HeaderMap::new()).await.unwrap();
    world.pass(SECOND).await;
    assert_eq!(silent.seen().len(), 1);
    other.crash();
    world.runtime.queue().list(&semel_core::queue::Filter::default(), None, 1).await.unwrap().items[0]
        .value
        .id()
}

async fn stands(world: &World, id: ExecutionId) -> (Status, Option<Reason>, u32) {
    let Execution { phase, attempts, .. } = world.stored(id).await.value;
    (phase.status(), phase.reason(), attempts)
}

#[tokio::test(start_paused = true)]
async fn what_a_node_that_is_gone_has_called_is_reported_and_not_called_again() {
    let target = Target::new(|_| async { status(200, "") });
    let world = World::new(&target, [reporting()]).await;
    let id = gone_with_one(&world, reporting()).await;
    world.pass(SECOND * 600).await;
    let unknown = (Status::Failed, Some(Reason::OutcomeUnknown), 1);
    assert_eq!((stands(&world, id).await, target.seen().len()), (unknown, 0));
    let refused = world.runtime.operate(id, &Action::Redrive(None), "ada").await.unwrap();
    assert!(matches!(refused, Operated::Refused(_)), "{refused:?}");
    let _done = world.runtime.operate(id, &Action::Resolve(Resolution::DidNot), "ada").await.unwrap();
    world.pass(SECOND).await;
    assert_eq!((stands(&world, id).await, target.seen().len()), ((Status::Completed, None, 1), 1));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_that_is_gone_has_called_is_called_again_unless_that_is_said() {
    let target = Target::new(|_| async { status(200, "") });
    let world = World::new(&target, [orders()]).await;
    let id = gone_with_one(&world, orders()).await;
    world.pass(SECOND * 600).await;
    assert_eq!((stands(&world, id).await, target.seen().len()), ((Status::Completed, None, 2), 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_reported_and_one_that_fails_is_not() {
    let silent = Target::new(|_| std::future::pending());
    let world = World::new(&silent, [reporting()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 600).await;
    assert_eq!(stands(&world, id).await, (Status::Failed, Some(Reason::OutcomeUnknown), 1));
    let failing = Target::new(|_| async { status(503, "") });
    let world = World::new(&failing, [reporting()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    assert_eq!(stands(&world, id).await, (Status::Pending, None, 1));
}
