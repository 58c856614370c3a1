//! CloudEvents 1.0 over HTTP: binary, structured and batched.
//!
//! 1. `Content-Type` decides, without regard to case: `application/cloudevents-batch+json` is a batch,
//!    `application/cloudevents+json` is structured, anything else with `ce-` headers is binary. Other encodings of
//!    the first two are refused.
//! 2. An object that says so is structured also if its `Content-Type` is only `application/json`.
//! 3. Version 1.0 only.
//!
//! It does not read HTTP/1.1 trailers or other bindings than HTTP's.

mod binary;
mod structured;

pub use binary::{HEADER_BYTES_MAX, read_binary};
pub use structured::{read_batch, read_structured};

use super::{ReadError, Received};
use crate::{
    json::Object,
    media::{self, ContentType},
};
use bytes::Bytes;
use http::HeaderMap;

/// `Content-Type` of one event as JSON.
pub const STRUCTURED_JSON: &str = "application/cloudevents+json";
/// `Content-Type` of a list of events as JSON.
pub const BATCH_JSON: &str = "application/cloudevents-batch+json";

/// How a CloudEvents request is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Binary,
    Structured,
    Batch,
}

/// How the media types of both begin.
const CLOUDEVENTS: &str = "application/cloudevents";

/// What stands behind this, which is found without regard to case.
fn after<'a>(text: &'a str, front: &str) -> Option<&'a str> {
    let (begin, rest) = text.split_at_checked(front.len())?;
    begin.eq_ignore_ascii_case(front).then_some(rest)
}

/// How a request is to be read as CloudEvents; `None` if nothing says that it is one.
pub(super) fn mode(headers: &HeaderMap) -> Result<Option<Mode>, ReadError> {
    let is_binary = binary::ATTRIBUTES.iter().any(|it| headers.contains_key(it));
    let content_type = match media::content_type(headers) {
        ContentType::One(it) => it,
        ContentType::Absent => return Ok(is_binary.then_some(Mode::Binary)),
        ContentType::Unclear => return Err(ReadError::MediaType),
    };
    let Some(rest) = after(media::essence(content_type), CLOUDEVENTS) else {
        return Ok(is_binary.then_some(Mode::Binary));
    };
    let mode = match &*rest.to_ascii_lowercase() {
        "-batch+json" => Mode::Batch,
        "+json" => Mode::Structured,
        other if other.is_empty() || other.starts_with(['+', '-']) => return Err(ReadError::MediaType),
        _ => return Ok(is_binary.then_some(Mode::Binary)),
    };
    if media::is_utf8(content_type) { Ok(Some(mode)) } else { Err(ReadError::MediaType) }
}

/// Whether JSON is an event, whatever its media type.
pub(super) fn is_object(object: &Object<'_>) -> bool {
    ["specversion", "id", "source", "type"].iter().all(|it| object.text(it).is_some())
}

/// Reads a request in whichever mode it is.
pub fn read(headers: &HeaderMap, body: &Bytes) -> Result<Received, ReadError> {
    if let Some(mode) = mode(headers)? {
        return read_as(mode, headers, body);
    }
    super::require_json(headers)?;
    read_as(Mode::Structured, headers, body)
}

/// Reads a request of which only the body is signed: not in binary mode, where headers say which event it is.
pub(super) fn read_signed(headers: &HeaderMap, body: &Bytes) -> Result<Received, ReadError> {
    match mode(headers)? {
        Some(Mode::Binary) => Err(ReadError::Unsigned),
        Some(Mode::Structured | Mode::Batch) | None => read(headers, body),
    }
}

/// Reads a request in this mode.
pub(super) fn read_as(mode: Mode, headers: &HeaderMap, body: &Bytes) -> Result<Received, ReadError> {
    match mode {
        Mode::Binary => read_binary(headers, body).map(|it| Received::One(Box::new(it))),
        Mode::Structured => read_structured(body).map(|it| Received::One(Box::new(it))),
        Mode::Batch => read_batch(body).map(Received::Batch),
    }
}
