//! Where records come from: what names them, what of them stays the same, and whether their order matters.

use crate::lambda::{error::Fault, pick::Pick};
use serde::Deserialize;
use serde_json::value::RawValue;

/// How the names of FIFO queues end, and no others.
const FIFO: &str = ".fifo";

/// One record of a batch.
pub(super) struct Item<'a> {
    pub(super) json: &'a RawValue,
    pub(super) source: Source,
    /// What the answer calls it; nothing if the source takes no partial answer.
    pub(super) id: Option<String>,
    pub(super) order: Order,
}

/// Which records must not be run after one that failed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Order {
    /// None.
    Free,
    /// Those of the same group of messages.
    Group(String),
    /// All that follow.
    Stream,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Sqs,
    Kinesis,
    DynamoDb,
    Sns,
    Other,
}

/// What all records say about themselves, each source in its own words.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "eventSource", alias = "EventSource")]
    source: Option<String>,
    #[serde(rename = "eventSourceARN")]
    arn: Option<String>,
    #[serde(rename = "messageId")]
    message_id: Option<String>,
    attributes: Option<Attributes>,
    kinesis: Option<Sequence>,
    dynamodb: Option<Sequence>,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(rename = "MessageGroupId")]
    group: Option<String>,
}

#[derive(Deserialize)]
struct Sequence {
    #[serde(rename = "sequenceNumber", alias = "SequenceNumber")]
    number: Option<String>,
}

impl<'a> Item<'a> {
    pub(super) fn read(json: &'a RawValue) -> Result<Self, Fault> {
        let envelope: Envelope = serde_json::from_str(json.get())
            .map_err(|error| Fault::Event(format!("a record of the batch cannot be read: {error}")))?;
        let (source, order, id) = match envelope.source.as_deref() {
            Some("aws:sqs") => (Source::Sqs, envelope.group(), named(envelope.message_id)?),
            Some("aws:kinesis") => (Source::Kinesis, Order::Stream, sequence(envelope.kinesis)?),
            Some("aws:dynamodb") => (Source::DynamoDb, Order::Stream, sequence(envelope.dynamodb)?),
            Some("aws:sns") => (Source::Sns, Order::Free, None),
            Some(_) | None => (Source::Other, Order::Free, None),
        };
        Ok(Self { json, source, id, order })
    }
}

impl Envelope {
    /// The group of a message in a FIFO queue. Standard queues have groups as well, for fairness, and no order.
    fn group(&self) -> Order {
        let is_fifo = self.arn.as_deref().is_some_and(|it| it.ends_with(FIFO));
        let group = || self.attributes.as_ref().and_then(|it| it.group.clone()).unwrap_or_default();
        if is_fifo { Order::Group(group()) } else { Order::Free }
    }
}

fn sequence(sequence: Option<Sequence>) -> Result<Option<String>, Fault> {
    named(sequence.and_then(|it| it.number))
}

/// A record that cannot be named in the answer could only be lost.
fn named(id: Option<String>) -> Result<Option<String>, Fault> {
    match id {
        Some(id) if !id.is_empty() => Ok(Some(id)),
        Some(_) | None => Err(Fault::Event("a record of the batch has no id".to_owned())),
    }
}

impl Source {
    /// What names a record.
    pub(super) fn key(self) -> Pick {
        match self {
            Self::Sqs => Pick::place(["messageId"]),
            // Unique in a stream, and a function may have several.
            Self::Kinesis | Self::DynamoDb => {
                Pick::all([Pick::place(["eventSourceARN"]), Pick::place(["eventID"])])
            }
            Self::Sns => Pick::place(["Sns", "MessageId"]),
            Self::Other => Pick::all([]),
        }
    }

    /// What does not change when a record is delivered again.
    pub(super) fn payload(self) -> Pick {
        match self {
            Self::Sqs => Pick::all([Pick::place(["body"]), Pick::place(["messageAttributes"])]),
            Self::Kinesis => {
                Pick::all([Pick::place(["kinesis", "partitionKey"]), Pick::place(["kinesis", "data"])])
            }
            Self::DynamoDb => Pick::place(["dynamodb"]),
            Self::Sns => {
                Pick::all([Pick::place(["Sns", "Message"]), Pick::place(["Sns", "MessageAttributes"])])
            }
            Self::Other => Pick::whole(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<(Source, Option<String>, Order), Fault> {
        let json = RawValue::from_string(json.to_owned()).expect("it is JSON");
        Item::read(&json).map(|it| (it.source, it.id, it.order))
    }

    #[test]
    fn records_are_told_apart_by_their_source() {
        let check = |json, source, id: Option<&str>, order| {
            assert_eq!(read(json).expect("a record"), (source, id.map(str::to_owned), order), "{json}");
        };
        check(
            r#"{"eventSource": "aws:sqs", "messageId": "m", "eventSourceARN": "arn:aws:sqs:eu-central-1:1:orders"}"#,
            Source::Sqs,
            Some("m"),
            Order::Free,
        );
        check(
            r#"{"eventSource": "aws:sqs", "messageId": "m", "eventSourceARN": "arn:aws:sqs:eu-central-1:1:orders.fifo",
                "attributes": {"MessageGroupId": "g", "ApproximateReceiveCount": "1"}}"#,
            Source::Sqs,
            Some("m"),
            Order::Group("g".to_owned()),
        );
        check(
            r#"{"eventSource": "aws:kinesis", "eventID": "shardId-000000000006:49590338", "kinesis":
                {"sequenceNumber": "49590338", "data": "aGk=", "partitionKey": "1"}}"#,
            Source::Kinesis,
            Some("49590338"),
            Order::Stream,
        );
        check(
            r#"{"eventSource": "aws:dynamodb", "eventID": "c4ca", "dynamodb": {"SequenceNumber": "111"}}"#,
            Source::DynamoDb,
            Some("111"),
            Order::Stream,
        );
        check(r#"{"EventSource": "aws:sns", "Sns": {"MessageId": "m"}}"#, Source::Sns, None, Order::Free);
        check(r#"{"eventSource": "aws:s3"}"#, Source::Other, None, Order::Free);
    }

    #[test]
    fn a_group_of_a_standard_queue_is_no_order() {
        let fair = r#"{"eventSource": "aws:sqs", "messageId": "m", "eventSourceARN": "arn:aws:sqs:eu-central-1:1:fair",
            "attributes": {"MessageGroupId": "g"}}"#;
        assert_eq!(read(fair).expect("a record").2, Order::Free);
    }

    #[test]
    fn a_record_without_an_id_fails_the_batch() {
        for json in [
            r#"{"eventSource": "aws:sqs"}"#,
            r#"{"eventSource": "aws:sqs", "messageId": ""}"#,
            r#"{"eventSource": "aws:sqs", "messageId": null}"#,
            r#"{"eventSource": "aws:kinesis"}"#,
            r#"{"eventSource": "aws:dynamodb", "dynamodb": {}}"#,
            r#"{"eventSource": "aws:sqs", "messageId": 7}"#,
            "7",
        ] {
            assert!(matches!(read(json), Err(Fault::Event(_))), "{json}");
        }
    }
}
