//! Which events a function wants.
//!
//! 1. The dialects of CloudEvents Subscriptions: `exact`, `prefix` and `suffix` compare attributes with text, `all`,
//!    `any` and `not` combine.
//! 2. Of several attributes in one comparison, all must match.
//! 3. An attribute that the event does not have matches nothing, so `not` matches it.
//! 4. It has at most [`FILTER_TERMS_MAX`] terms, [`FILTER_DEPTH_MAX`] deep.
//!
//! It does not look into data, and it has no `sql`.

use crate::event::Event;
use std::collections::BTreeMap;

/// Most terms of one filter.
pub const FILTER_TERMS_MAX: usize = 256;
/// Deepest nesting of a filter.
pub const FILTER_DEPTH_MAX: usize = 16;

/// Which events match. Without any, all do.
///
/// ```
/// use semel_events::{event::Event, filter::Filter};
/// let filter: Filter = serde_json::from_str(r#"{"all": [
///     {"prefix": {"type": "order."}},
///     {"not": {"exact": {"source": "/test"}}}
/// ]}"#)?;
/// let order = |source| Event::builder("evt-1", source, "order.created").build();
/// assert!(filter.matches(&order("/orders")?));
/// assert!(!filter.matches(&order("/test")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(try_from = "Written")]
pub struct Filter(Term);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Term {
    Compare { how: Compare, attribute: Box<str>, text: Box<str> },
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

/// How an attribute is compared with text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// It is the text.
    Exact,
    /// It begins with it.
    Prefix,
    /// It ends with it.
    Suffix,
}

/// Why something is no filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadFilter {
    /// Nothing to compare, or nothing to combine.
    #[error("a filter names at least one attribute, or combines at least one filter")]
    Empty,
    /// The name of an attribute is not made of lower-case letters and digits.
    #[error("the name of an attribute is made of lower-case letters and digits")]
    Name,
    /// Text to compare with is empty.
    #[error("the text to compare an attribute with is not empty")]
    Text,
    /// More than [`FILTER_TERMS_MAX`].
    #[error("a filter has at most {FILTER_TERMS_MAX} terms")]
    TooLong,
    /// Deeper than [`FILTER_DEPTH_MAX`].
    #[error("a filter is at most {FILTER_DEPTH_MAX} deep")]
    TooDeep,
}

impl Filter {
    /// Events whose attribute compares so.
    pub fn compare(how: Compare, attribute: &str, text: &str) -> Result<Self, BadFilter> {
        let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        if attribute.is_empty() || !attribute.bytes().all(is_letter) {
            return Err(BadFilter::Name);
        }
        if text.is_empty() {
            return Err(BadFilter::Text);
        }
        Ok(Self(Term::Compare { how, attribute: attribute.into(), text: text.into() }))
    }

    /// Events that match all of these.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Result<Self, BadFilter> {
        Self::combined(filters, Term::All)
    }

    /// Events that match one of these.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Result<Self, BadFilter> {
        Self::combined(filters, Term::Any)
    }

    /// Events that do not match.
    #[expect(clippy::should_implement_trait, reason = "the word of the dialect; it can fail, and `!` cannot")]
    pub fn not(self) -> Result<Self, BadFilter> {
        Self(Term::Not(Box::new(self.0))).checked()
    }

    fn combined(
        filters: impl IntoIterator<Item = Self>,
        how: fn(Vec<Term>) -> Term,
    ) -> Result<Self, BadFilter> {
        let terms: Vec<Term> = filters.into_iter().map(|it| it.0).collect();
        if terms.is_empty() { Err(BadFilter::Empty) } else { Self(how(terms)).checked() }
    }

    fn checked(self) -> Result<Self, BadFilter> {
        let (terms, depth) = self.0.size();
        match (terms <= FILTER_TERMS_MAX, depth <= FILTER_DEPTH_MAX) {
            (true, true) => Ok(self),
            (false, _) => Err(BadFilter::TooLong),
            (true, false) => Err(BadFilter::TooDeep),
        }
    }

    /// Whether the event is one of them.
    pub fn matches(&self, event: &Event) -> bool {
        self.0.matches(event)
    }
}

impl Term {
    fn matches(&self, event: &Event) -> bool {
        match self {
            Self::Compare { how, attribute, text } => {
                event.attribute(attribute).is_some_and(|it| match how {
                    Compare::Exact => *it == **text,
                    Compare::Prefix => it.starts_with(&**text),
                    Compare::Suffix => it.ends_with(&**text),
                })
            }
            Self::All(terms) => terms.iter().all(|it| it.matches(event)),
            Self::Any(terms) => terms.iter().any(|it| it.matches(event)),
            Self::Not(term) => !term.matches(event),
        }
    }

    /// How many terms it has, and how deep it is.
    fn size(&self) -> (usize, usize) {
        match self {
            Self::Compare { .. } => (1, 1),
            Self::Not(term) => {
                let (terms, depth) = term.size();
                (terms + 1, depth + 1)
            }
            Self::All(terms) | Self::Any(terms) => {
                let sizes = terms.iter().map(Self::size);
                sizes.fold((1, 1), |(all, deepest), (terms, depth)| (all + terms, deepest.max(depth + 1)))
            }
        }
    }
}

/// A filter as people write it.
#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written {
    Exact(BTreeMap<String, String>),
    Prefix(BTreeMap<String, String>),
    Suffix(BTreeMap<String, String>),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
}

impl TryFrom<Written> for Filter {
    type Error = BadFilter;

    fn try_from(written: Written) -> Result<Self, BadFilter> {
        let compare = |how, pairs: BTreeMap<String, String>| {
            let terms = pairs.iter().map(|(attribute, text)| Self::compare(how, attribute, text));
            let mut terms = terms.collect::<Result<Vec<_>, _>>()?;
            match (terms.pop(), terms.is_empty()) {
                (Some(one), true) => Ok(one),
                (last, _) => Self::all(terms.into_iter().chain(last)),
            }
        };
        match written {
            Written::Exact(pairs) => compare(Compare::Exact, pairs),
            Written::Prefix(pairs) => compare(Compare::Prefix, pairs),
            Written::Suffix(pairs) => compare(Compare::Suffix, pairs),
            Written::All(filters) => Self::all(filters),
            Written::Any(filters) => Self::any(filters),
            Written::Not(filter) => filter.not(),
        }
    }
}
