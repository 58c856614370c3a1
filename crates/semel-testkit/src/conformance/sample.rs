//! Keys, records and shorthands for the rules.

use semel_core::{
    fence::Fence,
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Holder, OnLapse, Place, Record, State, Stored},
    store::{Store, Swap},
    time::Timestamp,
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

pub(super) const HOUR: Duration = Duration::from_hours(1);

/// A scope that no earlier run and no other rule has.
pub(super) fn fresh_scope() -> (&'static str, u64) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    // Randomly keyed, so that the count gives another number in every process.
    ("conformance", RandomState::new().hash_one(RUNS.fetch_add(1, Ordering::Relaxed)))
}

pub(super) fn fresh_key(id: &str) -> Key {
    Key::new(fresh_scope(), id).expect("ids of rules are valid")
}

/// A record in this state, written now by the store's clock, that never expires.
pub(super) fn record(store: &dyn Store, state: State) -> Record {
    let now = store.clock().now();
    Record {
        fingerprint: Fingerprint::of_bytes(b"payload"),
        state,
        attempts: 1,
        created_at: now,
        updated_at: now,
        expires_at: Timestamp::NEVER,
    }
}

/// A record under a lease of an hour.
pub(super) fn running(store: &dyn Store, holder: u128) -> Record {
    let lease_until = store.clock().now() + HOUR;
    let holder = Holder(holder);
    record(store, State::InProgress { holder, lease_until, place: Place::Here, on_lapse: OnLapse::Rerun })
}

/// A completed record that expires at this moment.
pub(super) fn completed(store: &dyn Store, bytes: &[u8], expires_at: Timestamp) -> Record {
    let body = Body::Kept { bytes: bytes.to_vec(), until: expires_at };
    Record { expires_at, ..record(store, State::Completed(body)) }
}

/// A completed record that is remembered for another hour.
pub(super) fn remembered(store: &dyn Store) -> Record {
    completed(store, b"done", store.clock().now() + HOUR)
}

/// A completed record that expired so long ago.
pub(super) fn expired(store: &dyn Store, ago: Duration) -> Record {
    completed(store, b"old", store.clock().now() - ago)
}

pub(super) async fn load(store: &dyn Store, key: &Key) -> Option<Stored> {
    store.load(key).await.unwrap_or_else(|error| panic!("load `{key}`: {error}"))
}

pub(super) async fn swap(store: &dyn Store, key: &Key, expected: Option<Fence>, record: &Record) -> Swap {
    store.swap(key, expected, record).await.unwrap_or_else(|error| panic!("swap `{key}`: {error}"))
}

/// A swap that nothing can prevent.
pub(super) async fn write(store: &dyn Store, key: &Key, expected: Option<Fence>, record: &Record) -> Fence {
    match swap(store, key, expected, record).await {
        Swap::Won(fence) => fence,
        Swap::Lost(current) => {
            panic!("the swap of `{key}` that expected {expected:?} was lost to {current:?}")
        }
    }
}

pub(super) async fn purge(store: &dyn Store, expired_at: Timestamp, limit: u32) -> u32 {
    store.purge(expired_at, limit).await.unwrap_or_else(|error| panic!("purge: {error}"))
}

/// Demands that this and nothing else stands under the key.
pub(super) async fn expect_stored(store: &dyn Store, key: &Key, fence: Fence, record: &Record) {
    let found = load(store, key).await;
    let written = Some(Stored { fence, record: record.clone() });
    assert!(found == written, "`{key}` holds\n    {found:?}\n  instead of\n    {written:?}");
}
