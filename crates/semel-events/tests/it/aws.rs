//! Amazon's senders: EventBridge, SNS, S3.

use crate::given::headers;
use bytes::Bytes;
use semel_events::{
    event::Event,
    format::{
        BATCH_EVENTS_MAX, Format, ReadError, Received, Settings, read,
        sns::{Change, Subscription},
    },
};
use serde_json::{Value, json};

const JSON: [(&str, &str); 1] = [("content-type", "application/json; charset=utf-8")];
/// SNS sends its JSON so.
const TEXT: [(&str, &str); 2] =
    [("content-type", "text/plain; charset=UTF-8"), ("x-amz-sns-message-type", "Notification")];

fn receive(pairs: &[(&str, &str)], body: &str) -> Result<Received, ReadError> {
    read(None, &headers(pairs), &Bytes::copy_from_slice(body.as_bytes()), &Settings::default())
}

fn one(pairs: &[(&str, &str)], body: &Value) -> Event {
    match receive(pairs, &body.to_string()) {
        Ok(Received::One(event)) => *event,
        other => panic!("one event was expected: {other:?}"),
    }
}

fn batch(pairs: &[(&str, &str)], body: &Value) -> Vec<Result<Event, ReadError>> {
    match receive(pairs, &body.to_string()) {
        Ok(Received::Batch(items)) => items,
        other => panic!("a batch was expected: {other:?}"),
    }
}

fn data(event: &Event) -> Value {
    serde_json::from_slice(event.data().unwrap()).unwrap()
}

/// As documented for EC2.
fn state_change() -> Value {
    json!({
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": "EC2 Instance State-change Notification",
        "source": "aws.ec2",
        "account": "111122223333",
        "time": "2017-12-22T18:43:48Z",
        "region": "us-west-1",
        "resources": ["arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0"],
        "detail": { "instance-id": "i-1234567890abcdef0", "state": "terminated" }
    })
}

#[test]
fn an_event_of_eventbridge_is_an_event() {
    let event = one(&JSON, &state_change());
    assert_eq!(event.id(), "6a7e8feb-b491-4cf7-a9f1-bf3703467718");
    assert_eq!((event.source(), event.kind()), ("aws.ec2", "EC2 Instance State-change Notification"));
    assert_eq!(event.subject(), Some("arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0"));
    assert_eq!(event.time().unwrap().text(), "2017-12-22T18:43:48Z");
    assert_eq!(
        (event.extension("awsaccount"), event.extension("awsregion")),
        (Some("111122223333"), Some("us-west-1"))
    );
    assert_eq!(data(&event), state_change()["detail"]);
    let mut several = state_change();
    several["resources"] = json!(["a", "b"]);
    assert_eq!(one(&JSON, &several).subject(), None);
    several["id"] = Value::Null;
    assert_eq!(receive(&JSON, &several.to_string()), Err(ReadError::Lacks("`id`")));
    several["resources"] = json!({});
    several["id"] = json!("x");
    assert_eq!(receive(&JSON, &several.to_string()), Err(ReadError::Lacks("`resources`")));
}

/// As documented, shortened.
fn record(key: &str, sequencer: &str) -> Value {
    json!({
        "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-west-2",
        "eventTime": "1970-01-01T00:00:00.000Z", "eventName": "ObjectCreated:Put",
        "requestParameters": { "sourceIPAddress": "127.0.0.1" },
        "responseElements": {
            "x-amz-request-id": "C3D13FE58DE4C810",
            "x-amz-id-2": "FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG4V5Wp6S7S/JRWeUWerMUE5JgHvANOjpD"
        },
        "s3": {
            "s3SchemaVersion": "1.0", "configurationId": "testConfigRule",
            "bucket": { "name": "mybucket", "arn": "arn:aws:s3:::mybucket" },
            "object": { "key": key, "size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e", "sequencer": sequencer }
        }
    })
}

