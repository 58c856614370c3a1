//! How an event comes to be.
//!
//! 1. Nothing is checked before [`EventBuilder::build`], and everything is checked there.
//! 2. Of two values for one attribute the last one counts; two extensions of one name are refused.
//!
//! It does not fill in anything: an id is the sender's to give.

use super::{
    Attribute, EVENT_BYTES_MAX, EXTENSIONS_MAX, Event, EventTime,
    attribute::{check, check_name},
    stored,
};
use crate::media;
use bytes::Bytes;

/// Why something is no event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// It has no value, or a blank one.
    #[error("{0} is missing or blank")]
    Missing(Attribute),
    /// It has more bytes than it may.
    #[error("{0} is longer than {max} bytes", max = .0.bytes_max())]
    TooLong(Attribute),
    /// It has a control character, or one that Unicode does not have.
    #[error("{0} has a character that no attribute may have")]
    Character(Attribute),
    /// It is no RFC 3339 text.
    #[error("`time` is no RFC 3339 text such as `2026-11-16T04:44:31Z`")]
    Time,
    /// It is not ASCII, or has no `/`.
    #[error("`datacontenttype` is no media type")]
    ContentType,
    /// It is not made of lower-case letters and digits, or is the name of something else.
    #[error("the name of an extension is not made of lower-case letters and digits, or is taken")]
    ExtensionName,
    /// There are two of one name.
    #[error("two extensions have one name")]
    ExtensionTwice,
    /// There are more than [`EXTENSIONS_MAX`].
    #[error("there are more than {EXTENSIONS_MAX} extensions")]
    TooManyExtensions,
    /// All of it is more than [`EVENT_BYTES_MAX`] bytes.
    #[error("the event is larger than {EVENT_BYTES_MAX} bytes")]
    TooLarge,
}

/// An event that is being put together.
#[derive(Clone, Debug)]
#[must_use = "it is no event before it is built"]
pub struct EventBuilder {
    id: String,
    source: String,
    kind: String,
    subject: Option<String>,
    time: Option<String>,
    content_type: Option<String>,
    schema: Option<String>,
    extensions: Vec<(String, String)>,
    data: Option<Bytes>,
}

impl EventBuilder {
    pub(super) const fn new(id: String, source: String, kind: String) -> Self {
        Self {
            id,
            source,
            kind,
            subject: None,
            time: None,
            content_type: None,
            schema: None,
            extensions: Vec::new(),
            data: None,
        }
    }

    /// What it happened to.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// When it happened, as RFC 3339.
    pub fn time(mut self, time: impl Into<String>) -> Self {
        self.time = Some(time.into());
        self
    }

    /// The media type of the data.
    pub fn content_type(mut self, media_type: impl Into<String>) -> Self {
        self.content_type = Some(media_type.into());
        self
    }

    /// The schema of the data.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// An attribute of the sender's own.
    pub fn extension(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extensions.push((name.into(), value.into()));
        self
    }

    /// The data, as bytes of the media type that is given apart.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The data, as JSON.
    pub fn json(self, text: impl Into<Bytes>) -> Self {
        self.content_type("application/json").data(text)
    }

    /// The event, if everything about it is right.
    pub fn build(mut self) -> Result<Event, EventError> {
        check(Attribute::Id, &self.id)?;
        check(Attribute::Source, &self.source)?;
        check(Attribute::Type, &self.kind)?;
        let optional = [
            (Attribute::Subject, &self.subject),
            (Attribute::DataContentType, &self.content_type),
            (Attribute::DataSchema, &self.schema),
        ];
        for (attribute, value) in optional {
            value.as_ref().map_or(Ok(()), |it| check(attribute, it))?;
        }
        if self.content_type.as_deref().is_some_and(|it| !is_media_type(it)) {
            return Err(EventError::ContentType);
        }
        self.check_extensions()?;
        let time = self.time.map(|it| EventTime::parse(&it).ok_or(EventError::Time)).transpose()?;
        let boxed = |(name, value): (String, String)| (name.into_boxed_str(), value.into_boxed_str());
        let event = Event {
            id: self.id.into(),
            source: self.source.into(),
            kind: self.kind.into(),
            subject: self.subject.map(Into::into),
            time,
            content_type: self.content_type.map(Into::into),
            schema: self.schema.map(Into::into),
            extensions: self.extensions.into_iter().map(boxed).collect(),
            data: self.data,
        };
        if stored::length(&event) > EVENT_BYTES_MAX { Err(EventError::TooLarge) } else { Ok(event) }
    }

    fn check_extensions(&mut self) -> Result<(), EventError> {
        if self.extensions.len() > EXTENSIONS_MAX {
            return Err(EventError::TooManyExtensions);
        }
        for (name, value) in &self.extensions {
            check_name(name)?;
            check(Attribute::Extension, value)?;
        }
        self.extensions.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let twice = self.extensions.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if twice { Err(EventError::ExtensionTwice) } else { Ok(()) }
    }
}

/// Whether it can be sent as the header `Content-Type`.
fn is_media_type(text: &str) -> bool {
    let essence = media::essence(text);
    text.is_ascii()
        && text.trim() == text
        && essence.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty())
}
