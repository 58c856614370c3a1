//! Values that change while they move.

use crate::{
    disk::{Disk, DiskFile, OsDisk},
    engine::{Applied, Change, Engine, Options},
    frame::Kind,
    lock,
    store::Records,
};
use semel_core::{key::Key, time::Timestamp};
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
