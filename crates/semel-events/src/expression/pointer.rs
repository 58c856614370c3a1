//! JSON pointers (RFC 6901) into a JSON text.
//!
//! 1. What is found is the text as it stands there: numbers keep every digit.
//! 2. A member that is there twice is refused: readers disagree on which one counts.
//! 3. `-`, an index beyond the end, and a step into something that has no members find nothing.

use super::NotFound;
use crate::json::{self, Object};
use serde_json::value::RawValue;

/// A place in JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pointer {
    text: Box<str>,
    steps: Vec<String>,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let steps = text.strip_prefix('/')?.split('/').map(unescaped).collect::<Option<_>>()?;
        Some(Self { text: text.into(), steps })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first step, and how many follow it.
    pub(super) fn split_first(&self) -> Option<(&str, usize)> {
        self.steps.split_first().map(|(first, rest)| (first.as_str(), rest.len()))
    }

    /// The place without so many first steps.
    pub(super) fn below(&self, steps: usize) -> Below<'_> {
        Below { pointer: self, steps: &self.steps[steps..] }
    }

    pub(super) fn find<'a>(&self, root: &'a RawValue) -> Result<Option<&'a RawValue>, NotFound> {
        self.below(0).find(root)
    }
}

/// The rest of a pointer.
pub(super) struct Below<'p> {
    pointer: &'p Pointer,
    steps: &'p [String],
}

impl Below<'_> {
    /// What it points at; nothing if there is no such place.
    pub(super) fn find<'a>(&self, root: &'a RawValue) -> Result<Option<&'a RawValue>, NotFound> {
        let mut place = root;
        for step in self.steps {
            let next = match place.get().as_bytes().first() {
                Some(b'{') => match Object::within(place).map(|it| it.only(step)) {
                    Some(Ok(found)) => found,
                    Some(Err(json::Twice)) | None => {
                        return Err(NotFound::Ambiguous(self.pointer.text().into()));
                    }
                },
                Some(b'[') => item(place, step),
                Some(_) | None => None,
            };
            let Some(next) = next else { return Ok(None) };
            place = next;
        }
        Ok(Some(place))
    }
}

/// The item of a list that the step names: digits without leading zeros.
fn item<'a>(list: &'a RawValue, step: &str) -> Option<&'a RawValue> {
    let is_index = (step == "0" || !step.starts_with('0')) && step.bytes().all(|it| it.is_ascii_digit());
    let index: usize = is_index.then(|| step.parse().ok()).flatten()?;
    json::list(list.get().as_bytes()).ok()?.get(index).copied()
}

fn unescaped(step: &str) -> Option<String> {
    let mut text = String::with_capacity(step.len());
    let mut rest = step.chars();
    while let Some(char) = rest.next() {
        text.push(match char {
            '~' => match rest.next() {
                Some('0') => '~',
                Some('1') => '/',
                Some(_) | None => return None,
            },
            char => char,
        });
    }
    Some(text)
}
