//! Functions that get records in batches.

use crate::support::{Count, context, error_type, invoke, invoke_with, settle, world};
use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, Once,
    lambda::{self, Function, Pick, RECORDS_MAX, Records},
};
use serde::Deserialize;
use serde_json::json as value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Deserialize)]
struct Message {
    body: String,
}

/// Counts the runs of each body. Bodies that begin with `fail` fail, those that begin with `fatal` for good, and those
/// that begin with `once` the first time.
#[derive(Clone, Default)]
struct Worker {
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Worker {
    fn function(&self, describe: lambda::Lambda<Records>) -> Function<'_, Records> {
        describe.handler(async |record: LambdaEvent<Message>, lease| {
            let body = record.payload.body;
            let run = {
                let mut runs = self.runs.lock().unwrap();
                let run = runs.entry(body.clone()).or_default();
                *run += 1;
                *run
            };
            assert_eq!(lease.attempt(), run, "each run is an attempt of its own call");
            tokio::task::yield_now().await;
            match &body {
                body if body.starts_with("fatal") => Err(HandlerError::fatal("never")),
                body if body.starts_with("fail") || (body.starts_with("once") && run == 1) => {
                    Err("not now".into())
                }
                _ => Ok(()),
            }
        })
    }

    fn runs(&self, body: &str) -> u32 {
        self.runs.lock().unwrap().get(body).copied().unwrap_or(0)
    }
}

/// A message of a standard queue, received for the `n`th time.
fn sqs(id: &str, body: &str, n: u32) -> serde_json::Value {
    value!({
        "messageId": id, "receiptHandle": format!("handle-{n}"), "body": body,
        "attributes": {"ApproximateReceiveCount": n.to_string(), "SentTimestamp": "1545082649183"},
        "messageAttributes": {}, "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:orders", "awsRegion": "us-east-2"
    })
}

fn fifo(id: &str, group: &str, body: &str) -> serde_json::Value {
    let mut message = sqs(id, body, 1);
    message["eventSourceARN"] = "arn:aws:sqs:us-east-2:123456789012:orders.fifo".into();
    message["attributes"]["MessageGroupId"] = group.into();
    message
}

fn batch(records: &[serde_json::Value]) -> String {
    value!({ "Records": records }).to_string()
}

/// The answer that lists these.
fn failed(ids: &[&str]) -> String {
    let failures: Vec<_> = ids.iter().map(|id| format!(r#"{{"itemIdentifier":"{id}"}}"#)).collect();
    format!(r#"{{"batchItemFailures":[{}]}}"#, failures.join(","))
}

#[tokio::test]
async fn failed_messages_are_listed_and_the_others_never_run_again() {
    for at_once in [1, 2, 100] {
        let worker = Worker::default();
        let function = worker.function(lambda::records(Once::memory()).at_once(at_once));
        let deliver = |n| {
            batch(&[sqs("1", "ok-1", n), sqs("2", "once-2", n), sqs("3", "fail-3", n), sqs("4", "ok-4", n)])
        };
        assert_eq!(invoke(&function, &deliver(1)).await.unwrap(), failed(&["2", "3"]));
        // The answer was lost, so everything comes again.
        assert_eq!(invoke(&function, &deliver(2)).await.unwrap(), failed(&["3"]));
        assert_eq!(invoke(&function, &deliver(3)).await.unwrap(), failed(&["3"]));
        let runs = ["ok-1", "once-2", "fail-3", "ok-4"].map(|body| worker.runs(body));
        assert_eq!(runs, [1, 2, 3, 1], "{at_once} at once");
    }
}

#[tokio::test]
async fn a_message_that_failed_for_good_is_listed_each_time_and_not_run_again() {
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()));
    for n in 1..=3 {
        let answer = invoke(&function, &batch(&[sqs("1", "fatal-1", n), sqs("2", "ok-2", n)])).await.unwrap();
        assert_eq!(answer, failed(&["1"]), "it is to get to the dead-letter queue");
    }
    assert_eq!((worker.runs("fatal-1"), worker.runs("ok-2")), (1, 1));
}

#[tokio::test]
async fn a_message_twice_in_a_batch_runs_once() {
    for at_once in [1, 10] {
        let worker = Worker::default();
        let function = worker.function(lambda::records(Once::memory()).at_once(at_once));
        let answer = invoke(&function, &batch(&[sqs("1", "ok-1", 1), sqs("1", "ok-1", 1)])).await.unwrap();
        assert_eq!((answer, worker.runs("ok-1")), (failed(&[]), 1), "{at_once} at once");
    }
}

#[tokio::test]
async fn a_message_id_with_another_body_is_listed_and_not_run() {
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()));
    assert_eq!(invoke(&function, &batch(&[sqs("1", "ok-1", 1)])).await.unwrap(), failed(&[]));
    assert_eq!(invoke(&function, &batch(&[sqs("1", "ok-2", 2)])).await.unwrap(), failed(&["1"]));
    assert_eq!(worker.runs("ok-2"), 0);
}