#[test]
fn every_record_of_s3_is_an_event() {
    let records = json!({"Records": [record("HappyFace.jpg", "0055AED6DCD90281E5"), record("red+flower%C3%A9.jpg", "0055AED6DCD90281E6")]});
    let items = batch(&JSON, &records);
    let events: Vec<&Event> = items.iter().map(|it| it.as_ref().unwrap()).collect();
    assert_eq!(events[0].source(), "aws:s3.us-west-2.mybucket");
    assert_eq!(events[0].kind(), "com.amazonaws.s3.ObjectCreated:Put");
    assert_eq!((events[0].subject(), events[1].subject()), (Some("HappyFace.jpg"), Some("red floweré.jpg")));
    assert_eq!(data(events[0]), record("HappyFace.jpg", "0055AED6DCD90281E5"));
    assert_eq!(
        batch(&JSON, &records)[0].as_ref().unwrap().id(),
        events[0].id(),
        "a redelivery is the same event"
    );
}

#[test]
fn two_objects_of_one_request_are_two_events() {
    let mut delete = [
        record("a", "0055AED6DCD90281E5"),
        record("b", "0055AED6DCD90281E5"),
        record("a", "0055AED6DCD90281E5"),
    ];
    delete[2]["s3"]["object"]["versionId"] = json!("v2");
    let items = batch(&JSON, &json!({ "Records": delete }));
    let ids: Vec<&str> = items.iter().map(|it| it.as_ref().unwrap().id()).collect();
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
}

#[test]
fn a_record_that_is_not_as_documented_harms_no_other() {
    let mut bad = record("a%4", "1");
    let items = batch(&JSON, &json!({"Records": [record("a", "1"), bad, {"eventSource": "aws:sqs"}]}));
    assert_eq!(items[1], Err(ReadError::Lacks("`s3.object.key`")));
    assert_eq!(items[2], Err(ReadError::Lacks("`eventSource`")));
    assert!(items[0].is_ok());
    bad = record("a", "1");
    bad["responseElements"] = json!({});
    let items = batch(&JSON, &json!({"Records": [bad]}));
    assert_eq!(items, [Err(ReadError::Lacks("`responseElements.x-amz-request-id`"))]);
    let many = json!({ "Records": vec![record("a", "1"); BATCH_EVENTS_MAX + 1] });
    assert_eq!(receive(&JSON, &many.to_string()), Err(ReadError::BatchTooLong));
}

#[test]
fn the_test_of_s3_is_acknowledged() {
    let test = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2014-10-13T15:57:02.089Z", "Bucket": "b"});
    assert_eq!(receive(&JSON, &test.to_string()), Ok(Received::Nothing));
}

/// As documented.
fn notification(message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
        "Subject": "My First Message",
        "Message": message,
        "Timestamp": "2012-05-02T00:54:06.655Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLEw6JRN...",
        "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem",
        "MessageAttributes": {
            "tenant": {"Type": "String", "Value": "acme"},
            "Binary": {"Type": "Binary", "Value": "AQID"},
            "source": {"Type": "String", "Value": "forged"}
        }
    })
}

