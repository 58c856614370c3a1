//! Formats: what senders speak, read as events.
//!
//! 1. Each format has a file of its own, and one function that reads it.
//! 2. A request is one event, or a batch with a result for each item, or it is no event and is acknowledged.
//! 3. Without a format in the configuration, headers and then the members of the body tell which it is; they are
//!    chosen so that no two formats have them in common.
//! 4. Where a signature covers the body alone ([`Settings::is_body_signed`]), headers name no event: not its format, and
//!    nothing of it. What says its attributes in headers is refused. Only rules that name a header find one.
//! 5. A refusal has a status: 413 for what is too large, 415 for a media type that is not read, 400 for the rest.
//!
//! It does not check who sent it: [`auth`](crate::auth) comes first, over the raw bytes.

pub mod any;
pub mod cloudevents;
mod eventbridge;
mod google;
pub mod pubsub;
mod s3;
pub mod sns;

pub use crate::json::BadEnvelope;

use crate::{
    event::{Attribute, Event, EventError},
    json::Object,
    media::{self, ContentType},
};
use any::Rules;
use bytes::Bytes;
use http::HeaderMap;

/// Most events of one batch.
pub const BATCH_EVENTS_MAX: usize = 1_000;

/// What a sender speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// CloudEvents: binary, structured or batched.
    CloudEvents,
    /// Google Cloud Pub/Sub push, wrapped or unwrapped.
    Pubsub,
    /// Google's triggers as the first generation of Cloud Functions got them.
    Google,
    /// Amazon EventBridge.
    EventBridge,
    /// Amazon SNS.
    Sns,
    /// Amazon S3 event notifications.
    S3,
    /// Any JSON, by [`Rules`].
    Json,
}

impl Format {
    /// Every format, by the name it has in a configuration.
    pub const ALL: [(&'static str, Self); 7] = [
        ("cloudevents", Self::CloudEvents),
        ("pubsub", Self::Pubsub),
        ("google", Self::Google),
        ("eventbridge", Self::EventBridge),
        ("sns", Self::Sns),
        ("s3", Self::S3),
        ("json", Self::Json),
    ];

    /// Which format a request has: what `auto` means where headers are believed.
    pub fn sniff(headers: &HeaderMap, body: &[u8]) -> Result<Self, ReadError> {
        if cloudevents::mode(headers)?.is_some() {
            return Ok(Self::CloudEvents);
        }
        Self::sniff_others(headers, body)
    }

    /// Which format a request has that does not say that it is a CloudEvent.
    fn sniff_others(headers: &HeaderMap, body: &[u8]) -> Result<Self, ReadError> {
        if sns::is_sns(headers) {
            return Ok(Self::Sns);
        }
        if pubsub::is_unwrapped(headers) {
            return Ok(Self::Pubsub);
        }
        Self::sniff_body(headers, body)
    }

    /// Which format a body has.
    fn sniff_body(headers: &HeaderMap, body: &[u8]) -> Result<Self, ReadError> {
        require_json(headers)?;
        let object = match Object::read(body) {
            // Every other format is an object.
            Err(BadEnvelope::NoObject) => return Ok(Self::Json),
            read => read?,
        };
        Ok(match object {
            it if pubsub::is_wrapped(&it) => Self::Pubsub,
            it if eventbridge::is_event(&it) => Self::EventBridge,
            it if s3::is_notification(&it) => Self::S3,
            it if sns::is_message(&it) => Self::Sns,
            it if google::is_trigger(&it) => Self::Google,
            it if cloudevents::is_object(&it) => Self::CloudEvents,
            _ => Self::Json,
        })
    }

    /// Reads a request of this format.
    pub fn read(self, headers: &HeaderMap, body: &Bytes, settings: &Settings) -> Result<Received, ReadError> {
        let one = |event: Event| Received::One(Box::new(event));
        match self {
            Self::CloudEvents if settings.is_body_signed => cloudevents::read_signed(headers, body),
            Self::CloudEvents => cloudevents::read(headers, body),
            Self::Pubsub => pubsub::read(headers, body, settings).map(one),
            Self::Google => google::read(headers, body).map(one),
            Self::EventBridge => eventbridge::read(headers, body).map(one),
            Self::Sns => sns::read(headers, body, settings.is_body_signed),
            Self::S3 => s3::read(headers, body),
            Self::Json => {
                let rules = settings.rules.as_ref().ok_or(ReadError::NoRules)?;
                any::read(headers, body, rules).map(one)
            }
        }
    }
}

/// What reading needs to know beside the request.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `projects/…/topics/…`: the source of what Pub/Sub pushes. Without it, the subscription is.
    pub pubsub_topic: Option<Box<str>>,
    /// Where the attributes are in JSON of no other format. Without them, such JSON is refused.
    pub rules: Option<Rules>,
    /// Whether what was checked is a signature of the body: then headers are anybody's who captured a request.
    pub is_body_signed: bool,
}

