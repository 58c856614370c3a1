//! The structured mode: all of the event is one JSON object; and the batch, which is a list of them.
//!
//! 1. An object that can be read in two ways is refused. So is `data` beside `data_base64`.
//! 2. `data` is kept as it stands in the text. If `datacontenttype` is not JSON, a string is its content; if there
//!    is none, it is `application/json`.
//! 3. A member that is `null` is not there.
//! 4. An extension may be text, a whole number of 32 bits, or a truth value.
//! 5. A batch has at most [`BATCH_EVENTS_MAX`] events. One that is refused does not harm the others, but a text
//!    that is no list harms them all.

use crate::{
    event::{Attribute, EXTENSIONS_MAX, Event, EventBuilder, EventError, EventTime, SPEC_VERSION},
    format::{BATCH_EVENTS_MAX, ReadError},
    json::{self, Object},
    media,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use semel_core::fingerprint::Fingerprint;
use serde_json::value::RawValue;

/// Most members of an object: the attributes that CloudEvents has, data in two ways, and extensions.
const MEMBERS_MAX: usize = 8 + 2 + EXTENSIONS_MAX;

/// Reads an event from a JSON object.
pub fn read_structured(text: &[u8]) -> Result<Event, ReadError> {
    of_object(&Object::read(text)?)
}

/// Reads a list of events, each with a result of its own.
pub fn read_batch(text: &[u8]) -> Result<Vec<Result<Event, ReadError>>, ReadError> {
    let items = json::list(text)?;
    if items.len() > BATCH_EVENTS_MAX {
        return Err(ReadError::BatchTooLong);
    }
    Ok(items.into_iter().map(|it| read_structured(it.get().as_bytes())).collect())
}

fn of_object(object: &Object<'_>) -> Result<Event, ReadError> {
    if object.text("specversion").as_deref() != Some(SPEC_VERSION) {
        return Err(ReadError::SpecVersion);
    }
    let required = |attribute: Attribute| {
        let value = object.get(attribute.name()).ok_or(EventError::Missing(attribute))?;
        json::text(value).ok_or(ReadError::Value(attribute))
    };
    let mut event =
        Event::builder(required(Attribute::Id)?, required(Attribute::Source)?, required(Attribute::Type)?);
    // So that a million members are not copied before they are counted.
    if object.members().count() > MEMBERS_MAX {
        return Err(EventError::TooManyExtensions.into());
    }
    for (name, value) in object.members().filter(|(_, value)| !json::is_null(value)) {
        let attribute = Attribute::named(name);
        let text = || json::text(value).ok_or(ReadError::Value(attribute));
        event = match attribute {
            Attribute::SpecVersion | Attribute::Id | Attribute::Source | Attribute::Type => event,
            Attribute::Subject => event.subject(text()?),
            Attribute::Time => event.time(text()?),
            Attribute::DataContentType => event.content_type(text()?),
            Attribute::DataSchema => event.schema(text()?),
            Attribute::Extension if name == "data" || name == "data_base64" => event,
            Attribute::Extension => event.extension(name, extension(value)?),
        };
    }
    Ok(with_data(event, object)?.build()?)
}

fn with_data(event: EventBuilder, object: &Object<'_>) -> Result<EventBuilder, ReadError> {
    let content_type = object.text("datacontenttype");
    match (object.get("data"), object.get("data_base64")) {
        (None, None) => Ok(event),
        (Some(_), Some(_)) => Err(ReadError::TwoData),
        (None, Some(value)) => {
            let text = json::text(value).ok_or(ReadError::Base64)?;
            let bytes = STANDARD.decode(text.as_bytes()).map_err(|_| ReadError::Base64)?;
            Ok(event.data(bytes))
        }
        (Some(value), None) => Ok(match content_type.as_deref().map(media::is_json) {
            None => event.json(value.get().to_owned()),
            Some(true) => event.data(value.get().to_owned()),
            Some(false) => {
                let content = json::text(value).unwrap_or(value.get().into());
                event.data(content.into_owned())
            }
        }),
    }
}

/// The text form of an extension's value.
fn extension(value: &RawValue) -> Result<String, ReadError> {
    let text = value.get();
    let is_plain =
        text == "true" || text == "false" || text.parse::<i32>().is_ok_and(|it| it.to_string() == text);
    if is_plain {
        return Ok(text.to_owned());
    }
    json::text(value).map(Into::into).ok_or(ReadError::Value(Attribute::Extension))
}

impl Event {
    /// The event in the structured mode, as [`STRUCTURED_JSON`](super::STRUCTURED_JSON).
    ///
    /// Data that is JSON stands in it as such, text as a string, and the rest as base64.
    pub fn to_structured(&self) -> Bytes {
        let mut out = Vec::with_capacity(256 + self.data().map_or(0, Bytes::len));
        out.extend_from_slice(br#"{"specversion":"1.0""#);
        let known = [
            ("id", Some(self.id())),
            ("source", Some(self.source())),
            ("type", Some(self.kind())),
            ("subject", self.subject()),
            ("time", self.time().map(EventTime::text)),
            ("datacontenttype", self.data_content_type()),
            ("dataschema", self.data_schema()),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in known.chain(self.extensions()) {
            put_name(&mut out, name);
            put_string(&mut out, value);
        }
        if let Some(data) = self.data() {
            self.put_data(&mut out, data);
        }
        out.push(b'}');
        out.into()
    }

    fn put_data(&self, out: &mut Vec<u8>, data: &[u8]) {
        let is_text = || self.data_content_type().is_some_and(|it| media::is_text(it) && media::is_utf8(it));
        if self.is_json() && data.trim_ascii() != b"null" && Fingerprint::of_json(data).is_ok() {
            put_name(out, "data");
            out.extend_from_slice(data.trim_ascii());
        } else if let Ok(text) = std::str::from_utf8(data)
            && !self.is_json()
            && is_text()
        {
            put_name(out, "data");
            put_string(out, text);
        } else {
            put_name(out, "data_base64");
            put_string(out, &STANDARD.encode(data));
        }
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    put_string(out, name);
    out.push(b':');
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("text is always JSON");
}
