//! Where a key, or an attribute, is found in an event.
//!
//! 1. `/data/order/id` is a JSON pointer into the event as JSON: what is below `/data` is in its data, `/subject`
//!    is an attribute. Of a body that is not an event yet, it points into the body.
//! 2. `subject` is an attribute or an extension. `header:x-order` is a header of the request. `literal:…` is what
//!    follows. `jmespath:…` is a JMESPath over the event as JSON (with the feature `jmespath`).
//! 3. What is found becomes typed parts of a key: `1` is not `"1"`. Text that is too long for a key, an object, a
//!    list and a number that is not whole are hashed.
//! 4. What is not there, `null`, blank text, and a list or object of nothing but `null` are missing. Several
//!    expressions are missing if all of them are.
//! 5. What can be read in two ways is refused: a member that is there twice on the way, a header that is.
//! 6. Of several expressions each is one part, so that nothing moves from one to the next: a list that a JMESPath finds
//!    is hashed there, as it is where a pointer finds it. Alone, its items are parts.
//!
//! It does not change what it finds: no trimming, no folding of case.

#[cfg(feature = "jmespath")]
mod jmespath;
mod pointer;

pub use pointer::Pointer;

use crate::{event::Event, json};
use http::{HeaderMap, HeaderName};
use semel_core::{
    fingerprint::Fingerprint,
    key::{PARTS_MAX, Part},
    sabotage::is_on,
};
use serde_json::value::RawValue;
use std::{borrow::Cow, str::FromStr};

/// Longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 1_024;

/// Longest text that becomes a part of a key as it is, in bytes. A longer one is hashed.
pub const PART_BYTES_MAX: usize = 256;

/// Where something is found.
///
/// ```
/// use semel_events::{event::Event, expression::{Expression, Input}};
/// use semel_core::key::Part;
/// let event = Event::builder("evt-1", "/orders", "order.created").json(r#"{"order": 42}"#).build()?;
/// let key: Expression = "/data/order".parse()?;
/// assert_eq!(key.parts(&Input::event(&event, &Default::default()))?, [Part::Integer(42)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Expression {
    /// A place in JSON.
    Pointer(Pointer),
    /// An attribute or an extension.
    Attribute(Box<str>),
    /// A header of the request.
    Header(HeaderName),
    /// This very text.
    Literal(Box<str>),
    /// What a JMESPath finds.
    #[cfg(feature = "jmespath")]
    Jmespath(Jmespath),
    /// All of these, in this order.
    All(Vec<Self>),
}

#[cfg(feature = "jmespath")]
pub use jmespath::{Jmespath, SIGNS_MAX};

/// Why a text is no expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadExpression {
    /// It is empty, or longer than [`EXPRESSION_BYTES_MAX`].
    #[error("an expression has 1 to {EXPRESSION_BYTES_MAX} bytes")]
    Length,
    /// After `~` comes neither `0` nor `1`.
    #[error("in a JSON pointer `~` is followed by `0` or `1`: write `~0` for it")]
    Pointer,
    /// What follows `header:` is none.
    #[error("what follows `header:` is no name of a header")]
    Header,
    /// It is nothing of all that.
    #[error(
        "an expression is `/a/json/pointer`, the name of an attribute, `header:…`, `jmespath:…` or `literal:…`"
    )]
    Kind,
    /// What follows `jmespath:` is none.
    #[error("what follows `jmespath:` cannot be read: {0}")]
    Jmespath(String),
    /// This was built without the feature `jmespath`.
    #[error("this was built without JMESPath: use a JSON pointer")]
    NoJmespath,
    /// There are none, or more than a key can have.
    #[error("there are 1 to {PARTS_MAX} expressions in a list")]
    Parts,
}

/// Why an expression finds nothing that can be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// A member on the way, or the header, is there twice.
    #[error("what the expression `{0}` names is there twice, or is no text")]
    Ambiguous(Box<str>),
    /// It points into data that is no JSON.
    #[error("the expression `{0}` points into data that is no JSON")]
    NotJson(Box<str>),
    /// The JMESPath failed, or gave a number that is not exact.
    #[error("the expression `{0}` gives nothing that can be told")]
    Jmespath(Box<str>),
}