#[tokio::test]
async fn a_message_that_is_not_of_the_type_fails_alone() {
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()));
    let mut odd = sqs("1", "", 1);
    odd["body"] = 7.into();
    assert_eq!(invoke(&function, &batch(&[odd, sqs("2", "ok-2", 1)])).await.unwrap(), failed(&["1"]));
    assert_eq!(worker.runs("ok-2"), 1);
}

#[tokio::test]
async fn a_record_is_named_by_a_key_of_its_body_if_that_is_asked_for() {
    let worker = Worker::default();
    let key = Pick::pointer("/body").unwrap().json(Pick::pointer("/order").unwrap());
    let function = worker.function(lambda::records(Once::memory()).key(key));
    let order = r#"{"order": 7}"#;
    // A producer that retries sends another message.
    let answer = invoke(&function, &batch(&[sqs("1", order, 1), sqs("2", order, 1)])).await.unwrap();
    assert_eq!((answer, worker.runs(order)), (failed(&[]), 1));
    let answer = invoke(&function, &batch(&[sqs("3", "no JSON", 1), sqs("4", "{}", 1)])).await.unwrap();
    assert_eq!(answer, failed(&["3", "4"]), "without a key it is refused");
}

#[tokio::test]
async fn what_follows_a_failed_message_of_its_group_is_not_begun() {
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()).at_once(100));
    let deliver = batch(&[
        fifo("1", "a", "ok-1"),
        fifo("2", "b", "once-2"),
        fifo("3", "a", "ok-3"),
        fifo("4", "b", "ok-4"),
        fifo("5", "b", "ok-5"),
        fifo("6", "c", "ok-6"),
    ]);
    assert_eq!(invoke(&function, &deliver).await.unwrap(), failed(&["2", "4", "5"]));
    assert_eq!((worker.runs("ok-4"), worker.runs("ok-5"), worker.runs("ok-6")), (0, 0, 1));
    let again = batch(&[fifo("2", "b", "once-2"), fifo("4", "b", "ok-4"), fifo("5", "b", "ok-5")]);
    assert_eq!(invoke(&function, &again).await.unwrap(), failed(&[]));
    for (body, runs) in [("ok-1", 1), ("once-2", 2), ("ok-3", 1), ("ok-4", 1), ("ok-5", 1), ("ok-6", 1)] {
        assert_eq!(worker.runs(body), runs, "{body}");
    }
}

#[tokio::test]
async fn a_stream_stops_at_the_first_record_that_failed() {
    let kinesis = |number: u32, body: &str| {
        value!({
            "eventSource": "aws:kinesis", "eventID": format!("shardId-000000000006:{number}"), "body": body,
            "eventSourceARN": "arn:aws:kinesis:us-east-2:123456789012:stream/lambda-stream",
            "kinesis": {"sequenceNumber": number.to_string(), "partitionKey": "1", "data": "aGVsbG8="}
        })
    };
    let dynamodb = |number: u32, body: &str| {
        value!({
            "eventSource": "aws:dynamodb", "eventID": format!("c4ca4238a0b923820dcc509a6f75849b{number}"), "body": body,
            "eventSourceARN": "arn:aws:dynamodb:us-east-2:123456789012:table/orders/stream/2026-01-01T00:00:00.000",
            "dynamodb": {"SequenceNumber": number.to_string(), "Keys": {"Id": {"N": "101"}}}
        })
    };
    for is_kinesis in [true, false] {
        let record = |number, body| if is_kinesis { kinesis(number, body) } else { dynamodb(number, body) };
        let worker = Worker::default();
        let function = worker.function(lambda::records(Once::memory()).at_once(100));
        let deliver = batch(&[record(1, "ok-1"), record(2, "once-2"), record(3, "ok-3")]);
        assert_eq!(
            invoke(&function, &deliver).await.unwrap(),
            failed(&["2", "3"]),
            "Lambda goes on from the lowest"
        );
        assert_eq!(worker.runs("ok-3"), 0, "not before the one that it follows");
        assert_eq!(invoke(&function, &deliver).await.unwrap(), failed(&[]));
        assert_eq!(["ok-1", "once-2", "ok-3"].map(|body| worker.runs(body)), [1, 2, 1]);
    }
}

