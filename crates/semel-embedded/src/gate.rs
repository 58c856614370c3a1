//! A disk that can be told to be slow or broken, and to call somebody when a file gets a name.

use crate::{
    disk::{Disk, DiskFile, OsDisk},
    lock,
};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

type Hook = Box<dyn FnOnce() + Send>;

/// What the syncs of a disk pass: they wait while it is shut, fail when it is broken, and are counted.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    hook: Arc<Mutex<Option<(&'static str, Hook)>>>,
    is_shut: Arc<(Mutex<bool>, Condvar)>,
    pub(crate) is_broken: Arc<AtomicBool>,
    syncs: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn set_shut(&self, is_shut: bool) {
        *self.is_shut.0.lock().unwrap() = is_shut;
        self.is_shut.1.notify_all();
    }

    /// Calls this once, when a file whose name begins like that is begun or gets its name.
    pub(crate) fn hook(&self, prefix: &'static str, hook: impl FnOnce() + Send + 'static) {
        *lock(&self.hook) = Some((prefix, Box::new(hook)));
    }

    /// Whether nobody is to be called any more.
    pub(crate) fn has_called(&self) -> bool {
        lock(&self.hook).is_none()
    }

    fn named(&self, name: &str) {
        let hook = lock(&self.hook).take_if(|(prefix, _)| name.starts_with(*prefix));
        if let Some((_, hook)) = hook {
            hook();
        }
    }

    /// How often a file was synced.
    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Ordering::SeqCst)
    }

    fn pass(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
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
pub(crate) struct Opener<'a>(pub(crate) &'a Gate);

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.set_shut(false);
    }
}

pub(crate) struct GatedDisk(pub(crate) OsDisk, pub(crate) Gate);
struct GatedFile(Arc<dyn DiskFile>, Gate);

impl Disk for GatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.1.named(name);
        Ok(Arc::new(GatedFile(self.0.create(name)?, self.1.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(GatedFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.1.named(to);
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
    fn allocate(&self, length: u64) -> io::Result<bool> {
        self.0.allocate(length)
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}