/// Reads a request, in the format that is configured or else in the one it seems to have.
///
/// ```
/// use semel_events::format::{Received, read};
/// let mut headers = http::HeaderMap::new();
/// headers.insert("content-type", "application/cloudevents+json".parse()?);
/// let body = br#"{"specversion": "1.0", "id": "evt-1", "source": "/orders", "type": "order.created"}"#;
/// let Received::One(event) = read(None, &headers, &body[..].into(), &Default::default())? else { panic!() };
/// assert_eq!(event.kind(), "order.created");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(
    format: Option<Format>,
    headers: &HeaderMap,
    body: &Bytes,
    settings: &Settings,
) -> Result<Received, ReadError> {
    let format = match format {
        Some(format) => format,
        None if settings.is_body_signed => Format::sniff_body(headers, body)?,
        None => match cloudevents::mode(headers)? {
            Some(mode) => return cloudevents::read_as(mode, headers, body),
            None => Format::sniff_others(headers, body)?,
        },
    };
    format.read(headers, body, settings)
}

/// The media type of a request, which must be JSON in UTF-8.
fn require_json(headers: &HeaderMap) -> Result<&str, ReadError> {
    match media::content_type(headers) {
        ContentType::One(it) if media::is_json(it) && media::is_utf8(it) => Ok(it),
        ContentType::One(_) | ContentType::Absent | ContentType::Unclear => Err(ReadError::MediaType),
    }
}

/// What a request held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// One event.
    One(Box<Event>),
    /// Several, each by itself: one that is refused does not harm the others.
    Batch(Vec<Result<Event, ReadError>>),
    /// SNS asks for a subscription to be confirmed, or says that it ended.
    Subscription(sns::Subscription),
    /// Nothing: the sender tried whether anybody listens.
    Nothing,
}

/// Why a request, or an item of one, holds no event. The text never repeats what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// `Content-Type` is missing, is there twice, or is none that is read.
    #[error("the header `Content-Type` is missing, is there twice, or names a type that is not read here")]
    MediaType,
    /// It is no JSON, not the kind that the format is, or some that can be read in two ways.
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    /// Its attributes are not those of an event.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Another version of CloudEvents.
    #[error("`specversion` is not `1.0`")]
    SpecVersion,
    /// One attribute, two headers.
    #[error("the header of an attribute is there twice")]
    HeaderTwice,
    /// It is no text, is quoted wrongly, or has a wrong `%`.
    #[error("the header of an attribute is not percent-encoded UTF-8")]
    HeaderValue,
    /// In the binary mode, `Content-Type` is that attribute.
    #[error("`ce-datacontenttype` is no header: it is `Content-Type`")]
    ContentTypeHeader,
    /// The attributes are in headers, and only the body is signed.
    #[error("the attributes of the event are in headers, which are not signed: send them in the body")]
    Unsigned,
    /// Data is there twice.
    #[error("`data` and `data_base64` are both there")]
    TwoData,
    /// Data is not what it is said to be.
    #[error("data that should be base64 is not")]
    Base64,
    /// A value that has no text form.
    #[error("{0} is no text, or is of a type that CloudEvents does not have")]
    Value(Attribute),
    /// More than [`BATCH_EVENTS_MAX`].
    #[error("the batch has more than {BATCH_EVENTS_MAX} events")]
    BatchTooLong,
    /// Something that the format always has is not there.
    #[error("{0} is missing, or is not what the format says")]
    Lacks(&'static str),
    /// What the rules name is there twice, or is no text.
    #[error("what names the event is there twice, or is no text")]
    Ambiguous,
    /// The rules find no id.
    #[error("the event has no id")]
    NoId,
    /// It is JSON of no format that is known, and there are no rules.
    #[error("the body is JSON of no known format, and nothing says where its id and type are")]
    NoRules,
}

impl ReadError {
    /// The status of an answer that says so.
    pub const fn status(&self) -> u16 {
        match self {
            Self::MediaType => 415,
            Self::BatchTooLong | Self::Event(EventError::TooLarge) => 413,
            Self::Envelope(_)
            | Self::Event(_)
            | Self::SpecVersion
            | Self::HeaderTwice
            | Self::HeaderValue
            | Self::ContentTypeHeader
            | Self::Unsigned
            | Self::TwoData
            | Self::Base64
            | Self::Value(_)
            | Self::Lacks(_)
            | Self::Ambiguous
            | Self::NoId
            | Self::NoRules => 400,
        }
    }
}
