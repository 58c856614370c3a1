//! What fresh events get beside a backlog, whatever it is that binds: at least half of it, when there are enough of them (F17).
//!
//! A backlog waits. Then fresh events come, more than could be called, and their part of the calls is counted once they have
//! begun to find no room.

use super::{
    SECOND, World,
    crowd::{accept_all, of_kind},
    orders,
};
use crate::support::{
    clock::PausedClock,
    queue::SpyQueue,
    targets::{Target, status},
};
use semel_events::event::Event;
use semel_runtime::{Builder, Function, Rate, Runtime};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const BACKLOG: usize = 3_000;
/// How long a call takes.
const CALL: Duration = Duration::from_millis(100);
/// How often fresh events come where there are always enough of them. A place that was given back is empty for as long.
const OFTEN: Duration = Duration::from_millis(1);
/// How long fresh events come before they are counted.
const SETTLED: Duration = SECOND;

fn target() -> Arc<Target> {
    Target::new(|_| async {
        tokio::time::sleep(CALL).await;
        status(200, "")
    })
}

fn at_once(concurrency: u32) -> Function {
    Function { concurrency: concurrency.try_into().unwrap(), ..orders() }
}

fn with_rate(count: u32) -> Function {
    Function { rate: Rate::new(count, SECOND), ..at_once(100) }
}

/// A world in which a backlog waits for this function.
async fn backlogged(
    target: &Arc<Target>,
    function: Function,
    build: impl FnOnce(Builder) -> Builder,
    event: impl Fn(&str, usize) -> Event,
) -> World {
    let clock = PausedClock::new();
    let queue = Arc::new(SpyQueue::new(Arc::new(clock.clone())));
    let builder = build(Runtime::builder(queue.clone(), target.clone()).functions([function]).seed(7));
    let world = World { clock, queue, runtime: builder.start().await.unwrap() };
    world.runtime.pause("orders", "ada").await.unwrap();
    accept_all(&world, &(0..BACKLOG).map(|n| event("backlog", n)).collect::<Vec<_>>()).await;
    world.runtime.resume("orders", "ada").await.unwrap();
    world
}

/// Fresh events come one by one, this long after each other, for so long.
async fn fresh_come(
    world: &World,
    from: usize,
    every: Duration,
    time: Duration,
    event: impl Fn(&str, usize) -> Event,
) -> usize {
    let count = (time.as_nanos() / every.as_nanos()) as usize;
    for number in from..from + count {
        accept_all(world, &[event("fresh", number)]).await;
        world.pass(every).await;
    }
    from + count
}

/// How many calls there were while fresh events came, after they had settled, and how many of them were fresh.
async fn shared(
    world: &World,
    target: &Target,
    every: Duration,
    event: impl Fn(&str, usize) -> Event,
) -> (usize, usize) {
    let number = fresh_come(world, 0, every, SETTLED, &event).await;
    let before = target.ids().len();
    fresh_come(world, number, every, SECOND * 10, &event).await;
    let ids = &target.ids()[before..];
    (ids.iter().filter(|it| it.starts_with("fresh")).count(), ids.len())
}

