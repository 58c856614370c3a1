//! What the body of `PUT /v1/functions/{name}` looks like.
//!
//! 1. It has the keys of a section `[[function]]`, which the configuration reads: one table says what each is, for the document.
//! 2. A test holds the table against the reader: it has the keys that the reader asks for, and the words that it knows.
//!
//! It reads nothing: see [`crate::config`].

use super::shape::{Schemas, Shape};
use semel_runtime::deliver::Preset;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A function, as the file has it, without its name.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct FunctionRequest(pub(crate) Map<String, Value>);

/// A key of a function.
struct Key {
    name: &'static str,
    about: &'static str,
    kind: Kind,
    /// As JSON.
    example: &'static str,
}

/// What stands under a key.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// One text, or several.
    Texts,
    /// One of these.
    Words(&'static [&'static str]),
    /// Of how answers are read.
    Presets,
    Flag,
    /// A whole number from 1.
    Number,
    Filter,
    Backoff,
}

const KEYS: &[Key] = &[
    key("url", "Where it is called.", Kind::Text, r#""https://orders.example.com/created""#),
    key(
        "filter",
        "Which events it takes; all, unless this is said.",
        Kind::Filter,
        r#"{"type": "order.created"}"#,
    ),
    key("key", "What names an event, if not its source and id.", Kind::Texts, r#""/data/order""#),
    key("order", "What keeps events in order.", Kind::Texts, r#"["subject", "/data/region"]"#),
    key(
        "retry",
        "When failed attempts are made again.",
        Kind::Words(&["off", "gen1", "gen2", "pubsub", "standard-webhooks", "immediate"]),
        r#""gen2""#,
    ),
    key("window", "For how long failed attempts are made again.", Kind::Text, r#""12h""#),
    key("backoff", "How long to wait between attempts.", Kind::Backoff, r#"{"min": "5s", "max": "10m"}"#),
    key("attempts_max", "Most attempts.", Kind::Number, "20"),
    key("event_age_max", "How old an event may be when it is called.", Kind::Text, r#""2h""#),
    key("timeout", "How long a call may take.", Kind::Text, r#""30s""#),
    key("retention", "How long it is remembered what came of an event.", Kind::Text, r#""7d""#),
    key("answers", "What its answers mean.", Kind::Presets, r#""default""#),
    key("concurrency", "How many events it is given at once.", Kind::Number, "8"),
    key("rate", "How many events it is given in a time.", Kind::Text, r#""100/s""#),
    key(
        "on_lost",
        "What becomes of an event that was sent, and whose answer was lost.",
        Kind::Words(&["retry", "report"]),
        r#""report""#,
    ),
    key("http2", "Whether it speaks HTTP/2, as known beforehand.", Kind::Flag, "true"),
    key(
        "dead_letter",
        "What becomes of an event that it cannot take: `keep`, `none`, a URL, or `function:NAME`.",
        Kind::Text,
        r#""https://audit.example.com/""#,
    ),
    key(
        "secret",
        "What requests are signed with: a secret, `env:NAME` or `file:PATH`.",
        Kind::Texts,
        r#""whsec_c2VjcmV0c2VjcmV0c2VjcmV0""#,
    ),
    key("secrets", "Several of these, instead.", Kind::Texts, r#"["env:NEW_SECRET", "env:OLD_SECRET"]"#),
    key("strict", "Whether an event that comes again with another content is refused.", Kind::Flag, "true"),
    key("content", "How an event is sent.", Kind::Words(&["binary", "structured"]), r#""structured""#),
];

const fn key(name: &'static str, about: &'static str, kind: Kind, example: &'static str) -> Key {
    Key { name, about, kind, example }
}

impl Kind {
    /// The words, if there are only some.
    fn words(self) -> Vec<&'static str> {
        match self {
            Self::Words(words) => words.to_vec(),
            Self::Presets => Preset::ALL.iter().map(|it| it.as_str()).collect(),
            Self::Text | Self::Texts | Self::Flag | Self::Number | Self::Filter | Self::Backoff => Vec::new(),
        }
    }

    fn schema(self, book: &mut Schemas) -> Value {
        let text = json!({ "type": "string" });
        let texts = json!({ "type": "array", "items": text });
        match self {
            Self::Text => text,
            Self::Texts => json!({ "anyOf": [text, texts] }),
            Self::Words(_) | Self::Presets => json!({ "type": "string", "enum": self.words() }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Number => json!({ "type": "integer", "minimum": 1 }),
            Self::Filter => filter(book),
            Self::Backoff => {
                let times = json!({ "type": "object", "properties": { "min": text, "max": text } });
                json!({ "anyOf": [text, texts, times] })
            }
        }
    }
}

/// A filter has attributes of events, and words that join filters.
fn filter(book: &mut Schemas) -> Value {
    const NAME: &str = "EventFilter";
    book.named(NAME, |_| {
        let own = json!({ "$ref": format!("#/components/schemas/{NAME}") });
        let text = json!({ "type": "string" });
        let compared = json!({ "type": "object", "additionalProperties": text });
        let several = json!({ "type": "array", "items": own });
        json!({
            "type": "object",
            "description": "Which events: all that it says must hold. An attribute by itself is exact; of a list, one is enough.",
            "properties": {
                "exact": compared, "prefix": compared, "suffix": compared,
                "all": several, "any": several, "not": own,
            },
            "additionalProperties": { "anyOf": [text, { "type": "array", "items": text }] },
        })
    })
}

impl Shape for FunctionRequest {
    fn schema(book: &mut Schemas) -> Value {
        book.named("FunctionRequest", |book| {
            let mut properties = Map::new();
            for Key { name, about, kind, example } in KEYS {
                let mut schema = kind.schema(book);
                schema["description"] = (*about).into();
                let example: Value = serde_json::from_str(example).expect("the table has JSON in it");
                schema["examples"] = json!([example]);
                properties.insert((*name).to_owned(), schema);
            }
            json!({
                "type": "object",
                "description": "A function: the keys of a section `[[function]]` of the file, without its name.",
                "properties": properties,
                "required": ["url"],
                "additionalProperties": false,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{posted, posted_keys};
    use semel_runtime::deliver::guard::Policy;
    use std::collections::BTreeSet;

    fn read(name: &str, value: Value) -> Result<(), Vec<String>> {
        let mut written = json!({ "url": "https://orders.example.com/" });
        if ["window", "backoff", "attempts_max"].contains(&name) {
            written["retry"] = "gen2".into();
        }
        written[name] = value;
        let own = ["orders".to_owned()];
        posted("orders", written.as_object().unwrap(), &own, &Policy::public()).map(|_| ())
    }

    #[test]
    fn the_document_has_the_keys_that_the_reader_asks_for() {
        let asked_for: BTreeSet<_> = posted_keys().into_iter().filter(|it| it != "name").collect();
        let told: BTreeSet<_> = KEYS.iter().map(|it| it.name.to_owned()).collect();
        assert_eq!(told, asked_for);
    }

    #[test]
    fn what_the_document_says_of_a_key_is_what_the_reader_takes() {
        for Key { name, kind, example, .. } in KEYS {
            let example = serde_json::from_str(example).unwrap();
            assert_eq!(read(name, example), Ok(()), "{name}");
            let words = kind.words();
            for word in &words {
                assert_eq!(read(name, (*word).into()), Ok(()), "{name} = {word}");
            }
            let wrong = match kind {
                Kind::Text | Kind::Texts | Kind::Filter | Kind::Backoff => json!(true),
                Kind::Words(_) | Kind::Presets => json!("no such word"),
                Kind::Flag => json!("true"),
                Kind::Number => json!(0),
            };
            let told = read(name, wrong).unwrap_err().concat();
            if !words.is_empty() {
                // It names all that it knows, and what was found.
                assert!(words.iter().all(|it| told.contains(&format!("`{it}`"))), "{name}: {told}");
                assert_eq!(told.matches('`').count(), 2 * (words.len() + 2), "{name}: {told}");
            }
        }
    }

    #[test]
    fn a_reference_in_the_schema_leads_to_a_schema() {
        let mut book = Schemas::default();
        FunctionRequest::schema(&mut book);
        assert!(book.get("FunctionRequest").is_some() && book.get("EventFilter").is_some());
        assert_eq!(
            book.get("FunctionRequest").unwrap()["properties"]["filter"]["$ref"],
            "#/components/schemas/EventFilter"
        );
    }
}
