//! One entry per parser, for fuzzers and for the short run in the tests.
//!
//! 1. Every entry takes any bytes, never panics, and gives up in bounded time and memory.
//! 2. What it accepts, it also checks; what is refused must be told as it should be.
//!
//! Not for users.

use crate::{
    api::fuzz::{cursor, forwarded, functions, query},
    config::{self, posted},
    exit::Code,
    listen::fuzz::http1,
    proxy::pattern::{Pattern, canonical},
    serve::crashes,
    store_url::StoreUrl,
};
use semel_runtime::deliver::guard::Policy;
use serde_json::{Map, Value};
use std::path::Path;

/// What a fuzzer calls.
pub type Entry = fn(&[u8]);

/// Every entry, by its name; the corpus is kept under the same name.
pub const ALL: [(&str, Entry); 10] = [
    ("http1", http1),
    ("config", config),
    ("function", function),
    ("query", query),
    ("cursor", cursor),
    ("path", path),
    ("store", store),
    ("forwarded", forwarded),
    ("functions", functions),
    ("crashes", crashes),
];

/// A file: what is wrong with it has a place in it.
fn config(bytes: &[u8]) {
    let source = String::from_utf8_lossy(bytes);
    let lines = source.split('\n').count();
    for is_dev in [false, true] {
        let read = config::parse(Path::new("fuzz.toml"), &source, is_dev);
        let Err(failure) = &read else {
            assert_eq!(config::parse(Path::new("fuzz.toml"), &source, is_dev), read, "read twice");
            continue;
        };
        assert_eq!(failure.code(), Code::Usage);
        let told = failure.to_string();
        let mut mistakes = told.lines().skip(1).peekable();
        assert!(mistakes.peek().is_some(), "nothing is said to be wrong: {told}");
        for mistake in mistakes {
            let place = mistake.strip_prefix("  fuzz.toml:").and_then(|it| it.split_once(": "));
            let (place, what) = place.unwrap_or_else(|| {
                assert!(mistake.starts_with("  and ") && mistake.ends_with(" more"), "no place: {told}");
                ("1:1", "more")
            });
            let place = place.split_once(':').and_then(|(line, column)| {
                Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
            });
            let (line, column) = place.expect("a place is two numbers");
            assert!((1..=lines).contains(&line) && column > 0, "{line}:{column} is not in the file: {told}");
            assert!(!what.is_empty() && !what.contains(char::is_control), "{told}");
        }
    }
}

/// A function that was sent as JSON.
fn function(bytes: &[u8]) {
    let Ok(written) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return };
    let names = ["orders".to_owned(), "other".to_owned()];
    match posted("orders", &written, &names, &Policy::public()) {
        Ok(function) => assert_eq!(function.name, "orders", "nothing in a body gives it another name"),
        Err(mistakes) => assert!(!mistakes.is_empty(), "nothing is said to be wrong"),
    }
}

/// The path of a request, and the pattern of a route, one behind the other.
fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (pattern, path) = text.split_once('\n').unwrap_or((&text, "/"));
    if path.starts_with('/') {
        let one = canonical(path);
        let is_plain = !one.contains("//") && !one.contains("/./") && !one.contains("/../");
        assert!(one.starts_with('/') && is_plain, "{path} became {one}");
    }
    if let Ok(pattern) = Pattern::parse(pattern) {
        let _ = pattern.matches(&canonical(path));
        assert!(pattern.covers(&pattern), "a pattern takes what it takes");
        let is_exact = !pattern.as_str().contains(['{', '*']);
        assert!(!is_exact || pattern.matches(pattern.as_str()), "a plain path is its own");
    }
}

fn store(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(wanted) = StoreUrl::parse(&text) {
        assert!(!wanted.is_empty(), "nothing is said to be wanted");
    }
}
