//! The library over a store: claimed, replayed, waited for, taken over.

use semel::{Begin, ErrorKind, How, OnBusy, Once, Store};
use std::{sync::Arc, time::Duration};

/// Everything that a user sees of a store, once.
pub(crate) async fn check(store: Arc<dyn Store>) {
    let once = Once::from_store(store);
    claimed_and_replayed(&once).await;
    waited_for(&once).await;
    taken_over(&once).await;
    forgotten(&once).await;
}

/// An id that no other run has.
fn fresh_id() -> u64 {
    fastrand::u64(..)
}

async fn claimed_and_replayed(once: &Once) {
    let id = fresh_id();
    let call = || once.call("end-to-end", id).payload("order");
    let first = call().run_outcome(async |_| Ok(String::from("done"))).await.unwrap();
    assert_eq!((first.how, first.value.as_str()), (How::Fresh, "done"));
    let again = call().run_outcome(async |_| Ok(String::from("twice"))).await.unwrap();
    assert_eq!((again.how, again.value.as_str()), (How::Replayed, "done"));
    let other = once.call("end-to-end", id).payload("another order");
    let other = other.run(async |_| Ok(String::from("other"))).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Mismatch);
}

/// A duplicate that comes while the call runs waits, and gets its result.
async fn waited_for(once: &Once) {
    let id = fresh_id();
    let call = || once.call("end-to-end", id).on_busy(OnBusy::Wait { max: Duration::from_secs(30) });
    let Begin::Run(lease) = call().begin().await.unwrap() else { panic!("it is fresh") };
    let busy = once.call("end-to-end", id).on_busy(OnBusy::Reject).begin().await.unwrap();
    assert!(matches!(busy, Begin::Busy { .. }));
    let waiting = tokio::spawn(call().begin());
    tokio::task::yield_now().await;
    lease.complete("finally").await.unwrap();
    let Begin::Replay(replay) = waiting.await.unwrap().unwrap() else { panic!("it is done") };
    assert_eq!(replay.value::<String>().unwrap(), "finally");
}

/// A holder that vanished is replaced when its lease lapses, and told so if it comes back.
async fn taken_over(once: &Once) {
    /// A claim has a third of it to be answered, and an emulator may take its time.
    const LEASE: Duration = Duration::from_secs(2);
    let id = fresh_id();
    let call = || {
        let call = once.call("end-to-end", id).lease(LEASE);
        call.on_busy(OnBusy::Wait { max: Duration::from_secs(30) })
    };
    let Begin::Run(late) = call().begin().await.unwrap() else { panic!("it is fresh") };
    let Begin::Run(lease) = call().begin().await.unwrap() else { panic!("the first one does not renew") };
    assert_eq!((lease.how(), lease.attempt()), (How::TakenOver, 2));
    assert!(lease.fence() > late.fence());
    let late = late.complete("late").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Superseded);
    lease.complete("in time").await.unwrap();
    let Begin::Replay(replay) = call().begin().await.unwrap() else { panic!("it is done") };
    assert_eq!(replay.value::<String>().unwrap(), "in time");
}

/// A key that an operator let go is free, under a higher fence.
async fn forgotten(once: &Once) {
    let id = fresh_id();
    let call = || once.call("end-to-end", id);
    let first = call().run_outcome(async |_| Ok(1)).await.unwrap();
    let key = semel::Key::new("end-to-end", id).unwrap();
    once.forget(&key, "ann", "a test").await.unwrap();
    let again = call().run_outcome(async |_| Ok(2)).await.unwrap();
    assert_eq!((again.how, again.value), (How::Fresh, 2));
    assert!(again.fence > first.fence);
}
