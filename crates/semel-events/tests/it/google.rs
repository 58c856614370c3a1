//! Google's senders: Pub/Sub, Eventarc, and the first generation of Cloud Functions.

use crate::given::headers;
use bytes::Bytes;
use semel_events::{
    event::Event,
    format::{Format, ReadError, Received, Settings, read},
};
use serde_json::{Value, json};

fn receive(pairs: &[(&str, &str)], body: &str, settings: &Settings) -> Result<Event, ReadError> {
    match read(None, &headers(pairs), &Bytes::copy_from_slice(body.as_bytes()), settings)? {
        Received::One(event) => Ok(*event),
        other => panic!("one event was expected: {other:?}"),
    }
}

fn json(body: &Value) -> Result<Event, ReadError> {
    receive(&[("content-type", "application/json")], &body.to_string(), &Settings::default())
}

fn data(event: &Event) -> Value {
    serde_json::from_slice(event.data().unwrap()).unwrap()
}

/// As documented for a push with a wrapper.
fn push(attempt: u32) -> Value {
    json!({
        "message": {
            "attributes": { "key": "value" },
            "data": "SGVsbG8gQ2xvdWQgUHViL1N1YiEgSGVyZSBpcyBteSBtZXNzYWdlIQ==",
            "messageId": "2070443601311540", "message_id": "2070443601311540",
            "orderingKey": "customer-7",
            "publishTime": "2021-02-26T19:13:55.749Z", "publish_time": "2021-02-26T19:13:55.749Z"
        },
        "subscription": "projects/myproject/subscriptions/mysubscription",
        "deliveryAttempt": attempt
    })
}

#[test]
fn a_push_of_pubsub_is_an_event_like_eventarcs() {
    let event = json(&push(5)).unwrap();
    assert_eq!(event.id(), "2070443601311540");
    assert_eq!(event.source(), "//pubsub.googleapis.com/projects/myproject/subscriptions/mysubscription");
    assert_eq!(event.kind(), "google.cloud.pubsub.topic.v1.messagePublished");
    assert_eq!(event.time().unwrap().text(), "2021-02-26T19:13:55.749Z");
    assert_eq!(event.extension("partitionkey"), Some("customer-7"));
    assert_eq!(event.extension("deliveryattempt"), Some("5"));
    assert_eq!(data(&event), json!({"message": push(5)["message"], "subscription": push(5)["subscription"]}));
    let settings = Settings { pubsub_topic: Some("projects/p/topics/t".into()), ..Settings::default() };
    let event = receive(&[("content-type", "application/json")], &push(1).to_string(), &settings).unwrap();
    assert_eq!(event.source(), "//pubsub.googleapis.com/projects/p/topics/t");
}

#[test]
fn a_redelivery_of_pubsub_is_the_same_event() {
    let (first, second) = (json(&push(1)).unwrap(), json(&push(2)).unwrap());
    assert_eq!((first.id(), first.source()), (second.id(), second.source()));
    assert_eq!(first.fingerprint(), second.fingerprint());
}

#[test]
fn a_push_that_is_not_as_documented_is_refused() {
    let check = |change: fn(&mut Value), expected: ReadError| {
        let mut body = push(1);
        change(&mut body);
        let body = Bytes::from(body.to_string());
        let headers = headers(&[("content-type", "application/json")]);
        assert_eq!(Format::Pubsub.read(&headers, &body, &Settings::default()), Err(expected));
    };
    check(|it| it["message"]["data"] = json!("not base64"), ReadError::Base64);
    check(|it| it["message"]["data"] = json!(7), ReadError::Base64);
    check(|it| it["message"]["attributes"]["n"] = json!(1), ReadError::Lacks("`message.attributes`"));
    let without_id = |it: &mut Value| {
        it["message"]["messageId"] = Value::Null;
        it["message"]["message_id"] = json!(7);
    };
    check(without_id, ReadError::Lacks("`message.messageId`"));
    check(|it| it["message"] = json!("text"), ReadError::Lacks("`message`"));
    check(|it| it["subscription"] = Value::Null, ReadError::Lacks("`subscription`"));
    check(|it| it["deliveryAttempt"] = json!(-1), ReadError::Lacks("`deliveryAttempt`"));
    // `message_id` alone will do, for `null` is not there.
    let mut body = push(1);
    body["message"]["messageId"] = Value::Null;
    body["message"]["message_id"] = json!("7");
    assert_eq!(json(&body).unwrap().id(), "7");
}

#[test]
fn an_unwrapped_push_is_its_payload() {
    let metadata = [
        ("x-goog-pubsub-subscription-name", "projects/myproject/subscriptions/s"),
        ("x-goog-pubsub-message-id", "2070443601311540"),
        ("x-goog-pubsub-publish-time", "2021-02-26T19:13:55.749Z"),
        ("x-goog-pubsub-ordering-key", "customer-7"),
        ("content-type", "text/csv"),
    ];
    let event = receive(&metadata, "a,b", &Settings::default()).unwrap();
    assert_eq!((event.id(), &**event.data().unwrap()), ("2070443601311540", &b"a,b"[..]));
    assert_eq!(event.data_content_type(), Some("text/csv"));
    assert_eq!(event.extension("partitionkey"), Some("customer-7"));
    let twice = [&metadata[..], &metadata[1..2]].concat();
    assert_eq!(receive(&twice, "a,b", &Settings::default()), Err(ReadError::HeaderTwice));
    // The publisher's own CloudEvent goes before what Pub/Sub says about it.
    let own = [("ce-specversion", "1.0"), ("ce-id", "own"), ("ce-source", "/s"), ("ce-type", "t")];
    assert_eq!(receive(&[&own[..], &metadata].concat(), "a,b", &Settings::default()).unwrap().id(), "own");
}

