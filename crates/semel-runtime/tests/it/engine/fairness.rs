//! What a neighbour does to a function: nothing that could be measured.
//!
//! 1. The same traffic goes to a function that works and to its neighbour, which works too, hangs or fails.
//! 2. Each event of the one that works is timed, from when it came to when its function is called. Time is tokio's, so
//!    that only what waits for something takes any.

use super::{World, function};
use crate::support::{
    queue::Method,
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::{execution::ExecutionId, record::Status, retry::RetryPolicy};
use semel_events::{
    event::Event,
    filter::{Compare, Filter},
};
use semel_runtime::{Function, Receipt, deliver::Delivery};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const EVENTS: usize = 1_500;
/// Of the neighbour, before the first event of the one that works.
const BACKLOG: usize = 500;
const CALL: Duration = Duration::from_millis(10);
/// How long the queue takes for anything.
const QUEUE: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_millis(1);

/// What the neighbour does with its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Neighbour {
    Works,
    Hangs,
    /// It is in trouble, and soon left alone.
    Fails,
    /// It takes none of its events, and is asked again and again.
    Refuses,
}

fn taking(kind: &str) -> Function {
    let filter = Some(Filter::compare(Compare::Exact, "type", kind).unwrap());
    // Tried again at once, which is the worst that it can do to others.
    Function { filter, policy: RetryPolicy::immediate(), ..function(kind) }
}

fn of_kind(kind: &str, id: usize) -> Event {
    Event::builder(format!("{kind}-{id}"), "/shop", kind).build().unwrap()
}

type Times = Arc<Mutex<HashMap<String, Instant>>>;

fn target(neighbour: Neighbour, called: &Times) -> Arc<Target> {
    let called = Arc::clone(called);
    Target::new(move |delivery: Delivery| {
        let id = delivery.headers["ce-id"].to_str().unwrap().to_owned();
        called.lock().unwrap().entry(id).or_insert_with(Instant::now);
        async move {
            let manner = match delivery.target.uri().path() {
                "/works" => Neighbour::Works,
                _ => neighbour,
            };
            sleep(if manner == Neighbour::Hangs { delivery.timeout } else { CALL }).await;
            status(
                match manner {
                    Neighbour::Works => 200,
                    Neighbour::Hangs => 504,
                    Neighbour::Fails => 500,
                    Neighbour::Refuses => 409,
                },
                "",
            )
        }
    })
}

async fn accept(world: &World, events: &[Event]) -> ExecutionId {
    let receipts = world.runtime.accept(events, &HeaderMap::new()).await.unwrap();
    let Some(Receipt::Taken(taken)) = receipts.first() else { panic!("{receipts:?}") };
    taken[0].id
}

/// The 99th percentile of the times until the function that works was called.
async fn p99(neighbour: Neighbour) -> Duration {
    let called = Times::default();
    let world = World::new(&target(neighbour, &called), [taking("neighbour"), taking("works")]).await;
    for method in [Method::Accept, Method::Claim, Method::Write] {
        world.queue.delay(method, QUEUE);
    }
    let backlog: Vec<_> = (EVENTS..EVENTS + BACKLOG).map(|it| of_kind("neighbour", it)).collect();
    accept(&world, &backlog).await;
    world.pass(CALL * 20).await;
    let (mut came, mut ids) = (Vec::new(), Vec::new());
    for number in 0..EVENTS {
        came.push(Instant::now());
        let (works, other) = ([of_kind("works", number)], [of_kind("neighbour", number)]);
        let (id, _) = tokio::join!(accept(&world, &works), accept(&world, &other));
        ids.push(id);
        world.pass(PAUSE).await;
    }
    world.pass(CALL * 20).await;
    for id in ids {
        assert_eq!(world.status(id).await, Status::Completed, "beside a neighbour that {neighbour:?}");
    }
    let called = called.lock().unwrap();
    let mut times: Vec<_> =
        came.iter().enumerate().map(|(it, came)| called[&format!("works-{it}")] - *came).collect();
    times.sort_unstable();
    times[EVENTS * 99 / 100]
}

/// Invariant 23: the 99th percentile of one function stays within a fifth, whatever another's target does.
#[tokio::test(start_paused = true)]
async fn a_neighbour_that_hangs_or_fails_does_not_move_the_99th_percentile() {
    let beside_one_that_works = p99(Neighbour::Works).await;
    assert!(beside_one_that_works >= QUEUE, "an event is durable first: {beside_one_that_works:?}");
    for neighbour in [Neighbour::Hangs, Neighbour::Fails, Neighbour::Refuses] {
        let found = p99(neighbour).await;
        println!("{neighbour:?}: {found:?}, and {beside_one_that_works:?} beside one that works");
        assert!(found <= beside_one_that_works.mul_f64(1.2), "{neighbour:?}: {found:?}");
    }
}

/// What comes in the same millisecond as each event that is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storm {
    /// One other event.
    Calm,
    /// One event, again and again.
    OneKey,
    /// Other events, each of them twice at once.
    Pairs,
}

impl Storm {
    fn events(self, number: usize) -> Vec<Event> {
        match self {
            Self::Calm => vec![of_kind("neighbour", number)],
            Self::OneKey => vec![of_kind("neighbour", 0); 20],
            Self::Pairs => (0..10).map(|it| of_kind("neighbour", number * 5 + it / 2)).collect(),
        }
    }
}

/// The 99th percentile of the times until the function that works was called, in a storm of duplicates.
async fn p99_in(storm: Storm) -> Duration {
    let called = Times::default();
    let functions = [taking("neighbour"), taking("works")];
    let world = World::new(&target(Neighbour::Works, &called), functions).await;
    for method in [Method::Accept, Method::Claim, Method::Write] {
        world.queue.delay(method, QUEUE);
    }
    let mut came = Vec::new();
    let mut storming = tokio::task::JoinSet::new();
    for number in 0..EVENTS {
        came.push(Instant::now());
        for event in storm.events(number) {
            let runtime = world.runtime.clone();
            storming.spawn(async move { runtime.accept(&[event], &HeaderMap::new()).await.is_ok() });
        }
        accept(&world, &[of_kind("works", number)]).await;
        world.pass(PAUSE).await;
    }
    assert!(storming.join_all().await.into_iter().all(|it| it), "somebody was sent away");
    world.pass(CALL * 20).await;
    let called = called.lock().unwrap();
    let mut times: Vec<_> =
        came.iter().enumerate().map(|(it, came)| called[&format!("works-{it}")] - *came).collect();
    times.sort_unstable();
    times[EVENTS * 99 / 100]
}

/// F13.
#[tokio::test(start_paused = true)]
async fn a_storm_of_duplicates_at_most_doubles_the_99th_percentile_of_other_keys() {
    let calm = p99_in(Storm::Calm).await;
    assert!(calm >= QUEUE, "an event is durable first: {calm:?}");
    for storm in [Storm::OneKey, Storm::Pairs] {
        let found = p99_in(storm).await;
        println!("{storm:?}: {found:?}, and {calm:?} without");
        assert!(found <= calm * 2, "{storm:?}: {found:?}, and {calm:?} without");
    }
}
