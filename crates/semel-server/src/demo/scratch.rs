//! A directory to work in.

use crate::exit::Failure;
use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

/// How many names are tried.
const NAMES_MAX: u32 = 100;

/// A directory to work in, which is removed in the end unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    is_kept: bool,
}

impl Scratch {
    /// This one, which must not hold anything and is kept; or one of our own, which is not.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self, Failure> {
        match keep {
            Some(path) => Self::kept(path),
            None => Self::passing(),
        }
    }

    fn kept(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        fs::create_dir_all(path)
            .and_then(|()| fs::read_dir(path))
            .map_err(|error| Failure::unavailable(format!("`{shown}` cannot be used")).because(&error))
            .and_then(|mut entries| match entries.next() {
                None => Ok(Self { path: path.to_owned(), is_kept: true }),
                Some(_) => Err(Failure::usage(format!("`{shown}` is not empty"))
                    .hint("name a directory that is not there yet")),
            })
    }

    fn passing() -> Result<Self, Failure> {
        let all = std::env::temp_dir();
        let mut last = None;
        for number in 0..NAMES_MAX {
            let path = all.join(format!("semel-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, is_kept: false }),
                Err(error) => last = Some(error),
            }
        }
        let failure = Failure::unavailable(format!("no directory can be made in `{}`", all.display()))
            .hint("name another place in `TMPDIR`, or `--keep DIRECTORY`");
        Err(last.map_or(failure.clone(), |error| failure.because(&error)))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is left to the system.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
