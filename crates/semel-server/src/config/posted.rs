//! A function that was not read from a file, but sent as JSON: the same keys, the same checks.

use super::{
    filter,
    function::{FunctionSettings, name as function_name, read_function},
    read::{Mistakes, Section},
};
use semel_events::filter::Filter;
use semel_runtime::deliver::guard::Policy;
use serde_json::{Map, Value};
use toml::de::DeTable;

/// A function of this name, as the file would have it; or what is wrong with it.
pub(crate) fn posted(
    name: &str,
    written: &Map<String, Value>,
    names: &[String],
    guard: &Policy,
) -> Result<FunctionSettings, Vec<String>> {
    function_name(name).map_err(|wanted| vec![format!("`name`: wanted {wanted}")])?;
    if written.contains_key("name") {
        return Err(vec!["`name` stands in the address, and nowhere else".to_owned()]);
    }
    let source = source(name, written)?;
    let (table, errors) = DeTable::parse_recoverable(&source);
    if !errors.is_empty() {
        return Err(vec!["a text has characters that the file could not have".to_owned()]);
    }
    let mistakes = Mistakes::default();
    let section = Section::file(&table, &mistakes);
    let function = read_function(&section, names, guard);
    section.finish();
    let mistakes: Vec<_> = mistakes.into_inner().into_iter().map(|it| it.text).collect();
    match function {
        Some(function) if mistakes.is_empty() => Ok(function),
        _ => Err(mistakes),
    }
}

/// What a function takes, whatever else is wrong with it; nothing if that cannot be read, or if it takes everything.
pub(crate) fn posted_filter(written: &Map<String, Value>) -> Option<Filter> {
    let source = source("left-out", written).ok()?;
    let (table, errors) = DeTable::parse_recoverable(&source);
    let mistakes = Mistakes::default();
    let filter = filter::read(&Section::file(&table, &mistakes));
    filter.filter(|_| errors.is_empty() && mistakes.into_inner().is_empty())
}

/// A function as a section of the file would have it.
fn source(name: &str, written: &Map<String, Value>) -> Result<String, Vec<String>> {
    let mut source = format!("name = {}\n", Value::from(name));
    for (key, value) in written {
        let value = toml(value).ok_or_else(|| vec![format!("`{key}` cannot be `null`")])?;
        source.extend([&Value::from(key.as_str()).to_string(), " = ", &value, "\n"]);
    }
    Ok(source)
}

/// The keys that a function is asked for.
#[cfg(test)]
pub(crate) fn posted_keys() -> Vec<String> {
    let (table, _) = DeTable::parse_recoverable("");
    let mistakes = Mistakes::default();
    let section = Section::file(&table, &mistakes);
    read_function(&section, &[], &Policy::public());
    section.asked_for()
}

/// A value as the file would have it; there is no `null` there.
fn toml(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(toml).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(members) => {
            let pair = |(key, value): (&String, &Value)| {
                Some(format!("{} = {}", Value::from(key.as_str()), toml(value)?))
            };
            let members: Option<Vec<_>> = members.iter().map(pair).collect();
            format!("{{ {} }}", members?.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<FunctionSettings, Vec<String>> {
        let written = serde_json::from_str(text).unwrap();
        posted("orders", &written, &["orders".to_owned()], &Policy { allow: Vec::new(), loopback: true })
    }

    #[test]
    fn a_function_is_the_same_as_json() {
        let right = check(
            r#"{"url": "http://127.0.0.1:3000/orders", "retry": "gen2", "concurrency": 8, "strict": true,
                "filter": {"type": "order.created"}, "key": ["/data/order"]}"#,
        );
        let function = right.unwrap();
        assert_eq!(
            (function.name.as_str(), function.concurrency, function.strict),
            ("orders", Some(8), true)
        );
        assert!(function.filter.is_some());
    }

    #[test]
    fn what_the_file_could_not_say_is_refused() {
        let url = r#""url": "http://127.0.0.1:3000/""#;
        for (text, wanted) in [
            ("{}", "`url` is missing"),
            (r#"{"url": "http://169.254.169.254/"}"#, "`url`"),
            (r#"{"url": "file:///etc/passwd"}"#, "`url`"),
            (&format!(r#"{{{url}, "urll": 1}}"#), "`urll` is no key"),
            (&format!(r#"{{{url}, "name": "other"}}"#), "`name` stands in the address"),
            (&format!(r#"{{{url}, "strict": null}}"#), "`strict` cannot be `null`"),
            (&format!(r#"{{{url}, "concurrency": 0}}"#), "`concurrency` is `0`"),
            (&format!(r#"{{{url}, "retry = \"off\"\nstrict": true}}"#), "is no key"),
        ] {
            let mistakes = check(text).unwrap_err();
            assert!(mistakes.iter().any(|it| it.contains(wanted)), "{text}: {mistakes:?}");
        }
        let none = posted("a/b", &Map::new(), &[], &Policy::public());
        assert!(none.is_err());
    }
}
