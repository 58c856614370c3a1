//! What requests and answers look like, said once: for serde and for the document.
//!
//! 1. `shapes!` makes a struct that is read, written and described; `words!` an enum of words.
//! 2. What is `Option` may be left out of a request, and is `null` in an answer.
//! 3. A request (`strict struct`) with a member that nobody knows is refused.
//!
//! It does not check anything: serde does.

use semel_core::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

/// Something that the document can describe.
pub(crate) trait Shape {
    /// Whether it may be left out.
    const IS_OPTIONAL: bool = false;

    /// As JSON Schema; what has a name of its own is put into the book, and referred to.
    fn schema(book: &mut Schemas) -> Value;
}

/// The schemas that have names.
#[derive(Default, Debug)]
pub(crate) struct Schemas(BTreeMap<&'static str, Value>);

impl Schemas {
    /// A reference to the schema of this name, which is made if it is not there yet.
    pub(crate) fn named(&mut self, name: &'static str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            self.0.insert(name, Value::Null);
            let schema = make(self);
            self.0.insert(name, schema);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// All of them.
    pub(crate) fn into_json(self) -> Value {
        self.0.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>().into()
    }

    /// What a reference refers to.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

/// The schema of a struct, while it is made.
pub(crate) struct ObjectSchema<'a> {
    book: &'a mut Schemas,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> ObjectSchema<'a> {
    /// Without members.
    pub(crate) fn new(book: &'a mut Schemas) -> Self {
        Self { book, properties: Map::new(), required: Vec::new() }
    }

    /// With one more member.
    pub(crate) fn with<T: Shape>(mut self, field: &str, text: &str) -> Self {
        let name = field.trim_start_matches("r#").to_owned();
        let mut schema = T::schema(self.book);
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), text.trim().into());
        }
        if !T::IS_OPTIONAL {
            self.required.push(name.clone());
        }
        self.properties.insert(name, schema);
        self
    }

    /// Described like this; whether other members are refused.
    pub(crate) fn finish(self, text: &str, is_strict: bool) -> Value {
        let Self { properties, required, .. } = self;
        let mut schema = json!({ "type": "object", "description": text.trim(), "properties": properties });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if is_strict {
            schema["additionalProperties"] = false.into();
        }
        schema
    }
}

/// Structs that are read, written and described.
macro_rules! shapes {
    () => {};
    ($(#[doc = $text:literal])+ strict struct $name:ident $fields:tt $($rest:tt)*) => {
        shapes!(@one [#[serde(deny_unknown_fields)]] true [$($text),+] $name $fields);
        shapes!($($rest)*);
    };
    ($(#[doc = $text:literal])+ struct $name:ident $fields:tt $($rest:tt)*) => {
        shapes!(@one [] false [$($text),+] $name $fields);
        shapes!($($rest)*);
    };
    (@one [$($attribute:tt)*] $is_strict:literal [$($text:literal),+] $name:ident
        { $($(#[doc = $about:literal])+ $field:ident: $type:ty,)* }) => {
        $(#[doc = $text])+
        #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
        $($attribute)*
        pub(crate) struct $name {
            $($(#[doc = $about])+ pub(crate) $field: $type,)*
        }

        impl $crate::api::shape::Shape for $name {
            fn schema(book: &mut $crate::api::shape::Schemas) -> serde_json::Value {
                book.named(stringify!($name), |book| {
                    $crate::api::shape::ObjectSchema::new(book)
                        $(.with::<$type>(stringify!($field), concat!($($about),+)))*
                        .finish(concat!($($text),+), $is_strict)
                })
            }
        }
    };
}
pub(crate) use shapes;

/// Enums of words that are read, written and described.
macro_rules! words {
    ($($(#[doc = $text:literal])+ enum $name:ident { $($(#[doc = $about:literal])+ $word:ident = $written:literal,)+ })+) => {$(
        $(#[doc = $text])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
        pub(crate) enum $name {
            $($(#[doc = $about])+ #[serde(rename = $written)] $word,)+
        }

        impl $name {
            /// All of them, as they are written.
            pub(crate) const WORDS: &'static [&'static str] = &[$($written),+];

            /// As it is written.
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $written,)+
                }
            }

            /// What was written.
            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text {
                    $($written => Some(Self::$word),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                Self::parse(text).ok_or(())
            }
        }

        impl $crate::api::shape::Shape for $name {
            fn schema(book: &mut $crate::api::shape::Schemas) -> serde_json::Value {
                let text = concat!($($text),+);
                book.named(stringify!($name), |_| {
                    serde_json::json!({ "type": "string", "enum": Self::WORDS, "description": text.trim() })
                })
            }
        }
    )+};
}
pub(crate) use words;

impl Shape for String {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string" })
    }
}

impl Shape for bool {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "boolean" })
    }
}

impl Shape for u32 {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }
}

impl Shape for u64 {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }
}

/// An object of any shape: what stands in it is somebody else's.
impl Shape for Map<String, Value> {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "object" })
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn schema(book: &mut Schemas) -> Value {
        json!({ "type": "array", "items": T::schema(book) })
    }
}

impl<T: Shape> Shape for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn schema(book: &mut Schemas) -> Value {
        json!({ "anyOf": [T::schema(book), { "type": "null" }] })
    }
}

/// A moment of UTC, as RFC 3339 has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Moment {
    /// As it is written.
    pub(crate) fn text(self) -> String {
        crate::log::moment(UNIX_EPOCH + Duration::from_millis(self.0.as_millis()))
    }

    /// What was written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        semel_events::event::EventTime::parse(text).map(|it| Self(it.at()))
    }

    /// The same, unless it never comes.
    pub(crate) fn some(at: Timestamp) -> Option<Self> {
        (at != Timestamp::NEVER).then_some(Self(at))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a moment as RFC 3339 has it"))
    }
}

impl Shape for Moment {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        /// Kinds of weather.
        enum Weather {
            /// Wet.
            Rain = "rain",
            /// Dry.
            Sun = "sun",
        }
    }

    shapes! {
        /// A day.
        strict struct Day {
            /// How it is.
            weather: Weather,
            /// What it is called.
            r#type: Option<String>,
        }
    }

    #[test]
    fn a_shape_is_read_written_and_described() {
        let mut book = Schemas::default();
        assert_eq!(Day::schema(&mut book), json!({ "$ref": "#/components/schemas/Day" }));
        let day: Day = serde_json::from_str(r#"{"weather": "rain"}"#).unwrap();
        assert_eq!(day, Day { weather: Weather::Rain, r#type: None });
        assert_eq!(serde_json::to_value(&day).unwrap(), json!({ "weather": "rain", "type": null }));
        assert!(serde_json::from_str::<Day>(r#"{"weather": "rain", "is_admin": true}"#).is_err());
        let schema = book.get("Day").unwrap();
        assert_eq!(
            (&schema["required"], &schema["additionalProperties"]),
            (&json!(["weather"]), &json!(false))
        );
        assert_eq!(book.get("Weather").unwrap()["enum"], json!(["rain", "sun"]));
        assert_eq!((Weather::parse("sun"), Weather::Rain.as_str()), (Some(Weather::Sun), "rain"));
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        let moment = Moment(Timestamp::from_millis(1_794_793_507_123));
        assert_eq!(moment.text(), "2026-11-16T01:45:07.123Z");
        assert_eq!(Moment::parse(&moment.text()), Some(moment));
        assert_eq!(Moment::parse("yesterday"), None);
        assert_eq!(Moment::some(Timestamp::NEVER), None);
    }
}
