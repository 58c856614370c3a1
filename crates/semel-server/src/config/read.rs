//! Reading tables of a file, key by key, and collecting what is wrong.
//!
//! 1. A section is asked for each of its keys by the code that knows what they mean; what nobody asked for is
//!    unknown, and a mistake.
//! 2. A mistake does not end the reading: the rest of the file is looked at, too.
//!
//! It does not know which keys there are.

use super::{
    mistake::Mistake,
    secret::Secret,
    value::{self, Wanted},
};
use std::{cell::RefCell, fmt::Display, ops::Range, time::Duration};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Collects what is wrong.
#[derive(Default, Debug)]
pub(crate) struct Mistakes(RefCell<Vec<Mistake>>);

impl Mistakes {
    pub(crate) fn add(&self, mistake: Mistake) {
        self.0.borrow_mut().push(mistake);
    }

    pub(crate) fn into_inner(self) -> Vec<Mistake> {
        self.0.into_inner()
    }
}

/// A limit that can be taken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    /// There is none.
    None,
    /// This many.
    Of(u64),
}

/// A table that is being read.
pub(crate) struct Section<'a> {
    /// As it is called in messages: `proxy.limits`; empty for the file itself.
    name: String,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    mistakes: &'a Mistakes,
    /// What was asked for.
    known: RefCell<Vec<&'a str>>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn file(table: &'a Spanned<DeTable<'a>>, mistakes: &'a Mistakes) -> Self {
        Self::new(String::new(), table.get_ref(), table.span(), mistakes)
    }

    fn new(name: String, table: &'a DeTable<'a>, span: Range<usize>, mistakes: &'a Mistakes) -> Self {
        Self { name, table, span, mistakes, known: RefCell::default() }
    }

    /// The value under a key, if there is one.
    fn get(&self, key: &'a str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
    }

    /// A key as messages name it.
    pub(crate) fn path(&self, key: &str) -> String {
        let dot = if self.name.is_empty() || key.is_empty() { "" } else { "." };
        format!("{}{dot}{key}", self.name)
    }

    /// Where the value of a key stands, or the section itself.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        found.map_or_else(|| self.span.clone(), |(_, value)| value.span())
    }

    /// Notes that something about a key is wrong.
    pub(crate) fn wrong(&self, key: &str, found: &str, wanted: &str) {
        self.mistakes.add(Mistake::value(&self.path(key), found, &self.place(key), wanted));
    }

    /// Notes this.
    pub(crate) fn add(&self, mistake: Mistake) {
        self.mistakes.add(mistake);
    }

    /// Notes that a key is missing.
    pub(crate) fn missing(&self, key: &str, wanted: &str) {
        self.mistakes.add(Mistake::missing(&self.path(key), &self.span, wanted));
    }

    fn read<T>(&self, key: &'a str, parse: impl FnOnce(&DeValue<'_>) -> Result<T, Wanted>) -> Option<T> {
        let value = self.get(key)?;
        match parse(value.get_ref()) {
            Ok(meaning) => Some(meaning),
            Err(wanted) => {
                self.wrong(key, &written(value.get_ref()), &wanted);
                None
            }
        }
    }

    /// A text with a meaning.
    pub(crate) fn text<T>(&self, key: &'a str, parse: fn(&str) -> Result<T, Wanted>) -> Option<T> {
        self.read(key, |value| of_text(value, parse))
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &'a str) -> Option<bool> {
        self.read(key, |value| match value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err("`true` or `false`".to_owned()),
        })
    }

    /// A whole number in a range.
    pub(crate) fn number(&self, key: &'a str, least: u64, most: u64) -> Option<u64> {
        self.read(key, |value| {
            let is_right = |it: &u64| (least..=most).contains(it);
            whole(value).filter(is_right).ok_or_else(|| format!("a whole number from {least} to {most}"))
        })
    }

    /// A whole number in a range, or `none`.
    pub(crate) fn number_or_none(&self, key: &'a str, least: u64, most: u64) -> Option<Limit> {
        self.read(key, |value| match value {
            DeValue::String(text) if text == "none" => Ok(Limit::None),
            other => {
                let number = whole(other).filter(|it| (least..=most).contains(it));
                number
                    .map(Limit::Of)
                    .ok_or_else(|| format!("a whole number from {least} to {most}, or `none`"))
            }
        })
    }

    /// A time in a range.
    pub(crate) fn duration(&self, key: &'a str, least: Duration, most: Duration) -> Option<Duration> {
        self.read(key, |value| {
            let duration = of_text(value, value::duration)?;
            in_range(duration, least, most, value::duration_text)
        })
    }

    /// A size in a range.
    pub(crate) fn size(&self, key: &'a str, least: u64, most: u64) -> Option<u64> {
        self.read(key, |value| in_range(of_text(value, value::size)?, least, most, value::size_text))
    }

    /// A list of texts with a meaning.
    pub(crate) fn list<T>(&self, key: &'a str, parse: fn(&str) -> Result<T, Wanted>) -> Option<Vec<T>> {
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, &written(value.get_ref()), "a list: `[\"…\", \"…\"]`");
            return None;
        };
        let mut meanings = Vec::new();
        for item in items {
            match of_text(item.get_ref(), parse) {
                Ok(meaning) => meanings.push(meaning),
                Err(wanted) => {
                    let found = written(item.get_ref());
                    self.mistakes.add(Mistake::value(&self.path(key), &found, &item.span(), &wanted));
                }
            }
        }
        Some(meanings)
    }

    /// A table inside of this one.
    pub(crate) fn section(&self, key: &'a str) -> Option<Section<'a>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(self.path(key), table, value.span(), self.mistakes)),
            other => {
                self.wrong(key, &written(other), &format!("a table: `[{}]`", self.path(key)));
                None
            }
        }
    }

    /// The tables of a list: `[[key]]`.
    pub(crate) fn sections(&self, key: &'a str) -> Vec<Section<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let wanted = format!("a list of tables: `[[{}]]`", self.path(key));
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, &written(value.get_ref()), &wanted);
            return Vec::new();
        };
        let section = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
            DeValue::Table(table) => Some(Section::new(self.path(key), table, item.span(), self.mistakes)),
            other => {
                self.wrong(key, &written(other), &wanted);
                None
            }
        };
        items.iter().filter_map(section).collect()
    }

    /// A text that was told already if it is wrong.
    pub(crate) fn quietly<T>(&self, key: &'a str, parse: fn(&str) -> Result<T, Wanted>) -> Option<T> {
        of_text(self.get(key)?.get_ref(), parse).ok()
    }

    /// One secret or a list of them; never shown, also if they are wrong.
    pub(crate) fn secrets(&self, key: &'a str, parse: fn(&str) -> Result<Secret, Wanted>) -> Vec<Secret> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let mut secrets = Vec::new();
        for item in items {
            match of_text(item.get_ref(), parse) {
                Ok(secret) => secrets.push(secret),
                Err(wanted) => self.mistakes.add(Mistake::value(&self.path(key), "…", &item.span(), &wanted)),
            }
        }
        secrets
    }

    /// Whether there is anything under a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref().as_ref() == key)
    }

    /// What stands under a key, about as it was written.
    pub(crate) fn found(&self, key: &str) -> String {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        found.map(|(_, value)| written(value.get_ref())).unwrap_or_default()
    }

    /// Whether a list stands under a key.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.is_like(key, |it| matches!(it, DeValue::Array(_)))
    }

    /// Whether a list with nothing in it stands under a key.
    pub(crate) fn is_empty_list(&self, key: &str) -> bool {
        self.is_like(key, |it| matches!(it, DeValue::Array(items) if items.is_empty()))
    }

    /// Whether a table stands under a key.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.is_like(key, |it| matches!(it, DeValue::Table(_)))
    }

    fn is_like(&self, key: &str, like: fn(&DeValue<'_>) -> bool) -> bool {
        self.table.iter().any(|(name, value)| name.get_ref().as_ref() == key && like(value.get_ref()))
    }

    /// One text with a meaning, or a list of them.
    pub(crate) fn one_or_more<T>(
        &self,
        key: &'a str,
        parse: fn(&str) -> Result<T, Wanted>,
    ) -> Option<Vec<T>> {
        if self.is_list(key) { self.list(key, parse) } else { self.text(key, parse).map(|it| vec![it]) }
    }

    /// A text that must be there. One that is wrong was told where it stands.
    pub(crate) fn needed<T>(
        &self,
        key: &'a str,
        parse: fn(&str) -> Result<T, Wanted>,
        wanted: &str,
    ) -> Option<T> {
        if !self.has(key) {
            self.missing(key, wanted);
        }
        self.text(key, parse)
    }

    /// The keys of a table whose keys are chosen by the file.
    pub(crate) fn keys(&self) -> Vec<&'a str> {
        self.table.iter().map(|(key, _)| key.get_ref().as_ref()).collect()
    }

    /// What was asked for so far.
    #[cfg(test)]
    pub(crate) fn asked_for(&self) -> Vec<String> {
        self.known.borrow().iter().map(|it| (*it).to_owned()).collect()
    }

    /// Ends the reading: what nobody asked for is unknown.
    pub(crate) fn finish(self) {
        self.check_unknown();
    }

    /// Notes what nobody asked for so far.
    pub(crate) fn check_unknown(&self) {
        let known = self.known.borrow();
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.mistakes.add(Mistake::unknown(&self.name, name, &key.span(), &known));
            }
        }
    }
}

fn of_text<T>(value: &DeValue<'_>, parse: fn(&str) -> Result<T, Wanted>) -> Result<T, Wanted> {
    match value {
        DeValue::String(text) => parse(text),
        // Only to learn what is wanted: no value is so empty.
        _ => parse("").and_then(|_| Err("a text in quotes".to_owned())),
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

fn in_range<T: PartialOrd + Copy, D: Display>(
    found: T,
    least: T,
    most: T,
    text: impl Fn(T) -> D,
) -> Result<T, Wanted> {
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    Err(format!("`{}` to `{}`", text(least), text(most)))
}

/// A value, about as it stands in the file.
fn written(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|it| written(it.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(_) => "{…}".to_owned(),
    }
}