/// What an expression looks into.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    headers: &'a HeaderMap,
    root: Root<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Root<'a> {
    Event(&'a Event),
    Body(&'a RawValue),
}

impl<'a> Input<'a> {
    /// An event, and the headers it came with.
    pub const fn event(event: &'a Event, headers: &'a HeaderMap) -> Self {
        Self { headers, root: Root::Event(event) }
    }

    /// A body that is not an event yet.
    pub(crate) const fn body(body: &'a RawValue, headers: &'a HeaderMap) -> Self {
        Self { headers, root: Root::Body(body) }
    }
}

impl FromStr for Expression {
    type Err = BadExpression;

    fn from_str(text: &str) -> Result<Self, BadExpression> {
        if text.is_empty() || text.len() > EXPRESSION_BYTES_MAX {
            return Err(BadExpression::Length);
        }
        if text.starts_with('/') {
            return Pointer::parse(text).map(Self::Pointer).ok_or(BadExpression::Pointer);
        }
        match text.split_once(':') {
            Some(("header", name)) => name.parse().map(Self::Header).map_err(|_| BadExpression::Header),
            Some(("literal", text)) if !text.trim().is_empty() => Ok(Self::Literal(text.into())),
            #[cfg(feature = "jmespath")]
            Some(("jmespath", text)) => Jmespath::compile(text).map(Self::Jmespath),
            #[cfg(not(feature = "jmespath"))]
            Some(("jmespath", _)) => Err(BadExpression::NoJmespath),
            None if text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit()) => {
                Ok(Self::Attribute(text.into()))
            }
            Some(_) | None => Err(BadExpression::Kind),
        }
    }
}

impl Expression {
    /// Several in this order: a composite key.
    pub fn all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, BadExpression> {
        let all = texts.into_iter().map(str::parse).collect::<Result<Vec<Self>, _>>()?;
        if (1..=PARTS_MAX).contains(&all.len()) { Ok(Self::All(all)) } else { Err(BadExpression::Parts) }
    }

    /// What is found, as parts of a key; [`Part::Null`] for what is missing.
    pub fn parts(&self, input: &Input<'_>) -> Result<Vec<Part>, NotFound> {
        let mut parts = Vec::with_capacity(1);
        self.append_parts(input, &mut parts)?;
        Ok(parts)
    }

    fn append_parts(&self, input: &Input<'_>, parts: &mut Vec<Part>) -> Result<(), NotFound> {
        match self {
            #[cfg(feature = "jmespath")]
            Self::Jmespath(path) => parts.extend(path.parts(input)?),
            Self::All(all) if let [only] = &all[..] => only.append_parts(input, parts)?,
            Self::All(all) if is_on("events_composite_flattened") => {
                all.iter().try_for_each(|it| it.append_parts(input, parts))?;
            }
            Self::All(all) => all.iter().try_for_each(|it| it.part(input).map(|it| parts.push(it)))?,
            Self::Pointer(_) | Self::Attribute(_) | Self::Header(_) | Self::Literal(_) => {
                parts.push(self.part(input)?);
            }
        }
        Ok(())
    }

    /// What is found, as one part.
    fn part(&self, input: &Input<'_>) -> Result<Part, NotFound> {
        Ok(match self {
            Self::Literal(text) => text_part(text),
            Self::Header(name) => header(name, input)?.map_or(Part::Null, text_part),
            Self::Attribute(name) => match input.root {
                Root::Event(event) => event.attribute(name).map_or(Part::Null, text_part),
                Root::Body(_) => Part::Null,
            },
            Self::Pointer(pointer) => pointed(pointer, input)?,
            #[cfg(feature = "jmespath")]
            Self::Jmespath(path) => path.part(input)?,
            Self::All(_) => match self.parts(input)? {
                missing if is_missing(&missing) => Part::Null,
                several => Part::Bytes(digest(&several).to_vec()),
            },
        })
    }

