//! The Firestore store, on Google's emulator.

mod documents;
mod errors;

use crate::end_to_end;
use semel::{
    Fingerprint, Holder, Key, OnLapse, Place, Record, State, Store, StoreError, Swap, Timestamp,
    doctor::Tier, store::firestore::FirestoreStore,
};
use semel_testkit::{conformance, servers};
use std::{sync::Arc, time::Duration};

/// A store in a project of its own.
fn fresh_store() -> FirestoreStore {
    let server = servers::firestore();
    FirestoreStore::emulator(&server.host, server.project)
}

fn key(id: &str) -> Key {
    Key::new("firestore", id).unwrap()
}

/// A record of this holder's, under a lease of a minute.
fn running(store: &dyn Store, holder: u128) -> Record {
    let now = store.clock().now();
    let state = State::InProgress {
        holder: Holder(holder),
        lease_until: now + Duration::from_mins(1),
        place: Place::Here,
        on_lapse: OnLapse::Rerun,
    };
    Record {
        fingerprint: Fingerprint::of_bytes(b"payload"),
        state,
        attempts: 1,
        created_at: now,
        updated_at: now,
        expires_at: Timestamp::NEVER,
    }
}

/// Tries to be the first to claim a key.
async fn claim(store: &FirestoreStore, id: &str) -> Result<Swap, StoreError> {
    store.swap(&key(id), None, &running(store, 1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_every_rule() {
    let store = fresh_store();
    conformance::all(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_below_a_document_in_another_database_keeps_every_rule() {
    let store = fresh_store().database("other").collection("tenants/acme/idempotency");
    conformance::all(&store).await;
}

#[tokio::test]
async fn calls_are_claimed_replayed_waited_for_and_taken_over() {
    end_to_end::check(Arc::new(fresh_store())).await;
}

#[tokio::test]
async fn an_emulator_is_told_apart_from_the_real_thing() {
    let report = fresh_store().doctor().await.unwrap();
    assert_eq!(report.tier, Tier::C);
    assert!(report.to_string().contains("an emulator"), "{report}");
}
