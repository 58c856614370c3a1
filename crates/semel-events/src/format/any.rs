//! Any JSON, with rules that say where its id and type are.
//!
//! 1. The whole body is the data, byte for byte, whatever the rules find. It need not be an object: `/0/id` is a place
//!    in a list, and headers, literals and hashes need no place at all.
//! 2. Without an id it is refused, unless the rules say [`Id::Hash`]: then equal bodies are one event, which is
//!    only right where no two things that happen have the same body.
//! 3. A time that is no time is left out: it is data, and no reason to lose an event. A whole number counts as
//!    seconds since 1970, as Stripe writes them.
//! 4. There are rules for those who send much: Stripe, GitHub, Standard Webhooks.

use super::{ReadError, require_json};
use crate::{
    event::{Event, EventTime},
    expression::{BadExpression, Expression, Input, NotFound, hex},
    json::BadEnvelope,
};
use bytes::Bytes;
use http::HeaderMap;
use semel_core::{fingerprint::Fingerprint, key::Part, sabotage::is_on};
use serde_json::value::RawValue;

/// Where the attributes of an event are found in a body.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What makes two deliveries one event.
    pub id: Id,
    /// What happened.
    pub kind: Expression,
    /// Where it happened.
    pub source: Expression,
    /// What it happened to.
    pub subject: Option<Expression>,
    /// When it happened.
    pub time: Option<Expression>,
}

/// What makes two deliveries one event.
#[derive(Clone, Debug)]
pub enum Id {
    /// What is found here.
    Found(Expression),
    /// What is found at the first of these places where there is anything.
    FirstOf(Vec<Expression>),
    /// Equal bodies are one event: JSON is compared as JSON.
    Hash,
}

impl Id {
    /// `hash`, or an expression.
    pub fn parse(text: &str) -> Result<Self, BadExpression> {
        if text == "hash" { Ok(Self::Hash) } else { text.parse().map(Self::Found) }
    }
}

impl Rules {
    /// With an id, a type and a source.
    pub fn new(id: &str, kind: &str, source: &str) -> Result<Self, BadExpression> {
        Ok(Self {
            id: Id::parse(id)?,
            kind: kind.parse()?,
            source: source.parse()?,
            subject: None,
            time: None,
        })
    }

    /// Stripe's events.
    pub fn stripe() -> Self {
        let rules = Self::new("/id", "/type", "literal:https://api.stripe.com");
        let mut rules = rules.expect("these are expressions");
        rules.subject = Some("/data/object/id".parse().expect("it is a pointer"));
        rules.time = Some("/created".parse().expect("it is a pointer"));
        rules
    }

    /// GitHub's webhooks. A redelivery has the id of the first delivery.
    pub fn github() -> Self {
        let rules =
            Self::new("header:x-github-delivery", "header:x-github-event", "literal:https://github.com");
        let mut rules = rules.expect("these are expressions");
        rules.subject = Some("/repository/full_name".parse().expect("it is a pointer"));
        rules
    }

    /// What Standard Webhooks recommends: the id in a header, which is `svix-id` for those who call it so still, type and time in the body. The source is the sender's
    /// name in the configuration.
    pub fn standard_webhooks(source: &str) -> Result<Self, BadExpression> {
        let mut rules = Self::new("header:webhook-id", "/type", &format!("literal:{source}"))?;
        // In the order in which the signature's headers are looked for: what was verified is what names it.
        let names = ["header:webhook-id", "header:svix-id"].map(|it| it.parse().expect("it is a header"));
        rules.id = Id::FirstOf(names.into());
        rules.time = Some("/timestamp".parse().expect("it is a pointer"));
        Ok(rules)
    }
}

pub(super) fn read(headers: &HeaderMap, body: &Bytes, rules: &Rules) -> Result<Event, ReadError> {
    let media_type = require_json(headers)?;
    Fingerprint::of_json(body).map_err(BadEnvelope::from)?;
    let text: &RawValue = serde_json::from_slice(body).map_err(|_| ReadError::Lacks("the JSON"))?;
    let input = Input::body(text, headers);
    let found = |expression: &Expression| expression.text(&input).map_err(|_: NotFound| ReadError::Ambiguous);
    let id = match &rules.id {
        Id::Found(expression) => found(expression)?,
        Id::FirstOf(all) => all.iter().find_map(|it| found(it).transpose()).transpose()?,
        Id::Hash => Some(hash(body)),
    };
    let id = if is_on("events_missing_id_is_hash") { id.or_else(|| Some(hash(body))) } else { id };
    let mut event = Event::builder(
        id.ok_or(ReadError::NoId)?,
        found(&rules.source)?.ok_or(ReadError::Lacks("the source"))?,
        found(&rules.kind)?.ok_or(ReadError::Lacks("the type"))?,
    );
    if let Some(subject) = rules.subject.as_ref().map(found).transpose()?.flatten() {
        event = event.subject(subject);
    }
    if let Some(time) = &rules.time {
        let parts = time.parts(&input).map_err(|_| ReadError::Ambiguous)?;
        let time = match &parts[..] {
            [Part::Integer(seconds)] => u64::try_from(*seconds).ok().and_then(EventTime::from_unix_seconds),
            [Part::Text(text)] => EventTime::parse(text),
            _ => None,
        };
        event = time.iter().fold(event, |event, it| event.time(it.text()));
    }
    Ok(event.content_type(media_type).data(body.clone()).build()?)
}

fn hash(body: &[u8]) -> String {
    let fingerprint = Fingerprint::of_json(body).unwrap_or_else(|_| Fingerprint::of_bytes(body));
    hex(fingerprint.hash())
}
