//! A directory that one process has open.

use crate::{
    EmbeddedStore,
    engine::Options,
    error::{disk as disk_error, misconfigured},
    queue::{EmbeddedQueue, QueueBuilder},
};
use semel_core::{store::StoreError, time::Clock};
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

/// A directory that holds a store, a queue, or both, below it, for one process at a time.
///
/// It stays locked while anything of it is in use.
#[derive(Clone)]
pub struct Home {
    path: PathBuf,
    lock: Arc<File>,
}

impl Home {
    /// Takes the directory for this process, or makes it.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = directory.as_ref().to_owned();
        make_directory(&path)?;
        let lock = Arc::new(lock_directory(&path)?);
        Ok(Self { path, lock })
    }

    /// The queue below it, as this says; its directory does not matter.
    pub fn queue(&self, builder: QueueBuilder) -> Result<EmbeddedQueue, StoreError> {
        EmbeddedQueue::below(self, builder)
    }

    /// The store below it, in the directory `store`.
    pub fn store(&self, clock: Arc<dyn Clock>, options: Options) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::below(self, clock, options)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }
}

/// Makes the directory, unless it is there.
pub(crate) fn make_directory(directory: &Path) -> Result<(), StoreError> {
    let failed = || disk_error(format!("make the directory `{}`", directory.display()));
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory).map_err(failed())?;
    let parent = directory.canonicalize().map_err(failed())?;
    parent.parent().map_or(Ok(()), |it| File::open(it).and_then(|it| it.sync_all()).map_err(failed()))
}

/// How often a directory that seems to be open elsewhere is tried again, and after how long.
const LOCK_TRIES_MAX: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Makes sure that no other process has the directory open.
pub(crate) fn lock_directory(directory: &Path) -> Result<File, StoreError> {
    let shown = directory.display();
    let path = directory.join("LOCK");
    let file = File::options().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(disk_error(format_args!("open the directory `{shown}`")))?;
    let mut locked = file.try_lock();
    for _ in 0..LOCK_TRIES_MAX {
        // A process that was just forked to become another holds what its parent had open until it has.
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            thread::sleep(LOCK_PAUSE);
            locked = file.try_lock();
        }
    }
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(misconfigured(format!(
            "the directory `{shown}` is open in another process, or twice in this one: an embedded store \
             serves one process at a time; share one `Once`, or give each process a directory of its own"
        ))),
        Err(TryLockError::Error(cause)) => Err(disk_error(format_args!("lock `{shown}`"))(cause)),
    }
}
