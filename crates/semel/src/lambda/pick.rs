//! Which part of an event is its key, or the payload that is compared.
//!
//! 1. A part is named by a JSON pointer or a JMESPath expression; several make a composite, and JSON that stands
//!    in a string can be looked into.
//! 2. A key's string, whole number or boolean is a part of the key as it is. Everything else, and a string that
//!    is too long or has control characters, goes in as the hash of its canonical JSON. So `1` and `"1"` differ,
//!    and the order of members does not matter.
//! 3. What is not there, `null`, a blank string, an empty list or object and one of nothing but `null` is
//!    missing. A composite is missing if all of its parts are.
//! 4. What two readers could read differently is refused.
//!
//! It does not decide what becomes of an event without a key: [`super::Lambda`] does.

#[cfg(feature = "jmespath")]
mod jmespath;

use super::pointer::Pointer;
use semel_core::{fingerprint::Fingerprint, key::Part};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// Longest string that is a part of a key as it is; a longer one is hashed.
pub const TEXT_BYTES_MAX: usize = 255;

/// A part of an event: for its key, or for the payload that is compared.
///
/// ```
/// use semel::lambda::Pick;
/// let order = Pick::pointer("/detail/orderId")?;
/// let body = Pick::pointer("/body")?.json(Pick::pointer("/orderId")?); // JSON in a string
/// let both = Pick::all([Pick::pointer("/customer")?, Pick::pointer("/orderId")?]);
/// assert!(Pick::pointer("orderId").is_err(), "a pointer begins with `/`");
/// # Ok::<(), semel::lambda::BadPick>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pick(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Pointer(Pointer),
    #[cfg(feature = "jmespath")]
    Jmespath(jmespath::Expression),
    All(Vec<Pick>),
    Json {
        text: Box<Pick>,
        inner: Box<Pick>,
    },
}

/// Why a text picks nothing from any event: it is not a pointer, or not an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadPick {
    text: String,
    why: String,
}

impl fmt::Display for BadPick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` picks nothing: {}", self.text, self.why)
    }
}

impl std::error::Error for BadPick {}

impl Pick {
    /// The member `id` of the event: EventBridge's, and whoever else names its events so.
    pub fn event_id() -> Self {
        Self::place(["id"])
    }

    /// The members `source` and `id`: what identifies an event of EventBridge, whoever may send to the bus.
    pub fn event_bridge() -> Self {
        Self::all([Self::place(["source"]), Self::place(["id"])])
    }

    /// The `MessageId` of what SNS delivers, which is one message at a time.
    pub fn sns() -> Self {
        Self::place(["Records", "0", "Sns", "MessageId"])
    }

    /// All of the event: two events are one if they are equal.
    pub fn whole() -> Self {
        Self::place([])
    }

    /// What is at this place (RFC 6901), such as `/detail/orderId`. The empty pointer is the whole event.
    pub fn pointer(text: &str) -> Result<Self, BadPick> {
        let bad = |why: super::pointer::BadPointer| BadPick { text: text.to_owned(), why: why.to_string() };
        Ok(Self(Kind::Pointer(Pointer::parse(text).map_err(bad)?)))
    }

    /// What this expression gives. `powertools_json` and `powertools_base64` are there, too.
    ///
    /// An integer of more than 64 bits in the result is refused: JMESPath's numbers are not exact there.
    ///
    /// ```
    /// # use semel::lambda::Pick;
    /// let key = Pick::jmespath("powertools_json(body).[userId, productId]")?;
    /// # Ok::<(), semel::lambda::BadPick>(())
    /// ```
    #[cfg(feature = "jmespath")]
    pub fn jmespath(text: &str) -> Result<Self, BadPick> {
        let compiled = jmespath::Expression::compile(text);
        compiled.map(|it| Self(Kind::Jmespath(it))).map_err(|why| BadPick { text: text.to_owned(), why })
    }

    /// Several parts, in this order.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(Kind::All(parts.into_iter().collect()))
    }

    /// Reads the string that this picks as JSON, and picks from that: `Pick::pointer("/body")?.json(…)`.
    #[must_use]
    pub fn json(self, inner: Self) -> Self {
        Self(Kind::Json { text: Box::new(self), inner: Box::new(inner) })
    }

    /// A place by its steps.
    pub(super) fn place<const N: usize>(steps: [&str; N]) -> Self {
        Self(Kind::Pointer(Pointer::of(steps)))
    }

    /// What this picks from the event, `null` for what is not there.
    fn found_in<'a>(&self, event: &'a RawValue) -> Result<Vec<Cow<'a, RawValue>>, String> {
        match &self.0 {
            Kind::Pointer(pointer) => {
                let found = pointer.find(event).map_err(|error| error.to_string())?;
                Ok(vec![Cow::Borrowed(found.unwrap_or(RawValue::NULL))])
            }
            #[cfg(feature = "jmespath")]
            Kind::Jmespath(expression) => Ok(vec![Cow::Owned(expression.search(event)?)]),
            Kind::All(parts) => {
                let mut picked = Vec::with_capacity(parts.len());
                for part in parts {
                    picked.extend(part.found_in(event)?);
                }
                Ok(picked)
            }
            Kind::Json { text, inner } => {
                let mut picked = Vec::new();
                for found in text.found_in(event)? {
                    let parsed = json_in(&found)?;
                    picked.extend(inner.found_in(&parsed)?.into_iter().map(|it| Cow::Owned(it.into_owned())));
                }
                Ok(picked)
            }
        }
    }

    /// As the id of a call.
    pub(super) fn id(&self, event: &RawValue) -> Result<Vec<Part>, String> {
        self.found_in(event)?.iter().map(|it| part(it)).collect()
    }

    /// As the payload of a call: one JSON text.
    pub(super) fn payload(&self, event: &RawValue) -> Result<String, String> {
        let picked = self.found_in(event)?;
        match &picked[..] {
            [one] => Ok(one.get().to_owned()),
            several => Ok(format!("[{}]", several.iter().map(|it| it.get()).collect::<Vec<_>>().join(","))),
        }
    }
}

