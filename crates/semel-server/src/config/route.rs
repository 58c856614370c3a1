//! What holds for the requests of a route.

use super::{
    read::Section,
    value::{self, Caller, Wanted, one_of},
};
use crate::proxy::pattern::Pattern;
use http::{HeaderName, Method, header};
use semel::http::{Quota, RESPONSE_WAIT_MAX, is_replayable};
use std::time::Duration;

/// Shortest and longest lease: shorter ones lapse while a store answers, longer ones block a key for hours.
const LEASE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));
/// Shortest and longest retention of a record and of its response.
const RETENTION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(366 * 24));
/// Longest time that a duplicate waits.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// Shortest and longest time from an answer's head to its end: a shorter one keeps nothing, a longer one lets the client wait.
const RESPONSE_WAIT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_mins(5));
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

/// How many keys of a caller are remembered, unless the file says otherwise: what one that sends a request with a key every 600 ms
/// has after the week for which they are. Who has more is a program that sweeps through keys, or a backend that speaks for many:
/// for the second, its operator raises it or switches it off.
pub const QUOTA_KEYS: u64 = 1_000_000;

/// How many keys of a caller are remembered, or how many fresh ones it may use in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaSettings {
    /// Nothing was said: [`QUOTA_KEYS`] that are remembered, where something tells callers apart.
    Usual,
    /// Any number.
    Off,
    /// So many that are remembered.
    Live {
        /// So many keys.
        keys: u64,
    },
    /// So many fresh ones in a time.
    Within {
        /// So many keys.
        keys: u64,
        /// In this time.
        per: Duration,
    },
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
    /// Whether a key is one of the host that it was sent to, if that was said; else it is if the upstream is told the host.
    pub per_host: Option<bool>,
    /// Whether a key must be a quoted structured-field string.
    pub strict: bool,
    /// How long a duplicate waits for the first one.
    pub wait: Duration,
    /// How long the first one may work undisturbed between renewals.
    pub lease: Duration,
    /// How long a finished request is remembered.
    pub retention: Duration,
    /// How long its response is kept: as long as the request is remembered, if only that is said.
    pub body_retention: Duration,
    /// Whether that was said, here or for all routes.
    is_body_retention_said: bool,
    /// Largest request with a key.
    pub request_bytes_max: u64,
    /// Largest response that is kept.
    pub response_bytes_max: u64,
    /// How long a response that is kept may take from its head to its end.
    pub response_wait: Duration,
    /// Whether also 5xx, 429 and 408 are kept and replayed.
    pub store_errors: bool,
    /// Which headers of a response are kept; as the layer has it, if none are named.
    pub replay_headers: Option<Vec<HeaderName>>,
    /// Which headers must be the same in a duplicate.
    pub fingerprint_headers: Vec<HeaderName>,
    /// How many keys of a caller are remembered.
    pub quota: QuotaSettings,
    /// What becomes of a request whose answer was lost.
    pub on_lost: OnLost,
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            key: KeyMode::Optional,
            caller: Caller::Authorization,
            per_host: None,
            strict: false,
            wait: Duration::from_secs(2),
            lease: Duration::from_mins(1),
            retention: Duration::from_hours(7 * 24),
            body_retention: Duration::from_hours(24),
            is_body_retention_said: false,
            request_bytes_max: 1 << 20,
            response_bytes_max: 64 << 10,
            response_wait: RESPONSE_WAIT_MAX,
            store_errors: false,
            replay_headers: None,
            fingerprint_headers: vec![header::CONTENT_TYPE],
            quota: QuotaSettings::Usual,
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
        self.per_host = section.flag("per_host").or(self.per_host);
        set(&mut self.strict, section.flag("strict"));
        set(&mut self.wait, section.duration("wait", Duration::ZERO, WAIT_MAX));
        set(&mut self.lease, section.duration("lease", LEASE.0, LEASE.1));
        let retention = section.duration("retention", RETENTION.0, RETENTION.1);
        let body_retention = section.duration("body_retention", RETENTION.0, RETENTION.1);
        self.retain(retention, body_retention);
        set(&mut self.request_bytes_max, section.size("request_bytes_max", BODY_BYTES.0, BODY_BYTES.1));
        set(&mut self.response_bytes_max, section.size("response_bytes_max", 0, BODY_BYTES.1));
        set(&mut self.response_wait, section.duration("response_wait", RESPONSE_WAIT.0, RESPONSE_WAIT.1));
        set(&mut self.store_errors, section.flag("store_errors"));
        if let Some(headers) = section.list("replay_headers", replayable) {
            self.replay_headers = Some(headers);
        }
        set(&mut self.fingerprint_headers, section.list("fingerprint_headers", value::header));
        if section.is_table("quota") {
            set(&mut self.quota, section.section("quota").and_then(read_quota));
        } else {
            set(&mut self.quota, section.text("quota", quota_off));
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

    /// The quota that holds, as the library has it: not that of each caller where nothing tells callers apart, unless it was said.
    pub(crate) fn quota_in_force(&self) -> Option<Quota> {
        match self.quota {
            QuotaSettings::Usual => (self.caller != Caller::Anyone).then_some(Quota::live(QUOTA_KEYS)),
            QuotaSettings::Off => None,
            QuotaSettings::Live { keys } => Some(Quota::live(keys)),
            QuotaSettings::Within { keys, per } => Some(Quota::within(keys, per)),
        }
    }

    /// As the library has it: a response is kept for as long as its record if only that is said, and never for longer.
    fn retain(&mut self, retention: Option<Duration>, body_retention: Option<Duration>) {
        set(&mut self.retention, retention);
        self.is_body_retention_said |= body_retention.is_some();
        self.body_retention = match body_retention {
            // One that is longer than its record's is a mistake, and reported where it stands.
            Some(said) => said,
            None if retention.is_some() && !self.is_body_retention_said => self.retention,
            None => self.body_retention.min(self.retention),
        };
    }
}

