//! Google's triggers in the shape of the first generation of Cloud Functions.
//!
//! 1. They are mapped as Google's own functions frameworks map them, so that a function cannot tell an old trigger
//!    from one of Eventarc. The tables are below.
//! 2. What stands in `context` goes before what stands beside `data`.
//! 3. A resource's name is split into the source and the subject. Of a Cloud Storage object, the generation behind
//!    `#` is no part of it.
//! 4. An `eventType` that is not in the table is refused.
//!
//! Triggers of the second generation are CloudEvents, and are read as such.

use super::{ReadError, require_json};
use crate::{
    event::Event,
    json::{self, Object},
};
use bytes::Bytes;
use http::HeaderMap;
use std::borrow::Cow;

/// Where an event comes from, and how its resource's name is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Service {
    Pubsub,
    Storage,
    Firestore,
    Auth,
    Analytics,
    Database,
    RemoteConfig,
}

/// What the first generation calls an event, what it is called as a CloudEvent, and whose it is.
const TYPES: [(&str, &str, Service); 19] = [
    ("google.pubsub.topic.publish", super::pubsub::MESSAGE_PUBLISHED, Service::Pubsub),
    ("providers/cloud.pubsub/eventTypes/topic.publish", super::pubsub::MESSAGE_PUBLISHED, Service::Pubsub),
    ("google.storage.object.finalize", "google.cloud.storage.object.v1.finalized", Service::Storage),
    ("google.storage.object.delete", "google.cloud.storage.object.v1.deleted", Service::Storage),
    ("google.storage.object.archive", "google.cloud.storage.object.v1.archived", Service::Storage),
    (
        "google.storage.object.metadataUpdate",
        "google.cloud.storage.object.v1.metadataUpdated",
        Service::Storage,
    ),
    (
        "providers/cloud.storage/eventTypes/object.change",
        "google.cloud.storage.object.v1.finalized",
        Service::Storage,
    ),
    (
        "providers/cloud.firestore/eventTypes/document.write",
        "google.cloud.firestore.document.v1.written",
        Service::Firestore,
    ),
    (
        "providers/cloud.firestore/eventTypes/document.create",
        "google.cloud.firestore.document.v1.created",
        Service::Firestore,
    ),
    (
        "providers/cloud.firestore/eventTypes/document.update",
        "google.cloud.firestore.document.v1.updated",
        Service::Firestore,
    ),
    (
        "providers/cloud.firestore/eventTypes/document.delete",
        "google.cloud.firestore.document.v1.deleted",
        Service::Firestore,
    ),
    ("providers/firebase.auth/eventTypes/user.create", "google.firebase.auth.user.v1.created", Service::Auth),
    ("providers/firebase.auth/eventTypes/user.delete", "google.firebase.auth.user.v1.deleted", Service::Auth),
    (
        "providers/google.firebase.analytics/eventTypes/event.log",
        "google.firebase.analytics.log.v1.written",
        Service::Analytics,
    ),
    (
        "providers/google.firebase.database/eventTypes/ref.create",
        "google.firebase.database.ref.v1.created",
        Service::Database,
    ),
    (
        "providers/google.firebase.database/eventTypes/ref.write",
        "google.firebase.database.ref.v1.written",
        Service::Database,
    ),
    (
        "providers/google.firebase.database/eventTypes/ref.update",
        "google.firebase.database.ref.v1.updated",
        Service::Database,
    ),
    (
        "providers/google.firebase.database/eventTypes/ref.delete",
        "google.firebase.database.ref.v1.deleted",
        Service::Database,
    ),
    (
        "providers/firebase.remoteConfig/remoteconfig.update",
        "google.firebase.remoteconfig.remoteConfig.v1.updated",
        Service::RemoteConfig,
    ),
];

impl Service {
    const fn host(self) -> &'static str {
        match self {
            Self::Pubsub => "pubsub.googleapis.com",
            Self::Storage => "storage.googleapis.com",
            Self::Firestore => "firestore.googleapis.com",
            Self::Auth => "firebaseauth.googleapis.com",
            Self::Analytics => "firebaseanalytics.googleapis.com",
            Self::Database => "firebasedatabase.googleapis.com",
            Self::RemoteConfig => "firebaseremoteconfig.googleapis.com",
        }
    }
}

/// A request of the first generation, taken apart.
struct Trigger<'a> {
    id: Cow<'a, str>,
    time: Option<Cow<'a, str>>,
    resource: Cow<'a, str>,
    kind: &'static str,
    service: Service,
    /// What stands under `data`.
    raw: &'a str,
    data: Object<'a>,
    /// Where a Realtime Database is.
    domain: Option<Cow<'a, str>>,
}

