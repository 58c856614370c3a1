//! What holds for a function: where it is, which events it takes, and what happens when it fails.

use super::{
    auth::read_signing_secrets,
    filter,
    mistake::quoted,
    read::Section,
    retry,
    route::OnLost,
    secret::Secret,
    value::{Wanted, one_of},
};
use semel_core::retry::RetryPolicy;
use semel_events::filter::Filter;
use semel_runtime::deliver::{
    Preset,
    guard::{Policy, Target, check_url},
};
use std::time::Duration;

/// Longest name of a function or a source, in bytes.
pub const NAME_BYTES_MAX: usize = 100;
/// Most functions in a file.
pub const FUNCTIONS_MAX: usize = 1_000;
/// Most events that a function is given at once.
pub const CONCURRENCY_MAX: u64 = 10_000;
/// Most secrets of a function or a source: one that comes, one that goes, and one to spare.
pub const SECRETS_MAX: usize = 8;
const DEAD_LETTER: &str = "dead_letter";
/// Most events of a rate, in whatever time.
const RATE_EVENTS_MAX: u32 = 10_000_000;

/// A function, and what holds for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSettings {
    /// Names it: in answers, in the log, in its executions.
    pub name: String,
    /// Where it is called.
    pub url: Target,
    /// Which events it takes; all, unless this is said.
    pub filter: Option<Filter>,
    /// What names an event, if not its source and id.
    pub key: Vec<String>,
    /// What keeps events in order: those for which it is the same come one after the other.
    pub order: Vec<String>,
    /// When failed attempts are made again.
    pub policy: RetryPolicy,
    /// What its answers mean.
    pub answers: Preset,
    /// How many events it is given at once; as the runtime has it, unless this is said.
    pub concurrency: Option<u32>,
    /// How many events it is given in a time.
    pub rate: Option<RateSettings>,
    /// What becomes of an event that was sent to it, and whose answer was lost.
    pub on_lost: OnLost,
    /// Whether it speaks HTTP/2, as known beforehand.
    pub http2: bool,
    /// What becomes of an event that it cannot take.
    pub dead_letter: DeadLetterSettings,
    /// What requests are signed with.
    pub secrets: Vec<Secret>,
    /// Whether an event that comes again with another content is refused.
    pub strict: bool,
    /// How an event is sent.
    pub content: Content,
}

/// How an event is sent to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Attributes as headers, data as the body.
    Binary,
    /// All of it as one JSON document.
    Structured,
}

/// How many events in which time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSettings {
    /// So many events.
    pub events: u32,
    /// In this time.
    pub per: Duration,
}

/// What becomes of an event that a function cannot take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadLetterSettings {
    /// It is kept, to be looked at and redriven.
    Keep,
    /// Only that it failed is kept.
    None,
    /// It is kept, and sent there.
    Url(Target),
    /// It is kept, and given to this function.
    Function(String),
}

impl FunctionSettings {
    /// A function with nothing said but where it is.
    pub(crate) fn new(name: String, url: Target, policy: RetryPolicy) -> Self {
        Self {
            name,
            url,
            filter: None,
            key: Vec::new(),
            order: Vec::new(),
            policy,
            answers: Preset::default(),
            concurrency: None,
            rate: None,
            on_lost: OnLost::Retry,
            http2: false,
            dead_letter: DeadLetterSettings::Keep,
            secrets: Vec::new(),
            strict: false,
            content: Content::Binary,
        }
    }
}

/// The functions of a file. Where they may be is the guard's to say.
pub(super) fn read_functions(sections: Vec<Section<'_>>, guard: &Policy) -> Vec<FunctionSettings> {
    let names = read_names(&sections);
    if let Some(first) = sections.get(FUNCTIONS_MAX) {
        first.wrong("name", &first.found("name"), &format!("at most {FUNCTIONS_MAX} functions"));
    }
    let functions: Vec<_> = sections.iter().map(|it| read_function(it, &names, guard)).collect();
    let read: Vec<_> = functions.iter().flatten().cloned().collect();
    for (section, function) in sections.into_iter().zip(functions) {
        if function.is_some_and(|it| is_loop(&read, &it.name)) {
            section.wrong(
                DEAD_LETTER,
                &section.found(DEAD_LETTER),
                "dead letters that come to an end somewhere",
            );
        }
        section.finish();
    }
    read
}

