//! What is shown while the disk is slow.

use super::EmbeddedStore;
use crate::{
    disk::OsDisk,
    engine::Options,
    gate::{Gate, GatedDisk, Opener},
    home::Home,
};
use semel_core::{
    call::{self, Terms},
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Holder, OnLapse, Place, Record},
    store::{Store, StoreErrorKind, Swap},
};
use semel_testkit::ManualClock;
use std::{
    path::Path,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Waker},
};

fn open(directory: &Path, gate: &Gate) -> EmbeddedStore {
    let lock = Home::open(directory).unwrap().lock();
    let disk = Arc::new(GatedDisk(OsDisk::new(directory), gate.clone()));
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    EmbeddedStore::on(disk, lock, ManualClock::new().arc(), options).unwrap()
}

fn records(store: &dyn Store, on_lapse: OnLapse) -> (Record, Record) {
    let now = store.clock().now();
    let call =
        call::Call { fingerprint: Fingerprint::EMPTY, holder: Holder(1), place: Place::Here, on_lapse };
    let call::Decision::Run { record, .. } = call::begin(now, None, &call, &Terms::default()) else {
        panic!("nothing is there, so it runs")
    };
    let body = Body::Kept { bytes: b"1".to_vec(), until: now };
    (record.clone(), call::complete(now, &record, body, &Terms::default()))
}

/// Whether the future is still waiting after it was given every chance.
fn waits<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test]
async fn a_duplicate_is_answered_only_when_its_original_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let store = open(directory.path(), &gate);
    let _opener = Opener(&gate);
    let key = Key::new("gate", 1).unwrap();
    let (claimed, completed) = records(&store, OnLapse::Rerun);
    let Swap::Won(fence) = store.swap(&key, None, &claimed).await.unwrap() else {
        panic!("nobody else is here")
    };
    gate.set_shut(true);
    let mut completing = pin!(store.swap(&key, Some(fence), &completed));
    assert!(waits(completing.as_mut()), "an outcome was acknowledged before it was durable");
    let mut duplicate = pin!(store.swap(&key, None, &claimed));
    let mut reading = pin!(store.load(&key));
    assert!(waits(duplicate.as_mut()), "a duplicate was answered before its original was durable");
    assert!(waits(reading.as_mut()), "an outcome was shown before it was durable");
    gate.set_shut(false);
    assert!(matches!(completing.await, Ok(Swap::Won(_))));
    let Ok(Swap::Lost(Some(found))) = duplicate.await else { panic!("the key is taken") };
    assert_eq!(found.record, completed);
    assert_eq!(reading.await.unwrap().unwrap().record, completed);
}

#[tokio::test]
async fn a_claim_to_be_run_again_need_not_wait_for_the_disk_but_one_to_be_reported_must() {
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let store = open(directory.path(), &gate);
    let _opener = Opener(&gate);
    gate.set_shut(true);
    let (rerun, _) = records(&store, OnLapse::Rerun);
    let (report, _) = records(&store, OnLapse::Report);
    assert!(matches!(store.swap(&Key::new("gate", 1).unwrap(), None, &rerun).await, Ok(Swap::Won(_))));
    let key = Key::new("gate", 2).unwrap();
    let mut reporting = pin!(store.swap(&key, None, &report));
    assert!(waits(reporting.as_mut()), "the effect would be dispatched before its intent was durable");
    gate.set_shut(false);
    assert!(matches!(reporting.await, Ok(Swap::Won(_))));
}

#[tokio::test]
async fn a_failed_sync_stops_the_store_and_is_never_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let store = open(directory.path(), &gate);
    let _opener = Opener(&gate);
    let (_, completed) = records(&store, OnLapse::Rerun);
    gate.is_broken.store(true, Ordering::SeqCst);
    let error = store.swap(&Key::new("gate", 1).unwrap(), None, &completed).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    gate.is_broken.store(false, Ordering::SeqCst);
    let error = store.swap(&Key::new("gate", 2).unwrap(), None, &completed).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "embedded store: stopped after the journal could not be written (the disk is broken): mend the disk and \
         restart the process; nothing that was acknowledged is lost"
    );
}