/// At least half are fresh, but for the hundredth of its time that a place waits for the next of them; and the backlog goes on.
/// Where the two take turns, the count may end with one of the backlog.
fn assert_half((fresh, all): (usize, usize), at_least: usize) {
    println!("{fresh} of {all} were fresh");
    assert!(all >= at_least, "{all} calls, and there was room for more than {at_least}");
    assert!((fresh + 1) * 200 >= all * 99, "{fresh} of {all} were fresh");
    assert!(fresh * 10 <= all * 8, "{fresh} of {all} were fresh: the backlog does not drain");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_leaves_half_of_the_places_to_fresh_events() {
    let target = target();
    let world = backlogged(&target, at_once(10), |it| it, of_kind).await;
    assert_half(shared(&world, &target, OFTEN, of_kind).await, 950);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_leaves_half_of_the_rate_to_fresh_events() {
    for rate in [10, 40, 100, 500] {
        let target = target();
        let world = backlogged(&target, with_rate(rate), |it| it, of_kind).await;
        let every = SECOND.div_f64(f64::from(rate) * 1.9).max(Duration::from_millis(1));
        assert_half(shared(&world, &target, every, of_kind).await, rate as usize * 9);
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_events_that_want_less_than_half_of_the_rate_are_called_when_they_come() {
    let target = target();
    let world = backlogged(&target, with_rate(100), |it| it, of_kind).await;
    let (fresh, all) = shared(&world, &target, SECOND / 40, of_kind).await;
    assert!(fresh >= 390, "{fresh} of 400 were called when they came");
    assert!(all >= 950, "{all} calls: the backlog does not get the rest");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_has_all_of_the_rate_where_there_are_no_fresh_events() {
    for rate in [10, 100, 300] {
        let target = target();
        let world = backlogged(&target, with_rate(rate), |it| it, of_kind).await;
        // A node that was just started claims little at first.
        world.pass(SECOND * 4).await;
        let before = target.seen().len();
        world.pass(SECOND * 5).await;
        let calls = target.seen().len() - before;
        assert!(calls * 100 >= rate as usize * 5 * 95, "{calls} calls in five seconds at {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_leaves_half_of_the_nodes_budget_to_fresh_events() {
    let target = target();
    let world = backlogged(&target, at_once(64), |it| it.in_flight_max(8), of_kind).await;
    assert_half(shared(&world, &target, OFTEN, of_kind).await, 550);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_leaves_half_of_the_memory_to_fresh_events() {
    const LARGE: usize = 20_000;
    let large = |kind: &str, id: usize| {
        Event::builder(format!("{kind}-{id}"), "/shop", kind).data(vec![7; LARGE]).build().unwrap()
    };
    let target = target();
    let world = backlogged(&target, at_once(64), |it| it.memory_max(LARGE * 11), large).await;
    assert_half(shared(&world, &target, OFTEN, large).await, 900);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_larger_than_the_memory_is_delivered_all_the_same() {
    let large = Event::builder("evt-1", "/shop", "t").data(vec![7; 50_000]).build().unwrap();
    let target = target();
    let clock = PausedClock::new();
    let queue = Arc::new(SpyQueue::new(Arc::new(clock.clone())));
    let builder = Runtime::builder(queue.clone(), target.clone()).memory_max(10_000).functions([orders()]);
    let world = World { clock, queue, runtime: builder.start().await.unwrap() };
    accept_all(&world, &[large]).await;
    world.pass(SECOND * 3).await;
    assert_eq!(target.seen().len(), 1);
}

/// A target that was down while a backlog grew is on its way back: at every height of its ramp, half is for fresh events.
#[tokio::test(start_paused = true)]
async fn a_backlog_leaves_half_of_the_ramp_after_an_outage_to_fresh_events() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let target = Target::new(move |_| {
        let code = if up.load(Ordering::Relaxed) { 200 } else { 503 };
        async move {
            tokio::time::sleep(CALL).await;
            status(code, "")
        }
    });
    for (function, at_least) in
        [(at_once(20), 10), (Function { rate: Rate::new(20, SECOND), ..at_once(20) }, 10)]
    {
        is_up.store(false, Ordering::Relaxed);
        let world = backlogged(&target, function, |it| it, of_kind).await;
        world.pass(SECOND * 120).await;
        assert_ne!(world.runtime.status()[0].breaker.as_str(), "closed");
        is_up.store(true, Ordering::Relaxed);
        let (mut number, mut fresh_of_all, mut all) = (0, 0, 0);
        while world.runtime.status()[0].breaker.as_str() != "closed" {
            number = fresh_come(&world, number, CALL / 2, CALL, of_kind).await;
        }
        for seconds in 0..30 {
            let before = target.ids().len();
            number = fresh_come(&world, number, OFTEN, SECOND, of_kind).await;
            let ids = &target.ids()[before..];
            let fresh = ids.iter().filter(|it| it.starts_with("fresh")).count();
            println!("second {seconds} of the ramp: {fresh} of {}", ids.len());
            assert!(ids.len() >= at_least, "second {seconds}: {} calls", ids.len());
            // It rises meanwhile, and a second may end before the fresh events have had their part of that.
            assert!(fresh * 100 >= ids.len() * 45, "second {seconds} of the ramp: {fresh} of {}", ids.len());
            (fresh_of_all, all) = (fresh_of_all + fresh, all + ids.len());
        }
        assert!(fresh_of_all * 100 >= all * 49, "{fresh_of_all} of {all} in the whole ramp");
    }
}
