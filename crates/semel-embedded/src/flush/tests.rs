//! Values that change while they move.

use crate::{
    bucket::{Builder, Found},
    disk::{Disk, DiskFile, OsDisk, SLICE_BYTES},
    engine::{Applied, Change, Engine, Options},
    frame::Kind,
    gate::{Gate, GatedDisk},
    lock,
    owner::Owner as _,
    store::Records,
};
use semel_core::{
    fence::Fence,
    key::{Identity, Key},
    time::Timestamp,
};
use semel_testkit::ManualClock;
use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

type Hook = Box<dyn FnOnce() + Send>;

/// A disk that calls somebody when a file of records is begun.
struct HookDisk(OsDisk, Arc<Mutex<Option<Hook>>>);

impl Disk for HookDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let hook = if name.starts_with("building-") { lock(&self.1).take() } else { None };
        if let Some(hook) = hook {
            hook();
        }
        self.0.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open(name)
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

#[test]
fn what_is_forgotten_while_it_moves_does_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let hook = Arc::new(Mutex::new(None));
    let disk = Arc::new(HookDisk(OsDisk::new(directory.path()), Arc::clone(&hook)));
    let options = Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 };
    let engine = Arc::new(Engine::<Records>::open(disk, clock.arc(), options).unwrap());
    let key = Key::new("moving", 1).unwrap();
    let write = move |engine: &Engine<Records>, expected, expires_at| {
        let change =
            Change { identity: key.identity(), expected, expires_at, kind: Kind::Settled, payload: b"value" };
        match engine.apply(&change, |_| None).unwrap() {
            Applied::Won { fence, .. } => fence,
            Applied::Lost(found) => panic!("{found:?} is there"),
        }
    };
    let roll = |engine: &Engine<Records>| engine.roll(&mut lock(&engine.state)).unwrap();

    let now = clock.arc().now();
    let first = write(&engine, None, now + Duration::from_hours(1));
    roll(&engine);
    let forgotten = Arc::new(OnceLock::new());
    *lock(&hook) = Some(Box::new({
        let (engine, forgotten, write) = (Arc::clone(&engine), Arc::clone(&forgotten), write.clone());
        move || forgotten.set(write(&engine, Some(first), now)).unwrap()
    }));
    engine.flush().unwrap();
    roll(&engine);
    clock.advance(Duration::from_secs(1));
    engine.flush().unwrap();

    let found = engine.load(Key::new("moving", 1).unwrap().identity()).unwrap();
    assert_eq!(found.map(|it| it.fence).as_ref(), forgotten.get(), "an older value came back");
    write(&engine, forgotten.get().copied(), Timestamp::NEVER);
}

#[test]
fn a_file_that_is_built_holds_up_nobodys_sync_for_more_than_a_slice() {
    const SLICES: usize = 5;
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let disk = GatedDisk(OsDisk::new(directory.path()), gate.clone());
    let mut builder = Builder::new(&disk, &Records::LAYOUT, Timestamp::NEVER, 1, 1).unwrap();
    let mut identities: Vec<Identity> =
        (0..2 * SLICES).map(|it| *Key::new("built", it).unwrap().identity()).collect();
    identities.sort_unstable();
    for identity in identities {
        let payload = vec![1; SLICE_BYTES / 2];
        let fence = Fence::new(1).unwrap();
        let columns = Records::columns(&identity, &payload);
        builder.push(&Found { identity, fence, expires_at: Timestamp::NEVER, payload }, &columns).unwrap();
    }
    assert_eq!(gate.syncs(), SLICES);
    assert_eq!(builder.finish(&[]).unwrap().rows, 2 * SLICES);
}
