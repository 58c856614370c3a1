//! Google Cloud Pub/Sub push, wrapped and unwrapped.
//!
//! 1. `messageId` is the id; it stays the same over redeliveries. The source is the topic, if the configuration
//!    names it, or the subscription: a push does not say its topic.
//! 2. A wrapped push becomes what Eventarc makes of it: `data` is `{"message": …, "subscription": …}`.
//! 3. `deliveryAttempt` counts up with every redelivery, so it is an extension, which no fingerprint sees, and
//!    not data. `orderingKey` is the extension `partitionkey`.
//! 4. Of an unwrapped push with metadata, the body is the data as it is. Without metadata there is no id, and it
//!    is refused. Its attributes are headers: an expression finds them with `header:…`.
//!
//! It does not decode the message's `data`, but checks that it is base64.

use super::{ReadError, Settings, require_json};
use crate::{
    event::{Event, EventBuilder},
    json::{self, Object},
    media::{self, ContentType},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::HeaderMap;

/// What both kinds of push are.
pub const MESSAGE_PUBLISHED: &str = "google.cloud.pubsub.topic.v1.messagePublished";

const ID_HEADER: &str = "x-goog-pubsub-message-id";
const SUBSCRIPTION_HEADER: &str = "x-goog-pubsub-subscription-name";
const TIME_HEADER: &str = "x-goog-pubsub-publish-time";
const ORDERING_HEADER: &str = "x-goog-pubsub-ordering-key";

pub(super) fn is_unwrapped(headers: &HeaderMap) -> bool {
    headers.contains_key(ID_HEADER)
}

pub(super) fn is_wrapped(object: &Object<'_>) -> bool {
    object.text("subscription").is_some() && object.object("message").is_some_and(|it| id(&it).is_some())
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes, settings: &Settings) -> Result<Event, ReadError> {
    if is_unwrapped(headers) && settings.is_body_signed {
        return Err(ReadError::Unsigned);
    }
    if is_unwrapped(headers) {
        return unwrapped(headers, body, settings);
    }
    require_json(headers)?;
    wrapped(&Object::read(body)?, settings)
}

fn wrapped(push: &Object<'_>, settings: &Settings) -> Result<Event, ReadError> {
    let subscription = push.text("subscription").ok_or(ReadError::Lacks("`subscription`"))?;
    let raw = push.get("message").ok_or(ReadError::Lacks("`message`"))?;
    let message = Object::within(raw).ok_or(ReadError::Lacks("`message`"))?;
    let id = id(&message).ok_or(ReadError::Lacks("`message.messageId`"))?;
    check_message(&message)?;
    let mut event = begin(&id, &subscription, settings);
    if let Some(time) = either(&message, ["publishTime", "publish_time"]) {
        event = event.time(time);
    }
    if let Some(key) = either(&message, ["orderingKey", "ordering_key"]).filter(|it| !it.is_empty()) {
        event = event.extension("partitionkey", key);
    }
    if let Some(attempt) = push.get("deliveryAttempt") {
        let attempt: u32 = attempt.get().parse().map_err(|_| ReadError::Lacks("`deliveryAttempt`"))?;
        event = event.extension("deliveryattempt", attempt.to_string());
    }
    let subscription = json::string(&subscription);
    Ok(event.json(format!("{{\"message\":{},\"subscription\":{subscription}}}", raw.get())).build()?)
}

fn check_message(message: &Object<'_>) -> Result<(), ReadError> {
    if let Some(data) = message.get("data") {
        let text = json::text(data).ok_or(ReadError::Base64)?;
        STANDARD.decode(text.as_bytes()).map_err(|_| ReadError::Base64)?;
    }
    let attributes = message.get("attributes").map(|it| Object::within(it).ok_or(()));
    match attributes.transpose() {
        Ok(None) => Ok(()),
        Ok(Some(it)) if it.members().all(|(_, value)| json::text(value).is_some()) => Ok(()),
        Ok(Some(_)) | Err(()) => Err(ReadError::Lacks("`message.attributes`")),
    }
}

fn unwrapped(headers: &HeaderMap, body: &Bytes, settings: &Settings) -> Result<Event, ReadError> {
    let id = header(headers, ID_HEADER)?.ok_or(ReadError::Lacks("the message's id"))?;
    let subscription =
        header(headers, SUBSCRIPTION_HEADER)?.ok_or(ReadError::Lacks("the subscription's name"))?;
    let mut event = begin(id, subscription, settings);
    if let Some(time) = header(headers, TIME_HEADER)? {
        event = event.time(time);
    }
    if let Some(key) = header(headers, ORDERING_HEADER)?.filter(|it| !it.is_empty()) {
        event = event.extension("partitionkey", key);
    }
    event = match media::content_type(headers) {
        ContentType::Absent => event,
        ContentType::One(it) => event.content_type(it),
        ContentType::Unclear => return Err(ReadError::MediaType),
    };
    if !body.is_empty() {
        event = event.data(body.clone());
    }
    Ok(event.build()?)
}

fn begin(id: &str, subscription: &str, settings: &Settings) -> EventBuilder {
    let place = settings.pubsub_topic.as_deref().unwrap_or(subscription);
    Event::builder(id, format!("//pubsub.googleapis.com/{place}"), MESSAGE_PUBLISHED)
}

fn id<'a>(message: &Object<'a>) -> Option<std::borrow::Cow<'a, str>> {
    either(message, ["messageId", "message_id"])
}

fn either<'a>(message: &Object<'a>, names: [&str; 2]) -> Option<std::borrow::Cow<'a, str>> {
    names.iter().find_map(|it| message.text(it))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ReadError> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| ReadError::HeaderValue),
        (Some(_), Some(_)) => Err(ReadError::HeaderTwice),
    }
}
