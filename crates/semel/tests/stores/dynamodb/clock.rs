//! Leases are judged by the time that DynamoDB's replies tell, and by callers that may differ a little.

use super::{client_of, key};
use crate::cloud_stub::Stub;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use semel::{
    Clock, Store, SystemClock,
    store::dynamodb::{DynamoStore, MARGIN},
};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_date_that_is_an_hour_ahead_is_believed() {
    let ours = SystemClock::new();
    let ahead = DateTime::from_secs(((ours.now() + HOUR).as_millis() / 1_000).cast_signed());
    let stub = Stub::dated(&ahead.fmt(DateTimeFormat::HttpDate).unwrap(), "{}");
    let store = DynamoStore::new(client_of(&format!("http://{}", stub.address)), "orders");
    assert!(store.clock().now().since(ours.now()) < MARGIN, "nothing was heard yet");
    assert_eq!(store.load(&key("any")).await.unwrap(), None);
    let apart = store.clock().now().since(ours.now());
    assert!(apart.abs_diff(HOUR) <= MARGIN + Duration::from_secs(10), "{apart:?} ahead");
}

#[tokio::test]
async fn callers_need_not_say_how_much_their_clocks_may_differ() {
    let store = DynamoStore::new(client_of("http://127.0.0.1:1"), "orders");
    assert_eq!(store.clock().margin(), MARGIN);
}
