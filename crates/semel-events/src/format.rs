//! Formats: what senders speak, read as events.
//!
//! 1. Each format has a file of its own, and one function that reads it.
//! 2. A request is one event, or a batch with a result for each item.
//! 3. A refusal has a status: 413 for what is too large, 415 for a media type that is not read, 400 for the rest.
//!
//! It does not check who sent it: authentication comes first, over the raw bytes.

pub mod cloudevents;

use crate::{
    event::{Attribute, Event, EventError},
    json::BadEnvelope,
};

/// Most events of one batch.
pub const BATCH_EVENTS_MAX: usize = 1_000;

/// What a request held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// One event.
    One(Box<Event>),
    /// Several, each by itself: one that is refused does not harm the others.
    Batch(Vec<Result<Event, ReadError>>),
}

/// Why a request, or an item of one, holds no event. The text never repeats what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// `Content-Type` is missing, is there twice, or is none that is read.
    #[error("the header `Content-Type` is missing, is there twice, or names a type that is not read here")]
    MediaType,
    /// It is no JSON object, or one that can be read in two ways.
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
            | Self::TwoData
            | Self::Base64
            | Self::Value(_)
            | Self::Lacks(_) => 400,
        }
    }
}