    /// What is found, as text; nothing if it is missing. Several are one text that no other parts give.
    pub fn text(&self, input: &Input<'_>) -> Result<Option<String>, NotFound> {
        let parts = self.parts(input)?;
        Ok(match &parts[..] {
            all if is_missing(all) => None,
            [Part::Text(text)] => Some(text.clone()),
            [Part::Integer(number)] => Some(number.to_string()),
            [Part::Boolean(yes)] => Some(yes.to_string()),
            several => Some(hex(&digest(several))),
        })
    }
}

/// Whether nothing was found: no key can be made of it.
pub fn is_missing(parts: &[Part]) -> bool {
    parts.iter().all(|it| *it == Part::Null)
}

fn header<'a>(name: &HeaderName, input: &Input<'a>) -> Result<Option<&'a str>, NotFound> {
    let ambiguous = || NotFound::Ambiguous(format!("header:{name}").into());
    let mut all = input.headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| ambiguous()),
        (Some(_), Some(_)) => Err(ambiguous()),
    }
}

fn pointed(pointer: &Pointer, input: &Input<'_>) -> Result<Part, NotFound> {
    let found = match (input.root, pointer.split_first()) {
        (Root::Body(body), _) => pointer.find(body)?,
        (Root::Event(event), Some(("data", _))) => {
            let Some(data) = event.data() else { return Ok(Part::Null) };
            let not_json = || NotFound::NotJson(pointer.text().into());
            let data: &RawValue = serde_json::from_slice(data).map_err(|_| not_json())?;
            pointer.below(1).find(data)?
        }
        (Root::Event(event), Some((name, 0))) => {
            return Ok(event.attribute(name).map_or(Part::Null, text_part));
        }
        (Root::Event(_), _) => None,
    };
    found.map_or(Ok(Part::Null), |it| part(it).ok_or_else(|| NotFound::Ambiguous(pointer.text().into())))
}

/// One value as a part of a key; nothing if it can be read in two ways.
fn part(value: &RawValue) -> Option<Part> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') | None => Some(Part::Null),
        Some(b't') => Some(Part::Boolean(true)),
        Some(b'f') => Some(Part::Boolean(false)),
        Some(b'"') => json::text(value).map(|it| text_part(&it)),
        Some(b'[') if json::list(text.as_bytes()).ok()?.iter().all(|it| json::is_null(it)) => {
            Some(Part::Null)
        }
        Some(b'{') if json::Object::within(value)?.members().all(|(_, it)| json::is_null(it)) => {
            Some(Part::Null)
        }
        Some(_) => text.parse().map(Part::Integer).ok().or_else(|| hashed(text)),
    }
}

fn text_part(text: &str) -> Part {
    if text.trim().is_empty() {
        Part::Null
    } else if text.len() > PART_BYTES_MAX || text.chars().any(char::is_control) {
        Part::Bytes(Fingerprint::of_bytes(text.as_bytes()).hash().to_vec())
    } else {
        Part::Text(text.to_owned())
    }
}

fn hashed(json: &str) -> Option<Part> {
    let fingerprint = Fingerprint::of_json(json.as_bytes()).ok()?;
    Some(Part::Bytes(fingerprint.hash().to_vec()))
}

/// A hash of the parts that no other parts have.
fn digest(parts: &[Part]) -> [u8; 32] {
    let mut preimage = Vec::new();
    for part in parts {
        let (tag, bytes): (u8, Cow<'_, [u8]>) = match part {
            Part::Null => (0, Cow::Borrowed(&[])),
            Part::Text(it) => (1, it.as_bytes().into()),
            Part::Integer(it) => (2, it.to_be_bytes().to_vec().into()),
            Part::Boolean(it) => (3, vec![u8::from(*it)].into()),
            Part::Bytes(it) => (4, it.into()),
        };
        preimage.push(tag);
        preimage.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        preimage.extend_from_slice(&bytes);
    }
    *Fingerprint::of_bytes(&preimage).hash()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}
