//! One directory, one process, and only so much room.

use super::damage::{FUNCTION, completed, event};
use semel_core::{
    execution::Execution,
    queue::{Accepted, Change, Demand, Fenced, Queue, Want, Written},
    record::Holder,
    store::StoreErrorKind,
    time::Timestamp,
};
use semel_embedded::{EmbeddedQueue, Home, Options};
use semel_testkit::{ManualClock, Mount};
use std::{fs, time::Duration};

#[tokio::test]
async fn a_home_holds_a_store_and_a_queue_and_opens_once() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let home = Home::open(directory.path()).unwrap();
    let queue = home.queue(EmbeddedQueue::builder(directory.path(), clock.arc())).unwrap();
    let store = home.store(clock.arc(), Options::default()).unwrap();
    let second = || match EmbeddedQueue::open(directory.path(), clock.arc()) {
        Ok(_) => panic!("the directory is open"),
        Err(error) => error,
    };
    assert_eq!(second().kind(), StoreErrorKind::Misconfigured);
    assert!(second().to_string().contains("is open in another process"), "{}", second());
    drop((home, store));
    assert_eq!(second().kind(), StoreErrorKind::Misconfigured, "the queue is still in use");
    drop(queue);
    EmbeddedQueue::open(directory.path(), clock.arc()).unwrap();
}

#[tokio::test]
async fn a_queue_that_has_no_room_accepts_nothing_new_and_finishes_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let options = Options { segment_bytes: 64 << 10, flush_segments: 2, backlog_segments_max: 8 };
    let builder = EmbeddedQueue::builder(directory.path(), clock.arc()).options(options);
    let queue = builder.bytes_max(2 << 20).open().unwrap();
    let now = queue.clock().now();
    let mut number = 0;
    let refused = loop {
        match queue.accept(&[event(number, 4_000, now)]).await {
            Ok(answers) => assert!(matches!(answers[..], [Accepted::New(_)])),
            Err(error) => break error,
        }
        number += 1;
        assert!(number < 1_000, "two megabytes are full at some point");
    };
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    assert!(number > 100, "only {number} fit into two megabytes");
    let want = Want { function: FUNCTION.into(), limit: 20, lease: Duration::from_mins(1) };
    let held = queue.claim(&Demand { holder: Holder(1), wants: vec![want] }).await.unwrap();
    assert_eq!(held.len(), 20, "what is there is handed out");
    let change = |expected, after| Change { expected, after, causes: Vec::new() };
    let changes: Vec<_> = held.iter().map(|it| change(it.fence, completed(&it.value, now))).collect();
    let written = queue.write(&changes).await.unwrap();
    assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "what is under way is finished");
}

#[tokio::test]
async fn what_is_told_of_the_disk_is_what_the_files_take_also_those_that_are_made_ahead() {
    const SEGMENT: u64 = 64 << 10;
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let options = Options { segment_bytes: SEGMENT as u32, flush_segments: 2, backlog_segments_max: 8 };
    let queue = EmbeddedQueue::builder(directory.path(), clock.arc()).options(options).open().unwrap();
    for number in 0..100 {
        drop(queue.accept(&[event(number, 4_000, queue.clock().now())]).await.unwrap());
    }
    queue.settled().await;
    let files =
        fs::read_dir(directory.path().join("queue")).unwrap().map(|it| it.unwrap().metadata().unwrap().len());
    let (taken, told) = (files.sum::<u64>(), queue.disk_bytes());
    assert!(taken.abs_diff(told) < SEGMENT, "{told} bytes are told of {taken}");
}

#[tokio::test]
async fn a_full_disk_refuses_new_events_finishes_what_is_under_way_and_recovers_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::memory(directory.path(), "size=2m") else { return };
    let clock = ManualClock::new();
    let options = || Options { segment_bytes: 64 << 10, flush_segments: 2, backlog_segments_max: 8 };
    let open = || EmbeddedQueue::builder(directory.path(), clock.arc()).options(options()).open().unwrap();
    let queue = open();
    let now = queue.clock().now();
    let want = Want { function: FUNCTION.into(), limit: 1, lease: Duration::from_mins(1) };
    let demand = Demand { holder: Holder(1), wants: vec![want] };
    drop(queue.accept(&[event(0, 10, now)]).await.unwrap());
    let held = queue.claim(&demand).await.unwrap().remove(0);
    let filler = directory.path().join("filler");
    fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    let mut number = 1;
    let refused = loop {
        match queue.accept(&[event(number, 2_000, now)]).await {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "the disk must fill up");
    };
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    let change = Change { expected: held.fence, after: completed(&held.value, now), causes: Vec::new() };
    let written = queue.write(&[change]).await.unwrap();
    assert!(matches!(written[..], [Written::Won(_)]), "what is under way is finished");
    fs::remove_file(&filler).unwrap();
    while queue.accept(&[event(number, 2_000, now)]).await.is_err() {
        tokio::task::yield_now().await;
    }
    drop(queue);
    let queue = open();
    for earlier in 0..=number {
        let id = event(earlier, 0, now).id();
        assert!(queue.get(&[id]).await.unwrap()[0].is_some(), "{earlier} was acknowledged");
    }
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced() && counts.completed == 1, "{counts:?}");
}

fn small() -> Options {
    Options { segment_bytes: 64 << 10, flush_segments: 2, backlog_segments_max: 8 }
}

