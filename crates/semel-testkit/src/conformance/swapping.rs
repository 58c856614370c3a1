//! Rules about reading and swapping one record.

use super::sample::{expect_stored, fresh_key, load, remembered, running, swap, write};
use semel_core::{
    fence::Fence,
    record::Stored,
    store::{Store, Swap},
};
use std::{future::poll_fn, task::Poll};

/// Nothing stands under a key that was never written.
pub async fn an_absent_key_loads_as_none(store: &dyn Store) {
    assert_eq!(load(store, &fresh_key("absent")).await, None);
}

/// Whoever expects nothing where nothing is wins, and what was written is there.
pub async fn the_first_swap_wins_and_loads_back(store: &dyn Store) {
    let (key, record) = (fresh_key("first"), running(store, 1));
    let fence = write(store, &key, None, &record).await;
    expect_stored(store, &key, fence, &record).await;
}

/// The loser sees the record and the fence that stand there, and so can decide again without a read.
pub async fn a_lost_swap_shows_the_current_record(store: &dyn Store) {
    let (key, first, second) = (fresh_key("held"), running(store, 1), running(store, 2));
    let a = write(store, &key, None, &first).await;
    let lost = swap(store, &key, None, &remembered(store)).await;
    assert_eq!(lost, Swap::Lost(Some(Stored { fence: a, record: first })));
    let b = write(store, &key, Some(a), &second).await;
    let lost = swap(store, &key, Some(a), &remembered(store)).await;
    assert_eq!(lost, Swap::Lost(Some(Stored { fence: b, record: second })));
}

/// A swap that was lost has written nothing, and used up nothing.
pub async fn a_lost_swap_changes_nothing(store: &dyn Store) {
    let (key, record) = (fresh_key("untouched"), running(store, 1));
    let fence = write(store, &key, None, &record).await;
    for expected in [None, Fence::new(fence.get() + 1)] {
        assert!(matches!(swap(store, &key, expected, &remembered(store)).await, Swap::Lost(Some(_))));
        expect_stored(store, &key, fence, &record).await;
    }
}

/// Naming the current fence wins, and the write's own fence is higher.
pub async fn the_current_fence_wins_with_a_higher_one(store: &dyn Store) {
    let key = fresh_key("renewed");
    let mut fence = write(store, &key, None, &running(store, 1)).await;
    for holder in 2..10 {
        let record = running(store, holder);
        let next = write(store, &key, Some(fence), &record).await;
        assert!(fence < next, "the fence went from {fence} to {next}");
        expect_stored(store, &key, next, &record).await;
        fence = next;
    }
}

/// A holder that was superseded writes nothing, also when the record looks as if it were still its own.
pub async fn a_stale_fence_never_writes(store: &dyn Store) {
    let (key, record) = (fresh_key("stale"), running(store, 1));
    let stale = write(store, &key, None, &record).await;
    let current = write(store, &key, Some(stale), &record).await;
    let zombie = swap(store, &key, Some(stale), &remembered(store)).await;
    assert_eq!(zombie, Swap::Lost(Some(Stored { fence: current, record: record.clone() })));
    expect_stored(store, &key, current, &record).await;
}

/// A fence that was never issued is no better than a stale one: equality is asked, not order.
pub async fn a_fence_from_the_future_never_writes(store: &dyn Store) {
    let (key, record) = (fresh_key("future"), running(store, 1));
    let fence = write(store, &key, None, &record).await;
    let ahead = Fence::new(fence.get() + 1_000);
    assert!(matches!(swap(store, &key, ahead, &remembered(store)).await, Swap::Lost(Some(_))));
    expect_stored(store, &key, fence, &record).await;
}

/// Whoever expects a record where none is loses, and creates none.
pub async fn a_fence_on_an_absent_key_is_lost_and_leaves_no_trace(store: &dyn Store) {
    let key = fresh_key("ghost");
    assert_eq!(swap(store, &key, Fence::new(1), &remembered(store)).await, Swap::Lost(None));
    assert_eq!(load(store, &key).await, None);
}

/// A write is told apart from an equal one before it.
pub async fn the_same_record_written_twice_gets_two_fences(store: &dyn Store) {
    let (key, record) = (fresh_key("twice"), running(store, 1));
    let first = write(store, &key, None, &record).await;
    let second = write(store, &key, Some(first), &record).await;
    assert!(first < second, "the fence went from {first} to {second}");
    expect_stored(store, &key, second, &record).await;
}

/// A finished record is overwritten by its fence only.
pub async fn a_finished_record_is_guarded_like_any_other(store: &dyn Store) {
    let (key, record) = (fresh_key("finished"), remembered(store));
    let begun = write(store, &key, None, &running(store, 1)).await;
    let done = write(store, &key, Some(begun), &record).await;
    for expected in [None, Some(begun)] {
        let lost = swap(store, &key, expected, &running(store, 2)).await;
        assert_eq!(lost, Swap::Lost(Some(Stored { fence: done, record: record.clone() })));
    }
    write(store, &key, Some(done), &running(store, 3)).await;
}

/// A swap whose future is dropped half way is written whole or not at all, and blocks nobody.
pub async fn a_dropped_swap_happened_or_did_not(store: &dyn Store) {
    let (key, before, dropped) = (fresh_key("dropped"), running(store, 1), running(store, 2));
    let fence = write(store, &key, None, &before).await;
    let mut future = store.swap(&key, Some(fence), &dropped);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
    drop(future);
    // It may still be on its way, and land between any two of these.
    let mut expected = Some(fence);
    for _ in 0..2 {
        match swap(store, &key, expected, &remembered(store)).await {
            Swap::Won(_) => return,
            Swap::Lost(Some(it)) if it.record == dropped => expected = Some(it.fence),
            Swap::Lost(it) => panic!("the dropped swap left {it:?}"),
        }
    }
    panic!("the dropped swap was written twice");
}