/// Whether the dead letters of a function come back to it, or go round for ever.
pub(crate) fn is_loop(all: &[FunctionSettings], name: &str) -> bool {
    let to = |name: &str| match &all.iter().find(|it| it.name == name)?.dead_letter {
        DeadLetterSettings::Function(to) => Some(to.as_str()),
        DeadLetterSettings::Keep | DeadLetterSettings::None | DeadLetterSettings::Url(_) => None,
    };
    let mut at = Some(name);
    for _ in 0..=all.len() {
        match at.and_then(to) {
            None => return false,
            next => at = next,
        }
    }
    true
}

/// The names of all sections; one that is missing, or there twice, is told.
pub(super) fn read_names(sections: &[Section<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for section in sections {
        let Some(name) = section.needed("name", name, "a name, such as `orders`") else { continue };
        if names.contains(&name) {
            section.wrong("name", &name, "a name that no other has");
        }
        names.push(name);
    }
    names
}

pub(super) fn read_function(
    section: &Section<'_>,
    names: &[String],
    guard: &Policy,
) -> Option<FunctionSettings> {
    let name = section.quietly("name", name);
    let url = url(section, "url", guard);
    if !section.has("url") {
        section.missing("url", "where it is called, such as `https://orders.example.com/created`");
    }
    let filter = filter::read(section);
    let key = section.one_or_more("key", filter::expression).unwrap_or_default();
    let order = section.one_or_more("order", filter::expression).unwrap_or_default();
    let policy = retry::read(section);
    let answers = section.text("answers", answers).unwrap_or_default();
    let concurrency = section.number("concurrency", 1, CONCURRENCY_MAX).map(|it| it as u32);
    let rate = section.text("rate", rate);
    let on_lost = section.text("on_lost", on_lost).unwrap_or(OnLost::Retry);
    let http2 = section.flag("http2").unwrap_or_default();
    let dead_letter = dead_letter(section, name.as_deref(), names, guard);
    let secrets = read_signing_secrets(section);
    let strict = section.flag("strict").unwrap_or_default();
    let content = section.text("content", content).unwrap_or(Content::Binary);
    let (name, url) = (name?, url?);
    Some(FunctionSettings {
        name,
        url,
        filter,
        key,
        order,
        policy,
        answers,
        concurrency,
        rate,
        on_lost,
        http2,
        dead_letter,
        secrets,
        strict,
        content,
    })
}

/// The name of a function or a source: it stands in addresses, headers and the log.
pub(crate) fn name(text: &str) -> Result<String, Wanted> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-');
    let is_right = text.len() <= NAME_BYTES_MAX
        && text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric());
    if is_right {
        return Ok(text.to_owned());
    }
    Err(format!("a name of at most {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores"))
}

/// A target that the guard lets pass.
fn url(section: &Section<'_>, key: &'static str, guard: &Policy) -> Option<Target> {
    let text = section.text(key, |text| Ok(text.to_owned()))?;
    match check_url(&text, guard) {
        Ok(target) => Some(target),
        Err(refusal) => {
            section.wrong(key, &text, &wanted_instead(&refusal.to_string()));
            None
        }
    }
}

/// What is wanted instead of a target that was refused.
pub(crate) fn wanted_instead(refusal: &str) -> String {
    format!("a target that may be called: {refusal}")
}

/// `name=url`, as on the command line. The URL is not checked yet.
pub(crate) fn named_url(text: &str) -> Result<(String, String), Wanted> {
    let wanted = || "a name and a URL, such as `orders=http://127.0.0.1:3000/orders`".to_owned();
    let (name, url) = text.split_once('=').ok_or_else(wanted)?;
    Ok((self::name(name).map_err(|_| wanted())?, url.to_owned()))
}

fn answers(text: &str) -> Result<Preset, Wanted> {
    one_of(text, &Preset::ALL.map(|it| (it.as_str(), it)))
}

fn on_lost(text: &str) -> Result<OnLost, Wanted> {
    one_of(text, &[("retry", OnLost::Retry), ("report", OnLost::Report)])
}