#[test]
fn a_trigger_of_eventarc_is_a_cloud_event() {
    let event = receive(
        &[
            ("ce-id", "1096434104173400"),
            ("ce-source", "//storage.googleapis.com/projects/_/buckets/my-bucket"),
            ("ce-specversion", "1.0"),
            ("ce-type", "google.cloud.storage.object.v1.finalized"),
            ("ce-time", "2020-09-29T11:32:00.000Z"),
            ("ce-subject", "objects/folder/Test.cs"),
            ("ce-bucket", "my-bucket"),
            ("content-type", "application/json"),
        ],
        r#"{"bucket":"my-bucket","name":"folder/Test.cs"}"#,
        &Settings::default(),
    );
    let event = event.unwrap();
    assert_eq!(
        (event.subject(), event.extension("bucket")),
        (Some("objects/folder/Test.cs"), Some("my-bucket"))
    );
}

/// A request of the first generation, flat or with a context.
fn legacy(kind: &str, resource: &Value, data: &Value, has_context: bool) -> Value {
    let context = json!({"eventId": "aaaa-1111", "timestamp": "2020-09-29T11:32:00.000Z", "eventType": kind, "resource": resource});
    if has_context {
        return json!({"context": context, "data": data});
    }
    let mut flat = context;
    flat["data"] = data.clone();
    flat["domain"] = json!("europe-west1.firebasedatabase.app");
    flat
}

#[test]
fn a_trigger_of_the_first_generation_is_mapped_as_googles_frameworks_do() {
    let data = json!({"uid": "UUpby3", "userDim": {"appInfo": {"appId": "com.example.app"}}});
    let table = include_str!("../fixtures/google-gen1.txt").lines().skip(1);
    let mut count = 0;
    for row in table {
        let columns: Vec<&str> = row.split(' ').collect();
        let event = json(&legacy(columns[0], &json!(columns[1]), &data, false)).unwrap();
        let found: Vec<&str> = [event.kind(), event.source()].into_iter().chain(event.subject()).collect();
        assert_eq!(found, columns[2..], "{row}");
        assert_eq!((event.id(), event.time().unwrap().text()), ("aaaa-1111", "2020-09-29T11:32:00.000Z"));
        count += 1;
    }
    assert_eq!(count, 19);
}

#[test]
fn the_resource_may_be_an_object_in_a_context() {
    let resource = json!({"service": "storage.googleapis.com", "name": "projects/_/buckets/b/objects/x", "type": "storage#object"});
    let event =
        json(&legacy("google.storage.object.finalize", &resource, &json!({"a": 1.50}), true)).unwrap();
    assert_eq!(event.source(), "//storage.googleapis.com/projects/_/buckets/b");
    assert_eq!(data(&event), json!({"a": 1.50}));
}

#[test]
fn data_of_the_first_generation_is_as_its_cloud_event_has_it() {
    let message = json!({"@type": "type.googleapis.com/google.pubsub.v1.PubsubMessage", "attributes": {"a": "b"}, "data": "dGVzdA=="});
    let event =
        json(&legacy("google.pubsub.topic.publish", &json!("projects/p/topics/t"), &message, true)).unwrap();
    let mut expected = message;
    expected["messageId"] = json!("aaaa-1111");
    expected["publishTime"] = json!("2020-09-29T11:32:00.000Z");
    assert_eq!(data(&event), json!({ "message": expected }));
    let user = json!({"uid": "U1", "metadata": {"createdAt": "2020-05-26T10:42:27Z", "lastSignedInAt": "2020-10-24T11:00:00Z"}});
    let event =
        json(&legacy("providers/firebase.auth/eventTypes/user.create", &json!("projects/p"), &user, false))
            .unwrap();
    let expected = json!({"uid": "U1", "metadata": {"createTime": "2020-05-26T10:42:27Z", "lastSignInTime": "2020-10-24T11:00:00Z"}});
    assert_eq!(data(&event), expected);
}

#[test]
fn a_trigger_that_cannot_be_mapped_is_refused() {
    let check = |kind: &str, resource: &str, has_context, expected| {
        let body = legacy(kind, &json!(resource), &json!({}), has_context);
        assert_eq!(json(&body), Err(ReadError::Lacks(expected)), "{kind}");
    };
    check("google.unknown", "projects/p", true, "an `eventType` that is known");
    check("google.storage.object.finalize", "projects/_/buckets/b", true, "`resource`");
    check(
        "providers/google.firebase.database/eventTypes/ref.write",
        "projects/_/instances/i/refs/a",
        true,
        "`domain`",
    );
    check(
        "providers/google.firebase.analytics/eventTypes/event.log",
        "projects/p/events/e",
        true,
        "`data.userDim.appInfo.appId`",
    );
}
