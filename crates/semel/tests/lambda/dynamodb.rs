//! A function with its records in DynamoDB, in processes that know nothing of each other.

use crate::{
    runtime::{Process, order, response},
    support::{Count, invoke},
};
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region},
};
use lambda_runtime::LambdaEvent;
use semel::{
    OnBusy, Once,
    lambda::{self, Pick},
    store::dynamodb::DynamoStore,
};
use semel_testkit::{lambda::RuntimeApi, servers};
use serde_json::Value;
use std::time::Duration;

/// Records in the table that this names: `endpoint/table`.
pub(crate) fn once_at(place: &str) -> Once {
    let on_busy = OnBusy::Wait { max: Duration::from_mins(1) };
    Once::builder().on_busy(on_busy).store(store_at(place))
}

fn store_at(place: &str) -> DynamoStore {
    let (endpoint, table) = place.rsplit_once('/').unwrap();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(endpoint)
        .build();
    DynamoStore::new(Client::from_conf(config), table)
}

/// A table of its own.
async fn fresh_place() -> String {
    let servers::DynamoDb { endpoint, table } = servers::dynamodb();
    let place = format!("{endpoint}/{table}");
    store_at(&place).create_table().await.unwrap();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_killed_half_way_is_taken_over_after_its_deadline_and_charges_once() {
    let (api, place) = (RuntimeApi::start().await, fresh_place().await);
    let process = Process::start(&api, "dynamodb", &place);
    for _delivery in 0..2 {
        assert_eq!(api.invoke(order("1", "")).await, response(r#""1 after 1""#));
    }
    let mut sent = api.send(order("2", "hang").timeout(Duration::from_secs(2)));
    sent.taken().await;
    let said: Vec<_> = (0..5).map(|_| process.says()).collect();
    assert_eq!(said, ["run 1 attempt 1", "charge 1", "run 2 attempt 1", "charge 2", "hang"]);
    assert!(process.kill().is_empty());

    // Lambda retries, in another process, which knows of the first one by the table alone. It waits for the lease.
    let process = Process::start(&api, "dynamodb", &place);
    let retry = order("2", "hang").timeout(Duration::from_mins(1));
    for _delivery in 0..2 {
        assert_eq!(api.invoke(retry.clone()).await, response(r#""2 after 2""#));
    }
    assert_eq!(api.invoke(order("1", "")).await, response(r#""1 after 1""#));
    assert_eq!(process.kill(), ["run 2 attempt 2"], "neither charge is repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_larger_than_an_item_of_dynamodb_is_not_run_again_for() {
    let (place, runs) = (fresh_place().await, Count::default());
    let function = lambda::events(once_at(&place), Pick::event_id())
        .prepare(|call| call.body_bytes_max(5_000_000))
        .handler(async |_: LambdaEvent<Value>, _| {
            runs.add();
            let mut dice = fastrand::Rng::with_seed(7);
            Ok((0..500_000).map(|_| dice.alphanumeric()).collect::<String>())
        });
    assert_eq!(invoke(&function, r#"{"id": 7}"#).await.unwrap().len(), 500_002, "the first one gets it");
    let again = invoke(&function, r#"{"id": 7}"#).await.unwrap_err();
    assert_eq!(again.error_type, "Semel.NotKept");
    assert_eq!(runs.get(), 1);
}
