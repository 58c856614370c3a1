//! What is on disk stays readable: a queue's directory as format 1 wrote it.
//!
//! `SEMEL_BLESS=1` makes the directory anew, if it is not there.

use super::damage::{FUNCTION, completed, event};
use semel_core::{
    queue::{Change, Demand, Queue, Want},
    record::{Holder, Status},
    time::Timestamp,
};
use semel_embedded::{EmbeddedQueue, Options};
use semel_testkit::ManualClock;
use std::{fs, path::Path, time::Duration};

const MADE_AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// The first of them are completed, the next in progress, the rest waits.
const EVENTS: u64 = 60;
const COMPLETED: u64 = 20;
const IN_PROGRESS: u64 = 5;
const BEGUN: u64 = COMPLETED + IN_PROGRESS;
const BYTES: usize = 150;

fn open(directory: &Path, clock: &ManualClock) -> EmbeddedQueue {
    let options = Options { segment_bytes: 4096, flush_segments: 1, backlog_segments_max: 8 };
    EmbeddedQueue::builder(directory, clock.arc()).options(options).open().unwrap()
}

fn demand(limit: u32) -> Demand {
    let want = Want { function: FUNCTION.into(), limit, lease: Duration::from_mins(1) };
    Demand { holder: Holder(1), wants: vec![want] }
}

async fn make(directory: &Path) {
    let clock = ManualClock::at(MADE_AT);
    let queue = open(directory, &clock);
    for number in 0..EVENTS {
        drop(queue.accept(&[event(number, BYTES, MADE_AT)]).await.unwrap());
    }
    for _ in 0..COMPLETED {
        let held = queue.claim(&demand(1)).await.unwrap().remove(0);
        let after = completed(&held.value, MADE_AT);
        drop(queue.write(&[Change { expected: held.fence, after, causes: Vec::new() }]).await.unwrap());
    }
    drop(queue.claim(&demand(IN_PROGRESS as u32)).await.unwrap());
    // So that there is one of every kind of file.
    let files = directory.join("queue");
    let is_there = |start: &str| {
        let mut all = fs::read_dir(&files).unwrap().flatten();
        all.any(|it| it.file_name().to_string_lossy().starts_with(start))
    };
    while !["finished-", "waiting-"].into_iter().all(is_there) {
        tokio::task::yield_now().await;
    }
    queue.settled().await;
    drop(queue);
    for directory in [directory, &files] {
        for file in fs::read_dir(directory).unwrap().flatten() {
            let path = file.path();
            if file.file_name() == "LOCK" || path.extension().is_some_and(|it| it == "tmp") {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(file.file_name());
        if file.path().is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&file.path(), &to);
        } else {
            fs::copy(file.path(), to).unwrap();
        }
    }
}

/// Invariant 27.
#[tokio::test]
async fn a_queues_directory_of_format_1_is_read_for_ever() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/queue-format-1");
    if !fixture.exists() && std::env::var_os("SEMEL_BLESS").is_some() {
        fs::create_dir_all(&fixture).unwrap();
        make(&fixture).await;
    }
    let directory = tempfile::tempdir().unwrap();
    copy(&fixture, directory.path());
    let clock = ManualClock::at(MADE_AT);
    let queue = open(directory.path(), &clock);
    for number in 0..EVENTS {
        let new = event(number, BYTES, MADE_AT);
        let found = queue.get(&[new.id()]).await.unwrap().remove(0).expect("it was accepted").value;
        let status = match number {
            0..COMPLETED => Status::Completed,
            COMPLETED..BEGUN => Status::InProgress,
            _ => Status::Pending,
        };
        assert_eq!((found.status(), &found.event), (status, &new.event), "{number}");
        assert_eq!(found.attempts, u32::from(number < BEGUN), "{number}");
    }
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!((counts.accepted, counts.completed, counts.in_progress), (EVENTS, COMPLETED, IN_PROGRESS));
    assert_eq!(queue.claim(&demand(1_000)).await.unwrap().len(), 35, "what waits is handed out");
    clock.advance(Duration::from_mins(2));
    assert_eq!(queue.claim(&demand(1_000)).await.unwrap().len(), 40, "and what lapsed since");
}
