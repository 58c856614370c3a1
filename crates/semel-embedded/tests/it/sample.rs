//! Records to write, and short ways to write them.

use semel_core::{
    call::{self, Call, Decision, Terms},
    fence::Fence,
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Holder, OnLapse, Place, Record},
    store::{Store, Swap},
};
use semel_embedded::{EmbeddedStore, Options};
use semel_testkit::ManualClock;
use std::path::Path;

/// Sizes so small that everything moves through every stage.
pub(crate) fn small() -> Options {
    Options { segment_bytes: 32 << 10, flush_segments: 2, backlog_segments_max: 8 }
}

pub(crate) fn open(directory: &Path, clock: &ManualClock) -> EmbeddedStore {
    EmbeddedStore::open_with(directory, clock.arc(), small()).expect("the store opens")
}

pub(crate) fn key(number: u32) -> Key {
    Key::new("sample", number).unwrap()
}

pub(crate) fn claimed(store: &dyn Store, place: Place, on_lapse: OnLapse) -> Record {
    let call = Call { fingerprint: Fingerprint::EMPTY, holder: Holder(7), place, on_lapse };
    match call::begin(store.clock().now(), None, &call, &Terms::default()) {
        Decision::Run { record, .. } => record,
        other => panic!("nothing is there, so it runs: {other:?}"),
    }
}

pub(crate) fn completed(store: &dyn Store, body: &[u8]) -> Record {
    let now = store.clock().now();
    let body = Body::Kept { bytes: body.to_vec(), until: now + Terms::default().body_retention };
    call::complete(now, &claimed(store, Place::Here, OnLapse::Rerun), body, &Terms::default())
}

pub(crate) async fn won(store: &dyn Store, key: &Key, expected: Option<Fence>, record: &Record) -> Fence {
    match store.swap(key, expected, record).await.expect("the store answers") {
        Swap::Won(fence) => fence,
        Swap::Lost(found) => panic!("{key} is held by {found:?}"),
    }
}

/// Completes so many keys, each with its own body.
pub(crate) async fn fill(store: &dyn Store, numbers: std::ops::Range<u32>) {
    for number in numbers {
        won(store, &key(number), None, &completed(store, &body(number))).await;
    }
}

pub(crate) fn body(number: u32) -> Vec<u8> {
    format!("result {number} {}", "x".repeat(number as usize % 400)).into_bytes()
}