#[tokio::test]
async fn a_source_that_takes_no_partial_answer_gets_an_error() {
    let sns = |id: &str, body: &str| {
        value!({
            "EventSource": "aws:sns", "EventVersion": "1.0", "body": body,
            "EventSubscriptionArn": "arn:aws:sns:us-east-1:123456789012:orders:abc",
            "Sns": {"MessageId": id, "Message": body, "Timestamp": "2026-01-02T12:45:07.000Z", "MessageAttributes": {}}
        })
    };
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()));
    let deliver = batch(&[sns("1", "ok-1"), sns("2", "once-2")]);
    assert_eq!(error_type(invoke(&function, &deliver).await), "HandlerError");
    assert_eq!(invoke(&function, &deliver).await.unwrap(), failed(&[]));
    assert_eq!((worker.runs("ok-1"), worker.runs("once-2")), (1, 2));

    let s3 = batch(&[value!({"eventSource": "aws:s3", "body": "ok-3"})]);
    assert_eq!(error_type(invoke(&function, &s3).await), "Semel.KeyRequired", "its records have no id");
}

#[tokio::test]
async fn a_batch_that_cannot_be_answered_in_parts_fails_as_a_whole() {
    let worker = Worker::default();
    let function = worker.function(lambda::records(Once::memory()));
    let mut nameless = sqs("1", "ok-1", 1);
    nameless.as_object_mut().unwrap().remove("messageId");
    let too_many = vec![sqs("1", "ok-1", 1); RECORDS_MAX + 1];
    for event in [
        batch(&[sqs("2", "ok-2", 1), nameless]),
        "{}".to_owned(),
        r#"{"Records": 7}"#.to_owned(),
        batch(&too_many),
    ] {
        assert_eq!(error_type(invoke(&function, &event).await), "Semel.InvalidEvent");
    }
    assert_eq!((worker.runs("ok-1"), worker.runs("ok-2")), (0, 0), "nothing was begun that could be lost");
    assert_eq!(invoke(&function, r#"{"Records": []}"#).await.unwrap(), failed(&[]));
}

#[tokio::test]
async fn a_message_that_another_invocation_runs_is_listed() {
    let world = world();
    let gate = Arc::new(tokio::sync::Notify::new());
    let runs = Count::default();
    let function = lambda::records(world.once.clone()).handler({
        let (gate, runs) = (gate.clone(), runs.clone());
        move |_: LambdaEvent<Message>, _| {
            let (gate, runs) = (gate.clone(), runs.clone());
            async move {
                runs.add();
                gate.notified().await;
                Ok(())
            }
        }
    });
    let event = batch(&[sqs("1", "ok-1", 1)]);
    let first = tokio::spawn({
        let (function, event) = (function.clone(), event.clone());
        async move { invoke(&function, &event).await }
    });
    settle().await;
    assert_eq!(invoke(&function, &event).await.unwrap(), failed(&["1"]));
    gate.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), failed(&[]));
    assert_eq!(invoke(&function, &event).await.unwrap(), failed(&[]));
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn records_of_two_functions_are_two_operations() {
    let runs = Count::default();
    let function = lambda::records(Once::memory()).handler(async |_: LambdaEvent<Message>, _| {
        runs.add();
        Ok(())
    });
    let event = batch(&[sqs("1", "ok-1", 1)]);
    for name in ["orders", "audit", "orders"] {
        invoke_with(&function, &event, context(name, Duration::from_mins(1))).await.unwrap();
    }
    assert_eq!(runs.get(), 2);
}