/// Accepts from this number on until the disk is full: the number of the first event that it did not take.
async fn until_refused(queue: &EmbeddedQueue, from: u64, now: Timestamp) -> u64 {
    let mut number = from;
    // The housekeeper may find room once more after one was refused.
    for _ in 0..100_000 {
        while queue.accept(&[event(number, 2_000, now)]).await.is_ok() {
            number += 1;
            assert!(number < 10_000, "the disk must fill up");
        }
        if queue.refuses().is_some() {
            return number;
        }
        std::thread::yield_now();
    }
    panic!("it refuses what it is given, and does not say so");
}

/// Claims and completes until nothing more is handed out; how many it was. Whatever is handed out can be completed.
async fn work(queue: &EmbeddedQueue, now: Timestamp) -> usize {
    let want = Want { function: FUNCTION.into(), limit: 5, lease: Duration::from_mins(1) };
    let demand = Demand { holder: Holder(1), wants: vec![want] };
    let mut done = 0;
    loop {
        let held = queue.claim(&demand).await.unwrap();
        if held.is_empty() {
            return done;
        }
        let change = |it: &Fenced<Execution>| Change {
            expected: it.fence,
            after: completed(&it.value, now),
            causes: Vec::new(),
        };
        let changes: Vec<_> = held.iter().map(change).collect();
        let written = queue.write(&changes).await.unwrap();
        assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "{written:?}");
        done += held.len();
    }
}

const WAITING: u64 = 100;

/// F3: what was accepted is handed out and finished from the reserve, and nothing is handed out that could not be finished.
#[tokio::test]
async fn a_full_disk_has_a_reserve_for_what_was_accepted_and_takes_it_back_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::memory(directory.path(), "size=6m") else { return };
    let clock = ManualClock::new();
    let open = || EmbeddedQueue::builder(directory.path(), clock.arc()).options(small()).open().unwrap();
    let queue = open();
    queue.settled().await;
    assert_eq!(queue.refuses(), None);
    let now = queue.clock().now();
    // More than can be finished from the reserve.
    for number in 0..WAITING {
        drop(queue.accept(&[event(number, 2_000, now)]).await.unwrap());
    }
    let filler = directory.path().join("filler");
    fs::write(&filler, vec![0; 8 << 20]).unwrap_err();
    let taken = until_refused(&queue, WAITING, now).await;
    assert!(queue.refuses().is_some_and(|it| it.contains("takes no new keys")), "{:?}", queue.refuses());
    let first = work(&queue, now).await;
    // Two files of the reserve are for them, and each execution takes twice its size.
    assert!(first >= 2 * (64 << 10) / (2 * 2_500), "only {first} of {taken} were finished");
    drop(queue);
    let queue = open();
    let counts = queue.counts().await.unwrap().remove(0);
    assert!(counts.is_balanced() && counts.completed == first as u64, "{counts:?}");
    assert!(queue.accept(&[event(taken, 2_000, now)]).await.is_err(), "it is as full as before");
    fs::remove_file(&filler).unwrap();
    while queue.accept(&[event(taken, 2_000, now)]).await.is_err() {
        tokio::task::yield_now().await;
    }
    let rest = work(&queue, now).await;
    assert_eq!(first + rest, taken as usize + 1);
    queue.settled().await;
    assert_eq!(queue.refuses(), None);
    let names = fs::read_dir(directory.path().join("queue")).unwrap().map(|it| it.unwrap().file_name());
    let names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
    let reserve = names.iter().filter(|it| it.starts_with("reserve-")).count();
    assert_eq!(reserve, 4, "{names:?}");
    let is_leaving = |it: &&String| it.starts_with("blank-") || it.starts_with("short-");
    assert_eq!(names.iter().find(is_leaving), None, "{names:?}");
}

/// An entry of the runtime's own books.
fn own(number: u64, now: Timestamp) -> Execution {
    Execution { function: "$audit".into(), ..event(number, 100, now) }
}

/// F3, invariant 33: it is on a full disk that operators act, and what they do is on record.
#[tokio::test]
async fn the_runtimes_own_books_are_kept_where_nothing_new_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let builder = EmbeddedQueue::builder(directory.path(), clock.arc()).options(small());
    // Less than it takes from the start.
    let queue = builder.bytes_max(1 << 10).open().unwrap();
    let now = queue.clock().now();
    for new in [vec![event(0, 100, now)], vec![own(0, now), event(1, 100, now)]] {
        let error = queue.accept(&new).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused);
    }
    let answers = queue.accept(&[own(2, now)]).await.unwrap();
    assert!(matches!(answers[..], [Accepted::New(_)]), "{answers:?}");
    drop(queue);

    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::memory(directory.path(), "size=6m") else { return };
    let queue = EmbeddedQueue::builder(directory.path(), clock.arc()).options(small()).open().unwrap();
    queue.settled().await;
    fs::write(directory.path().join("filler"), vec![0; 8 << 20]).unwrap_err();
    let taken = until_refused(&queue, 0, now).await;
    // More than is left of the file that is written to.
    let entries = 2 * (64 << 10) / 300;
    for number in 0..entries {
        let answers = queue.accept(&[own(taken + number, now)]).await.unwrap();
        assert!(matches!(answers[..], [Accepted::New(_)]), "{number}: {answers:?}");
    }
    assert!(queue.refuses().is_some(), "and nothing new is taken");
    let counts = queue.counts().await.unwrap();
    let own = counts.iter().find(|it| &*it.function == "$audit").unwrap();
    assert_eq!(own.accepted, entries, "{own:?}");
}
