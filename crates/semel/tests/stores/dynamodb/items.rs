//! What lies in the table.

use super::{claim, client_of, endpoint, fresh_store, fresh_table, key, running};
use aws_sdk_dynamodb::{
    Client,
    primitives::Blob,
    types::AttributeValue::{self, B, N, S},
};
use semel::{Fence, Reason, Record, State, Store, StoreErrorKind, Swap, store::dynamodb::DynamoStore};
use std::{collections::HashMap, time::Duration};

type Item = HashMap<String, AttributeValue>;

/// A store, and its table as others see it.
struct World {
    store: DynamoStore,
    client: Client,
    table: String,
}

impl World {
    async fn new() -> Self {
        let (client, table) = (client_of(&endpoint()), fresh_table());
        let store = DynamoStore::new(client.clone(), &table);
        store.create_table().await.unwrap();
        Self { store, client, table }
    }

    async fn item(&self, id: &str) -> Item {
        let identity = key(id).identity().to_string();
        let get = self.client.get_item().table_name(&self.table).key("id", S(identity));
        get.send().await.unwrap().item.unwrap()
    }

    /// Writes an item behind the store's back.
    async fn put(&self, item: Item) {
        self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await.unwrap();
    }

    /// Removes an item, as TTL does.
    async fn remove(&self, id: &str) {
        let identity = key(id).identity().to_string();
        let delete = self.client.delete_item().table_name(&self.table).key("id", S(identity));
        delete.send().await.unwrap();
    }

    async fn load_error(&self, id: &str) -> StoreErrorKind {
        self.store.load(&key(id)).await.unwrap_err().kind()
    }
}

/// A finished record that expires in a day.
fn finished(store: &dyn Store) -> Record {
    let now = store.clock().now();
    let state = State::Failed { reason: Reason::Fatal, error: "no such card".to_owned() };
    Record { state, expires_at: now + Duration::from_hours(24), ..running(store, 1) }
}

#[tokio::test]
async fn an_item_can_be_read_by_people_and_expires_only_when_it_is_finished() {
    let world = World::new().await;
    let Swap::Won(fence) = claim(&world.store, "readable").await.unwrap() else { panic!("it is fresh") };
    let item = world.item("readable").await;
    assert_eq!(item["key"], S("dynamodb/readable".to_owned()));
    assert_eq!(item["status"], S("IN_PROGRESS".to_owned()));
    assert_eq!(item["fence"], N(fence.to_string()));
    assert!(!item.contains_key("expires_at"), "an unfinished record has no TTL");

    let record = finished(&world.store);
    assert!(matches!(world.store.swap(&key("readable"), Some(fence), &record).await.unwrap(), Swap::Won(_)));
    let item = world.item("readable").await;
    assert_eq!(item["status"], S("FAILED".to_owned()));
    let seconds: u64 = item["expires_at"].as_n().unwrap().parse().unwrap();
    let margin = Duration::from_secs(seconds).as_millis() - u128::from(record.expires_at.as_millis());
    assert!((3_600_000..3_601_000).contains(&margin), "{margin} ms after it expired");
}

#[tokio::test]
async fn fences_go_on_growing_when_ttl_removed_an_item() {
    let world = World::new().await;
    let mut last = None;
    for _ in 0..5 {
        let Swap::Won(begun) = claim(&world.store, "again").await.unwrap() else { panic!("it is gone") };
        assert!(last < Some(begun), "the fence went from {last:?} to {begun}");
        let done = world.store.swap(&key("again"), Some(begun), &finished(&world.store)).await.unwrap();
        let Swap::Won(done) = done else { panic!("nobody else is there") };
        world.remove("again").await;
        let late = world.store.swap(&key("again"), Some(done), &running(&world.store, 2)).await.unwrap();
        assert_eq!(late, Swap::Lost(None), "what TTL removed is gone for its holder, too");
        last = Some(done);
        // The clock counts milliseconds, and no removal by TTL is followed by a write within one.
        let then = world.store.clock().now();
        while world.store.clock().now() == then {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn two_prefixes_share_a_table_without_seeing_each_other() {
    let store = fresh_store().await;
    let (a, b) = (store.clone().prefix("a#"), store.prefix("b#"));
    assert!(matches!(claim(&a, "shared").await.unwrap(), Swap::Won(_)));
    assert!(matches!(claim(&b, "shared").await.unwrap(), Swap::Won(_)));
    assert!(matches!(claim(&a, "shared").await.unwrap(), Swap::Lost(Some(_))));
}

#[tokio::test]
async fn what_something_else_wrote_is_not_believed() {
    let world = World::new().await;
    let identity = key("foreign").identity().to_string();
    let foreign = Item::from([("id".to_owned(), S(identity)), ("fence".to_owned(), S("seven".to_owned()))]);
    world.put(foreign.clone()).await;
    assert_eq!(world.load_error("foreign").await, StoreErrorKind::Corrupt);
    let lost = claim(&world.store, "foreign").await.unwrap_err();
    assert_eq!(lost.kind(), StoreErrorKind::Corrupt, "nor is it overwritten: {lost}");

    let mut unreadable = foreign;
    unreadable.insert("fence".to_owned(), N("7".to_owned()));
    world.put(unreadable).await;
    assert_eq!(world.load_error("foreign").await, StoreErrorKind::Corrupt);
}

#[tokio::test]
async fn damaged_bytes_are_noticed_and_newer_ones_ask_for_an_upgrade() {
    let world = World::new().await;
    assert!(matches!(claim(&world.store, "damaged").await.unwrap(), Swap::Won(_)));
    let whole = world.item("damaged").await;
    let bytes = whole["record"].as_b().unwrap().clone().into_inner();

    let mut flipped = bytes.clone();
    flipped[10] ^= 1;
    world.put(whole.clone().into_iter().chain([record(flipped)]).collect()).await;
    assert_eq!(world.load_error("damaged").await, StoreErrorKind::Corrupt);

    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[0] = u8::MAX;
    newer.extend(crc32(&newer).to_le_bytes());
    world.put(whole.into_iter().chain([record(newer)]).collect()).await;
    assert_eq!(world.load_error("damaged").await, StoreErrorKind::Misconfigured);
}

fn record(bytes: Vec<u8>) -> (String, AttributeValue) {
    ("record".to_owned(), B(Blob::new(bytes)))
}

/// The checksum of stored bytes, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[tokio::test]
async fn a_load_shows_what_a_swap_wrote() {
    let world = World::new().await;
    let record = running(&world.store, 7);
    let Swap::Won(fence) = world.store.swap(&key("plain"), None, &record).await.unwrap() else {
        panic!("it is fresh")
    };
    let stored = world.store.load(&key("plain")).await.unwrap().unwrap();
    assert_eq!((stored.fence, stored.record), (fence, record));
    assert!(Some(fence) > Fence::new(1_700_000_000_000_000), "a fence is a time in microseconds");
}
