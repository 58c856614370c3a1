//! Waiting for a call that somebody else runs.

use crate::support::{Fault, MINUTE, SECOND, World, crash, never, settle};
use semel::{Begin, Error, ErrorKind, HandlerError, How, OnBusy, Once, Outcome};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::task::JoinHandle;

fn waiting(world: &World, max: Duration) -> JoinHandle<Result<Outcome<u32>, Error>> {
    let call = world.call().on_busy(OnBusy::Wait { max });
    tokio::spawn(async move { call.run_outcome(async |_| Ok(99)).await })
}

#[tokio::test]
async fn waiters_are_woken_when_the_holder_finishes_without_any_time_passing() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let waiters: Vec<_> = (0..100).map(|_| waiting(&world, MINUTE)).collect();
    settle().await;
    lease.complete(&7).await.unwrap();
    settle().await;
    for waiter in waiters {
        assert!(waiter.is_finished(), "nobody told it, and no time has passed");
        let outcome = waiter.await.unwrap().unwrap();
        assert_eq!((outcome.value, outcome.how, outcome.waited), (7, How::Replayed, true));
    }
}

#[tokio::test]
async fn waiters_of_a_released_call_run_it_one_after_the_other() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let waiters: Vec<_> = (0..10).map(|_| waiting(&world, MINUTE)).collect();
    settle().await;
    lease.release("again").await.unwrap();
    settle().await;
    let mut ran = 0;
    for waiter in waiters {
        let outcome = waiter.await.unwrap().unwrap();
        assert_eq!((outcome.value, outcome.waited), (99, true));
        ran += u32::from(outcome.how == How::Retried);
    }
    assert_eq!(ran, 1, "the rest of them were given its result");
}

#[tokio::test]
async fn a_waiter_gives_up_when_its_time_is_over() {
    let world = World::new();
    let Begin::Run(_lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let waiter = waiting(&world, SECOND * 2);
    settle().await;
    for _ in 0..19 {
        world.clock.advance(Duration::from_millis(100));
        settle().await;
    }
    assert!(!waiter.is_finished());
    world.clock.advance(Duration::from_millis(100));
    settle().await;
    let error = waiter.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InProgress { .. }));
    assert!(error.is_transient());
}

#[tokio::test]
async fn who_rejects_is_told_at_once() {
    let world = World::new();
    let Begin::Run(_lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let error = world.call().on_busy(OnBusy::Reject).run(async |_| Ok(1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InProgress { .. }));
}

#[tokio::test]
async fn a_waiter_takes_over_when_the_lease_lapses() {
    let world = World::new();
    crash(world.call().run(async |_| never::<Result<u32, HandlerError>>().await));
    let waiter = waiting(&world, MINUTE * 2);
    let outcome = world.clock.drive(waiter).await.unwrap().unwrap();
    assert_eq!((outcome.value, outcome.how), (99, How::TakenOver));
    let waited = semel::Clock::monotonic(&world.clock);
    assert!((MINUTE..MINUTE + SECOND).contains(&waited), "it took over after {waited:?}");
}

#[tokio::test]
async fn a_holder_in_another_process_is_noticed_by_looking_now_and_then() {
    let world = World::new();
    // Another `Once` over the same store shares no memory with the first, as another process would not.
    let other = Once::from_store(world.store.clone());
    let Begin::Run(lease) = other.call("pay", "evt-1").begin().await.unwrap() else { panic!("it is fresh") };
    let waiters: Vec<_> = (0..50).map(|_| waiting(&world, MINUTE)).collect();
    settle().await;
    for _ in 0..20 {
        world.clock.advance(SECOND / 4);
        settle().await;
    }
    let loads = world.store.loads.load(Ordering::SeqCst);
    assert!(loads <= 50 + 20, "each looks once, and one of them for all after that: {loads}");
    lease.complete(&7).await.unwrap();
    settle().await;
    assert!(waiters.iter().all(|it| !it.is_finished()));
    world.clock.advance(SECOND / 4);
    settle().await;
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap().value, 7);
    }
}

#[tokio::test]
async fn another_waiter_looks_when_the_one_that_did_is_dropped() {
    let world = World::new();
    let other = Once::from_store(world.store.clone());
    let Begin::Run(lease) = other.call("pay", "evt-1").begin().await.unwrap() else { panic!("it is fresh") };
    let first = waiting(&world, MINUTE);
    settle().await;
    let second = waiting(&world, MINUTE);
    settle().await;
    first.abort();
    lease.complete(&7).await.unwrap();
    settle().await;
    world.clock.advance(SECOND / 4);
    settle().await;
    assert_eq!(second.await.unwrap().unwrap().value, 7);
}

#[tokio::test]
async fn a_store_that_stumbles_does_not_end_a_wait() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let waiter = waiting(&world, MINUTE);
    settle().await;
    world.store.script([Fault::After, Fault::Before]);
    world.clock.drive(lease.complete(&7)).await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().value, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_callers_on_many_threads_run_one_handler() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };
    let once = Once::memory();
    for round in 0..20 {
        let runs = Arc::new(AtomicU32::new(0));
        let callers = (0..50).map(|_| {
            let (once, runs) = (once.clone(), Arc::clone(&runs));
            tokio::spawn(async move {
                let call = once.call("storm", round).on_busy(OnBusy::Wait { max: MINUTE });
                call.run(async |_| {
                    tokio::task::yield_now().await;
                    Ok(runs.fetch_add(1, Ordering::SeqCst))
                })
                .await
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            assert_eq!(caller.await.unwrap().unwrap(), 0);
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}