fn read_quota(section: Section<'_>) -> Option<QuotaSettings> {
    let keys = section.number("keys", 1, 1_000_000_000);
    let per = section.duration("per", Duration::from_secs(1), Duration::from_hours(7 * 24));
    // A wrong value was reported where it stands.
    if keys.is_none() && !section.has("keys") {
        section.missing("keys", "a number, such as `10000`");
    }
    section.finish();
    Some(match (keys?, per) {
        (keys, Some(per)) => QuotaSettings::Within { keys, per },
        (keys, None) => QuotaSettings::Live { keys },
    })
}

fn quota_off(text: &str) -> Result<QuotaSettings, Wanted> {
    let wanted = "`{ keys = 10000 }` of those that are remembered, `{ keys = 10000, per = \"1h\" }` of fresh ones, or `off`";
    if text == "off" { Ok(QuotaSettings::Off) } else { Err(wanted.to_owned()) }
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

/// What the layer would leave out of the list is a mistake here.
fn replayable(text: &str) -> Result<HeaderName, Wanted> {
    let never = "a header that may be replayed: what belongs to one connection, to one client (as `set-cookie`) or to one moment \
                 (as `date`) never is, nor what the proxy says itself";
    value::header(text).and_then(|it| if is_replayable(&it) { Ok(it) } else { Err(never.to_owned()) })
}

/// A route, and which requests it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Which requests it is for.
    pub path: Pattern,
    /// What holds for them.
    pub settings: RouteSettings,
    /// Whether its quota is not that of all routes, and counted on its own.
    pub has_own_quota: bool,
}

/// What is wanted instead of a path that an earlier one covers.
fn instead_of(path: &Pattern, earlier: &Pattern) -> Wanted {
    let text = earlier.as_str();
    if path.covers(earlier) {
        // Whichever stood first, the other one would never have a request.
        return format!(
            "a path that stands once: `{text}`, which stands before it, takes the same requests; make one route of both"
        );
    }
    format!("a path that `{text}`, which stands before it, does not take already: put this one first")
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
            section.wrong("path", path.as_str(), &instead_of(path, &earlier.path));
        }
        let settings = defaults.clone().read(&section);
        let has_own_quota = section.has("quota");
        section.finish();
        routes.extend(path.map(|path| Route { path, settings, has_own_quota }));
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// How long a response is kept on a route, in days, when this was said for all, and this for it.
    #[track_caller]
    fn check(all: [Option<u32>; 2], route: [Option<u32>; 2], expected: u32) {
        let mut settings = RouteSettings::default();
        for [retention, body_retention] in [all, route] {
            settings.retain(retention.map(|it| DAY * it), body_retention.map(|it| DAY * it));
        }
        assert_eq!(settings.body_retention, DAY * expected, "{all:?} {route:?}");
    }

    #[test]
    fn all_callers_together_have_no_quota_unless_it_was_said() {
        let of = |caller, quota| RouteSettings { caller, quota, ..RouteSettings::default() }.quota_in_force();
        assert_eq!(of(Caller::Anyone, QuotaSettings::Usual), None);
        assert_eq!(of(Caller::Anyone, QuotaSettings::Live { keys: 7 }), Some(Quota::live(7)));
        assert_eq!(of(Caller::Authorization, QuotaSettings::Usual), Some(Quota::live(QUOTA_KEYS)));
        assert_eq!(of(Caller::Authorization, QuotaSettings::Off), None);
    }

    #[test]
    fn a_response_is_kept_for_as_long_as_its_record_unless_something_else_is_said() {
        check([None, None], [None, None], 1);
        check([Some(30), None], [None, None], 30);
        check([None, None], [Some(30), None], 30);
        check([Some(30), None], [Some(3), None], 3);
        check([Some(30), Some(2)], [None, None], 2);
        check([Some(30), Some(2)], [Some(90), None], 2);
        check([Some(30), Some(7)], [Some(3), None], 3);
        check([Some(30), None], [None, Some(5)], 5);
    }
}
