//! Envelopes: the JSON around an event.
//!
//! 1. An envelope is read only if every reader would read the same: no duplicate members, no byte order mark, no
//!    lone surrogates, nothing after its end, at most [`JSON_DEPTH_MAX`] levels. The rules are those of
//!    [`Fingerprint::of_json`].
//! 2. A value is given as it stands in the text, so numbers keep every digit and data every byte.
//!
//! It builds no tree: each step reads the members of one object.

use semel_core::fingerprint::{Fingerprint, NotJson};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

#[cfg(doc)]
use semel_core::fingerprint::JSON_DEPTH_MAX;

/// Why a text is no envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadEnvelope {
    /// It is not JSON, or JSON that can be read in two ways.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// It is JSON, but no object.
    #[error("the JSON is no object")]
    NoObject,
    /// It is JSON, but no list.
    #[error("the JSON is no list")]
    NoList,
}

/// A member is there twice.
#[derive(Debug)]
pub(crate) struct Twice;

/// The members of one object, in order.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads an object and checks all that is in it.
    pub(crate) fn read(text: &'a [u8]) -> Result<Self, BadEnvelope> {
        Fingerprint::of_json(text)?;
        serde_json::from_slice(text).map_err(|_| BadEnvelope::NoObject)
    }

    /// Reads an object that stands in a text which was checked already.
    pub(crate) fn within(value: &'a RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// The member of this name; one that is `null` is not there.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| *value).filter(|it| !is_null(it))
    }

    /// The member of this name, in a text that was not checked.
    pub(crate) fn only(&self, name: &str) -> Result<Option<&'a RawValue>, Twice> {
        let mut all = self.0.iter().filter(|(it, _)| it == name);
        match (all.next(), all.next()) {
            (first, None) => Ok(first.map(|(_, value)| *value)),
            (_, Some(_)) => Err(Twice),
        }
    }

    /// The text of the member of this name, if it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    /// The object below the member of this name, if it is one.
    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        self.get(name).and_then(Self::within)
    }

    /// All members, in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

/// The items of a list. They are read, but not checked.
pub(crate) fn list(value: &[u8]) -> Result<Vec<&RawValue>, BadEnvelope> {
    serde_json::from_slice(value).map_err(|_| BadEnvelope::NoList)
}

/// The content of a string; nothing if the value is none.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|it| it.0)
}

/// Text as a JSON string.
pub(crate) fn string(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

/// Whether the value is `null`.
pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// A string, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_given_as_it_stands() {
        let object = Object::read(br#"{"a\u0041": 1.50, "b":"x\ny", "c": null, "d": {"e":1e400}}"#).unwrap();
        assert_eq!(object.get("aA").unwrap().get(), "1.50");
        assert_eq!(object.text("b").unwrap(), "x\ny");
        assert!(object.get("c").is_none());
        assert_eq!(object.object("d").unwrap().get("e").unwrap().get(), "1e400");
        assert!(object.text("d").is_none());
        assert_eq!(object.members().count(), 4);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_no_envelope() {
        let deep = [&b"{\"a\":"[..], &[b'['; 200], &[b']'; 200], b"}"].concat();
        let bad: [&[u8]; 9] = [
            b"{\"a\":1,\"a\":1}",
            b"{\"a\":1,\"\\u0061\":1}",
            b"{\"a\":{\"b\":1,\"b\":1}}",
            b"\xef\xbb\xbf{}",
            b"{\"a\":\"\\ud800\"}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":NaN}",
            b"{} {}",
            &deep,
        ];
        for text in bad {
            assert!(matches!(Object::read(text), Err(BadEnvelope::NotJson(_))), "{}", text.escape_ascii());
        }
        assert_eq!(Object::read(b"[]").unwrap_err(), BadEnvelope::NoObject);
    }
}