#[test]
fn a_notification_of_sns_is_an_event() {
    let event = one(&TEXT, &notification("Hello world!"));
    assert_eq!(event.id(), "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324");
    assert_eq!(event.source(), "arn:aws:sns:us-west-2:123456789012:MyTopic");
    assert_eq!((event.kind(), event.subject()), ("com.amazonaws.sns.notification", Some("My First Message")));
    assert_eq!(event.data_content_type(), Some("text/plain"));
    assert_eq!(&**event.data().unwrap(), b"Hello world!");
    assert_eq!(event.extensions().collect::<Vec<_>>(), [("tenant", "acme")]);
    let json = one(&JSON, &notification(r#"{"order": 1.50}"#));
    assert_eq!((json.data_content_type(), data(&json)), (Some("application/json"), json!({"order": 1.50})));
    let twice = one(&TEXT, &notification(r#"{"a":1,"a":2}"#));
    assert_eq!(twice.data_content_type(), Some("text/plain"), "it can be read in two ways");
}

#[test]
fn a_notification_of_s3_within_sns_is_read_as_that() {
    let inner = json!({"Records": [record("a", "1")]}).to_string();
    let items = batch(&TEXT, &notification(&inner));
    assert_eq!(items[0].as_ref().unwrap().subject(), Some("a"));
}

#[test]
fn raw_delivery_of_sns_has_its_id_in_a_header() {
    let raw = [
        ("x-amz-sns-message-type", "Notification"),
        ("x-amz-sns-message-id", "165545c9-2a5c-472c-8df2-7ff2be2b3b1b"),
        ("x-amz-sns-topic-arn", "arn:aws:sns:us-west-2:123456789012:MyTopic"),
        ("x-amz-sns-rawdelivery", "true"),
        ("content-type", "text/plain; charset=UTF-8"),
    ];
    let Ok(Received::One(event)) = receive(&raw, "Hello") else { panic!("one event was expected") };
    assert_eq!(
        (event.id(), &**event.data().unwrap()),
        ("165545c9-2a5c-472c-8df2-7ff2be2b3b1b", &b"Hello"[..])
    );
    assert_eq!(receive(&raw[2..], "Hello").unwrap_err().status(), 415, "nothing says that it is SNS");
    assert_eq!(receive(&[&raw[..1], &raw[2..]].concat(), "Hello"), Err(ReadError::Lacks("the message's id")));
}

/// Whoever captured one message has headers to choose, and its attributes.
#[test]
fn where_sns_signed_nothing_else_is_believed() {
    let signed = Settings { is_body_signed: true, ..Settings::default() };
    let body = Bytes::from(notification("Hello world!").to_string());
    let raw = [
        ("x-amz-sns-rawdelivery", "true"),
        ("x-amz-sns-message-id", "forged"),
        ("x-amz-sns-topic-arn", "arn:aws:sns:us-west-2:123456789012:MyTopic"),
        ("x-goog-pubsub-message-id", "forged"),
        ("ce-specversion", "1.0"),
        ("ce-id", "forged"),
    ];
    let headers = headers(&[&TEXT[..], &raw].concat());
    let Ok(Received::One(event)) = read(Some(Format::Sns), &headers, &body, &signed) else {
        panic!("no event")
    };
    assert_eq!(event.id(), "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324");
    assert_eq!(event.extensions().count(), 0, "{event:?}");
}

#[test]
fn a_subscription_is_confirmed_at_sns_and_nowhere_else() {
    let ask = |kind: &str, url: &str| {
        let mut body = notification("You have chosen to subscribe to the topic.");
        body["Type"] = json!(kind);
        body["SubscribeURL"] = json!(url);
        receive(&TEXT, &body.to_string())
    };
    let url = "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-west-2:1:MyTopic&Token=23";
    let expected = |change| {
        Received::Subscription(Subscription {
            change,
            topic: "arn:aws:sns:us-west-2:123456789012:MyTopic".into(),
            url: url.into(),
        })
    };
    assert_eq!(ask("SubscriptionConfirmation", url), Ok(expected(Change::Asked)));
    assert_eq!(ask("UnsubscribeConfirmation", url), Ok(expected(Change::Ended)));
    for elsewhere in [
        "http://sns.us-west-2.amazonaws.com/",
        "https://evil.com/",
        "https://sns.us-west-2.amazonaws.com@evil.com/",
    ] {
        assert_eq!(
            ask("SubscriptionConfirmation", elsewhere),
            Err(ReadError::Lacks("`SubscribeURL`")),
            "{elsewhere}"
        );
    }
    assert_eq!(ask("Other", url), Err(ReadError::Lacks("`Type`")));
}
