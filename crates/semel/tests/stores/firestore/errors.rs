//! What goes wrong between the store and Firestore.

use super::{claim, fresh_store, key, running};
use crate::cloud_stub::Stub;
use semel::{
    Fence, Once, Record, State, Store, StoreErrorKind, Swap, Timestamp, store::firestore::FirestoreStore,
};
use semel_core::record::Body;
use semel_testkit::servers;
use std::{error::Error as _, io, time::Duration};

/// What a claim comes to if Firestore answers so.
async fn check(http: u16, status: &str, kind: StoreErrorKind, remedy: &str) {
    let body = format!(r#"{{"error":{{"code":{http},"message":"said so","status":"{status}"}}}}"#);
    let stub = Stub::answering(http, &body);
    let store = FirestoreStore::emulator(&stub.address, "shop");
    let load = store.load(&key("refused")).await.unwrap_err();
    assert_eq!(load.kind(), kind, "{status}: {load}");
    let context = "firestore store: load a record (`projects/shop/databases/(default)/semel`)";
    assert!(load.to_string().starts_with(context), "{load}");
    assert!(load.to_string().contains(remedy), "{status}: {load}");
    assert!(load.source().unwrap().to_string().ends_with("said so"), "{status} is the cause");
    assert_eq!(stub.requests(), 1, "{status}: one load is one request");
    assert_eq!(claim(&store, "refused").await.unwrap_err().kind(), kind);
}

#[tokio::test]
async fn answers_of_firestore_are_told_apart() {
    use StoreErrorKind::{Misconfigured, Refused, Unavailable};
    check(429, "RESOURCE_EXHAUSTED", Unavailable, "quota").await;
    check(503, "UNAVAILABLE", Unavailable, "").await;
    check(500, "INTERNAL", Unavailable, "").await;
    check(504, "DEADLINE_EXCEEDED", Unavailable, "").await;
    check(409, "ABORTED", Unavailable, "").await;
    check(502, "", Unavailable, "").await;
    check(403, "PERMISSION_DENIED", Refused, "`roles/datastore.user`").await;
    check(401, "UNAUTHENTICATED", Misconfigured, "token").await;
    check(404, "NOT_FOUND", Misconfigured, "no such database").await;
    check(400, "FAILED_PRECONDITION", Misconfigured, "native mode").await;
    check(400, "INVALID_ARGUMENT", Misconfigured, "names").await;
}

#[tokio::test]
async fn a_time_that_is_far_from_ours_is_believed() {
    let future = Timestamp::from_millis(4_102_444_800_000);
    let missing = "projects/shop/databases/(default)/documents/semel/any";
    let stub = Stub::answering(
        200,
        &format!(r#"[{{"missing":"{missing}","readTime":"2100-01-01T00:00:00.000000Z"}}]"#),
    );
    let store = FirestoreStore::emulator(&stub.address, "shop");
    assert_eq!(store.load(&key("any")).await.unwrap(), None);
    let now = store.clock().now();
    assert!(now.since(future).max(future.since(now)) < Duration::from_secs(30), "it is {now:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_firestores_says_nothing() {
    for body in ["<html>captive portal</html>", "{}", "[]", "null"] {
        let stub = Stub::answering(200, body);
        let store = FirestoreStore::emulator(&stub.address, "shop");
        assert_eq!(claim(&store, "portal").await.unwrap_err().kind(), StoreErrorKind::Unavailable, "{body}");
        assert_eq!(
            store.load(&key("portal")).await.unwrap_err().kind(),
            StoreErrorKind::Unavailable,
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_write_that_was_given_up_under_contention_is_not_taken_for_a_lost_one() {
    // Every `commit` is aborted, and every look finds nothing: what the caller expects.
    let stub = Stub::deciding(|request| {
        if request.contains(":commit") {
            (409, r#"{"error":{"code":409,"message":"contention","status":"ABORTED"}}"#.to_owned())
        } else {
            (200, r#"[{"missing":"it","readTime":"2026-11-15T23:37:10.389660Z"}]"#.to_owned())
        }
    });
    let store = FirestoreStore::emulator(&stub.address, "shop");
    assert_eq!(claim(&store, "contended").await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    let superseded = store.swap(&key("contended"), Fence::new(7), &running(&store, 1)).await.unwrap();
    assert_eq!(superseded, Swap::Lost(None));
}

#[tokio::test]
async fn nobody_there_is_unavailable_and_a_senseless_address_a_mistake() {
    let store = FirestoreStore::emulator("127.0.0.1:1", "shop");
    assert_eq!(claim(&store, "alone").await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    let store = FirestoreStore::emulator("127.0.0.1:1", "two words");
    assert_eq!(claim(&store, "nowhere").await.unwrap_err().kind(), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let store =
        FirestoreStore::new("shop", async || Err::<String, _>(io::Error::other("no metadata server")));
    let error = claim(&store.unwrap(), "anonymous").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert_eq!(error.source().unwrap().to_string(), "no access token could be had");
}

#[tokio::test]
async fn a_record_over_1_mib_is_refused_with_what_to_lower() {
    let store = fresh_store();
    let body = Body::Kept { bytes: vec![7; 1024 * 1024], until: Timestamp::NEVER };
    let record = Record { state: State::Completed(body), ..running(&store, 1) };
    let error = store.swap(&key("large"), None, &record).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TooLarge);
    assert!(error.to_string().ends_with("lower `body_bytes_max`"), "{error}: {:?}", error.source());
    assert_eq!(store.load(&key("large")).await.unwrap(), None);
}

#[tokio::test]
async fn a_fence_that_no_document_can_have_never_writes() {
    let store = fresh_store();
    let beyond = Fence::new(u64::MAX);
    assert_eq!(store.swap(&key("beyond"), beyond, &running(&store, 1)).await.unwrap(), Swap::Lost(None));
}

#[tokio::test]
async fn a_call_whose_replies_are_lost_runs_once_and_is_confirmed() {
    let server = servers::firestore();
    let stub = Stub::losing_replies(&server.host, 2, ":commit");
    let once = Once::new(FirestoreStore::emulator(&stub.address, server.project));
    let mut runs = 0;
    for _delivery in 0..3 {
        let outcome = once.call("ambiguous", 1).run(async |_| {
            runs += 1;
            Ok(runs)
        });
        assert_eq!(outcome.await.unwrap(), 1);
    }
    assert_eq!(runs, 1);
}
