//! What holds for a source: somebody who sends events to `/sources/NAME`, or to `/events`.

use super::{
    auth::AuthSettings,
    filter,
    function::{FunctionSettings, one_of_names, read_names},
    read::Section,
    value::{Wanted, one_of},
};
use semel_events::format::Format;
use semel_runtime::deliver::guard::Policy;
use std::time::Duration;

/// Most sources in a file.
pub const SOURCES_MAX: usize = 1_000;
/// Longest time in which a sender may send an event again.
const REDELIVERY_MAX: Duration = Duration::from_hours(366 * 24);
const DAY: Duration = Duration::from_hours(24);

/// A source, and what holds for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSettings {
    /// Names it: the last part of its address.
    pub name: String,
    /// What it speaks; whatever it turns out to be, unless this is said.
    pub format: Option<Format>,
    /// How it shows who it is.
    pub auth: AuthSettings,
    /// When it is answered.
    pub mode: Mode,
    /// Which functions it may reach; all, unless this is said.
    pub functions: Option<Vec<String>>,
    /// Where the attributes of an event are in plain JSON.
    pub rules: Option<RuleSettings>,
    /// The source of what Pub/Sub pushes, if not the subscription.
    pub topic: Option<String>,
    /// Who is told that it may send, when it asks by CloudEvents' handshake; `*` for everybody.
    pub origins: Vec<String>,
    /// How many requests a minute it is told then that it may send; as many as it asks for, unless this is said.
    pub origin_rate_max: Option<u32>,
    /// For how long it may send an event again.
    pub redelivery: Duration,
}

/// When a sender is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When its event is durable.
    Async,
    /// When the function has answered, with what the function said.
    Sync,
}

/// Where the attributes of an event are in plain JSON: expressions, as they were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSettings {
    /// What names an event; `hash` if its content does.
    pub id: String,
    /// What happened.
    pub kind: String,
    /// Where it happened; the address of the source, unless this is said.
    pub source: Option<String>,
    /// What it happened to.
    pub subject: Option<String>,
    /// When it happened.
    pub time: Option<String>,
}

/// For how long such a sender tries again, by its documentation.
fn redelivery(format: Option<Format>, auth: &AuthSettings) -> Duration {
    match (format, auth) {
        (_, AuthSettings::Stripe { .. } | AuthSettings::GitHub { .. }) => 3 * DAY,
        (_, AuthSettings::StandardWebhooks { .. }) => 4 * DAY,
        (Some(Format::Pubsub | Format::Google), _) | (_, AuthSettings::Oidc { .. }) => 7 * DAY,
        (Some(Format::Sns), _) | (_, AuthSettings::Sns { .. }) => 23 * DAY,
        (Some(Format::CloudEvents | Format::EventBridge | Format::S3 | Format::Json) | None, _) => DAY,
    }
}

impl SourceSettings {
    /// What holds for `/events`, unless the file says more.
    pub(crate) fn events() -> Self {
        Self {
            name: String::new(),
            format: None,
            auth: AuthSettings::Unsaid,
            mode: Mode::Async,
            functions: None,
            rules: None,
            topic: None,
            origins: vec!["*".to_owned()],
            origin_rate_max: None,
            redelivery: DAY,
        }
    }

    /// As the log and the plan name it.
    pub(crate) fn path(&self) -> String {
        if self.name.is_empty() { "/events".to_owned() } else { format!("/sources/{}", self.name) }
    }
}

/// The sources of a file.
pub(super) fn read_sources(
    sections: Vec<Section<'_>>,
    functions: &[FunctionSettings],
    guard: &Policy,
) -> Vec<SourceSettings> {
    read_names(&sections);
    if let Some(first) = sections.get(SOURCES_MAX) {
        first.wrong("name", &first.found("name"), &format!("at most {SOURCES_MAX} sources"));
    }
    let read = |section: Section<'_>| {
        let name = section.quietly("name", super::function::name);
        let source = read_source(&section, functions, guard);
        if !section.has("auth") {
            section.missing(
                "auth",
                "who may send, such as `\"github\"` with a `secret`; `\"none\"` if anybody may",
            );
        }
        section.finish();
        name.map(|name| SourceSettings { name, ..source })
    };
    sections.into_iter().filter_map(read).collect()
}

/// What holds for `/events`.
pub(super) fn read_events(
    section: Section<'_>,
    functions: &[FunctionSettings],
    guard: &Policy,
) -> SourceSettings {
    let source = read_source(&section, functions, guard);
    section.finish();
    source
}

