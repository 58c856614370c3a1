//! The few things the engine asks of a file system, as a port, so that tests can cut its power.
//!
//! 1. One flat directory. A file becomes visible under its real name by a rename after it was synced.
//! 2. What was written is durable after [`DiskFile::sync`]; what was created, renamed or removed, after
//!    [`Disk::sync_directory`].
//! 3. What a file was [allocated](DiskFile::allocate) can be written, however full the disk is.
//! 4. SQLite reads and builds its own files at [`Disk::path`]; the engine syncs them and gives them their
//!    name, so they obey the same two rules.

use semel_core::sabotage;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// How much of a long file is written before it is synced. A disk writes what it is given in order, so whoever waits for a
/// sync of the journal waits for no more of other files than this.
pub(crate) const SLICE_BYTES: usize = 256 << 10;

/// A directory.
pub trait Disk: Send + Sync + 'static {
    /// The names in the directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new, empty file; one of the same name is replaced.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// A file that is there, whoever wrote it.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Where SQLite finds a file of this name.
    fn path(&self, name: &str) -> PathBuf;
}

/// A file.
pub trait DiskFile: Send + Sync + 'static {
    /// Fills the buffer from this offset, or fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of the bytes at this offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to this length. Only for files that nobody reads any more.
    fn shrink(&self, length: u64) -> io::Result<()>;
    /// Takes the room that the file needs to become so long; its length stays as it is. `false` where the file system
    /// cannot: then room is taken when something is written.
    fn allocate(&self, length: u64) -> io::Result<bool>;
    /// How long it is.
    fn length(&self) -> io::Result<u64>;
}

/// A directory of the operating system.
pub struct OsDisk {
    directory: PathBuf,
    /// Opened by the first who syncs it, and kept: a process that has run out of descriptors can still begin a file that
    /// was made ahead.
    handle: OnceLock<File>,
}

impl OsDisk {
    /// The directory at this path, which must exist.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), handle: OnceLock::new() }
    }
}

impl Disk for OsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.directory)?.map(|it| it.map(|it| it.file_name()));
        names.map(|it| it.map(|it| it.to_string_lossy().into_owned())).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
        Ok(Arc::new(OsFile(options.open(self.path(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).write(true).open(self.path(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        if let Some(handle) = self.handle.get() {
            return handle.sync_all();
        }
        let opened = File::open(&self.directory)?;
        self.handle.get_or_init(|| opened).sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

struct OsFile(File);

impl DiskFile for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn shrink(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, length: u64) -> io::Result<bool> {
        use rustix::{fs::FallocateFlags, io::Errno};
        match rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, length) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// A file under a temporary name, which goes with this unless it got its real one: what could not be finished for want of room
/// must not be what takes it.
pub(crate) struct Temporary<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) name: String,
    is_named: bool,
}

impl<'a> Temporary<'a> {
    pub(crate) const fn new(disk: &'a dyn Disk, name: String) -> Self {
        Self { disk, name, is_named: false }
    }

    /// It is to stay as it is.
    pub(crate) const fn keep(&mut self) {
        self.is_named = true;
    }

    /// Gives the file its real name.
    pub(crate) fn rename(&mut self, to: &str) -> io::Result<()> {
        self.disk.rename(&self.name, to)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_named && !sabotage::is_on("embedded_leavings_kept") {
            // A start removes what is left.
            let _ = self.disk.remove(&self.name);
        }
    }
}
