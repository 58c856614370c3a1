//! Many events, several functions, targets that hang or are down.

use super::{SECOND, World, event, function, orders};
use crate::support::{
    clock::PausedClock,
    queue::{Method, SpyQueue},
    targets::{Target, status},
};
use http::HeaderMap;
use semel_core::record::Status;
use semel_events::{
    event::Event,
    filter::{Compare, Filter},
};
use semel_runtime::{Entry, Function, Rate, Receipt, Refused, Runtime, Waiting};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

pub(super) fn of_kind(kind: &str, id: usize) -> Event {
    Event::builder(format!("{kind}-{id}"), "/shop", kind).build().unwrap()
}

fn taking(kind: &str) -> Function {
    Function { filter: Some(Filter::compare(Compare::Exact, "type", kind).unwrap()), ..function(kind) }
}

pub(super) async fn accept_all(world: &World, events: &[Event]) {
    let receipts = world.runtime.accept(events, &HeaderMap::new()).await.unwrap();
    assert!(receipts.iter().all(|it| matches!(it, Receipt::Taken(_))), "{receipts:?}");
}

/// Hangs on one path, answers on the others after a moment.
fn hanging() -> Arc<Target> {
    Target::new(|delivery| async move {
        let is_hanging = delivery.target.uri().path() == "/hangs";
        tokio::time::sleep(if is_hanging { delivery.timeout } else { Duration::from_millis(10) }).await;
        status(if is_hanging { 504 } else { 200 }, "")
    })
}

/// Nobody looks again within half a second of having looked, unless told.
#[tokio::test(start_paused = true)]
async fn what_another_node_left_is_looked_for_when_it_says_so_and_by_the_clock_if_it_does_not() {
    const HALF: Duration = Duration::from_millis(500);
    let world = World::new(&Target::fine(), [orders()]).await;
    world.pass(HALF / 10).await;
    let looked = world.queue.calls(Method::Claim);
    world.pass(HALF).await;
    assert_eq!(world.queue.calls(Method::Claim), looked, "there was no reason to");
    world.queue.left.notify_one();
    world.pass(HALF / 10).await;
    assert_eq!(world.queue.calls(Method::Claim), looked + 1, "it was told");
    world.pass(SECOND).await;
    assert_eq!(world.queue.calls(Method::Claim), looked + 2, "by the clock");
}

type Told = Result<Vec<Receipt>, Refused>;

/// A hundred send at once, a hundred events each. How many of them were told to come again.
async fn refused_of_a_hundred(world: &World, round: &str) -> usize {
    refused(crowd(world, round)).await
}

fn crowd(world: &World, round: &str) -> Vec<JoinHandle<Told>> {
    let sent = (0..100).map(|sender| {
        let events: Vec<_> = (0..100).map(|id| event(&format!("{round}-{sender}-{id}"))).collect();
        let runtime = world.runtime.clone();
        tokio::spawn(async move { runtime.accept(&events, &HeaderMap::new()).await })
    });
    sent.collect()
}

