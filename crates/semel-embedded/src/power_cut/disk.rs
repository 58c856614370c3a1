//! A disk that forgets what was not synced.

use crate::disk::{Disk, DiskFile};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tempfile::TempDir;

const SECTOR_BYTES: usize = 512;

#[derive(Clone)]
pub(crate) struct CrashDisk {
    world: Arc<Mutex<Platter>>,
    /// SQLite reads and builds its files here, outside of our reach; they are taken over when they are opened.
    scratch: Arc<TempDir>,
    check: Arc<Mutex<Option<Check>>>,
    cuts: Arc<AtomicU64>,
}

type Check = Box<dyn Fn(&Path) + Send>;

struct Platter {
    random: fastrand::Rng,
    share: f64,
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// What happened to names since the directory was last synced.
    moves: Vec<Move>,
}

#[derive(Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum Move {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

impl Move {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(name) => drop(names.remove(name)),
        }
    }
}

impl CrashDisk {
    pub(crate) fn new(seed: u64, share: f64) -> Self {
        let platter = Platter {
            random: fastrand::Rng::with_seed(seed ^ 0xD15C),
            share,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            moves: Vec::new(),
        };
        Self {
            world: Arc::new(Mutex::new(platter)),
            scratch: Arc::new(scratch()),
            check: Arc::default(),
            cuts: Arc::default(),
        }
    }

    /// What to do with each directory that a cut leaves.
    pub(crate) fn at_cuts(&self, check: impl Fn(&Path) + Send + 'static) {
        *self.check.lock().unwrap() = Some(Box::new(check));
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Cuts the power, perhaps, in a copy of this disk.
    fn maybe_cut(&self) {
        let mut world = self.world.lock().unwrap();
        let share = world.share;
        if world.random.f64() >= share {
            return;
        }
        let directory = scratch();
        world.leave(directory.path());
        drop(world);
        self.cuts.fetch_add(1, Ordering::Relaxed);
        if let Some(check) = &*self.check.lock().unwrap() {
            check(directory.path());
        }
    }

    fn file(&self, number: usize) -> Arc<dyn DiskFile> {
        Arc::new(CrashFile { disk: self.clone(), number })
    }
}

/// In memory, if the machine has such a place: thousands of these are made.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

impl Platter {
    /// Writes what a power cut would leave at this moment.
    fn leave(&mut self, directory: &Path) {
        let mut names = self.durable_names.clone();
        for it in &self.moves {
            if self.random.bool() {
                it.apply(&mut names);
            }
        }
        for (name, number) in names {
            let Content { durable, unsynced, .. } = &self.files[number];
            let mut bytes = durable.clone();
            for (offset, write) in unsynced {
                match self.random.u8(..3) {
                    0 => {}
                    1 => put(&mut bytes, *offset, write),
                    _ => tear(&mut self.random, &mut bytes, *offset, write),
                }
            }
            fs::write(directory.join(name), bytes).unwrap();
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, write: &[u8]) {
    let end = offset + write.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(write);
}

/// Writes some of the sectors.
fn tear(random: &mut fastrand::Rng, bytes: &mut Vec<u8>, offset: usize, write: &[u8]) {
    let mut at = 0;
    while at < write.len() {
        let next = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let end = next.min(write.len());
        if random.bool() {
            put(bytes, offset + at, &write[at..end]);
        }
        at = end;
    }
}

impl Disk for CrashDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.world.lock().unwrap().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.maybe_cut();
        let mut world = self.world.lock().unwrap();
        let number = world.files.len();
        world.files.push(Content::default());
        world.names.insert(name.to_owned(), number);
        world.moves.push(Move::Create(name.to_owned(), number));
        drop(world);
        drop(fs::remove_file(self.path(name)));
        Ok(self.file(number))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let number = *self.world.lock().unwrap().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let file = self.file(number);
        if let Ok(built) = fs::read(self.path(name))
            && self.world.lock().unwrap().files[number].now != built
        {
            file.write_at(&built, 0)?;
        }
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.maybe_cut();
        let step = Move::Rename(from.to_owned(), to.to_owned());
        let mut world = self.world.lock().unwrap();
        assert!(world.names.contains_key(from), "`{from}` is there to be renamed");
        step.apply(&mut world.names);
        world.moves.push(step);
        drop(world);
        if self.path(from).exists() {
            fs::rename(self.path(from), self.path(to))?;
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.maybe_cut();
        let step = Move::Remove(name.to_owned());
        let mut world = self.world.lock().unwrap();
        assert!(world.names.contains_key(name), "`{name}` is there to be removed");
        step.apply(&mut world.names);
        world.moves.push(step);
        drop(world);
        drop(fs::remove_file(self.path(name)));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.maybe_cut();
        let mut world = self.world.lock().unwrap();
        world.durable_names = world.names.clone();
        world.moves.clear();
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

struct CrashFile {
    disk: CrashDisk,
    number: usize,
}

impl DiskFile for CrashFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let world = self.disk.world.lock().unwrap();
        let bytes = &world.files[self.number].now;
        let wanted = bytes.get(offset as usize..offset as usize + buffer.len());
        buffer.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.maybe_cut();
        let mut world = self.disk.world.lock().unwrap();
        let content = &mut world.files[self.number];
        put(&mut content.now, offset as usize, bytes);
        content.unsynced.push((offset as usize, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.maybe_cut();
        let mut world = self.disk.world.lock().unwrap();
        let content = &mut world.files[self.number];
        content.durable = content.now.clone();
        content.unsynced.clear();
        Ok(())
    }

    fn shrink(&self, length: u64) -> io::Result<()> {
        let mut world = self.disk.world.lock().unwrap();
        let content = &mut world.files[self.number];
        content.now.truncate(length as usize);
        content.durable.truncate(length as usize);
        content.unsynced.clear();
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.world.lock().unwrap().files[self.number].now.len() as u64)
    }
}
