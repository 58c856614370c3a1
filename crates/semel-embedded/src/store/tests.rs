//! What is shown while the disk is slow.

use super::EmbeddedStore;
use crate::{
    disk::{Disk, DiskFile, OsDisk},
    engine::Options,
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
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
};

/// A disk whose syncs wait while the gate is shut, and fail when it is broken.
#[derive(Clone, Default)]
struct Gate {
    is_shut: Arc<(Mutex<bool>, Condvar)>,
    is_broken: Arc<AtomicBool>,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        *self.is_shut.0.lock().unwrap() = is_shut;
        self.is_shut.1.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        let shut = self.is_shut.0.lock().unwrap();
        drop(self.is_shut.1.wait_while(shut, |is_shut| *is_shut).unwrap());
        if self.is_broken.load(Ordering::SeqCst) {
            Err(io::Error::other("the disk is broken"))
        } else {
            Ok(())
        }
    }
}

/// Opens the gate even if the test fails, so that the store can close.
struct Opener<'a>(&'a Gate);

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.set_shut(false);
    }
}

struct GatedDisk(OsDisk, Gate);
struct GatedFile(Arc<dyn DiskFile>, Gate);

impl Disk for GatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(GatedFile(self.0.create(name)?, self.1.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(GatedFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }
}

impl DiskFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass()?;
        self.0.sync()
    }
    fn shrink(&self, length: u64) -> io::Result<()> {
        self.0.shrink(length)
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

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
