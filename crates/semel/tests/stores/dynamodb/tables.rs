//! Making the table, and looking at it.

use super::{claim, client_of, endpoint, fresh_store, fresh_table};
use crate::cloud_stub::Stub;
use semel::{
    StoreErrorKind, Swap,
    doctor::{Report, Severity, Tier},
    store::dynamodb::DynamoStore,
};

/// What a store's doctor finds under this name.
async fn finding(store: &DynamoStore, what: &str) -> (Severity, String) {
    let report = store.doctor().await.unwrap();
    let found = report.findings.iter().find(|it| it.what == what).unwrap_or_else(|| panic!("{report}"));
    (found.severity, found.to_string())
}

#[tokio::test]
async fn making_a_table_twice_makes_it_once() {
    let store = fresh_store().await;
    assert!(matches!(claim(&store, "kept").await.unwrap(), Swap::Won(_)));
    store.create_table().await.unwrap();
    assert!(matches!(claim(&store, "kept").await.unwrap(), Swap::Lost(Some(_))));
}

#[tokio::test]
async fn a_table_as_it_is_made_has_tier_a_and_nothing_to_refuse() {
    let report = fresh_store().await.doctor().await.unwrap().accepted().unwrap();
    assert_eq!(report.tier, Tier::A);
    let fine: Vec<_> = report.findings.iter().filter(|it| it.severity == Severity::Fine).collect();
    let fine: Vec<&str> = fine.iter().map(|it| it.what.as_ref()).collect();
    assert_eq!(fine, ["table status", "key", "replication", "TTL"], "{report}");
}

#[tokio::test]
async fn the_wrong_key_is_refused_at_the_start() {
    let store = fresh_store().await;
    let other = store.clone().partition_key("PK").sort_key("SK", "idempotency");
    let (severity, text) = finding(&other, "key").await;
    assert_eq!(severity, Severity::Refused);
    assert!(text.starts_with("key is `id`, wanted `PK` and `SK`: "), "{text}");
    let error = other.doctor().await.unwrap().accepted().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn ttl_on_another_attribute_is_said() {
    let store = fresh_store().await.expires_attribute("ttl");
    let (severity, text) = finding(&store, "TTL").await;
    assert_eq!(severity, Severity::Warning);
    assert!(text.starts_with("TTL is on for `expires_at`, wanted on for `ttl`: "), "{text}");
    assert_eq!(store.create_table().await.unwrap_err().kind(), StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn what_the_credentials_hide_is_a_warning() {
    let stub = Stub::answering(400, r#"{"__type":"AccessDeniedException","message":"not you"}"#);
    let store = DynamoStore::new(client_of(&format!("http://{}", stub.address)), "orders");
    let report = store.doctor().await.unwrap().accepted().unwrap();
    let severities: Vec<Severity> = report.findings.iter().map(|it| it.severity).collect();
    assert_eq!(severities, [Severity::Warning; 3], "{report}");
}

/// What the doctor says of a table that is replicated so.
async fn replicated(consistency: &'static str) -> Report {
    let stub = Stub::deciding(move |request| {
        let body = if request.contains("DescribeTable") {
            format!(
                r#"{{"Table":{{"TableStatus":"ACTIVE","KeySchema":[{{"AttributeName":"id","KeyType":"HASH"}}],
                "AttributeDefinitions":[{{"AttributeName":"id","AttributeType":"S"}}],
                "MultiRegionConsistency":"{consistency}","Replicas":[{{"RegionName":"us-east-1"}}]}}}}"#
            )
        } else {
            "{}".to_owned()
        };
        (200, body)
    });
    let store = DynamoStore::new(client_of(&format!("http://{}", stub.address)), "orders");
    store.doctor().await.unwrap()
}

#[tokio::test]
async fn a_table_that_two_regions_write_is_tier_a_only_if_they_agree() {
    assert_eq!(replicated("STRONG").await.tier, Tier::A);
    let report = replicated("EVENTUAL").await;
    assert_eq!(report.tier, Tier::C);
    assert!(report.to_string().contains("claims in two regions may both win"), "{report}");
}

#[tokio::test]
async fn a_missing_table_is_said_with_what_to_do() {
    let store = DynamoStore::new(client_of(&endpoint()), "nowhere");
    for error in [store.doctor().await.unwrap_err(), claim(&store, "lost").await.unwrap_err()] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(error.to_string().contains("`DynamoStore::create_table`"), "{error}");
    }
}

#[tokio::test]
async fn two_attributes_of_one_name_are_refused_before_anything_is_written() {
    let store = DynamoStore::new(client_of(&endpoint()), fresh_table()).fence_attribute("id");
    let error = claim(&store, "clash").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("two attributes are called `id`"), "{error}");
}

#[test]
fn the_text_for_others_to_run_names_what_the_store_uses() {
    let store = DynamoStore::new(client_of("http://127.0.0.1:1"), "orders")
        .partition_key("PK")
        .sort_key("SK", "it's")
        .expires_attribute("t t l");
    insta::assert_snapshot!(store.create_table_cli(), @r"
    aws dynamodb create-table --table-name orders --billing-mode PAY_PER_REQUEST \
        --attribute-definitions AttributeName=PK,AttributeType=S AttributeName=SK,AttributeType=S \
        --key-schema AttributeName=PK,KeyType=HASH AttributeName=SK,KeyType=RANGE
    aws dynamodb wait table-exists --table-name orders
    aws dynamodb update-time-to-live --table-name orders \
        --time-to-live-specification Enabled=true,AttributeName='t t l'
    aws dynamodb update-continuous-backups --table-name orders \
        --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true
    ");
    insta::assert_snapshot!(store.cloudformation(), @r#"
    SemelTable:
      Type: AWS::DynamoDB::Table
      DeletionPolicy: Retain
      UpdateReplacePolicy: Retain
      Properties:
        TableName: "orders"
        BillingMode: PAY_PER_REQUEST
        AttributeDefinitions:
          - { AttributeName: "PK", AttributeType: S }
          - { AttributeName: "SK", AttributeType: S }
        KeySchema:
          - { AttributeName: "PK", KeyType: HASH }
          - { AttributeName: "SK", KeyType: RANGE }
        TimeToLiveSpecification: { AttributeName: "t t l", Enabled: true }
        PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true }
    "#);
}
