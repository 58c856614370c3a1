//! What operators do.

use super::{SECOND, World, event, orders};
use crate::support::{
    queue::{Method, When},
    targets::{Target, status},
};
use semel_core::{
    execution::{ErrorPrint, ExecutionId},
    queue::Filter,
    record::{Reason, Status},
};
use semel_events::event::Event;
use semel_runtime::{Action, Auditing, Operated};
use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

/// A target that answers what it is told to, and how to tell it.
pub(super) fn told() -> (Arc<Target>, Arc<AtomicU16>) {
    let code = Arc::new(AtomicU16::new(200));
    let answer = Arc::clone(&code);
    (Target::new(move |_| std::future::ready(status(answer.load(Ordering::Relaxed), "said so"))), code)
}

pub(super) async fn dead(world: &World, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(world.accept(&event(&format!("evt-{n}"))).await.0);
    }
    world.pass(SECOND).await;
    ids
}

pub(super) fn failed() -> Filter {
    Filter { status: Some(Status::Failed), ..Filter::default() }
}

#[tokio::test(start_paused = true)]
async fn a_paused_function_starts_nothing_on_any_node_and_goes_on_when_it_is_resumed() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&target, [orders()]).await;
    assert!(world.runtime.pause("orders", "ada").await.unwrap());
    assert!(!world.runtime.pause("orders", "ada").await.unwrap());
    world.pass(SECOND * 6).await;
    assert!(other.status()[0].is_paused);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
    world.runtime.replace(vec![orders()]).unwrap();
    // At once: what is paused is read again before long.
    assert!(world.runtime.status()[0].is_paused, "a reload resumed it");
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 0, "a reload resumed it");
    assert!(world.runtime.resume("orders", "ada").await.unwrap());
    world.pass(SECOND).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Completed, 1));
}

/// The answer to a claim is under way when somebody pauses the function.
#[tokio::test(start_paused = true)]
async fn what_was_handed_out_when_a_function_is_paused_is_handed_back_and_was_not_tried() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let (id, _) = world.accept(&event("evt-1")).await;
    world.queue.delay(Method::Claim, SECOND);
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND / 2).await;
    assert_eq!(world.status(id).await, Status::InProgress, "it was handed out");
    world.runtime.pause("orders", "ada").await.unwrap();
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND * 3).await;
    assert_eq!(world.status(id).await, Status::Completed);
    assert_eq!(world.stored(id).await.value.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_knows_what_is_paused() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    world.accept(&event("evt-1")).await;
    let other = world.node(&target, [orders()]).await;
    assert!(other.status()[0].is_paused);
    world.pass(SECOND * 60).await;
    assert_eq!(target.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_redriven_runs_again_and_is_never_taken_for_a_duplicate() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let id = dead(&world, 1).await[0];
    code.store(200, Ordering::Relaxed);
    let edited = Event::builder("evt-0", "/shop", "order.created").json(r#"{"total": 0}"#).build().unwrap();
    let redriven = world.runtime.operate(id, &Action::Redrive(Some(Box::new(edited))), "ada").await.unwrap();
    assert!(matches!(redriven, Operated::Done(_)), "{redriven:?}");
    world.pass(SECOND).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.status(), stored.generation, target.seen().len()), (Status::Completed, 1, 2));
    let refused = world.runtime.operate(id, &Action::Redrive(None), "ada").await.unwrap();
    assert!(matches!(refused, Operated::Refused(_)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_while_it_runs_stays_cancelled() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND * 3).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let _done = world.runtime.operate(id, &Action::Cancel, "ada").await.unwrap();
    world.pass(SECOND * 60).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.phase.reason(), target.seen().len()), (Some(Reason::Cancelled), 1));
}