fn read_source(section: &Section<'_>, known: &[FunctionSettings], guard: &Policy) -> SourceSettings {
    let names: Vec<_> = known.iter().map(|it| it.name.clone()).collect();
    let functions = read_functions(section, &names);
    let format = section.text("format", format).flatten();
    let auth = AuthSettings::read(section, guard);
    check_format(section, format, &auth);
    let rate = section.number("origin_rate_max", 1, u32::MAX.into());
    let said = section.duration("redelivery", Duration::ZERO, REDELIVERY_MAX);
    SourceSettings {
        format,
        mode: read_mode(section, known, functions.as_deref()),
        functions,
        rules: read_rules(section, format, &auth),
        topic: section.text("topic", topic),
        origins: section.one_or_more("origins", origin).unwrap_or_else(|| vec!["*".to_owned()]),
        origin_rate_max: rate.map(|it| it as u32),
        redelivery: said.unwrap_or_else(|| redelivery(format, &auth)),
        auth,
        ..SourceSettings::events()
    }
}

/// Of what SNS sends it signs some members, and only its own format knows which.
fn check_format(section: &Section<'_>, format: Option<Format>, auth: &AuthSettings) {
    if matches!(auth, AuthSettings::Sns { .. }) && format.is_some_and(|it| it != Format::Sns) {
        section.wrong("format", &section.found("format"), "`sns`, which is what `auth = \"sns\"` checks");
    }
}

/// When the sender is answered. Nobody can wait for the turn of an event that has an order.
fn read_mode(section: &Section<'_>, known: &[FunctionSettings], only: Option<&[String]>) -> Mode {
    const KEY: &str = "mode";
    let mode = section.text(KEY, mode).unwrap_or(Mode::Async);
    let is_reached = |it: &&FunctionSettings| only.is_none_or(|only| only.contains(&it.name));
    let in_order = known.iter().filter(is_reached).find(|it| !it.order.is_empty());
    if let (Mode::Sync, Some(function)) = (mode, in_order) {
        let wanted = format!(
            "`async`, or `functions` without `{}`, which is called in order: a sender cannot wait for a turn",
            function.name
        );
        section.wrong(KEY, "sync", &wanted);
    }
    mode
}

/// Where the attributes are in plain JSON. Of some senders it is known.
fn read_rules(section: &Section<'_>, format: Option<Format>, auth: &AuthSettings) -> Option<RuleSettings> {
    let id = section.text("id", id);
    let kind = section.text("type", filter::expression);
    let [source, subject, time] =
        ["source", "subject", "time"].map(|key| section.text(key, filter::expression));
    let is_known = matches!(
        auth,
        AuthSettings::Stripe { .. } | AuthSettings::GitHub { .. } | AuthSettings::StandardWebhooks { .. }
    );
    let says_any = ["id", "type", "source", "subject", "time"].iter().any(|key| section.has(key));
    let is_needed = says_any || (format == Some(Format::Json) && !is_known);
    if is_needed && !section.has("id") {
        section.missing("id", "what names an event, such as `/id`; `hash` if its content does");
    }
    if is_needed && !section.has("type") {
        section.missing("type", "what happened, such as `/event/type` or `literal:order.created`");
    }
    Some(RuleSettings { id: id?, kind: kind?, source, subject, time })
}

fn read_functions(section: &Section<'_>, known: &[String]) -> Option<Vec<String>> {
    const KEY: &str = "functions";
    let functions = section.one_or_more(KEY, |text| Ok(text.to_owned()))?;
    for unknown in functions.iter().filter(|it| !known.contains(it)) {
        section.wrong(KEY, unknown, &one_of_names("function", known));
    }
    if functions.is_empty() {
        section.wrong(KEY, "[]", "at least one function; all of them, if it is not said");
    }
    Some(functions)
}

fn format(text: &str) -> Result<Option<Format>, Wanted> {
    let auto = std::iter::once(("auto", None));
    let all: Vec<_> = auto.chain(Format::ALL.map(|(name, it)| (name, Some(it)))).collect();
    one_of(text, &all)
}

fn mode(text: &str) -> Result<Mode, Wanted> {
    one_of(text, &[("async", Mode::Async), ("sync", Mode::Sync)])
}

fn id(text: &str) -> Result<String, Wanted> {
    if text == "hash" { Ok(text.to_owned()) } else { filter::expression(text) }
}

fn origin(text: &str) -> Result<String, Wanted> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
    let is_name = (1..=253).contains(&text.len()) && text.bytes().all(is_plain);
    if text == "*" || is_name { Ok(text.to_owned()) } else { Err("the name of a host, or `*`".to_owned()) }
}

fn topic(text: &str) -> Result<String, Wanted> {
    let parts: Vec<_> = text.split('/').collect();
    match parts[..] {
        ["projects", project, "topics", name] if !project.is_empty() && !name.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err("a topic: `projects/PROJECT/topics/NAME`".to_owned()),
    }
}