pub(super) fn is_trigger(object: &Object<'_>) -> bool {
    let has = |it: &Object<'_>| it.text("eventType").is_some() && it.text("eventId").is_some();
    object.get("data").is_some() && (has(object) || object.object("context").is_some_and(|it| has(&it)))
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Event, ReadError> {
    require_json(headers)?;
    let request = Object::read(body)?;
    let trigger = taken_apart(&request)?;
    let (place, subject) = split(&trigger)?;
    let source = format!("//{}/{place}", trigger.service.host());
    let mut event = Event::builder(&*trigger.id, source, trigger.kind).json(data(&trigger));
    if let Some(time) = &trigger.time {
        event = event.time(&**time);
    }
    if let Some(subject) = subject {
        event = event.subject(subject);
    }
    Ok(event.build()?)
}

fn taken_apart<'a>(request: &Object<'a>) -> Result<Trigger<'a>, ReadError> {
    let context = request.object("context");
    let text = |name: &str| context.as_ref().and_then(|it| it.text(name)).or_else(|| request.text(name));
    let named = context.as_ref().and_then(|it| it.object("resource")).or_else(|| request.object("resource"));
    let resource = named.and_then(|it| it.text("name")).or_else(|| text("resource"));
    let event_type = text("eventType").ok_or(ReadError::Lacks("`eventType`"))?;
    let known = TYPES.iter().find(|(it, ..)| *it == event_type);
    let (_, kind, service) = *known.ok_or(ReadError::Lacks("an `eventType` that is known"))?;
    let raw = request.get("data").ok_or(ReadError::Lacks("`data`"))?;
    Ok(Trigger {
        id: text("eventId").ok_or(ReadError::Lacks("`eventId`"))?,
        time: text("timestamp"),
        resource: resource.ok_or(ReadError::Lacks("`resource`"))?,
        kind,
        service,
        raw: raw.get(),
        data: Object::within(raw).ok_or(ReadError::Lacks("`data`"))?,
        domain: request.text("domain"),
    })
}

/// The rest of the source behind the service, and the subject.
fn split(trigger: &Trigger<'_>) -> Result<(String, Option<String>), ReadError> {
    let resource = &*trigger.resource;
    let at = |mark: &str| {
        let (place, rest) = resource.split_once(mark).ok_or(ReadError::Lacks("`resource`"))?;
        Ok((place, format!("{}{rest}", &mark[1..])))
    };
    match trigger.service {
        Service::Pubsub | Service::RemoteConfig => Ok((resource.to_owned(), None)),
        Service::Storage => {
            let (place, subject) = at("/objects/")?;
            Ok((place.to_owned(), Some(without_generation(&subject).to_owned())))
        }
        Service::Firestore => at("/documents/").map(|(place, subject)| (place.to_owned(), Some(subject))),
        Service::Auth => {
            let subject = trigger.data.text("uid").map(|uid| format!("users/{uid}"));
            Ok((resource.to_owned(), subject))
        }
        Service::Analytics => {
            let (place, subject) = at("/events/")?;
            let app = trigger.data.object("userDim").and_then(|it| it.object("appInfo")?.text("appId"));
            let app = app.ok_or(ReadError::Lacks("`data.userDim.appInfo.appId`"))?;
            Ok((format!("{place}/apps/{app}"), Some(subject)))
        }
        Service::Database => {
            let (place, subject) = at("/refs/")?;
            let instance = place.strip_prefix("projects/_/").ok_or(ReadError::Lacks("`resource`"))?;
            let domain = trigger.domain.as_deref().ok_or(ReadError::Lacks("`domain`"))?;
            let location = match domain.split_once('.') {
                Some(("firebaseio", "com")) => "us-central1",
                Some((first, _)) => first,
                None => domain,
            };
            Ok((format!("projects/_/locations/{location}/{instance}"), Some(subject)))
        }
    }
}

/// The name of an object without `#` and digits at its end.
fn without_generation(subject: &str) -> &str {
    match subject.rsplit_once('#') {
        Some((name, digits)) if !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) => name,
        Some(_) | None => subject,
    }
}

/// What Firebase Authentication calls its times, and what they are called in a CloudEvent.
const RENAMED: [(&str, &str); 2] = [("createdAt", "createTime"), ("lastSignedInAt", "lastSignInTime")];

/// The data as the service's CloudEvents have it.
fn data(trigger: &Trigger<'_>) -> String {
    match trigger.service {
        Service::Pubsub => {
            let published = trigger.time.as_deref().map(|it| ("publishTime", json::string(it)));
            let added = [("messageId", json::string(&trigger.id))].into_iter().chain(published);
            format!("{{\"message\":{}}}", rewritten(&trigger.data, &[], &added.collect::<Vec<_>>()))
        }
        Service::Auth => match trigger.data.object("metadata") {
            Some(metadata) => {
                let metadata = rewritten(&metadata, &RENAMED, &[]);
                rewritten(&trigger.data, &[], &[("metadata", metadata)])
            }
            None => trigger.raw.to_owned(),
        },
        Service::Storage
        | Service::Firestore
        | Service::Analytics
        | Service::Database
        | Service::RemoteConfig => trigger.raw.to_owned(),
    }
}

/// The object with some members renamed, and with what is added at the end instead of what has that name.
fn rewritten(object: &Object<'_>, renamed: &[(&str, &str)], added: &[(&str, String)]) -> String {
    let new_name = |name| renamed.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| *new);
    let is_added = |name: &str| added.iter().any(|(it, _)| *it == name);
    let kept = object.members().map(|(name, value)| (new_name(name), value.get()));
    let kept = kept.filter(|(name, _)| !is_added(name));
    let all = kept.chain(added.iter().map(|(name, value)| (*name, &**value)));
    let members: Vec<String> = all.map(|(name, value)| format!("{}:{value}", json::string(name))).collect();
    format!("{{{}}}", members.join(","))
}
