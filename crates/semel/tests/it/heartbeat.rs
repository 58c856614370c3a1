//! Leases that are renewed, and lost.

use crate::support::{Fault, MINUTE, SECOND, World, never, settle};
use semel::{
    Begin, BoxFuture, Clock, Error, ErrorKind, HandlerError, How, Lease, MemoryStore, OnBusy, Once, Timestamp,
};
use semel_testkit::ManualClock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinHandle};

/// A handler that works until it is told to stop, and says whether it was dropped before.
fn working(world: &World) -> (JoinHandle<Result<u32, Error>>, oneshot::Sender<u32>, Arc<AtomicBool>) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (stop, stopped) = oneshot::channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let call = world.call();
    let noted = Arc::clone(&dropped);
    let task = tokio::spawn(async move {
        call.run(async move |_: &Lease| {
            let guard = Dropped(noted);
            let value = stopped.await?;
            std::mem::forget(guard);
            Ok(value)
        })
        .await
    });
    (task, stop, dropped)
}

/// Lets time pass in steps that a heartbeat can follow.
async fn pass(world: &World, duration: Duration) {
    let end = world.clock.monotonic() + duration;
    while world.clock.monotonic() < end {
        world.clock.advance(SECOND);
        settle().await;
    }
}

#[tokio::test]
async fn a_handler_may_work_for_longer_than_its_lease() {
    let world = World::new();
    let (task, stop, dropped) = working(&world);
    settle().await;
    pass(&world, MINUTE * 10).await;
    let busy = world.call().on_busy(OnBusy::Reject).run(async |_| Ok(0)).await.unwrap_err();
    assert!(matches!(busy.kind(), ErrorKind::InProgress { .. }));
    stop.send(7).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), 7);
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(world.once.get("pay", "evt-1").await.unwrap().unwrap().attempts(), 1);
}

#[tokio::test]
async fn a_lease_is_renewed_at_a_third_of_its_length() {
    let world = World::new();
    let (_task, _stop, _) = working(&world);
    settle().await;
    let until = async || world.once.get("pay", "evt-1").await.unwrap().unwrap().lease_until().unwrap();
    let first = until().await;
    pass(&world, SECOND * 19).await;
    assert_eq!(until().await, first);
    pass(&world, SECOND).await;
    assert_eq!(until().await, first + SECOND * 20);
}

#[tokio::test]
async fn a_handler_that_does_not_wait_arms_no_timer_and_writes_twice() {
    let world = World::new();
    world.call().run(async |_| Ok(())).await.unwrap();
    assert_eq!(world.clock.sleepers(), 0);
    assert_eq!(*world.store.swaps.lock().unwrap(), ["pay/evt-1 IN_PROGRESS", "pay/evt-1 COMPLETED"]);
}

/// Takes the call over behind the holder's back, as another process does that sees a later clock.
async fn take_over(world: &World) -> Lease {
    let other = Once::from_store(world.store.clone());
    let holder_sees = world.clock.now();
    world.clock.jump(holder_sees + MINUTE * 2);
    let Begin::Run(lease) = other.call("pay", "evt-1").begin().await.unwrap() else { panic!("it lapsed") };
    world.clock.jump(holder_sees);
    lease
}

/// A clock that others may not agree with.
struct Disputed(ManualClock);

impl Clock for Disputed {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn margin(&self) -> Duration {
        SECOND * 2
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }
}

#[tokio::test]
async fn a_lease_is_left_alone_for_as_long_as_the_clocks_may_disagree() {
    for (said, margin) in [(Duration::ZERO, SECOND * 2), (SECOND * 5, SECOND * 5)] {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(Arc::new(Disputed(clock.clone())));
        let once = Once::builder().margin(said).on_busy(OnBusy::Reject).store(store);
        let Begin::Run(_lease) = once.call("pay", "evt-1").begin().await.unwrap() else {
            panic!("it is fresh")
        };
        clock.advance(MINUTE + margin - SECOND / 10);
        let begun = once.call("pay", "evt-1").begin().await.unwrap();
        assert!(matches!(begun, Begin::Busy { .. }), "{said:?}: {begun:?}");
        clock.advance(SECOND / 10);
        let begun = once.call("pay", "evt-1").begin().await.unwrap();
        assert!(matches!(begun, Begin::Run(_)), "{said:?}: {begun:?}");
    }
}

#[tokio::test]
async fn a_superseded_handler_is_dropped_and_its_result_does_not_count() {
    let world = World::new();
    let (task, _stop, dropped) = working(&world);
    settle().await;
    let lease = take_over(&world).await;
    pass(&world, SECOND * 20).await;
    assert!(dropped.load(Ordering::SeqCst), "the handler still works");
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Superseded);
    lease.complete(&8).await.unwrap();
    assert_eq!(world.call().run(async |_| Ok(0)).await.unwrap(), 8);
}

