//! JSON pointers (RFC 6901) into a JSON text.
//!
//! 1. What is found is the text as it stands there: numbers keep every digit.
//! 2. A member that is there twice is refused: readers disagree on which one counts.
//! 3. `-`, an index beyond the end, and a step into something that has no members find nothing.
//!
//! It does not build a tree: each step reads the text of one value.

use serde::{
    Deserializer as _,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// A pointer, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pointer(Vec<String>);

/// Why a text is no pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadPointer {
    Start,
    Escape,
}

impl fmt::Display for BadPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "a JSON pointer is empty or begins with `/`",
            Self::Escape => "in a JSON pointer `~` is followed by `0` or `1`: write `~0` for it",
        })
    }
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, BadPointer> {
        let Some(steps) = text.strip_prefix('/') else {
            return if text.is_empty() { Ok(Self(Vec::new())) } else { Err(BadPointer::Start) };
        };
        steps.split('/').map(unescaped).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn of<const N: usize>(steps: [&str; N]) -> Self {
        Self(steps.map(str::to_owned).into())
    }

    /// What it points at; nothing if there is no such place.
    pub(super) fn find<'a>(&self, event: &'a RawValue) -> Result<Option<&'a RawValue>, serde_json::Error> {
        let mut place = event;
        for step in &self.0 {
            let mut reader = serde_json::Deserializer::from_str(place.get());
            let next = match place.get().as_bytes().first() {
                Some(b'{') => reader.deserialize_map(Step(step))?,
                Some(b'[') => reader.deserialize_seq(Step(step))?,
                Some(_) | None => None,
            };
            match next {
                Some(found) => place = found,
                None => return Ok(None),
            }
        }
        Ok(Some(place))
    }
}

fn unescaped(step: &str) -> Result<String, BadPointer> {
    let mut text = String::with_capacity(step.len());
    let mut rest = step.chars();
    while let Some(char) = rest.next() {
        text.push(match (char, rest.clone().next()) {
            ('~', Some('0')) => '~',
            ('~', Some('1')) => '/',
            ('~', _) => return Err(BadPointer::Escape),
            (char, _) => char,
        });
        if char == '~' {
            rest.next();
        }
    }
    Ok(text)
}

/// One step, into an object or an array.
struct Step<'t>(&'t str);

impl Step<'_> {
    /// As an index: digits without leading zeros.
    fn index(&self) -> Option<usize> {
        let is_index = self.0 == "0" || !self.0.starts_with('0');
        (is_index && self.0.bytes().all(|it| it.is_ascii_digit())).then(|| self.0.parse().ok()).flatten()
    }
}

impl<'a> Visitor<'a> for Step<'_> {
    type Value = Option<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if name != self.0 {
                map.next_value::<IgnoredAny>()?;
            } else if found.replace(map.next_value()?).is_some() {
                return Err(A::Error::custom(format!("the member `{name}` is there twice")));
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let index = self.index();
        let mut found = None;
        let mut at = 0;
        loop {
            if Some(at) == index {
                found = list.next_element()?;
                if found.is_none() {
                    return Ok(None);
                }
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pointer: &str, event: &str) -> Option<String> {
        let event = RawValue::from_string(event.to_owned()).expect("it is JSON");
        let pointer = Pointer::parse(pointer).expect("it is a pointer");
        pointer.find(&event).expect("it can be read").map(|it| it.get().to_owned())
    }

    /// The examples of RFC 6901, section 5.
    #[test]
    fn the_examples_of_the_standard_are_found() {
        const DOCUMENT: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4,
            "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;
        let check = |pointer, expected: &str| assert_eq!(find(pointer, DOCUMENT).as_deref(), Some(expected));
        check("", DOCUMENT);
        check("/foo", r#"["bar", "baz"]"#);
        check("/foo/0", r#""bar""#);
        check("/", "0");
        check("/a~1b", "1");
        check("/c%d", "2");
        check("/e^f", "3");
        check("/g|h", "4");
        check("/i\\j", "5");
        check("/k\"l", "6");
        check("/ ", "7");
        check("/m~0n", "8");
    }

    #[test]
    fn a_place_that_is_not_there_is_not_found() {
        const DOCUMENT: &str = r#"{"list": [1, 2], "text": "abc", "null": null, "01": "zero"}"#;
        for pointer in
            ["/other", "/list/2", "/list/-", "/list/01", "/list/x", "/text/0", "/null/x", "/list/0/0"]
        {
            assert_eq!(find(pointer, DOCUMENT), None, "{pointer}");
        }
        assert_eq!(find("/01", DOCUMENT).as_deref(), Some("\"zero\""), "a member may be called so");
        assert_eq!(find("/null", DOCUMENT).as_deref(), Some("null"));
        assert_eq!(find("/list/18446744073709551616", DOCUMENT), None);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        assert_eq!(Pointer::parse("foo"), Err(BadPointer::Start));
        for text in ["/~", "/~2", "/a~", "/~~01"] {
            assert_eq!(Pointer::parse(text), Err(BadPointer::Escape), "{text}");
        }
        assert_eq!(Pointer::parse("/~01"), Ok(Pointer(vec!["~1".to_owned()])), "not `/`: unescaped once");
    }

    #[test]
    fn numbers_keep_every_digit() {
        let found = find("/n", r#"{"n": 123456789012345678901234567890.10}"#);
        assert_eq!(found.as_deref(), Some("123456789012345678901234567890.10"));
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused() {
        let event =
            RawValue::from_string(r#"{"id": 1, "x": 2, "\u0069d": 3}"#.to_owned()).expect("it is JSON");
        let find = |pointer| Pointer::parse(pointer).expect("a pointer").find(&event).map(|_| ());
        assert!(find("/id").expect_err("two of them").to_string().contains("`id` is there twice"));
        assert!(find("/x").is_ok(), "what nobody asked for is not looked at here");
    }
}
