//! What lies in the collection.

use super::{claim, fresh_store, key, running};
use crate::cloud_stub::post;
use semel::{Reason, Record, State, Store, StoreErrorKind, Swap, store::firestore::FirestoreStore};
use semel_testkit::servers;
use serde_json::{Value, json};
use std::time::Duration;

/// A store, and its collection as others see it.
struct World {
    store: FirestoreStore,
    host: String,
    documents: String,
}

impl World {
    fn new() -> Self {
        let server = servers::firestore();
        let documents = format!("projects/{}/databases/(default)/documents", server.project);
        Self { store: FirestoreStore::emulator(&server.host, server.project), host: server.host, documents }
    }

    fn name(&self, id: &str) -> String {
        format!("{}/semel/{}", self.documents, key(id).identity())
    }

    fn ask(&self, method: &str, request: &Value) -> Value {
        let reply = post(&self.host, &format!("/v1/{}:{method}", self.documents), &request.to_string());
        serde_json::from_str(&reply).unwrap()
    }

    fn fields(&self, id: &str) -> Value {
        self.ask("batchGet", &json!({ "documents": [self.name(id)] }))[0]["found"]["fields"].take()
    }

    /// Writes a document behind the store's back.
    fn put(&self, id: &str, fields: &Value) {
        let document = json!({ "name": self.name(id), "fields": fields });
        let answer = self.ask("commit", &json!({ "writes": [{ "update": document }] }));
        assert!(answer["commitTime"].is_string(), "{answer}");
    }

    /// Removes a document, as TTL does.
    fn remove(&self, id: &str) {
        let answer = self.ask("commit", &json!({ "writes": [{ "delete": self.name(id) }] }));
        assert!(answer["commitTime"].is_string(), "{answer}");
    }
}

/// A finished record that expires in a day.
fn finished(store: &dyn Store) -> Record {
    let state = State::Failed { reason: Reason::Fatal, error: "no such card".to_owned() };
    Record { state, expires_at: store.clock().now() + Duration::from_hours(24), ..running(store, 1) }
}

#[tokio::test]
async fn a_document_can_be_read_by_people_and_expires_only_when_it_is_finished() {
    let world = World::new();
    let Swap::Won(fence) = claim(&world.store, "readable").await.unwrap() else { panic!("it is fresh") };
    let fields = world.fields("readable");
    assert_eq!(fields["key"]["stringValue"], "firestore/readable");
    assert_eq!(fields["status"]["stringValue"], "IN_PROGRESS");
    assert_eq!(fields["after"]["integerValue"], "0");
    assert!(fields.get("expires_at").is_none(), "an unfinished record has no TTL");

    let done = world.store.swap(&key("readable"), Some(fence), &finished(&world.store)).await.unwrap();
    assert!(matches!(done, Swap::Won(done) if done > fence));
    let fields = world.fields("readable");
    assert_eq!(fields["status"]["stringValue"], "FAILED");
    assert_eq!(fields["after"]["integerValue"], fence.to_string());
    assert!(fields["expires_at"]["timestampValue"].is_string());
}

#[tokio::test]
async fn fences_go_on_growing_when_ttl_removed_a_document() {
    let world = World::new();
    let mut last = None;
    for _ in 0..5 {
        let Swap::Won(begun) = claim(&world.store, "again").await.unwrap() else { panic!("it is gone") };
        assert!(last < Some(begun), "the fence went from {last:?} to {begun}");
        let done = world.store.swap(&key("again"), Some(begun), &finished(&world.store)).await.unwrap();
        let Swap::Won(done) = done else { panic!("nobody else is there") };
        world.remove("again");
        let late = world.store.swap(&key("again"), Some(done), &running(&world.store, 2)).await.unwrap();
        assert_eq!(late, Swap::Lost(None), "what TTL removed is gone for its holder, too");
        last = Some(done);
    }
}

#[tokio::test]
async fn two_collections_share_a_database_without_seeing_each_other() {
    let store = fresh_store();
    let (a, b) = (store.clone().collection("a"), store.collection("b"));
    assert!(matches!(claim(&a, "shared").await.unwrap(), Swap::Won(_)));
    assert!(matches!(claim(&b, "shared").await.unwrap(), Swap::Won(_)));
    assert!(matches!(claim(&a, "shared").await.unwrap(), Swap::Lost(Some(_))));
}

#[tokio::test]
async fn what_something_else_wrote_is_neither_believed_nor_overwritten() {
    let world = World::new();
    for fields in [
        json!({}),
        json!({ "record": { "stringValue": "mine" } }),
        json!({ "record": { "bytesValue": "AQID" } }),
    ] {
        world.put("foreign", &fields);
        let load = world.store.load(&key("foreign")).await.unwrap_err();
        assert_eq!(load.kind(), StoreErrorKind::Corrupt, "{load}");
        let swap = claim(&world.store, "foreign").await.unwrap_err();
        assert_eq!(swap.kind(), StoreErrorKind::Corrupt, "{swap}");
    }
}

#[test]
fn the_commands_for_others_to_run_name_the_collection() {
    let store = FirestoreStore::emulator("127.0.0.1:1", "shop").collection("tenants/acme/semel");
    let commands = store.setup_gcloud();
    let last: Vec<&str> = commands.lines().skip(8).collect();
    insta::assert_snapshot!(last.join("\n"), @r"
    gcloud firestore indexes fields update status --disable-indexes --collection-group=semel \
        --database='(default)' --project=shop
    gcloud firestore fields ttls update expires_at --enable-ttl --collection-group=semel \
        --database='(default)' --project=shop
    ");
    assert_eq!(commands.matches("--disable-indexes").count(), 5);
}