/// The JSON in a JSON string; `null` for what is not there.
fn json_in(found: &RawValue) -> Result<Box<RawValue>, String> {
    let text: Option<String> = serde_json::from_str(found.get())
        .map_err(|_| "what was to be read as JSON is not a string".to_owned())?;
    let json = text.unwrap_or_else(|| "null".to_owned());
    RawValue::from_string(json).map_err(|error| format!("the string is not JSON: {error}"))
}

/// One value, as a part of a key.
fn part(value: &RawValue) -> Result<Part, String> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') | None => Ok(Part::Null),
        Some(b't') => Ok(Part::Boolean(true)),
        Some(b'f') => Ok(Part::Boolean(false)),
        Some(b'"') => {
            let string: String = read(value)?;
            match string {
                blank if blank.trim().is_empty() => Ok(Part::Null),
                short if short.len() <= TEXT_BYTES_MAX && !short.chars().any(char::is_control) => {
                    Ok(Part::Text(short))
                }
                _ => hashed(value),
            }
        }
        Some(b'[') if read::<Vec<&RawValue>>(value)?.iter().all(is_null) => Ok(Part::Null),
        Some(b'{') if read::<BTreeMap<String, &RawValue>>(value)?.values().all(is_null) => Ok(Part::Null),
        Some(_) => text.parse().map(Part::Integer).or_else(|_| hashed(value)),
    }
}

fn hashed(value: &RawValue) -> Result<Part, String> {
    let fingerprint = Fingerprint::of_json(value.get().as_bytes()).map_err(|error| error.to_string())?;
    Ok(Part::Bytes(fingerprint.hash().to_vec()))
}

fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(value.get()).map_err(|error| error.to_string())
}

