//! Rules about forgetting.

use super::sample::{
    HOUR, completed, expect_stored, expired, fresh_key, load, purge, record, remembered, running, swap, write,
};
use semel_core::{
    fence::Fence,
    key::Key,
    record::{Reason, Record, State, Stored},
    store::{Store, Swap},
    time::Timestamp,
};
use std::time::Duration;

/// What has expired is shown with the fence it had, or is gone; nothing else is ever shown in its place.
pub async fn an_expired_record_is_shown_as_it_was_or_absent(store: &dyn Store) {
    let (key, record) = (fresh_key("lingering"), expired(store, HOUR));
    let fence = write(store, &key, None, &record).await;
    for _ in 0..3 {
        as_written_or_absent(store, &key, fence, &record).await;
        purge(store, store.clock().now(), u32::MAX).await;
    }
    as_written_or_absent(store, &key, fence, &record).await;
}

async fn as_written_or_absent(store: &dyn Store, key: &Key, fence: Fence, record: &Record) {
    let found = load(store, key).await;
    let written = Stored { fence, record: record.clone() };
    assert!(found.is_none() || found.as_ref() == Some(&written), "an expired record is shown as {found:?}");
}

/// No limit is so high that purge takes what is unfinished or has yet to expire.
pub async fn purge_never_takes_unexpired_or_unfinished_records(store: &dyn Store) {
    let now = store.clock().now();
    let unknown = State::Failed { reason: Reason::OutcomeUnknown, error: "lapsed".to_owned() };
    let records = [
        running(store, 1),
        record(store, State::Pending { due_at: Timestamp::EPOCH, error: None }),
        record(store, unknown),
        remembered(store),
        completed(store, b"just in time", now + Duration::from_mins(1)),
    ];
    let mut kept = Vec::new();
    for record in records {
        let key = fresh_key("kept");
        kept.push((write(store, &key, None, &record).await, key, record));
    }
    for limit in [1, 1_000, u32::MAX] {
        purge(store, now, limit).await;
    }
    for (fence, key, record) in &kept {
        expect_stored(store, key, *fence, record).await;
    }
}

/// Purge judges by the moment it is given, not by the store's time: what expired since then stays.
pub async fn purge_respects_the_moment_it_is_given(store: &dyn Store) {
    let (key, record) = (fresh_key("later"), expired(store, HOUR));
    let Some(fence) = shown(store, &key, &record).await else { return };
    purge(store, store.clock().now() - HOUR * 2, u32::MAX).await;
    expect_stored(store, &key, fence, &record).await;
}

/// Writes an expired record; `None` if the store hides such a record at once.
async fn shown(store: &dyn Store, key: &Key, record: &Record) -> Option<Fence> {
    let fence = write(store, key, None, record).await;
    load(store, key).await.map(|_| fence)
}

/// A limit of nothing is kept to, and so is a moment before everything.
pub async fn purge_of_nothing_takes_nothing(store: &dyn Store) {
    let (key, record) = (fresh_key("limit"), expired(store, HOUR));
    let shown = shown(store, &key, &record).await;
    assert_eq!(purge(store, Timestamp::EPOCH, u32::MAX).await, 0, "nothing expired before 1970");
    assert_eq!(purge(store, store.clock().now(), 0).await, 0, "the limit was 0");
    if let Some(fence) = shown {
        expect_stored(store, &key, fence, &record).await;
    }
}

/// A key that was forgotten and written again goes on with higher fences, however often.
pub async fn fences_grow_over_purge_and_creation(store: &dyn Store) {
    let key = fresh_key("again");
    let mut last = None;
    for _ in 0..5 {
        let found = load(store, &key).await.map(|it| it.fence);
        let begun = write(store, &key, found, &running(store, 1)).await;
        assert!(last < Some(begun), "the fence went from {last:?} to {begun}");
        let done = write(store, &key, Some(begun), &expired(store, HOUR)).await;
        assert!(begun < done, "the fence went from {begun} to {done}");
        purge(store, store.clock().now(), u32::MAX).await;
        last = Some(done);
    }
}

/// A holder from before a purge is superseded by whoever came after it.
pub async fn a_fence_from_before_a_purge_never_writes(store: &dyn Store) {
    let (key, record) = (fresh_key("revenant"), running(store, 2));
    let old = write(store, &key, None, &expired(store, HOUR)).await;
    purge(store, store.clock().now(), u32::MAX).await;
    let found = load(store, &key).await.map(|it| it.fence);
    let new = write(store, &key, found, &record).await;
    let zombie = swap(store, &key, Some(old), &remembered(store)).await;
    assert_eq!(zombie, Swap::Lost(Some(Stored { fence: new, record: record.clone() })));
    expect_stored(store, &key, new, &record).await;
}

/// Purge takes what has expired, as many as the limit says and no more.
///
/// For stores that remove record by record; one that removes in units of its own, such as a file per day, is
/// held to the other rules only. What had expired before in the store is removed first.
pub async fn purge_takes_the_expired_at_once(store: &dyn Store) {
    let now = store.clock().now();
    while purge(store, now, u32::MAX).await > 0 {}
    let (old, new) = (fresh_key("old"), fresh_key("new"));
    for key in [&old, &fresh_key("older"), &fresh_key("oldest")] {
        write(store, key, None, &expired(store, HOUR)).await;
    }
    write(store, &new, None, &remembered(store)).await;
    assert_eq!(purge(store, now, 2).await, 2, "three had expired, and the limit was 2");
    assert_eq!(purge(store, now, 2).await, 1, "one was left");
    assert_eq!(load(store, &old).await, None);
    assert!(load(store, &new).await.is_some(), "a remembered record was purged");
}
