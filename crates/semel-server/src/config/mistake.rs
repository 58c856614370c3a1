//! What is wrong with a configuration file, and where.
//!
//! 1. A mistake names its place (file, line, column), the key, the value, and what is allowed.
//! 2. All mistakes of a file are told at once, in the order of the file.
//! 3. A misspelt key is told with the one that was probably meant.

use super::value::redacted;
use crate::exit::Failure;
use std::ops::Range;

/// Most mistakes that are listed; the rest is counted.
pub(crate) const MISTAKES_MAX: usize = 20;
/// Longest piece of a value that is shown, in characters.
const VALUE_CHARS_MAX: usize = 80;

/// One thing that is wrong, at a place of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// Where, in bytes.
    pub(crate) at: usize,
    /// What, as a sentence without its period.
    pub(crate) text: String,
}

impl Mistake {
    /// A value that is not what it should be.
    pub(crate) fn value(key: &str, found: &str, at: &Range<usize>, wanted: &str) -> Self {
        Self { at: at.start, text: format!("`{key}` is `{}`: wanted {wanted}", shown(found)) }
    }

    /// What is no TOML, with what was probably meant.
    pub(crate) fn syntax(source: &str, at: &Range<usize>, message: &str) -> Self {
        let message = message.replace('\n', ", ");
        let text = match message.as_str() {
            "duplicate key" => {
                let key = source.get(at.clone()).unwrap_or_default().trim();
                format!("no TOML: `{}` is said twice", shown(key))
            }
            _ => match unquoted(source, at.start) {
                Some((key, value)) => {
                    let (key, value) = (shown(key), shown(value));
                    format!("no TOML: {message}; a text stands in quotes: `{key} = \"{value}\"`")
                }
                None => format!("no TOML: {message}"),
            },
        };
        Self { at: at.start, text }
    }

    /// A key that must be there.
    pub(crate) fn missing(key: &str, at: &Range<usize>, wanted: &str) -> Self {
        Self { at: at.start, text: format!("`{key}` is missing: wanted {wanted}") }
    }

    /// A key that nobody knows.
    pub(crate) fn unknown(section: &str, key: &str, at: &Range<usize>, known: &[&str]) -> Self {
        let remedy = match nearest(key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("allowed are {}", quoted(known)),
        };
        let place = if section.is_empty() { "the file".to_owned() } else { format!("`{section}`") };
        Self { at: at.start, text: format!("`{}` is no key of {place}: {remedy}", shown(key)) }
    }
}

/// A file with these mistakes.
pub(crate) fn failure(path: &str, source: &str, mut mistakes: Vec<Mistake>) -> Failure {
    mistakes.sort_by_key(|it| it.at);
    let count = mistakes.len();
    let what = match count {
        1 => format!("`{path}` has a mistake"),
        _ => format!("`{path}` has {count} mistakes"),
    };
    let mut failure = Failure::usage(what);
    for mistake in mistakes.iter().take(MISTAKES_MAX) {
        let (line, column) = position(source, mistake.at);
        failure = failure.cause(format!("{path}:{line}:{column}: {}", mistake.text));
    }
    if count > MISTAKES_MAX {
        failure = failure.cause(format!("and {} more", count - MISTAKES_MAX));
    }
    failure
}

/// The key and the value of the line that a byte is in, if the value looks like a text that has no quotes.
fn unquoted(source: &str, at: usize) -> Option<(&str, &str)> {
    let at = source.floor_char_boundary(at);
    let (before, after) = source.split_at(at);
    let start = before.rfind('\n').map_or(0, |it| it + 1);
    let end = after.find('\n').map_or(source.len(), |it| at + it);
    let (key, value) = source[start..end].split_once('=')?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let begins = value.starts_with(|it: char| it.is_alphanumeric() || matches!(it, '.' | '/' | ':' | '*'));
    let is_text = begins && !value.contains(['"', '\'']) && !matches!(value, "true" | "false");
    is_text.then_some((key.trim(), value))
}

/// The line and the column of a byte, counted from 1; columns in characters.
fn position(source: &str, at: usize) -> (usize, usize) {
    let before = &source.as_bytes()[..at.min(source.len())];
    let line_start = before.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let line = before.split(|it| *it == b'\n').count();
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    (line, column)
}

/// A value as it may be shown: without a password, and not for ever.
pub(crate) fn shown(value: &str) -> String {
    let value = redacted(value);
    let mut characters = value.chars();
    let start: String = characters.by_ref().take(VALUE_CHARS_MAX).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}

/// A list for people.
pub(crate) fn quoted(names: &[&str]) -> String {
    names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|it| (distance(typed, it), *it)).min()?;
    let allowed = typed.chars().count().max(near.1.len()) / 3;
    (near.0 <= allowed.max(1) && near.0 < near.1.len()).then_some(near.1)
}

/// How many characters must be put in, taken out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().take(64).collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let changed = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised_and_a_strange_one_is_not() {
        let known = ["methods", "path", "key", "retention", "request_bytes_max"];
        assert_eq!(nearest("metods", &known), Some("methods"));
        assert_eq!(nearest("request_byte_max", &known), Some("request_bytes_max"));
        assert_eq!(nearest("kye", &known), Some("key"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("x", &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn a_text_without_quotes_is_recognised() {
        let source = "a = 1\nlisten = 127.0.0.1 # here\nß = b";
        assert_eq!(unquoted(source, source.find("27").unwrap()), Some(("listen", "127.0.0.1")));
        assert_eq!(unquoted(source, source.len()), Some(("ß", "b")));
        for other in ["[proxy", "a =", "a = [1,", "a = \"b", "a = true", "a = 'b'c", ""] {
            assert_eq!(unquoted(other, other.len()), None, "{other}");
        }
    }

    #[test]
    fn places_are_counted_in_characters() {
        assert_eq!(position("a = 1\nß = 2", 0), (1, 1));
        assert_eq!(position("a = 1\nß = 2", "a = 1\nß = ".len()), (2, 5));
        assert_eq!(position("a", 99), (1, 2));
    }

    #[test]
    fn a_long_value_is_cut_and_long_lists_end() {
        assert_eq!(shown(&"x".repeat(81)).chars().count(), VALUE_CHARS_MAX + 1);
        let mistakes = (0..25).map(|at| Mistake { at, text: "wrong".to_owned() }).collect();
        let text = failure("semel.toml", &"\n".repeat(30), mistakes).to_string();
        assert!(text.contains("semel.toml:20:1: wrong\n  and 5 more\n"), "{text}");
    }
}
