//! Directories that cannot serve, and what the store says of them.

use crate::sample::{completed, fill, key, open, small};
use semel_core::store::{Store, StoreError, StoreErrorKind, Swap};
use semel_embedded::EmbeddedStore;
use semel_testkit::{ManualClock, Mount};
use std::{error::Error, fs, path::Path};

fn refusal(directory: &Path) -> (StoreErrorKind, String) {
    let error: StoreError = match EmbeddedStore::open(directory, ManualClock::new().arc()) {
        Ok(_) => panic!("the directory should not open"),
        Err(error) => error,
    };
    let cause = error.source().map(|it| format!(": {it}")).unwrap_or_default();
    let shown = format!("{error}{cause}").replace(&directory.display().to_string(), "DIRECTORY");
    (error.kind(), shown)
}

#[tokio::test]
async fn a_second_opening_of_a_directory_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path(), &ManualClock::new());
    let (kind, message) = refusal(directory.path());
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert_eq!(
        message,
        "embedded store: the directory `DIRECTORY` is open in another process, or twice in this one: an \
         embedded store serves one process at a time; share one `Once`, or give each process a directory of \
         its own"
    );
}

#[tokio::test]
async fn a_directory_of_a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), &ManualClock::new()));
    fs::write(directory.path().join("FORMAT"), "Semel embedded store, format 99\n").unwrap();
    let before = names(directory.path());
    let (kind, message) = refusal(directory.path());
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert_eq!(
        message,
        "embedded store: the directory was written by a newer Semel (format 99, this one knows 1): upgrade Semel"
    );
    assert_eq!(names(directory.path()), before);
}

#[tokio::test]
async fn a_directory_whose_journal_was_deleted_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), &ManualClock::new());
    fill(&store, 0..800).await;
    drop(store);
    for name in names(directory.path()).iter().filter(|it| it.starts_with("journal-")) {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    assert_eq!(refusal(directory.path()).0, StoreErrorKind::Corrupt);
}

#[test]
fn a_directory_that_cannot_be_made_is_refused_with_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let (kind, message) = refusal(&file.join("below"));
    assert_eq!(kind, StoreErrorKind::Refused);
    assert!(message.contains("make the directory"), "{message}");
}

/// Root may write anywhere, so the file system itself must refuse.
#[tokio::test]
async fn a_read_only_directory_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::memory(directory.path(), "size=8m") else { return };
    drop(open(directory.path(), &ManualClock::new()));
    mount.change("ro");
    let (kind, message) = refusal(directory.path());
    assert_eq!(kind, StoreErrorKind::Refused);
    assert!(message.contains("give this process the right to write there"), "{message}");
}

#[tokio::test]
async fn a_full_disk_refuses_new_keys_loses_nothing_and_recovers_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::memory(directory.path(), "size=1m") else { return };
    let clock = ManualClock::new();
    let store = EmbeddedStore::open_with(directory.path(), clock.arc(), small()).unwrap();
    let filler = directory.path().join("filler");
    let mut number = 0;
    let refused = loop {
        match store.swap(&key(number), None, &completed(&store, &[7; 2000])).await {
            Ok(Swap::Won(_)) => number += 1,
            Ok(Swap::Lost(_)) => panic!("nobody else is here"),
            Err(error) => break error,
        }
        if number == 20 {
            // Takes what is left of the disk.
            fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
        }
        assert!(number < 10_000, "the disk must fill up");
    };
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    for earlier in 0..number {
        assert!(store.load(&key(earlier)).await.unwrap().is_some(), "{earlier} was acknowledged");
    }
    fs::remove_file(&filler).unwrap();
    while store.swap(&key(number), None, &completed(&store, b"again")).await.is_err() {
        tokio::task::yield_now().await;
    }
    drop(store);
    let store = EmbeddedStore::open_with(directory.path(), clock.arc(), small()).unwrap();
    for earlier in 0..=number {
        assert!(store.load(&key(earlier)).await.unwrap().is_some(), "{earlier} was acknowledged");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
