//! The DynamoDB store.

mod clock;
mod errors;
mod items;
mod tables;

use crate::end_to_end;
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region},
};
use semel::{
    Fingerprint, Holder, Key, OnLapse, Place, Record, State, Store, StoreError, Swap, Timestamp,
    store::dynamodb::DynamoStore,
};
use semel_testkit::{conformance, servers};
use std::{sync::Arc, time::Duration};

/// Where the server is.
fn endpoint() -> String {
    servers::dynamodb().endpoint
}

/// A client of the server at this address.
fn client_of(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(endpoint)
        .build();
    Client::from_conf(config)
}

/// The name of a table that no other test has.
fn fresh_table() -> String {
    servers::dynamodb().table
}

/// A store on a table of its own.
async fn fresh_store() -> DynamoStore {
    let store = DynamoStore::new(client_of(&endpoint()), fresh_table());
    store.create_table().await.unwrap();
    store
}

fn key(id: &str) -> Key {
    Key::new("dynamodb", id).unwrap()
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
async fn claim(store: &DynamoStore, id: &str) -> Result<Swap, StoreError> {
    store.swap(&key(id), None, &running(store, 1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_partition_key_keeps_every_rule() {
    let store = fresh_store().await;
    conformance::all(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_sort_key_and_names_of_its_own_keeps_every_rule() {
    let store = DynamoStore::new(client_of(&endpoint()), fresh_table())
        .partition_key("PK")
        .sort_key("SK", "idempotency")
        .prefix("orders#")
        .fence_attribute("version")
        .record_attribute("data")
        .expires_attribute("ttl")
        .key_attribute("name")
        .status_attribute("state");
    store.create_table().await.unwrap();
    conformance::all(&store).await;
    conformance::contended(Arc::new(store), |task| drop(tokio::spawn(task))).await;
}

#[tokio::test]
async fn calls_are_claimed_replayed_waited_for_and_taken_over() {
    end_to_end::check(Arc::new(fresh_store().await)).await;
}