#[tokio::test]
async fn a_renewal_that_is_refused_for_a_while_does_not_end_the_work() {
    let world = World::new();
    let (task, stop, dropped) = working(&world);
    settle().await;
    world.store.always(Fault::Refused);
    pass(&world, SECOND * 40).await;
    assert!(!dropped.load(Ordering::SeqCst), "it was dropped before four fifths of its lease were over");
    world.store.always(Fault::None);
    pass(&world, MINUTE).await;
    stop.send(7).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_holder_stops_at_four_fifths_of_its_lease_when_it_cannot_renew() {
    let world = World::new();
    let (task, _stop, dropped) = working(&world);
    settle().await;
    world.store.always(Fault::Before);
    pass(&world, SECOND * 47).await;
    assert!(!dropped.load(Ordering::SeqCst));
    pass(&world, SECOND).await;
    assert!(dropped.load(Ordering::SeqCst), "the handler works on without a lease");
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Lapsed);
}

#[tokio::test]
async fn a_holder_stops_too_when_the_renewal_is_never_answered() {
    let world = World::new();
    let (task, _stop, dropped) = working(&world);
    settle().await;
    world.store.always(Fault::Hang);
    pass(&world, SECOND * 48).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Lapsed);
}

#[tokio::test]
async fn a_process_that_was_paused_wakes_up_to_stop() {
    let world = World::new();
    let (task, stop, dropped) = working(&world);
    settle().await;
    world.clock.advance(MINUTE * 3);
    // The work is ready as well, and must not be polled first.
    stop.send(7).unwrap();
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Lapsed);
    assert_eq!(world.call().run_outcome(async |_| Ok(0)).await.unwrap().how, How::TakenOver);
}

#[tokio::test]
async fn a_renewal_that_stumbled_is_made_up_for() {
    let world = World::new();
    let (task, stop, _) = working(&world);
    settle().await;
    world.store.script([Fault::Before, Fault::After, Fault::Before]);
    pass(&world, MINUTE * 5).await;
    stop.send(7).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_renewal_in_flight_does_not_race_with_the_outcome() {
    let world = World::new();
    let (task, stop, _) = working(&world);
    settle().await;
    // The renewal lands, but its reply does not come before the handler is done.
    world.store.script([Fault::Hang]);
    pass(&world, SECOND * 21).await;
    stop.send(7).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), 7);
    assert_eq!(world.call().run(async |_| Ok(0)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_does_not_stop_a_holder() {
    let world = World::new();
    let (task, stop, _) = working(&world);
    settle().await;
    world.clock.jump(world.clock.now() + MINUTE * 60);
    pass(&world, MINUTE).await;
    stop.send(7).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn the_token_fires_when_the_lease_is_lost_and_not_when_it_is_finished() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let token = lease.cancellation();
    lease.renew().await.unwrap();
    let next = take_over(&world).await;
    assert_eq!(lease.renew().await.unwrap_err().kind(), ErrorKind::Superseded);
    token.cancelled().await;
    lease.cancelled().await;
    let token = next.cancellation();
    next.complete(&()).await.unwrap();
    assert!(!token.is_cancelled());
}

#[tokio::test]
async fn a_dropped_lease_fires_its_token() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let token = lease.cancellation();
    let waiting = tokio::spawn({
        let token = token.clone();
        async move { token.cancelled().await }
    });
    settle().await;
    drop(lease);
    waiting.await.unwrap();
    assert!(token.is_cancelled());
}

#[tokio::test]
async fn a_lease_by_hand_is_held_while_the_work_runs() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let task = tokio::spawn(async move {
        let lost = lease.hold(never::<Result<(), HandlerError>>()).await.map(drop);
        (lost, lease)
    });
    settle().await;
    pass(&world, MINUTE * 3).await;
    assert!(!task.is_finished());
    let next = take_over(&world).await;
    pass(&world, SECOND * 20).await;
    let (lost, lease) = task.await.unwrap();
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Superseded);
    assert!(lease.is_cancelled());
    next.release("over").await.unwrap();
}

#[tokio::test]
async fn a_renewal_by_hand_does_not_race_with_the_heartbeat() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    let (first, second) = tokio::join!(lease.renew(), lease.renew());
    first.unwrap();
    second.unwrap();
    // The reply to one of them comes late, while the other waits for its turn.
    world.store.script([Fault::After]);
    let (first, second) = world.clock.drive(async { tokio::join!(lease.renew(), lease.renew()) }).await;
    first.unwrap();
    second.unwrap();
    lease.complete(&7).await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_is_sent_again_late_is_followed_by_a_fresh_one() {
    let world = World::new();
    let Begin::Run(lease) = world.call().begin().await.unwrap() else { panic!("it is fresh") };
    world.store.always(Fault::Before);
    let lapsed = world.clock.drive(lease.renew()).await.unwrap_err();
    assert_eq!(lapsed.kind(), ErrorKind::Lapsed);
    world.store.always(Fault::None);
    world.clock.advance(MINUTE * 5);
    lease.renew().await.unwrap();
    let until = world.once.get("pay", "evt-1").await.unwrap().unwrap().lease_until().unwrap();
    assert_eq!(until, world.clock.now() + MINUTE);
}
