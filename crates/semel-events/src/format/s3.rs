//! Amazon S3 event notifications.
//!
//! 1. Each record is an event: `com.amazonaws.s3.` and its `eventName` is the type, the bucket is in the source, the
//!    object's key, decoded, is the subject. The data is the record.
//! 2. A record has no id, so one is made of what stays the same when it is delivered again: the request that caused
//!    it, the object's `sequencer`, and a hash of name, key and version. The request alone will not do, because one
//!    request can delete a thousand objects.
//! 3. The message that S3 sends when notifications are switched on is no event, and is acknowledged.

use super::{BATCH_EVENTS_MAX, ReadError, Received, require_json};
use crate::{
    event::Event,
    expression::hex,
    json::{self, Object},
};
use bytes::Bytes;
use http::HeaderMap;
use semel_core::{fingerprint::Fingerprint, sabotage::is_on};
use serde_json::value::RawValue;

pub(super) fn is_notification(object: &Object<'_>) -> bool {
    is_test(object)
        || object.get("Records").and_then(|it| json::list(it.get().as_bytes()).ok()).is_some_and(|it| {
            let is_record = |it: &&RawValue| {
                Object::within(it).and_then(|it| it.text("eventSource")).is_some_and(|it| it == "aws:s3")
            };
            it.first().is_some_and(is_record)
        })
}

fn is_test(object: &Object<'_>) -> bool {
    object.text("Event").is_some_and(|it| it == "s3:TestEvent")
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Received, ReadError> {
    require_json(headers)?;
    of_object(&Object::read(body)?)
}

pub(super) fn of_object(object: &Object<'_>) -> Result<Received, ReadError> {
    if is_test(object) {
        return Ok(Received::Nothing);
    }
    let list = object.get("Records").ok_or(ReadError::Lacks("`Records`"))?;
    let records = json::list(list.get().as_bytes()).map_err(|_| ReadError::Lacks("`Records`"))?;
    if records.len() > BATCH_EVENTS_MAX {
        return Err(ReadError::BatchTooLong);
    }
    Ok(Received::Batch(records.into_iter().map(of_record).collect()))
}

fn of_record(raw: &RawValue) -> Result<Event, ReadError> {
    let record = Object::within(raw).ok_or(ReadError::Lacks("a record"))?;
    let lacks = |what: &'static str| ReadError::Lacks(what);
    let event_source =
        record.text("eventSource").filter(|it| it == "aws:s3").ok_or(lacks("`eventSource`"))?;
    let name = record.text("eventName").ok_or(lacks("`eventName`"))?;
    let s3 = record.object("s3").ok_or(lacks("`s3`"))?;
    let object = s3.object("object").ok_or(lacks("`s3.object`"))?;
    let key = object.text("key").ok_or(lacks("`s3.object.key`"))?;
    let bucket = s3.object("bucket").and_then(|it| it.text("name")).ok_or(lacks("`s3.bucket.name`"))?;
    let sequencer = object.text("sequencer").unwrap_or_default();
    let request = record.object("responseElements").and_then(|it| it.text("x-amz-request-id"));
    let request = request.ok_or(lacks("`responseElements.x-amz-request-id`"))?;
    let version = object.text("versionId").unwrap_or_default();
    let what = [&*name, &*key, &*version].join("\0");
    let what = if is_on("events_s3_request_is_id") { String::new() } else { what };
    let hash = hex(&Fingerprint::of_bytes(what.as_bytes()).hash()[..8]);
    let region = record.text("awsRegion").unwrap_or_default();
    let mut event = Event::builder(
        format!("{request}.{sequencer}.{hash}"),
        format!("{event_source}.{region}.{bucket}"),
        format!("com.amazonaws.s3.{name}"),
    );
    event = event.subject(decoded(&key).ok_or(lacks("`s3.object.key`"))?).json(raw.get().to_owned());
    if let Some(time) = record.text("eventTime") {
        event = event.time(time);
    }
    Ok(event.build()?)
}

/// The key of an object as it is: in a notification it is encoded as in a form.
fn decoded(key: &str) -> Option<String> {
    let digit = |it: u8| (it as char).to_digit(16).map(|it| it as u8);
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, tail @ ..]) => {
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                rest = tail;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}