fn is_null(value: &&RawValue) -> bool {
    value.get() == "null"
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::key::Key;

    fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("it is JSON")
    }

    fn pointer(text: &str) -> Pick {
        Pick::pointer(text).expect("it is a pointer")
    }

    /// The key of an event, as people read it.
    fn key(pick: &Pick, event: &str) -> Result<Key, String> {
        Key::new("lambda", pick.id(&json(event))?).map_err(|error| error.to_string())
    }

    fn is_missing(event: &str) -> bool {
        let parts = pointer("/id").id(&json(event)).expect("it can be read");
        Key::new("lambda", parts).is_err_and(|error| error.is_missing())
    }

    #[test]
    fn what_is_missing_is_missing() {
        for id in
            ["null", r#""""#, r#"" ""#, r#""\t""#, "[]", "{}", "[null]", "[null, null]", r#"{"a": null}"#]
        {
            assert!(is_missing(&format!(r#"{{"id": {id}}}"#)), "{id}");
        }
        assert!(is_missing("{}"));
        assert!(is_missing("[]"));
        for id in ["0", "false", r#""0""#, "[0]", r#"{"a": false}"#, r#"[null, ""]"#, "[[]]", "0.0"] {
            assert!(!is_missing(&format!(r#"{{"id": {id}}}"#)), "{id}");
        }
    }

    #[test]
    fn a_composite_is_missing_only_if_all_of_it_is() {
        let both = Pick::all([pointer("/user"), pointer("/order")]);
        assert_eq!(key(&both, r#"{"user": "ann", "order": 7}"#).expect("both").to_string(), "lambda/ann:7");
        assert_eq!(key(&both, r#"{"user": "ann"}"#).expect("one of them").to_string(), "lambda/ann:null");
        assert!(key(&both, r#"{"user": null, "other": 7}"#).is_err());
    }

    #[test]
    fn no_two_values_share_a_key() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let values = [
            "1",
            r#""1""#,
            "1.0",
            "true",
            r#""true""#,
            r#"["1"]"#,
            "[1]",
            "[[1]]",
            r#"{"1": 1}"#,
            "[1, null]",
            "123456789012345678901234567890123456789012345678901",
            "1e400",
            "123456789012345678901234567890123456789012345678902",
            r#""a\nb""#,
            r#""a b""#,
        ];
        let values =
            values.into_iter().map(str::to_owned).chain([format!("\"{long}\""), format!("\"{long}y\"")]);
        let keys: Vec<Key> =
            values.map(|it| key(&pointer("/id"), &format!(r#"{{"id": {it}}}"#)).expect(&it)).collect();
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(one), "{one}");
        }
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let whole = Pick::whole();
        assert_eq!(key(&whole, r#"{"a": 1, "b": 2}"#), key(&whole, r#"{"b":2,"a":1}"#));
        assert_ne!(key(&whole, r#"{"a": 1, "b": 2}"#), key(&whole, r#"{"a": 1, "b": 3}"#));
        assert!(key(&whole, r#"{"a": 1, "a": 2}"#).is_err(), "which one counts?");
    }

    #[test]
    fn a_string_is_kept_readable_up_to_the_limit() {
        let longest = "x".repeat(TEXT_BYTES_MAX);
        let of =
            |text: &str| pointer("/id").id(&json(&format!(r#"{{"id": "{text}"}}"#))).expect("it can be read");
        assert_eq!(of(&longest), [Part::Text(longest.clone())]);
        assert!(matches!(of(&format!("{longest}x"))[..], [Part::Bytes(_)]));
    }

    #[test]
    fn json_in_a_string_is_looked_into() {
        let order = pointer("/body").json(pointer("/order"));
        assert_eq!(
            key(&order, r#"{"body": "{\"order\": 7}"}"#).expect("it is there").to_string(),
            "lambda/7"
        );
        assert!(key(&order, r#"{"body": "no JSON"}"#).expect_err("no JSON").contains("not JSON"));
        assert!(key(&order, r#"{"body": 7}"#).expect_err("no string").contains("not a string"));
        assert!(key(&order, "{}").expect_err("no body").contains("missing"));
    }

    #[test]
    fn the_places_that_have_names_are_where_they_should_be() {
        let event = r#"{"id": "6a7e", "source": "shop", "Records": [{"Sns": {"MessageId": "95df"}}]}"#;
        let check = |pick: Pick, expected: &str| {
            assert_eq!(key(&pick, event).expect("it is there").to_string(), expected);
        };
        check(Pick::event_id(), "lambda/6a7e");
        check(Pick::event_bridge(), "lambda/shop:6a7e");
        check(Pick::sns(), "lambda/95df");
    }

    #[test]
    fn what_picks_nothing_is_told_with_the_reason() {
        let error = Pick::pointer("id").expect_err("no pointer");
        assert_eq!(error.to_string(), "`id` picks nothing: a JSON pointer is empty or begins with `/`");
    }

    #[test]
    fn a_payload_is_what_was_picked_and_keeps_its_digits() {
        let event = json(r#"{"amount": 10.50, "note": "x", "big": 123456789012345678901}"#);
        assert_eq!(pointer("/amount").payload(&event).as_deref(), Ok("10.50"));
        let several = Pick::all([pointer("/big"), pointer("/gone")]);
        assert_eq!(several.payload(&event).as_deref(), Ok("[123456789012345678901,null]"));
    }
}
