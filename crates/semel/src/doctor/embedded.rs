//! What the disk below the embedded store promises.
//!
//! 1. A file system in memory forgets everything at a power cut: tier C.
//! 2. A file system on another machine may acknowledge what it has not written, and lock what others do not
//!    see: tier C, since nothing here can tell.
//! 3. A directory that cannot be written to is refused.
//!
//! It does not open the store, so that it can be asked while a process has it open. It cannot see whether the
//! disk itself tells the truth about what it has written.

use super::{Finding, Report, Tier};
use semel_core::store::{StoreError, StoreErrorKind};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const STORE: &str = "embedded";

/// What the embedded store in this directory promises. The directory need not be there yet.
///
/// ```
/// use semel::doctor;
/// # let directory = tempfile::tempdir()?;
/// let report = doctor::embedded(directory.path().join("semel-data"))?;
/// assert!(!report.is_refused(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn embedded(directory: impl AsRef<Path>) -> Result<Report, StoreError> {
    let directory = existing(directory.as_ref())?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok();
    let file_system = mounts.as_deref().and_then(|mounts| file_system(mounts, &directory));
    let (finding, tier) = judged(file_system);
    Ok(Report::new(STORE, tier).with(writable(&directory)).with(finding))
}

/// The directory, or the nearest one above it that is there.
fn existing(directory: &Path) -> Result<PathBuf, StoreError> {
    let absolute = std::path::absolute(directory).map_err(|cause| {
        let context = format!("`{}` is no path: name a directory", directory.display());
        StoreError::new(StoreErrorKind::Misconfigured, STORE, context).because(cause)
    })?;
    let found = absolute.ancestors().find_map(|it| it.canonicalize().ok());
    Ok(found.unwrap_or(absolute))
}

fn writable(directory: &Path) -> Finding {
    let probe = directory.join(format!(".semel-doctor-{}", std::process::id()));
    let tried = fs::File::create_new(&probe).and_then(|file| file.sync_all());
    // It may not be there, which is as good.
    let _ = fs::remove_file(&probe);
    match tried {
        Ok(()) => Finding::fine("directory", "writable"),
        Err(error) => Finding::refused("directory")
            .found(format!("not writable ({})", reason(&error)))
            .wanted("a directory that this process may write to")
            .remedy(format!("give it the right to write in `{}`, or open another", directory.display())),
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "read-only file system".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::NotADirectory => "it is a file".to_owned(),
        _ => error.to_string(),
    }
}

/// The type of the file system that this directory is on: the last of the deepest mounts above it.
fn file_system<'a>(mounts: &'a str, directory: &Path) -> Option<&'a str> {
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let point = unescaped(mount.split(' ').nth(4)?);
        let depth = Path::new(&point).components().count();
        directory.starts_with(&point).then_some((depth, system.split(' ').next()?))
    });
    mounted.max_by_key(|(depth, _)| *depth).map(|(_, system)| system)
}

/// Blanks and backslashes are octal in the kernel's list.
fn unescaped(point: &str) -> String {
    point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn judged(file_system: Option<&str>) -> (Finding, Tier) {
    let warning = Finding::warning("file system").wanted("one on a disk of this machine");
    match file_system {
        Some(memory @ ("tmpfs" | "ramfs")) => {
            let found = format!("{memory}, which is in memory");
            (warning.found(found).remedy("open a directory on a disk"), Tier::C)
        }
        Some(remote) if is_remote(remote) => {
            let found = format!("{remote}, whose syncing and locking cannot be seen from here");
            (warning.found(found).remedy("open a directory on a local disk, or use a database"), Tier::C)
        }
        Some(local) => (Finding::fine("file system", local.to_owned()), Tier::A),
        None => {
            let warning = warning.found("unknown on this system");
            (warning.remedy("make sure that it is on a local disk"), Tier::C)
        }
    }
}

fn is_remote(system: &str) -> bool {
    const REMOTE: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "afs", "lustre"];
    REMOTE.contains(&system) || system.starts_with("fuse.")
}

#[cfg(test)]
mod tests {
    use super::{super::Severity, *};

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /dev rw,nosuid - devtmpfs udev rw
24 23 0:24 / /dev/shm rw - tmpfs tmpfs rw
25 22 0:40 / /srv/my\\040data rw master:3 - nfs4 server:/data rw
26 22 0:41 / /mnt/far rw - fuse.sshfs host: rw
";

    fn check(directory: &str, system: &str, tier: Tier) {
        let found = file_system(MOUNTS, Path::new(directory));
        assert_eq!((found, judged(found).1), (Some(system), tier), "{directory}");
    }

    #[test]
    fn the_deepest_mount_above_a_directory_decides() {
        check("/", "ext4", Tier::A);
        check("/var/lib/semel", "ext4", Tier::A);
        check("/dev/shm/semel", "tmpfs", Tier::C);
        check("/dev/shmother", "devtmpfs", Tier::A);
        check("/srv/my data/semel", "nfs4", Tier::C);
        check("/mnt/far/semel", "fuse.sshfs", Tier::C);
    }

    #[test]
    fn where_the_mounts_cannot_be_seen_nothing_is_believed() {
        let (finding, tier) = judged(None);
        assert_eq!((finding.severity, tier), (Severity::Warning, Tier::C));
    }
}
