//! Amazon SNS over HTTPS.
//!
//! 1. A notification is an event: `MessageId` is the id, `TopicArn` the source, `Subject` the subject, and the data
//!    is the message, as JSON if it is JSON and as text if it is not.
//! 2. A message that is a notification of S3 is read as that.
//! 3. Of a message's attributes, text whose name could be an extension's is an extension. The others are not kept.
//! 4. The request to confirm a subscription, and the one that says it ended, are no events. They hold a URL of SNS
//!    itself, or are refused.
//! 5. With raw delivery, the body is the message, and the rest is headers. Nothing signs those.
//! 6. Where SNS's signature was checked, headers decide nothing, and a message's attributes, which it does not cover, are
//!    not kept: whoever captured one message could have changed them.
//!
//! It does not check the signature or whose topic it is: [`auth::sns`](crate::auth::sns) does, before this.

use super::{ReadError, Received, s3};
use crate::{
    auth::sns::is_sns_url,
    event::{Event, EventBuilder},
    json::Object,
    media::{self, ContentType},
};
use bytes::Bytes;
use http::HeaderMap;
use semel_core::{fingerprint::Fingerprint, sabotage::is_on};

/// What a notification is.
pub const NOTIFICATION: &str = "com.amazonaws.sns.notification";

const TYPE_HEADER: &str = "x-amz-sns-message-type";
const RAW_HEADER: &str = "x-amz-sns-rawdelivery";

/// A request of SNS that is no event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// What it is about.
    pub change: Change,
    /// The topic.
    pub topic: Box<str>,
    /// Where to `GET` in order to confirm. It is a URL of SNS.
    pub url: Box<str>,
}

/// What a [`Subscription`] is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Somebody wants to send notifications here. They come when the URL is fetched.
    Asked,
    /// No more will come. Fetching the URL would undo that.
    Ended,
}

pub(super) fn is_sns(headers: &HeaderMap) -> bool {
    headers.contains_key(TYPE_HEADER)
}

pub(super) fn is_message(object: &Object<'_>) -> bool {
    ["Type", "MessageId", "TopicArn"].iter().all(|it| object.text(it).is_some())
}

/// Whether a request says that it is of raw delivery.
pub(crate) fn is_raw(headers: &HeaderMap) -> bool {
    headers.get_all(RAW_HEADER).iter().any(|it| it.as_bytes().eq_ignore_ascii_case(b"true"))
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes, is_signed: bool) -> Result<Received, ReadError> {
    let is_signed = is_signed && !is_on("events_sns_believes_what_is_not_signed");
    if is_raw(headers) && !is_signed {
        return raw(headers, body).map(|it| Received::One(Box::new(it)));
    }
    // SNS sends its JSON as `text/plain`.
    let object = Object::read(body)?;
    let topic = object.text("TopicArn").ok_or(ReadError::Lacks("`TopicArn`"))?;
    let change = match object.text("Type").as_deref() {
        Some("Notification") => return notification(&object, &topic, is_signed),
        Some("SubscriptionConfirmation") => Change::Asked,
        Some("UnsubscribeConfirmation") => Change::Ended,
        Some(_) | None => return Err(ReadError::Lacks("`Type`")),
    };
    let url =
        object.text("SubscribeURL").filter(|it| is_sns_url(it)).ok_or(ReadError::Lacks("`SubscribeURL`"))?;
    Ok(Received::Subscription(Subscription { change, topic: (*topic).into(), url: (*url).into() }))
}

fn notification(object: &Object<'_>, topic: &str, is_signed: bool) -> Result<Received, ReadError> {
    let id = object.text("MessageId").ok_or(ReadError::Lacks("`MessageId`"))?;
    let message = object.text("Message").ok_or(ReadError::Lacks("`Message`"))?;
    if let Ok(inner) = Object::read(message.as_bytes())
        && s3::is_notification(&inner)
    {
        return s3::of_object(&inner);
    }
    let mut event = Event::builder(id, topic, NOTIFICATION);
    if let Some(time) = object.text("Timestamp") {
        event = event.time(time);
    }
    if let Some(subject) = object.text("Subject").filter(|it| !it.trim().is_empty()) {
        event = event.subject(subject);
    }
    let attributes = object.object("MessageAttributes").filter(|_| !is_signed);
    for (name, value) in attributes.iter().flat_map(Object::members) {
        let value = Object::within(value).filter(|it| it.text("Type").is_some_and(|it| it == "String"));
        if let Some(value) = value.and_then(|it| it.text("Value"))
            && is_extension(name)
        {
            event = event.extension(name, value);
        }
    }
    let message = Bytes::copy_from_slice(message.as_bytes());
    Ok(Received::One(Box::new(with_data(event, message).build()?)))
}

fn raw(headers: &HeaderMap, body: &Bytes) -> Result<Event, ReadError> {
    let header = |name: &str, what| {
        let mut all = headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (Some(one), None) => one.to_str().map_err(|_| ReadError::HeaderValue),
            (None, _) => Err(ReadError::Lacks(what)),
            (Some(_), Some(_)) => Err(ReadError::HeaderTwice),
        }
    };
    let id = header("x-amz-sns-message-id", "the message's id")?;
    let topic = header("x-amz-sns-topic-arn", "the topic")?;
    let event = Event::builder(id, topic, NOTIFICATION);
    Ok(match media::content_type(headers) {
        ContentType::One(it) if media::is_json(it) => event.content_type(it).data(body.clone()),
        ContentType::One(_) | ContentType::Absent => with_data(event, body.clone()),
        ContentType::Unclear => return Err(ReadError::MediaType),
    }
    .build()?)
}

fn with_data(event: EventBuilder, message: Bytes) -> EventBuilder {
    let is_json = matches!(message.trim_ascii_start().first(), Some(b'{' | b'['));
    let is_json = is_json && Fingerprint::of_json(&message).is_ok();
    event.content_type(if is_json { "application/json" } else { "text/plain" }).data(message)
}

fn is_extension(name: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_free = !["id", "source", "type", "subject", "time", "data", "specversion"].contains(&name);
    is_free && name.len() <= 20 && name.bytes().all(is_letter) && !name.starts_with("data")
}
