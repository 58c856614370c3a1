//! Flipped bits and cut files: an error or the right answer, never a wrong one.

use crate::sample::{body, fill, key, open, small};
use semel_core::{
    record::{Body, State},
    store::{Store, StoreErrorKind},
};
use semel_embedded::EmbeddedStore;
use semel_testkit::ManualClock;
use std::{
    fs,
    path::{Path, PathBuf},
};

const KEYS: u32 = 260;

/// A closed store with something in the journal and something in SQLite.
async fn sample() -> (tempfile::TempDir, ManualClock) {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    fill(&store, 0..KEYS).await;
    while store.sizes().1 == 0 {
        tokio::task::yield_now().await;
    }
    drop(store);
    (directory, clock)
}

fn files(directory: &Path, start: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<_> =
        all.filter(|it| it.file_name().unwrap().to_string_lossy().starts_with(start)).collect();
    files.sort();
    files
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

/// Opens the directory and asks for everything; whether somebody noticed the damage.
async fn is_noticed(directory: &Path, clock: &ManualClock, what: &str) -> bool {
    let store = match EmbeddedStore::open_with(directory, clock.arc(), small()) {
        Ok(store) => store,
        Err(error) => {
            let expected = [StoreErrorKind::Corrupt, StoreErrorKind::Misconfigured, StoreErrorKind::Refused];
            assert!(expected.contains(&error.kind()), "{what}: {error}");
            return true;
        }
    };
    let mut is_noticed = false;
    for number in 0..KEYS {
        match store.load(&key(number)).await {
            Err(_) => is_noticed = true,
            Ok(None) => panic!("{what}: key {number} was completed, and would run again"),
            Ok(Some(stored)) => match stored.record.state {
                State::Completed(Body::Kept { bytes, .. }) if bytes == body(number) => {}
                other => panic!("{what}: key {number} has another outcome: {other:?}"),
            },
        }
    }
    is_noticed
}

#[tokio::test]
async fn no_flipped_bit_gives_a_wrong_answer() {
    let (directory, clock) = sample().await;
    let mut random = fastrand::Rng::with_seed(25);
    let mut noticed = 0;
    let mut flips = 0;
    for (start, count) in [("journal-", 60), ("finished-", 120), ("FORMAT", 5)] {
        for file in files(directory.path(), start) {
            let length = fs::metadata(&file).unwrap().len() as usize;
            for flip in 0..count {
                let damaged = copy(directory.path());
                let path = damaged.path().join(file.file_name().unwrap());
                let mut bytes = fs::read(&path).unwrap();
                // Every header, every so many bytes, and anywhere.
                let at = if flip % 2 == 0 { flip * length / count } else { random.usize(..length) };
                bytes[at] ^= 1 << random.u8(..8);
                fs::write(&path, bytes).unwrap();
                let what = format!("byte {at} of {}", file.display());
                noticed += u32::from(is_noticed(damaged.path(), &clock, &what).await);
                flips += 1;
            }
        }
    }
    println!("{flips} flips, of which {noticed} were noticed; the others did not matter");
    assert!(noticed > flips / 10, "only {noticed} of {flips} flips were noticed");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_noticed() {
    let (directory, clock) = sample().await;
    for start in ["journal-", "finished-"] {
        for file in files(directory.path(), start) {
            let damaged = copy(directory.path());
            let path = damaged.path().join(file.file_name().unwrap());
            let bytes = fs::read(&path).unwrap();
            // Zeros at the end of a journal are not missed; what was written is.
            let written = bytes.iter().rposition(|it| *it != 0).unwrap() + 1;
            if start == "journal-" && written <= 100 {
                continue;
            }
            fs::write(&path, &bytes[..written / 2]).unwrap();
            let what = format!("half of {}", file.display());
            assert!(is_noticed(damaged.path(), &clock, &what).await, "{what} was not noticed");
        }
    }
}