async fn refused(told: Vec<JoinHandle<Told>>) -> usize {
    let mut refused = 0;
    for told in told {
        match told.await.unwrap() {
            Ok(receipts) => assert!(receipts.iter().all(|it| matches!(it, Receipt::Taken(_)))),
            Err(Refused::Busy { retry_after }) if retry_after > Duration::ZERO => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    refused
}

/// Its senders would give up, and send what is written all the same once more.
#[tokio::test(start_paused = true)]
async fn a_slow_queue_is_waited_for_by_fewer_and_by_everybody_when_it_is_quick_again() {
    let world = World::new(&Target::fine(), [orders()]).await;
    world.queue.delay(Method::Accept, SECOND * 4);
    let first = crowd(&world, "first");
    world.pass(SECOND * 5).await;
    let waiting = world.runtime.waiting();
    assert!(waiting.now > waiting.limit && waiting.limit < Waiting::MAX, "{waiting:?}");
    assert_eq!(refused_of_a_hundred(&world, "early").await, 100, "more than half of the first wait");
    assert_eq!(refused(first).await, 0, "who was let in is not sent away");
    let second = refused_of_a_hundred(&world, "second").await;
    let third = refused_of_a_hundred(&world, "third").await;
    assert!((40..60).contains(&second) && (65..85).contains(&third), "{second}, then {third}");

    world.queue.delay(Method::Accept, Duration::ZERO);
    for round in 0..10 {
        refused_of_a_hundred(&world, &format!("quick-{round}")).await;
    }
    assert_eq!(refused_of_a_hundred(&world, "last").await, 0);
    assert_eq!(world.runtime.waiting().now, 0);
}

/// The answer to a claim may be older than what was accepted while it was on its way.
#[tokio::test(start_paused = true)]
async fn what_comes_while_the_queue_is_asked_does_not_wait_for_the_next_look() {
    const ON_ITS_WAY: Duration = Duration::from_millis(100);
    let target = Target::fine();
    let in_order = Function { order: Some("id".parse().unwrap()), ..orders() };
    let world = World::new(&target, [in_order]).await;
    world.queue.delay(Method::Claim, ON_ITS_WAY);
    world.pass(ON_ITS_WAY).await;
    let looked = world.queue.calls(Method::Claim);
    while world.queue.calls(Method::Claim) == looked {
        world.pass(Duration::from_millis(1)).await;
    }
    world.accept(&event("evt-1")).await;
    world.pass(ON_ITS_WAY * 3).await;
    assert_eq!(target.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_hangs_does_not_slow_another() {
    let mut ends = Vec::new();
    for hangs in [0, 2_000] {
        let world = World::new(&hanging(), [taking("hangs"), taking("works")]).await;
        accept_all(&world, &(0..hangs).map(|n| of_kind("hangs", n)).collect::<Vec<_>>()).await;
        world.pass(SECOND * 10).await;
        let began = tokio::time::Instant::now();
        for n in 0..500 {
            accept_all(&world, &[of_kind("works", n)]).await;
        }
        while world.runtime.status().iter().find(|it| &*it.function == "works").unwrap().totals.completed
            < 500
        {
            world.pass(Duration::from_millis(1)).await;
        }
        ends.push(began.elapsed());
    }
    assert!(ends[1] <= ends[0].mul_f64(1.2), "alone {:?}, beside one that hangs {:?}", ends[0], ends[1]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_down_is_left_alone_and_found_again_when_it_is_back() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let target = Target::new(move |_| {
        std::future::ready(status(if up.load(Ordering::Relaxed) { 200 } else { 503 }, ""))
    });
    let world = World::new(&target, [orders()]).await;
    accept_all(&world, &(0..200).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    world.pass(SECOND * 600).await;
    let calls = target.seen().len();
    assert!(calls < 200, "{calls} calls to a target that is down");
    assert_ne!(world.runtime.status()[0].breaker.as_str(), "closed");
    is_up.store(true, Ordering::Relaxed);
    world.pass(SECOND * 700).await;
    assert_eq!(world.runtime.status()[0].breaker.as_str(), "closed");
    assert_eq!(world.runtime.status()[0].totals.completed, 200);
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_over_time() {
    let target = Target::fine();
    let world = World::new(&target, [Function { rate: Rate::new(10, SECOND), ..orders() }]).await;
    accept_all(&world, &(0..200).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    for seconds in 1..=10 {
        world.pass(SECOND).await;
        let seen = target.seen().len();
        assert!(seen <= 1 + seconds * 10, "{seen} after {seconds} s");
        assert!(seen >= seconds * 9, "{seen} after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_never_exceeded() {
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let most_seen = Arc::clone(&most);
    let target = Target::new(move |_| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            status(200, "")
        }
    });
    let world = World::new(&target, [Function { concurrency: 7.try_into().unwrap(), ..orders() }]).await;
    accept_all(&world, &(0..300).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    world.pass(SECOND * 20).await;
    assert_eq!((most_seen.load(Ordering::Relaxed), target.seen().len()), (7, 300));
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_duplicates_costs_one_run_and_no_calls_of_the_queue() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, "")
    });
    let world = World::new(&target, [orders()]).await;
    let (id, _) = world.accept(&event("evt-1")).await;
    tokio::task::yield_now().await;
    let accepts = world.queue.calls(Method::Accept);
    for _ in 0..10_000 {
        let (_, entry) = world.accept(&event("evt-1")).await;
        assert!(matches!(entry, Entry::Duplicate { status: Status::InProgress, .. }));
    }
    assert_eq!(world.queue.calls(Method::Accept), accepts);
    world.pass(SECOND * 5).await;
    assert_eq!(target.seen().len(), 1);
    assert_eq!(world.stored(id).await.value.repeats.same, 10_000);
}

#[tokio::test(start_paused = true)]
async fn many_who_come_at_once_share_few_calls_of_the_queue() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    let events: Vec<_> = (0..500).map(|n| of_kind("order.created", n)).collect();
    let headers = HeaderMap::new();
    let all = events.iter().map(|it| world.runtime.accept(std::slice::from_ref(it), &headers));
    let all: Vec<_> = all.map(Box::pin).collect();
    for accepted in join_all(all).await {
        assert!(accepted.is_ok());
    }
    let calls = world.queue.calls(Method::Accept);
    assert!(calls <= 8, "{calls} calls for 500 events that came at once");
    world.pass(SECOND * 30).await;
    assert_eq!(target.seen().len(), 500);
}

async fn join_all<F: Future + Unpin>(mut all: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in all.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *slot = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_removed_keeps_what_was_accepted_until_it_is_back() {
    let target = Target::fine();
    let world = World::new(&target, [orders()]).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let (id, _) = world.accept(&event("evt-1")).await;
    world.runtime.replace(vec![]).unwrap();
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND * 60).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Pending, 0));
    world.runtime.replace(vec![orders()]).unwrap();
    world.pass(SECOND * 2).await;
    assert_eq!((world.status(id).await, target.seen().len()), (Status::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_just_started_claims_little_at_first() {
    let target = Target::new(|_| std::future::pending());
    let world = World::new(&target, [orders()]).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    accept_all(&world, &(0..300).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    world.runtime.crash();
    let other = world.node(&target, [Function { concurrency: 300.try_into().unwrap(), ..orders() }]).await;
    other.resume("orders", "ada").await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        world.pass(Duration::from_millis(990)).await;
        seen.push(target.seen().len());
    }
    assert_eq!(seen[..4], [16, 32, 64, 128]);
    assert!(seen[4] >= 200, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_memory_wait_in_the_queue_and_are_delivered_later() {
    let target = Target::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, "")
    });
    let clock = PausedClock::new();
    let queue = Arc::new(SpyQueue::new(Arc::new(clock.clone())));
    let builder = Runtime::builder(queue.clone(), target.clone()).memory_max(100_000).functions([orders()]);
    let world = World { clock, queue, runtime: builder.seed(7).start().await.unwrap() };
    let large = |n: usize| {
        Event::builder(format!("evt-{n}"), "/shop", "order.created").data(vec![7; 40_000]).build().unwrap()
    };
    accept_all(&world, &(0..10).map(large).collect::<Vec<_>>()).await;
    world.pass(Duration::from_millis(500)).await;
    assert_eq!(target.seen().len(), 2);
    world.pass(SECOND * 30).await;
    assert_eq!(target.seen().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_purged() {
    let target = Target::fine();
    let policy = orders().policy.with_retention(SECOND * 600).unwrap();
    let world = World::new(&target, [Function { policy, ..orders() }]).await;
    accept_all(&world, &(0..600).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    world.pass(SECOND * 300).await;
    assert!(world.queue.inner.len() >= 600);
    world.pass(SECOND * 600).await;
    assert!(world.queue.inner.is_empty(), "{} are left", world.queue.inner.len());
    assert!(world.queue_is_balanced().await);
}

/// Retention is each function's own: the one that forgets first takes nothing of its neighbour's with it.
#[tokio::test(start_paused = true)]
async fn two_functions_side_by_side_remember_each_as_long_as_it_says() {
    let keeping = |name: &str, minutes: u32| {
        let policy = orders().policy.with_retention(SECOND * 60 * minutes).unwrap();
        Function { policy, ..function(name) }
    };
    let world = World::new(&Target::fine(), [keeping("long", 60), keeping("short", 10)]).await;
    accept_all(&world, &(0..50).map(|n| of_kind("order.created", n)).collect::<Vec<_>>()).await;
    world.pass(SECOND * 60).await;
    let left = async || {
        let counts = world.runtime.counts().await.unwrap();
        ["long", "short"].map(|name| {
            let of = counts.iter().find(|it| &*it.function == name).unwrap();
            (of.completed, of.purged)
        })
    };
    assert_eq!(left().await, [(50, 0), (50, 0)]);
    world.pass(SECOND * 60 * 20).await;
    assert_eq!(left().await, [(50, 0), (0, 50)]);
    world.pass(SECOND * 60 * 60).await;
    assert_eq!(left().await, [(0, 50), (0, 50)]);
    assert!(world.queue_is_balanced().await);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_is_called_in_order_is_not_called_while_a_sender_waits() {
    let order = Some("type".parse().unwrap());
    let world = World::new(&Target::fine(), [Function { order, ..orders() }]).await;
    let refused = world.runtime.call(&event("evt-1"), &HeaderMap::new()).await;
    assert!(matches!(refused, Err(Refused::InOrder { .. })), "{refused:?}");
    assert!(world.queue.inner.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_hardly_asks_the_queue() {
    let world = World::new(&Target::fine(), [orders()]).await;
    world.pass(SECOND * 100).await;
    let calls: u32 = [Method::Accept, Method::Claim, Method::Write, Method::Get, Method::List]
        .into_iter()
        .map(|it| world.queue.calls(it))
        .sum();
    assert!(calls <= 155, "{calls} calls in a hundred seconds");
}
