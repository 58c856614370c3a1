//! What is on disk stays readable: a directory as format 1 wrote it.
//!
//! `SEMEL_BLESS=1` makes the directory anew, if it is not there.

use crate::sample::{body, claimed, completed, fill, key, won};
use semel_core::{
    record::{Body, OnLapse, Place, State, Status},
    store::Store,
    time::Timestamp,
};
use semel_embedded::{EmbeddedStore, Options};
use semel_testkit::ManualClock;
use std::{fs, path::Path};

const MADE_AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn options() -> Options {
    Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 }
}

async fn make(directory: &Path) {
    let clock = ManualClock::at(MADE_AT);
    let store = EmbeddedStore::open_with(directory, clock.arc(), options()).unwrap();
    fill(&store, 0..40).await;
    while store.sizes().1 < 20 {
        tokio::task::yield_now().await;
    }
    won(&store, &key(100), None, &claimed(&store, Place::Here, OnLapse::Rerun)).await;
    won(&store, &key(101), None, &claimed(&store, Place::Elsewhere, OnLapse::Rerun)).await;
    won(&store, &key(102), None, &completed(&store, b"in the journal")).await;
    drop(store);
    for file in fs::read_dir(directory).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if name == "LOCK" || name.starts_with("spare-") {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_directory_of_format_1_is_read_for_ever() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    if !fixture.exists() && std::env::var_os("SEMEL_BLESS").is_some() {
        fs::create_dir_all(&fixture).unwrap();
        make(&fixture).await;
    }
    let directory = tempfile::tempdir().unwrap();
    for file in fs::read_dir(&fixture).unwrap().flatten() {
        fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    let clock = ManualClock::at(MADE_AT);
    let store = EmbeddedStore::open_with(directory.path(), clock.arc(), options()).unwrap();
    for number in 0..40 {
        let stored = store.load(&key(number)).await.unwrap().expect("it was completed");
        let State::Completed(Body::Kept { bytes, .. }) = stored.record.state else { panic!("{number}") };
        assert_eq!(bytes, body(number));
    }
    let status = async |number| store.load(&key(number)).await.unwrap().unwrap().record.status();
    assert_eq!(status(100).await, Status::Pending, "its process is gone");
    assert_eq!(status(101).await, Status::InProgress, "its work may go on elsewhere");
    assert_eq!(status(102).await, Status::Completed);
}
