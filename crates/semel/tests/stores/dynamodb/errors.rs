//! What goes wrong between the store and DynamoDB.

use super::{claim, client_of, endpoint, fresh_store, fresh_table, key, running};
use crate::cloud_stub::Stub;
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Region},
};
use semel::{
    Once, Record, State, Store, StoreErrorKind, Swap, Timestamp,
    repository::Documents as _,
    store::dynamodb::{ANSWER_MAX, DynamoDocuments, DynamoStore},
};
use semel_core::record::Body;
use semel_testkit::{Fault, FaultProxy};
use std::{
    error::Error as _,
    time::{Duration, Instant},
};

/// What a claim comes to if DynamoDB answers so.
async fn check(status: u16, code: &str, kind: StoreErrorKind, remedy: &str) {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"said so"}}"#);
    let stub = Stub::answering(status, &body);
    let store = DynamoStore::new(client_of(&format!("http://{}", stub.address)), "orders");
    let error = claim(&store, "refused").await.unwrap_err();
    assert_eq!(error.kind(), kind, "{code}: {error}");
    assert!(error.to_string().starts_with("dynamodb store: swap a record (table `orders`)"), "{error}");
    assert!(error.to_string().contains(remedy), "{code}: {error}");
    assert!(error.source().is_some(), "{code} is the cause");
    assert_eq!(stub.requests(), 1, "{code}: one swap is one request");
    assert_eq!(store.load(&key("refused")).await.unwrap_err().kind(), kind);
    assert_eq!(stub.requests(), 2, "{code}: one load is one request");
}

#[tokio::test]
async fn answers_of_dynamodb_are_told_apart_and_never_retried_behind_the_drivers_back() {
    use StoreErrorKind::{Misconfigured, Refused, Unavailable};
    check(400, "ProvisionedThroughputExceededException", Unavailable, "capacity").await;
    check(400, "ThrottlingException", Unavailable, "capacity").await;
    check(400, "RequestLimitExceeded", Unavailable, "capacity").await;
    check(400, "TransactionConflictException", Unavailable, "").await;
    check(500, "InternalServerError", Unavailable, "").await;
    check(503, "SomethingNew", Unavailable, "").await;
    check(400, "SomethingNew", Refused, "").await;
    check(400, "AccessDeniedException", Refused, "`dynamodb:PutItem`").await;
    check(400, "UnrecognizedClientException", Misconfigured, "credentials").await;
    check(400, "InvalidSignatureException", Misconfigured, "credentials").await;
    check(400, "ExpiredTokenException", Misconfigured, "credentials").await;
    check(400, "ResourceNotFoundException", Misconfigured, "create_table").await;
    check(400, "ValidationException", Misconfigured, "names of attributes").await;
}

#[tokio::test]
async fn an_answer_that_is_not_dynamodbs_says_nothing() {
    let stub = Stub::answering(200, "<html>captive portal</html>");
    let store = DynamoStore::new(client_of(&format!("http://{}", stub.address)), "orders");
    assert_eq!(claim(&store, "portal").await.unwrap_err().kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn nobody_there_is_unavailable() {
    let store = DynamoStore::new(client_of("http://127.0.0.1:1"), "orders");
    assert_eq!(claim(&store, "alone").await.unwrap_err().kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn a_client_without_credentials_or_region_is_a_mistake() {
    let config = || Config::builder().behavior_version(BehaviorVersion::latest());
    let without_credentials = config().endpoint_url(endpoint()).region(Region::new("eu-central-1"));
    for config in [without_credentials, config()] {
        let store = DynamoStore::new(Client::from_conf(config.build()), "orders");
        let error = claim(&store, "nobody").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}: {:?}", error.source());
    }
}

#[tokio::test]
async fn a_record_over_400_kb_is_refused_with_what_to_lower() {
    let store = fresh_store().await;
    let body = Body::Kept { bytes: vec![7; 400 * 1024], until: Timestamp::NEVER };
    let record = Record { state: State::Completed(body), ..running(&store, 1) };
    let error = store.swap(&key("large"), None, &record).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TooLarge);
    assert!(error.to_string().ends_with("lower `body_bytes_max`"), "{error}");
    assert_eq!(store.load(&key("large")).await.unwrap(), None);
}

#[tokio::test]
async fn the_wrong_key_is_a_mistake_of_the_setup() {
    let store = fresh_store().await.partition_key("PK");
    let error = claim(&store, "misplaced").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

/// A store whose first replies to `PutItem` are lost after the write, so many of them.
async fn losing(count: u32) -> (DynamoStore, Stub) {
    let table = fresh_table();
    DynamoStore::new(client_of(&endpoint()), &table).create_table().await.unwrap();
    let server = endpoint().trim_start_matches("http://").to_owned();
    let stub = Stub::losing_replies(&server, count, "DynamoDB_20120810.PutItem");
    (DynamoStore::new(client_of(&format!("http://{}", stub.address)), table), stub)
}

#[tokio::test]
async fn a_lost_reply_is_an_error_and_the_next_swap_shows_ones_own_record() {
    let (store, stub) = losing(1).await;
    let record = running(&store, 1);
    let error = store.swap(&key("ambiguous"), None, &record).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert_eq!(stub.requests(), 1, "the SDK sent it once");
    let Swap::Lost(Some(own)) = store.swap(&key("ambiguous"), None, &record).await.unwrap() else {
        panic!("it had been written")
    };
    assert_eq!(own.record, record);
}

#[tokio::test]
async fn a_call_whose_replies_are_lost_runs_once_and_is_confirmed() {
    let (store, _stub) = losing(2).await;
    let once = Once::new(store);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_given_up_whatever_is_asked() {
    let table = fresh_table();
    DynamoStore::new(client_of(&endpoint()), &table).create_table().await.unwrap();
    let proxy = FaultProxy::before(&endpoint()).await;
    let store = DynamoStore::new(client_of(proxy.url()), table);
    store.doctor().await.unwrap();
    proxy.set(Fault::BlackHole);
    let since = Instant::now();
    let documents = DynamoDocuments::new(&store);
    let (doctor, creating, key) = (store.doctor(), store.create_table(), key("silent"));
    let (doctor, creating, document, record) =
        tokio::join!(doctor, creating, documents.load(&key), store.load(&key));
    let errors = [doctor.unwrap_err(), creating.unwrap_err(), document.unwrap_err(), record.unwrap_err()];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    assert!(since.elapsed() < ANSWER_MAX + Duration::from_secs(20), "after {:?}", since.elapsed());
}
