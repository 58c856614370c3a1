//! The store that fails by seed: what it does, and that it does it again.

use semel::MemoryStore;
use semel_core::{
    fingerprint::Fingerprint,
    key::Key,
    record::{Record, State},
    store::{Store, Swap},
    time::Timestamp,
};
use semel_testkit::{ChaosStore, Injected, conformance};
use std::sync::Arc;

fn chaos(seed: u64) -> ChaosStore {
    ChaosStore::new(Arc::new(MemoryStore::new()), seed)
}

fn key(number: u32) -> Key {
    Key::new("chaos", number).expect("a number is a valid id")
}

fn record() -> Record {
    Record {
        fingerprint: Fingerprint::EMPTY,
        state: State::Pending { due_at: Timestamp::EPOCH, error: None },
        attempts: 1,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        expires_at: Timestamp::NEVER,
    }
}

/// Which of a hundred swaps came through, and what was counted.
async fn hundred(store: &ChaosStore) -> (Vec<bool>, Injected) {
    let mut through = Vec::new();
    for number in 0..100 {
        through.push(store.swap(&key(number), None, &record()).await.is_ok());
    }
    (through, store.injected())
}

#[tokio::test]
async fn the_same_seed_does_the_same_and_another_does_not() {
    let first = hundred(&chaos(1)).await;
    assert_eq!(first, hundred(&chaos(1)).await);
    assert_ne!(first, hundred(&chaos(2)).await);
}

#[tokio::test]
async fn all_three_kinds_of_trouble_are_made_and_counted() {
    let (through, injected) = hundred(&chaos(3)).await;
    let failed = through.iter().filter(|it| !**it).count() as u64;
    assert_eq!(injected.calls, 100);
    assert_eq!(injected.failed_before + injected.lost_after, failed);
    assert!(injected.failed_before > 5 && injected.lost_after > 5 && injected.delayed > 5, "{injected:?}");
}

#[tokio::test]
async fn what_fails_before_is_not_written_and_what_is_lost_after_is() {
    let before = chaos(4).fails_one_in(1);
    assert!(before.swap(&key(1), None, &record()).await.is_err());
    before.calm(true);
    assert_eq!(before.load(&key(1)).await.expect("it is calm"), None);
    let after = chaos(4).fails_one_in(0).loses_one_in(1);
    let error = after.swap(&key(1), None, &record()).await.expect_err("the reply is lost");
    assert!(error.is_transient(), "nobody can tell the two apart");
    after.calm(true);
    let swap = after.swap(&key(1), None, &record()).await.expect("it is calm");
    assert!(matches!(swap, Swap::Lost(Some(stored)) if stored.record == record()));
}

#[tokio::test]
async fn a_store_that_only_delays_keeps_every_rule() {
    let slow = chaos(5).fails_one_in(0).loses_one_in(0).delays_up_to(3);
    conformance::all(&slow).await;
    assert!(slow.injected().delayed > 100);
    conformance::contended(Arc::new(slow), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test]
async fn the_memory_store_keeps_every_rule() {
    let store = MemoryStore::new();
    conformance::all(&store).await;
    conformance::purge_takes_the_expired_at_once(&store).await;
}
