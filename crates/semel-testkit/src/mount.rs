//! A small file system, for tests of a disk that is full or cannot be written.

use std::path::{Path, PathBuf};

/// A file system in memory, until it is dropped. Only root can have one, and not on every machine.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// In this directory, with these options of `mount`: `size=8m`. `None` where this machine does not let us, which is said
    /// on standard error.
    pub fn memory(directory: &Path, options: &str) -> Option<Self> {
        let is_mounted = run("mount", &["-t", "tmpfs", "-o", options, "semel-test"], directory);
        if !is_mounted {
            eprintln!("left out: this machine does not let the test mount a file system");
        }
        is_mounted.then(|| Self(directory.to_owned()))
    }

    /// Changes its options: `ro`, or another size.
    pub fn change(&self, options: &str) {
        assert!(run("mount", &["-o", &format!("remount,{options}")], &self.0), "it cannot be {options}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = std::process::Command::new(program).args(arguments).arg(path).status();
    status.is_ok_and(|it| it.success())
}
