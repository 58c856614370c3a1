//! The binary mode: attributes are headers, data is the body.
//!
//! 1. A header's value is unquoted, then percent-decoded once; what is then no UTF-8 (overlong forms included) is
//!    refused. A `%` without two hexadecimal digits stands for itself: Node's library sends it as it is.
//! 2. An attribute has one header. `datacontenttype` is `Content-Type`.
//! 3. An empty body is no data.
//! 4. What is sent is percent-encoded, and never quoted.

use crate::{
    event::{Attribute, Event, EventError, EventTime, SPEC_VERSION},
    format::ReadError,
    media::{self, ContentType},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use semel_core::sabotage::is_on;
use std::borrow::Cow;

/// Longest value of an attribute's header, in bytes: three for each byte of the longest extension, and two quotes.
pub const HEADER_BYTES_MAX: usize = 3 * crate::event::EXTENSION_BYTES_MAX + 2;

const PREFIX: &str = "ce-";
/// Room for the headers of an event, those of the attempt and those of the connection, so that a map does not grow.
const HEADERS_TYPICAL: usize = 16;

const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
const CE_ID: HeaderName = HeaderName::from_static("ce-id");
const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");

/// Headers that tell a request in this mode.
pub(super) static ATTRIBUTES: [HeaderName; 4] = [CE_SPECVERSION, CE_ID, CE_SOURCE, CE_TYPE];

/// Reads an event from headers and body.
pub fn read_binary(headers: &HeaderMap, body: &Bytes) -> Result<Event, ReadError> {
    if attribute(headers, &CE_SPECVERSION)?.as_deref() != Some(SPEC_VERSION) {
        return Err(ReadError::SpecVersion);
    }
    let required = |name, what| attribute(headers, name)?.ok_or(ReadError::Event(EventError::Missing(what)));
    let mut event = Event::builder(
        required(&CE_ID, Attribute::Id)?,
        required(&CE_SOURCE, Attribute::Source)?,
        required(&CE_TYPE, Attribute::Type)?,
    );
    for name in headers.keys() {
        let Some(short) = name.as_str().strip_prefix(PREFIX) else { continue };
        let named = Attribute::named(short);
        if let Attribute::SpecVersion | Attribute::Id | Attribute::Source | Attribute::Type = named {
            continue;
        }
        let Some(value) = attribute(headers, name)? else { continue };
        event = match named {
            Attribute::SpecVersion | Attribute::Id | Attribute::Source | Attribute::Type => event,
            Attribute::DataContentType => return Err(ReadError::ContentTypeHeader),
            Attribute::Subject => event.subject(value),
            Attribute::Time => event.time(value),
            Attribute::DataSchema => event.schema(value),
            Attribute::Extension => event.extension(short, value),
        };
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

fn attribute(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, ReadError> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => decoded(one.as_bytes()).map(Some).ok_or(ReadError::HeaderValue),
        (Some(_), Some(_)) => Err(ReadError::HeaderTwice),
    }
}

/// The value of a header: unquoted, then percent-decoded once.
fn decoded(value: &[u8]) -> Option<String> {
    (value.len() <= HEADER_BYTES_MAX).then_some(())?;
    let value = match value.trim_ascii() {
        [b'"', quoted @ .., b'"'] => unquoted(quoted)?.into(),
        plain => Cow::Borrowed(plain),
    };
    let once = percent_decoded(value);
    let bytes = if is_on("events_header_decoded_twice") { percent_decoded(once) } else { once };
    String::from_utf8(bytes.into_owned()).ok()
}

/// What stands between quotes, without the backslashes that protect its characters.
fn unquoted(quoted: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(quoted.len());
    let mut rest = quoted.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => plain.push(*rest.next()?),
            b'"' => return None,
            _ => plain.push(*byte),
        }
    }
    Some(plain)
}

fn percent_decoded(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return text;
    }
    let digit = |it: u8| (it as char).to_digit(16).map(|it| it as u8);
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((byte, tail)) = rest.split_first() {
        let escaped = match tail {
            [high, low, tail @ ..] if *byte == b'%' => digit(*high).zip(digit(*low)).map(|it| (it, tail)),
            _ => None,
        };
        if let Some(((high, low), tail)) = escaped {
            plain.push(high << 4 | low);
            rest = tail;
        } else {
            plain.push(*byte);
            rest = tail;
        }
    }
    plain.into()
}

impl Event {
    /// The event in the binary mode: headers and body.
    pub fn to_binary(&self) -> (HeaderMap, Bytes) {
        let mut headers = HeaderMap::with_capacity(HEADERS_TYPICAL + self.extensions().len());
        let mut put = |name: HeaderName, value: &str| headers.insert(name, encoded(value));
        let known: [(HeaderName, Option<&str>); 7] = [
            (CE_SPECVERSION, Some(SPEC_VERSION)),
            (CE_ID, Some(self.id())),
            (CE_SOURCE, Some(self.source())),
            (CE_TYPE, Some(self.kind())),
            (HeaderName::from_static("ce-subject"), self.subject()),
            (HeaderName::from_static("ce-time"), self.time().map(EventTime::text)),
            (HeaderName::from_static("ce-dataschema"), self.data_schema()),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                put(name, value);
            }
        }
        for (name, value) in self.extensions() {
            let name = HeaderName::try_from(format!("{PREFIX}{name}"));
            put(name.expect("an extension's name is letters and digits"), value);
        }
        if let Some(media_type) = self.data_content_type() {
            let value = HeaderValue::from_str(media_type);
            headers.insert(CONTENT_TYPE, value.expect("a media type is printable ASCII"));
        }
        (headers, self.data().cloned().unwrap_or_default())
    }
}

/// Percent-encodes all but printable ASCII, and of that the space, `"` and `%`.
fn encoded(value: &str) -> HeaderValue {
    let is_plain = |it: u8| it.is_ascii_graphic() && it != b'"' && it != b'%';
    if value.bytes().all(is_plain) {
        return HeaderValue::from_str(value).expect("printable ASCII is a header's value");
    }
    let mut text = Vec::with_capacity(3 * value.len());
    for byte in value.bytes() {
        if is_plain(byte) {
            text.push(byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
            text.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("printable ASCII is a header's value")
}
