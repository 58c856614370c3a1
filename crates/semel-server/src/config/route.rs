//! What holds for the requests of a route.

use super::{
    mistake::quoted,
    read::Section,
    value::{self, Caller, Wanted, one_of},
};
use crate::proxy::pattern::Pattern;
use http::{HeaderName, Method, header};
use std::time::Duration;

/// Shortest and longest lease: shorter ones lapse while a store answers, longer ones block a key for hours.
const LEASE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));
/// Shortest and longest retention of a record and of its response.
const RETENTION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(366 * 24));
/// Longest time that a duplicate waits.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// Smallest and largest body that is kept in memory.
const BODY_BYTES: (u64, u64) = (1, 64 << 20);

/// Whether requests need a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyMode {
    /// One without a key is refused.
    Required,
    /// One without a key passes through.
    Optional,
    /// Keys are not looked at.
    Off,
}

/// What becomes of a request that was sent, and whose answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLost {
    /// When its lease has lapsed, a duplicate is sent to the upstream again.
    Retry,
    /// When its lease has lapsed, duplicates are told that the outcome is unknown, until an operator resolves it.
    Report,
}

/// How many fresh keys a caller may use in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaSettings {
    /// So many keys.
    pub keys: u64,
    /// In this time.
    pub per: Duration,
}

/// What holds for the requests of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteSettings {
    /// The methods that keys apply to.
    pub methods: Vec<Method>,
    /// Whether requests need a key.
    pub key: KeyMode,
    /// Who a key belongs to.
    pub caller: Caller,
    /// Whether a key must be a quoted structured-field string.
    pub strict: bool,
    /// How long a duplicate waits for the first one.
    pub wait: Duration,
    /// How long the first one may work undisturbed between renewals.
    pub lease: Duration,
    /// How long a finished request is remembered.
    pub retention: Duration,
    /// How long its response is kept.
    pub body_retention: Duration,
    /// Largest request with a key.
    pub request_bytes_max: u64,
    /// Largest response that is kept.
    pub response_bytes_max: u64,
    /// Whether also 5xx, 429 and 408 are kept and replayed.
    pub store_errors: bool,
    /// Which headers of a response are kept; as the layer has it, if none are named.
    pub replay_headers: Option<Vec<HeaderName>>,
    /// Which headers must be the same in a duplicate.
    pub fingerprint_headers: Vec<HeaderName>,
    /// How many fresh keys a caller may use.
    pub quota: Option<QuotaSettings>,
    /// What becomes of a request whose answer was lost.
    pub on_lost: OnLost,
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            key: KeyMode::Optional,
            caller: Caller::Authorization,
            strict: false,
            wait: Duration::from_secs(2),
            lease: Duration::from_mins(1),
            retention: Duration::from_hours(7 * 24),
            body_retention: Duration::from_hours(24),
            request_bytes_max: 1 << 20,
            response_bytes_max: 64 << 10,
            store_errors: false,
            replay_headers: None,
            fingerprint_headers: vec![header::CONTENT_TYPE],
            quota: None,
            on_lost: OnLost::Retry,
        }
    }
}

impl RouteSettings {
    /// These settings, changed by what a section says.
    pub(crate) fn read(mut self, section: &Section<'_>) -> Self {
        set(&mut self.methods, section.list("methods", value::method));
        set(&mut self.key, section.text("key", key_mode));
        set(&mut self.caller, section.text("caller", value::caller));
        set(&mut self.strict, section.flag("strict"));
        set(&mut self.wait, section.duration("wait", Duration::ZERO, WAIT_MAX));
        set(&mut self.lease, section.duration("lease", LEASE.0, LEASE.1));
        set(&mut self.retention, section.duration("retention", RETENTION.0, RETENTION.1));
        let body_retention = section.duration("body_retention", RETENTION.0, RETENTION.1);
        // A response is kept no longer than its record.
        self.body_retention = body_retention.unwrap_or_else(|| self.body_retention.min(self.retention));
        set(&mut self.request_bytes_max, section.size("request_bytes_max", BODY_BYTES.0, BODY_BYTES.1));
        set(&mut self.response_bytes_max, section.size("response_bytes_max", 0, BODY_BYTES.1));
        set(&mut self.store_errors, section.flag("store_errors"));
        if let Some(headers) = section.list("replay_headers", replayable) {
            self.replay_headers = Some(headers);
        }
        set(&mut self.fingerprint_headers, section.list("fingerprint_headers", value::header));
        if let Some(quota) = section.section("quota") {
            self.quota = read_quota(quota);
        }
        set(&mut self.on_lost, section.text("on_lost", on_lost));
        if self.methods.is_empty() {
            section.wrong("methods", "[]", "at least one method; `key = \"off\"` leaves keys alone");
        }
        if self.body_retention > self.retention {
            let wanted =
                format!("at most the `retention`, which is `{}`", value::duration_text(self.retention));
            section.wrong("body_retention", &value::duration_text(self.body_retention), &wanted);
        }
        self
    }
}

fn read_quota(section: Section<'_>) -> Option<QuotaSettings> {
    let keys = section.number("keys", 1, 1_000_000_000);
    let per = section.duration("per", Duration::from_secs(1), Duration::from_hours(7 * 24));
    let has = |key: &str, wanted: &str, it: bool| {
        // A wrong value was reported where it stands.
        if !it && section.place(key) == section.place("") {
            section.missing(key, wanted);
        }
    };
    has("keys", "a number, such as `10000`", keys.is_some());
    has("per", "a time, such as `1h`", per.is_some());
    section.finish();
    Some(QuotaSettings { keys: keys?, per: per? })
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn key_mode(text: &str) -> Result<KeyMode, Wanted> {
    let all = [("required", KeyMode::Required), ("optional", KeyMode::Optional), ("off", KeyMode::Off)];
    one_of(text, &all)
}

fn on_lost(text: &str) -> Result<OnLost, Wanted> {
    one_of(text, &[("retry", OnLost::Retry), ("report", OnLost::Report)])
}

/// Never replayed, also if somebody asks for it: what belongs to one connection, one client or one moment.
fn replayable(text: &str) -> Result<HeaderName, Wanted> {
    const NEVER: [&str; 10] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "date",
        "content-length",
    ];
    let name = value::header(text)?;
    if NEVER.contains(&name.as_str()) {
        return Err(format!("headers that may be replayed, which {} are not", quoted(&NEVER)));
    }
    Ok(name)
}

/// A route, and which requests it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Which requests it is for.
    pub path: Pattern,
    /// What holds for them.
    pub settings: RouteSettings,
}

/// The routes of the file, each beginning with what holds for all.
pub(crate) fn read_routes(sections: Vec<Section<'_>>, defaults: &RouteSettings) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for section in sections {
        let path = section.text("path", Pattern::parse);
        if path.is_none() && section.place("path") == section.place("") {
            section.missing("path", "a path such as `/payments`, `/orders/{id}` or `/payments/*`");
        }
        if let Some(path) = &path
            && let Some(earlier) = routes.iter().find(|it| it.path.covers(path))
        {
            let wanted = format!(
                "a path that `{}`, which stands before it, does not take already: put this one first",
                earlier.path.as_str()
            );
            section.wrong("path", path.as_str(), &wanted);
        }
        let settings = defaults.clone().read(&section);
        section.finish();
        routes.extend(path.map(|path| Route { path, settings }));
    }
    routes
}
