//! Which events a function takes.
//!
//! 1. The words are those of CloudEvents Subscriptions: `exact`, `prefix` and `suffix` of attributes; `all`, `any` and
//!    `not` of other filters. All that one table says must hold.
//! 2. An attribute by itself is exact: `filter = { type = "order.created" }`. With a list, one of them is enough.

use super::{
    mistake::{Mistake, quoted},
    read::Section,
    value::Wanted,
};
use semel_events::{
    expression::Expression,
    filter::{BadFilter, Compare, FILTER_DEPTH_MAX, Filter},
};

/// Longest value of a filter, in bytes.
const VALUE_BYTES_MAX: usize = 1024;
const WORDS: [&str; 6] = ["exact", "prefix", "suffix", "all", "any", "not"];

/// The filter of a function, if it has one.
pub(super) fn read(function: &Section<'_>) -> Option<Filter> {
    read_table(&function.section("filter")?, FILTER_DEPTH_MAX)
}

/// What a table says; nothing if it says nothing, or something wrong.
fn read_table(section: &Section<'_>, depth: usize) -> Option<Filter> {
    let mut all = Vec::new();
    for key in section.keys() {
        match key {
            "exact" => all.extend(attributes(section, key, Compare::Exact)),
            "prefix" => all.extend(attributes(section, key, Compare::Prefix)),
            "suffix" => all.extend(attributes(section, key, Compare::Suffix)),
            _ if WORDS.contains(&key) && depth == 0 => {
                section.wrong(key, "…", &format!("at most {FILTER_DEPTH_MAX} filters within each other"));
            }
            "all" => all.extend(read_tables(section, key, depth - 1)),
            "any" => {
                let filters = read_tables(section, key, depth - 1);
                all.extend(made(section, key, filters, Filter::any));
            }
            "not" => {
                let inner = section.section(key).and_then(|it| read_table(&it, depth - 1));
                all.extend(made(section, key, inner.into_iter().collect(), |it| {
                    it.into_iter().next().ok_or(BadFilter::Empty)?.not()
                }));
            }
            attribute => all.extend(one_of_values(section, attribute)),
        }
    }
    if section.keys().is_empty() {
        section.wrong("", "{}", "at least one attribute, such as `type`");
    }
    made(section, "", all, Filter::all)
}

fn read_tables<'a>(section: &Section<'a>, key: &'a str, depth: usize) -> Vec<Filter> {
    let filters: Vec<_> = section.sections(key).iter().filter_map(|it| read_table(it, depth)).collect();
    if section.is_empty_list(key) {
        section.wrong(key, "[]", "at least one filter");
    }
    filters
}

/// `{ type = "order.created" }` below one of the words.
fn attributes<'a>(section: &Section<'a>, key: &'a str, how: Compare) -> Vec<Filter> {
    let Some(inner) = section.section(key) else { return Vec::new() };
    let read = |name: &'a str| {
        let value = inner.text(name, value)?;
        attribute(&inner, name)?;
        Filter::compare(how, name, &value).ok()
    };
    inner.keys().into_iter().filter_map(read).collect()
}

/// `type = "order.created"`, or a list of them.
fn one_of_values<'a>(section: &Section<'a>, name: &'a str) -> Option<Filter> {
    attribute(section, name)?;
    let values = section.one_or_more(name, value)?;
    if values.is_empty() {
        section.wrong(name, "[]", "at least one value");
    }
    let filters = values.iter().filter_map(|it| Filter::compare(Compare::Exact, name, it).ok()).collect();
    made(section, name, filters, Filter::any)
}

/// One filter of several. None are nothing, because what is missing was told before.
fn made(
    section: &Section<'_>,
    key: &str,
    mut filters: Vec<Filter>,
    combine: impl FnOnce(Vec<Filter>) -> Result<Filter, BadFilter>,
) -> Option<Filter> {
    if filters.len() == 1 && key != "not" {
        return filters.pop();
    }
    match combine(filters) {
        Ok(filter) => Some(filter),
        Err(BadFilter::Empty) => None,
        Err(bad) => {
            section.wrong(key, "…", &bad.to_string());
            None
        }
    }
}

/// Notes a name that no attribute of an event can have.
fn attribute(section: &Section<'_>, name: &str) -> Option<()> {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    if (1..=20).contains(&name.len()) && name.bytes().all(is_plain) && name != "data" {
        return Some(());
    }
    let wanted = format!("an attribute of events, such as `type`, or one of {}", quoted(&WORDS));
    section.add(Mistake::value(&section.path(name), &section.found(name), &section.place(name), &wanted));
    None
}

fn value(text: &str) -> Result<String, Wanted> {
    if !text.is_empty() && text.len() <= VALUE_BYTES_MAX {
        return Ok(text.to_owned());
    }
    Err(format!("a text of 1 to {VALUE_BYTES_MAX} bytes, such as `type = \"order.created\"`"))
}

/// What names an event, or keeps events in order: an expression, as it was written.
pub(super) fn expression(text: &str) -> Result<String, Wanted> {
    let parsed: Result<Expression, _> = text.parse();
    match parsed {
        Ok(_) => Ok(text.to_owned()),
        Err(bad) => Err(format!("an expression such as `/data/order/id` or `subject`: {bad}")),
    }
}
