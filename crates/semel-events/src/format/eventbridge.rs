//! Amazon EventBridge, as an API destination gets it.
//!
//! 1. `id`, `source` and `time` are the event's own, `detail-type` is its type, `detail` its data.
//! 2. The one resource that it names is its subject; of several, none is.
//! 3. `account` and `region` are the extensions `awsaccount` and `awsregion`.
//!
//! It does not read what an input transformer made of it: that is [any JSON](super::Format::Json).

use super::{ReadError, require_json};
use crate::{
    event::Event,
    json::{self, Object},
};
use bytes::Bytes;
use http::HeaderMap;

pub(super) fn is_event(object: &Object<'_>) -> bool {
    object.text("detail-type").is_some() && object.text("source").is_some() && object.get("detail").is_some()
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Event, ReadError> {
    require_json(headers)?;
    let object = Object::read(body)?;
    let required = |name, what| object.text(name).ok_or(ReadError::Lacks(what));
    let id = required("id", "`id`")?;
    let source = required("source", "`source`")?;
    let kind = required("detail-type", "`detail-type`")?;
    let mut event = Event::builder(id, source, kind);
    if let Some(time) = object.text("time") {
        event = event.time(time);
    }
    if let Some(resource) = only_resource(&object)? {
        event = event.subject(resource);
    }
    for (member, extension) in [("account", "awsaccount"), ("region", "awsregion")] {
        if let Some(value) = object.text(member).filter(|it| !it.is_empty()) {
            event = event.extension(extension, value);
        }
    }
    let detail = object.get("detail").ok_or(ReadError::Lacks("`detail`"))?;
    Ok(event.json(detail.get().to_owned()).build()?)
}

fn only_resource(object: &Object<'_>) -> Result<Option<String>, ReadError> {
    let Some(list) = object.get("resources") else { return Ok(None) };
    let resources = json::list(list.get().as_bytes()).map_err(|_| ReadError::Lacks("`resources`"))?;
    let [one] = resources[..] else { return Ok(None) };
    Ok(json::text(one).map(Into::into))
}