#[tokio::test(start_paused = true)]
async fn every_change_leaves_an_entry_behind() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let id = dead(&world, 1).await[0];
    world.runtime.pause("orders", "ada").await.unwrap();
    world.pass(SECOND).await;
    let _done = world.runtime.operate(id, &Action::Redrive(None), "bob").await.unwrap();
    world.pass(SECOND).await;
    world.runtime.note_change("eve", "sign in", "admin", "from the console").await.unwrap();
    let entries = world.runtime.audit(None, None, 10).await.unwrap().items;
    let told: Vec<_> = entries.iter().map(|it| (&*it.who, &*it.what, &*it.subject)).collect();
    let subject = id.to_string();
    assert_eq!(told, [("eve", "sign in", "admin"), ("bob", "redrive", &subject), ("ada", "pause", "orders")]);
    assert_eq!(world.runtime.audit(Some("orders"), None, 10).await.unwrap().items.len(), 1);
    assert!(world.queue_is_balanced().await);
}

#[tokio::test(start_paused = true)]
async fn entries_of_one_moment_are_told_in_their_order_too() {
    let (target, _) = told();
    let world = World::new(&target, []).await;
    let changes: Vec<_> = (0..8).map(|number| format!("change {number}")).collect();
    for what in &changes {
        world.runtime.note_change("ada", what, "orders", "").await.unwrap();
    }
    let entries = world.runtime.audit(None, None, 10).await.unwrap().items;
    assert!(entries.iter().rev().map(|it| &*it.what).eq(&changes), "{entries:?}");
}

#[tokio::test(start_paused = true)]
async fn everything_that_fails_with_one_error_can_be_stopped_at_once() {
    let (target, code) = told();
    code.store(503, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let ids = dead(&world, 5).await;
    let error = world.stored(ids[0]).await.value.error().unwrap().to_owned();
    let stopped =
        world.runtime.stop_errors(ErrorPrint::of(&error), "ada").await.unwrap().unwrap().finished().await;
    assert_eq!(stopped.done, 5);
    world.pass(SECOND * 3_600).await;
    assert_eq!(target.seen().len(), 5);
    code.store(200, Ordering::Relaxed);
    for id in ids {
        let _done = world.runtime.operate(id, &Action::Unpark, "ada").await.unwrap();
        world.pass(SECOND * 2).await;
        assert_eq!(world.status(id).await, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_gone_is_paused_by_the_runtime() {
    let (target, code) = told();
    code.store(410, Ordering::Relaxed);
    let answers = semel_runtime::deliver::Preset::StandardWebhooks;
    let world = World::new(&target, [semel_runtime::Function { answers, ..orders() }]).await;
    dead(&world, 1).await;
    assert!(world.runtime.status()[0].is_paused);
    let entries = world.runtime.audit(Some("orders"), None, 10).await.unwrap().items;
    assert_eq!((&*entries[0].who, &*entries[0].what), ("$runtime", "pause"));
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_gone_is_paused_although_the_queue_cannot_tell_at_first() {
    let (target, code) = told();
    code.store(410, Ordering::Relaxed);
    let answers = semel_runtime::deliver::Preset::StandardWebhooks;
    let world = World::new(&target, [semel_runtime::Function { answers, ..orders() }]).await;
    world.queue.fail(Method::Get, When::Before, 2);
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND / 2).await;
    assert_eq!((world.status(id).await, world.runtime.status()[0].is_paused), (Status::Failed, false));
    world.pass(SECOND * 10).await;
    assert!(world.runtime.status()[0].is_paused);
    let entries = world.runtime.audit(Some("orders"), None, 10).await.unwrap().items;
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[tokio::test(start_paused = true)]
async fn documents_are_shared_and_no_change_is_lost_under_another() {
    let (target, _) = told();
    let world = World::new(&target, []).await;
    let other = world.node(&target, []).await;
    assert_eq!(world.runtime.document("functions").await.unwrap(), None);
    let append = |before: Option<&[u8]>| Some([before.unwrap_or_default(), b"x"].concat());
    let ada = Auditing { who: "ada", what: "add", subject: "ship", detail: "one x" };
    for runtime in [&world.runtime, &other, &world.runtime] {
        runtime.change_document("functions", ada, append).await.unwrap();
    }
    let (one, two) = tokio::join!(
        world.runtime.change_document("functions", ada, append),
        other.change_document("functions", Auditing { who: "bob", ..ada }, append),
    );
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(other.document("functions").await.unwrap().as_deref(), Some(&b"xxxxx"[..]));
    let page = world.runtime.audit(Some("ship"), None, 10).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].detail.as_str()), (5, "one x"));
}