fn content(text: &str) -> Result<Content, Wanted> {
    one_of(text, &[("binary", Content::Binary), ("structured", Content::Structured)])
}

/// `100/s`, `10/m` or `1000/h`.
pub(crate) fn rate(text: &str) -> Result<RateSettings, Wanted> {
    let wanted =
        || format!("at most {RATE_EVENTS_MAX} events in a time, such as `100/s`, `10/m` or `1000/h`");
    let (events, unit) = text.split_once('/').ok_or_else(wanted)?;
    let events = events.parse().ok().filter(|it| (1..=RATE_EVENTS_MAX).contains(it)).ok_or_else(wanted)?;
    let per = match unit {
        "s" => Duration::from_secs(1),
        "m" => Duration::from_mins(1),
        "h" => Duration::from_hours(1),
        _ => return Err(wanted()),
    };
    Ok(RateSettings { events, per })
}

fn dead_letter(
    section: &Section<'_>,
    own: Option<&str>,
    names: &[String],
    guard: &Policy,
) -> DeadLetterSettings {
    const KEY: &str = DEAD_LETTER;
    let text = section.text(KEY, |text| match text {
        "keep" | "none" => Ok(text.to_owned()),
        _ if text.starts_with("function:") || text.contains("://") => Ok(text.to_owned()),
        _ => Err("`keep`, `none`, a URL, or `function:NAME`".to_owned()),
    });
    match text.as_deref() {
        None | Some("keep") => DeadLetterSettings::Keep,
        Some("none") => DeadLetterSettings::None,
        Some(text) => match text.strip_prefix("function:") {
            None => url(section, KEY, guard).map_or(DeadLetterSettings::Keep, DeadLetterSettings::Url),
            Some(name) if own == Some(name) => {
                section.wrong(KEY, text, "another function than itself");
                DeadLetterSettings::Keep
            }
            Some(name) if names.iter().any(|it| it == name) => DeadLetterSettings::Function(name.to_owned()),
            Some(_) => {
                section.wrong(KEY, text, &one_of_names("function", names));
                DeadLetterSettings::Keep
            }
        },
    }
}

/// What is wanted instead of a name that nothing has.
pub(super) fn one_of_names(what: &str, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).take(10).collect();
    if names.is_empty() {
        return format!("the name of a {what}, and there is none: add a `[[{what}]]`");
    }
    format!("the name of a {what}: {}", quoted(&names))
}

/// `secret` or `secrets`: one, or several while they change.
pub(super) fn read_secrets(section: &Section<'_>) -> Vec<Secret> {
    read_secrets_as(section, Secret::parse)
}

/// As [`read_secrets`], of a kind that this tells.
pub(super) fn read_secrets_as(
    section: &Section<'_>,
    parse: fn(&str) -> Result<Secret, Wanted>,
) -> Vec<Secret> {
    let mut secrets = section.secrets("secrets", parse);
    if section.has("secret") {
        if section.has("secrets") {
            section.wrong("secret", "…", "either `secret` or `secrets`, and not both");
        }
        secrets = section.secrets("secret", parse);
    } else {
        // So that it is known.
        let _ = section.secrets("secret", parse);
    }
    if secrets.len() > SECRETS_MAX {
        section.wrong("secrets", "[…]", &format!("at most {SECRETS_MAX} of them"));
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_stand_in_an_address() {
        for right in ["orders", "a", "Orders.v2_eu-1", "9"] {
            assert!(name(right).is_ok(), "{right}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for wrong in ["", "$audit", "a/b", "a b", "-a", ".a", "ä", "a%20", &long] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_a_number_in_a_time() {
        let per_minute = RateSettings { events: 10, per: Duration::from_mins(1) };
        assert_eq!(rate("10/m"), Ok(per_minute));
        for wrong in ["", "10", "10/", "/s", "0/s", "-1/s", "1.5/s", "10/d", "10000001/s", "10/s/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_function_of_the_command_line_has_a_name_and_a_url() {
        let found = named_url("orders=http://a/?x=y");
        assert_eq!(found, Ok(("orders".to_owned(), "http://a/?x=y".to_owned())));
        for wrong in ["", "orders", "=http://a", "a b=http://a"] {
            assert!(named_url(wrong).is_err(), "{wrong}");
        }
    }
}
