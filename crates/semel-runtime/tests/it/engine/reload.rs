//! Functions that are changed while they are at work.

use super::{SECOND, World, crowd::of_kind, event, orders};
use crate::support::targets::{Target, at, status};
use http::HeaderMap;
use semel_core::record::Status;
use semel_runtime::{Function, Rate, Receipt};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Answers 503 after this time where the path says that it is broken.
fn broken_after(time: Duration) -> std::sync::Arc<Target> {
    Target::new(move |delivery| async move {
        let is_broken = delivery.target.uri().path() == "/broken";
        if is_broken {
            tokio::time::sleep(time).await;
        }
        status(if is_broken { 503 } else { 200 }, "")
    })
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_aimed_at_a_mended_target_is_called_at_once() {
    let target = broken_after(Duration::ZERO);
    let world = World::new(&target, [Function { aim: at("broken"), ..orders() }]).await;
    for number in 0..50 {
        world.accept(&event(&format!("evt-{number}"))).await;
    }
    world.pass(SECOND * 300).await;
    assert_ne!(world.runtime.status()[0].breaker.as_str(), "closed");
    world.runtime.replace(vec![Function { aim: at("mended"), ..orders() }]).unwrap();
    let (id, _) = world.accept(&event("evt-new")).await;
    world.pass(SECOND / 10).await;
    assert_eq!(world.status(id).await, Status::Completed);
    assert_eq!(world.runtime.status()[0].breaker.as_str(), "closed");
    world.runtime.replace(vec![Function { concurrency: 3.try_into().unwrap(), ..orders() }]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_down_is_left_alone_after_a_reload_that_does_not_change_it() {
    let target = broken_after(Duration::ZERO);
    let broken = || Function { aim: at("broken"), ..orders() };
    let world = World::new(&target, [broken()]).await;
    for number in 0..50 {
        world.accept(&event(&format!("evt-{number}"))).await;
    }
    world.pass(SECOND * 300).await;
    let breaker = world.runtime.status()[0].breaker;
    assert_ne!(breaker.as_str(), "closed");
    world.runtime.replace(vec![Function { concurrency: 3.try_into().unwrap(), ..broken() }]).unwrap();
    assert_eq!(world.runtime.status()[0].breaker, breaker);
}

/// What hung at the old target fails after the reload, all at once.
#[tokio::test(start_paused = true)]
async fn what_calls_of_the_old_target_find_out_says_nothing_of_the_new_one() {
    let target = broken_after(SECOND * 20);
    let world = World::new(&target, [Function { aim: at("broken"), ..orders() }]).await;
    for number in 0..16 {
        world.accept(&event(&format!("evt-{number}"))).await;
    }
    world.pass(SECOND).await;
    assert_eq!(target.seen().len(), 16);
    world.runtime.replace(vec![Function { aim: at("mended"), ..orders() }]).unwrap();
    world.pass(SECOND * 20).await;
    assert_eq!(world.runtime.status()[0].breaker.as_str(), "closed");
    let (id, _) = world.accept(&event("evt-new")).await;
    world.pass(SECOND / 10).await;
    assert_eq!(world.status(id).await, Status::Completed);
}

/// A rate that was slow does not keep the next one waiting.
#[tokio::test(start_paused = true)]
async fn a_function_with_another_rate_is_called_at_that() {
    let target = Target::fine();
    let world = World::new(&target, [Function { rate: Rate::new(1, SECOND * 3_600), ..orders() }]).await;
    for number in 0..20 {
        world.accept(&event(&format!("evt-{number}"))).await;
    }
    world.pass(SECOND * 5).await;
    assert_eq!(target.seen().len(), 1);
    world.runtime.replace(vec![Function { rate: Rate::new(10, SECOND), ..orders() }]).unwrap();
    world.pass(SECOND * 5).await;
    assert_eq!(target.seen().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_reload_under_load_loses_nothing_and_runs_nothing_twice() {
    let target = Target::new(|_| async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        status(200, "")
    });
    let other = || Function { aim: at("elsewhere"), ..super::function("other") };
    let world = World::new(&target, [orders(), other()]).await;
    let mut ids = BTreeSet::new();
    for round in 0..300 {
        let events: Vec<_> = (0..5).map(|it| of_kind("order.created", round * 5 + it)).collect();
        for receipt in world.runtime.accept(&events, &HeaderMap::new()).await.unwrap() {
            let Receipt::Taken(taken) = receipt else { panic!("{receipt:?}") };
            ids.extend(taken.iter().map(|it| it.id));
        }
        world.pass(Duration::from_millis(7)).await;
        let concurrency = (1 + round as u32 % 20).try_into().unwrap();
        let rate = (round % 4 == 0).then(|| Rate::new(500, SECOND)).flatten();
        let changed = Function { aim: at(&format!("orders-{}", round % 3)), concurrency, rate, ..orders() };
        // Every other time, one of the two is not there.
        let others = (round % 2 == 0).then(other);
        world.runtime.replace([changed].into_iter().chain(others).collect()).unwrap();
    }
    world.runtime.replace(vec![orders(), other()]).unwrap();
    world.pass(SECOND * 120).await;
    for id in &ids {
        assert_eq!(world.status(*id).await, Status::Completed, "{id}");
    }
    let mut calls = BTreeMap::<_, u32>::new();
    for seen in target.seen() {
        *calls.entry(seen.key).or_default() += 1;
    }
    assert!(ids.len() > 2_000, "{} executions", ids.len());
    assert!(calls.len() == ids.len() && calls.values().all(|it| *it == 1), "{} keys, {calls:?}", ids.len());
    assert!(world.queue_is_balanced().await);
}

/// This node cannot sign for it, say, and another one can.
#[tokio::test(start_paused = true)]
async fn what_comes_for_a_function_that_is_held_waits_for_another_node() {
    let target = Target::new(|_| std::future::ready(status(200, "")));
    let world = World::new(&target, [Function { is_held: true, ..orders() }]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
    let _other = world.node(&target, [orders()]).await;
    world.pass(SECOND * 10).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Completed, 1));
}
