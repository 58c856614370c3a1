//! Events that their function never took.

use super::{SECOND, World, event, function, orders};
use crate::support::targets::{Target, at, status};
use semel_core::{
    execution::ExecutionId,
    key::Key,
    queue::{Filter, Queue},
    record::{Reason, Status},
};
use semel_runtime::function::CONCURRENCY_MAX;
use semel_runtime::{Action, Aim, DeadLetter, Function, FunctionsError, Operated, Runtime};

fn refusing() -> std::sync::Arc<Target> {
    Target::new(|delivery| async move {
        if delivery.target.uri().path() == "/orders" { status(422, "no") } else { status(200, "") }
    })
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_goes_through_the_function_that_was_named() {
    let target = refusing();
    let undertaker = Function { filter: Some(never()), ..function("undertaker") };
    let dead_letter = DeadLetter::Function("undertaker".parse().unwrap());
    let world = World::new(&target, [Function { dead_letter, ..orders() }, undertaker]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 3).await;
    assert!(world.stored(id).await.value.is_dead_letter());
    let forward = ExecutionId::of(&Key::new("undertaker", ("orders", id.to_string(), 0)).unwrap());
    assert_eq!(world.status(forward).await, Status::Completed);
    assert_eq!(target.ids(), ["evt-1", "evt-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_goes_to_a_url_and_again_if_it_is_redriven_and_dies_again() {
    let target = refusing();
    let Aim::Url(url) = at("graveyard") else { panic!("a URL") };
    let world = World::new(&target, [Function { dead_letter: DeadLetter::Url(url), ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 3).await;
    let redriven = world.runtime.operate(id, &Action::Redrive(None), "ada").await.unwrap();
    assert!(matches!(redriven, Operated::Done(_)), "{redriven:?}");
    world.pass(SECOND * 3).await;
    let filter = Filter { function: Some("$dead-letter.orders".into()), ..Filter::default() };
    let forwards = world.queue.inner.list(&filter, None, 10).await.unwrap().items;
    assert_eq!(forwards.iter().map(|it| it.value.status()).collect::<Vec<_>>(), [Status::Completed; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_forgets_keeps_the_fact_and_not_the_event() {
    let world = World::new(&refusing(), [Function { dead_letter: DeadLetter::Forget, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let stored = world.stored(id).await.value;
    assert_eq!((stored.phase.reason(), stored.event), (Some(Reason::Fatal), None));
}

#[tokio::test(start_paused = true)]
async fn functions_whose_dead_letters_lead_nowhere_or_in_a_circle_are_refused() {
    let named = |name: &str, to: &str| Function {
        dead_letter: DeadLetter::Function(to.parse().unwrap()),
        ..function(name)
    };
    let world = World::new(&Target::fine(), []).await;
    let refused = |functions| Runtime::replace(&world.runtime, functions).unwrap_err();
    assert!(matches!(refused(vec![named("a", "b")]), FunctionsError::NoDeadLetter { .. }));
    assert!(matches!(refused(vec![named("a", "a")]), FunctionsError::Loop(_)));
    assert!(matches!(refused(vec![named("a", "b"), named("b", "a")]), FunctionsError::Loop(_)));
    assert!(matches!(refused(vec![function("a"), function("a")]), FunctionsError::Twice(_)));
    let too_many = Function { concurrency: (CONCURRENCY_MAX + 1).try_into().unwrap(), ..function("a") };
    assert!(matches!(refused(vec![too_many]), FunctionsError::Concurrency(_)));
}

fn never() -> semel_events::filter::Filter {
    use semel_events::filter::{Compare, Filter};
    Filter::compare(Compare::Exact, "type", "never").unwrap()
}
