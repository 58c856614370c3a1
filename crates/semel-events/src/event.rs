//! One event: a CloudEvent 1.0.
//!
//! 1. An event that exists is right: its attributes are checked when it is [built](EventBuilder::build), when it
//!    is received, and when it is read back.
//! 2. `source` and `id` name it. Two events with one name are one event.
//! 3. Extensions are text, in the order of their names. CloudEvents' other types have a text form, which is what
//!    a header would hold, so nothing is lost on the way but the type.
//! 4. Data is bytes, as they were sent, and is shared, not copied.
//! 5. It fits into every queue: what is stored is at most [`EVENT_BYTES_MAX`] bytes.
//!
//! It does not look into its data, but for the fingerprint.

mod attribute;
mod build;
mod stored;
mod time;

pub use attribute::{
    Attribute, CONTENT_TYPE_BYTES_MAX, EXTENSION_BYTES_MAX, EXTENSION_NAME_BYTES_MAX, EXTENSIONS_MAX,
    ID_BYTES_MAX, SCHEMA_BYTES_MAX, SOURCE_BYTES_MAX, SUBJECT_BYTES_MAX, TYPE_BYTES_MAX,
};
pub use build::{EventBuilder, EventError};
pub use semel_core::queue::EVENT_BYTES_MAX;
pub use stored::VERSION;
pub use time::{EventTime, TIME_BYTES_MAX};

use crate::media;
use bytes::Bytes;
use semel_core::{fingerprint::Fingerprint, sabotage::is_on, time::Timestamp};

/// One event. Its fields are those of CloudEvents 1.0.
///
/// ```
/// use semel_events::event::Event;
/// let event = Event::builder("evt-1", "/orders", "order.created")
///     .subject("42")
///     .time("2026-11-16T04:44:31Z")
///     .extension("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
///     .json(r#"{"total": 12.50}"#)
///     .build()?;
/// assert_eq!(event.id(), "evt-1");
/// assert_eq!(Event::decode(&event.encode().into())?, event);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    id: Box<str>,
    source: Box<str>,
    kind: Box<str>,
    subject: Option<Box<str>>,
    time: Option<EventTime>,
    content_type: Option<Box<str>>,
    schema: Option<Box<str>>,
    /// In the order of their names.
    extensions: Vec<(Box<str>, Box<str>)>,
    data: Option<Bytes>,
}

impl Event {
    /// Begins one with what every event has.
    pub fn builder(
        id: impl Into<String>,
        source: impl Into<String>,
        kind: impl Into<String>,
    ) -> EventBuilder {
        EventBuilder::new(id.into(), source.into(), kind.into())
    }

    /// Names it within its source.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it happened.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What happened: the attribute `type`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it happened to.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// When it happened, if its sender says so.
    pub fn time(&self) -> Option<&EventTime> {
        self.time.as_ref()
    }

    /// The media type of the data.
    pub fn data_content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The schema of the data.
    pub fn data_schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The extension of this name.
    pub fn extension(&self, name: &str) -> Option<&str> {
        let found = self.extensions.binary_search_by(|(it, _)| (**it).cmp(name)).ok()?;
        Some(&self.extensions[found].1)
    }

    /// All extensions, in the order of their names.
    pub fn extensions(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.extensions.iter().map(|(name, value)| (&**name, &**value))
    }

    /// What was sent with it.
    pub fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// Whether the data is said to be JSON.
    pub fn is_json(&self) -> bool {
        self.data_content_type().is_some_and(media::is_json)
    }

    /// The attribute of this name as text; an extension if CloudEvents does not have it.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        match Attribute::named(name) {
            Attribute::SpecVersion => Some(SPEC_VERSION),
            Attribute::Id => Some(self.id()),
            Attribute::Source => Some(self.source()),
            Attribute::Type => Some(self.kind()),
            Attribute::Subject => self.subject(),
            Attribute::Time => self.time().map(EventTime::text),
            Attribute::DataContentType => self.data_content_type(),
            Attribute::DataSchema => self.data_schema(),
            Attribute::Extension => self.extension(name),
        }
    }

    /// When the event is no longer of use: the extension `expirytime`. One that is no time counts as absent,
    /// because it is no reason to lose an event.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.extension("expirytime").and_then(EventTime::parse).map(|it| it.at())
    }

    /// Whether two events with one name are the same: a hash of what happened.
    ///
    /// 1. `type`, `subject`, `datacontenttype`, `dataschema` and the data count.
    /// 2. `time` and the extensions do not: who sends an event again may stamp and trace it anew
    ///    (`traceparent`, `deliveryattempt`), and it is the same event.
    /// 3. JSON is compared as JSON, so a sender may order its members anew. JSON that can be read in two ways, or
    ///    is none in spite of its media type, is compared as bytes.
    pub fn fingerprint(&self) -> Fingerprint {
        let json = self.data.as_deref().filter(|_| self.is_json() && !is_on("events_json_is_bytes"));
        let content_type = self.data_content_type();
        let content_type =
            if json.is_some() { content_type.map(|_| "application/json") } else { content_type };
        let mut head = Vec::with_capacity(128);
        for field in [Some(self.kind()), self.subject(), content_type, self.data_schema()] {
            stored::put_text(&mut head, field);
        }
        // The first byte tells a missing payload from an empty one.
        head.push(u8::from(self.data.is_some()));
        if let Some(text) = json
            && let Ok(fingerprint) = Fingerprint::of_parts(&[&head], Some(text))
        {
            return fingerprint;
        }
        let data = self.data.as_deref().unwrap_or_default();
        Fingerprint::of_parts(&[&head, data], None)
            .expect("bytes that are not read as JSON are always hashed")
    }
}

/// The version of CloudEvents that this is.
pub const SPEC_VERSION: &str = "1.0";
