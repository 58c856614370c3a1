//! What a restart keeps, and what it ends.

use crate::sample::{body, claimed, completed, fill, key, open, won};
use semel_core::{
    call::{self, Terms},
    record::{Body, OnLapse, Place, Reason, State, Status},
    store::{Store, Swap},
    time::Timestamp,
};
use semel_testkit::ManualClock;
use std::time::Duration;

#[tokio::test]
async fn a_reopen_releases_at_once_what_a_dead_handler_held() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    let record = claimed(&store, Place::Here, OnLapse::Rerun);
    let fence = won(&store, &key(1), None, &record).await;
    drop(store);
    let store = open(directory.path(), &clock);
    let stored = store.load(&key(1)).await.unwrap().unwrap();
    assert_eq!((stored.record.status(), stored.record.attempts), (Status::Pending, 1));
    won(&store, &key(1), Some(fence), &completed(&store, b"after")).await;
}

#[tokio::test]
async fn a_reopen_reports_at_once_what_must_be_reported() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    won(&store, &key(1), None, &claimed(&store, Place::Here, OnLapse::Report)).await;
    drop(store);
    let store = open(directory.path(), &clock);
    let stored = store.load(&key(1)).await.unwrap().unwrap();
    let State::InProgress { lease_until, .. } = stored.record.state else { panic!("{stored:?}") };
    assert!(lease_until <= clock.arc().now(), "its holder is dead, so its lease is over");
}

#[tokio::test]
async fn a_reopen_keeps_the_lease_of_work_done_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    let record = claimed(&store, Place::Elsewhere, OnLapse::Rerun);
    won(&store, &key(1), None, &record).await;
    drop(store);
    let store = open(directory.path(), &clock);
    assert_eq!(store.load(&key(1)).await.unwrap().unwrap().record, record);
}

#[tokio::test]
async fn everything_is_found_again_wherever_it_has_moved() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    for round in 0..4 {
        let store = open(directory.path(), &clock);
        fill(&store, round * 500..(round + 1) * 500).await;
        for number in 0..(round + 1) * 500 {
            let stored = store.load(&key(number)).await.unwrap().expect("it was completed");
            let State::Completed(Body::Kept { bytes, .. }) = stored.record.state else { panic!("{number}") };
            assert_eq!(bytes, body(number));
        }
        assert_eq!(store.load(&key(u32::MAX)).await.unwrap(), None);
    }
    let files = std::fs::read_dir(directory.path()).unwrap().flatten();
    assert!(files.filter(|it| it.path().extension().is_some_and(|it| it == "sqlite")).count() > 0);
}

#[tokio::test]
async fn expired_records_go_with_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    fill(&store, 0..1500).await;
    clock.advance(Duration::from_hours(240));
    store.purge(clock.arc().now(), u32::MAX).await.unwrap();
    drop(store);
    let store = open(directory.path(), &clock);
    store.purge(clock.arc().now(), u32::MAX).await.unwrap();
    assert_eq!(store.sizes(), (0, 0), "nothing is left in the journal's map, and no row in SQLite");
    for number in 0..1500 {
        assert_eq!(store.load(&key(number)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_was_forgotten_does_not_come_back_when_it_moves() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    fill(&store, 0..800).await;
    let stored = store.load(&key(3)).await.unwrap().unwrap();
    let forgotten = call::forget(clock.arc().now(), &stored.record, &Terms::default()).unwrap();
    let fence = won(&store, &key(3), Some(stored.fence), &forgotten).await;
    clock.advance(Duration::from_secs(1));
    fill(&store, 1000..1800).await;
    drop(store);
    let store = open(directory.path(), &clock);
    let found = store.load(&key(3)).await.unwrap().expect("it hides an older value, so it is kept");
    assert_eq!((found.fence, found.record.expires_at < clock.arc().now()), (fence, true));
    let State::Failed { reason: Reason::Cancelled, .. } = found.record.state else { panic!("{found:?}") };
    let stale = store.swap(&key(3), Some(stored.fence), &forgotten).await.unwrap();
    assert!(matches!(stale, Swap::Lost(Some(_))));
}

#[tokio::test]
async fn fences_grow_though_the_clock_goes_back_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(directory.path(), &clock);
    let before = won(&store, &key(1), None, &completed(&store, b"")).await;
    drop(store);
    let clock = ManualClock::at(Timestamp::from_millis(1));
    let store = open(directory.path(), &clock);
    assert!(won(&store, &key(2), None, &completed(&store, b"")).await > before);
}
