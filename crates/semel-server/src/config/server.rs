//! What holds for `semel serve` as a whole.

use super::{
    auth::AuthSettings,
    function::{FunctionSettings, read_functions},
    guard,
    proxy::{read_listen_limits, read_listen_times},
    read::Section,
    source::{SourceSettings, read_events, read_sources},
    token::{TokenSettings, host, read_tokens},
    value::{self, Network, Wanted, one_of},
};
use crate::{listen, log::Format, store_url::StoreUrl};
use semel_runtime::{deliver::guard::Policy, engine::IN_FLIGHT_MAX};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

/// Everything that the server is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Where events come in.
    pub listen: SocketAddr,
    /// Where the admin API, health and metrics are asked for, if not there.
    pub admin_listen: Option<SocketAddr>,
    /// Where executions are kept.
    pub store: StoreUrl,
    /// Behind whom many senders stand: they have no limit of connections of their own.
    pub trusted_proxies: Vec<Network>,
    /// What problem types begin with, if not with the pages of the documentation.
    pub problem_base: Option<String>,
    /// How events are written.
    pub log: Format,
    /// Whether it is for development.
    pub is_dev: bool,
    /// How long the calls under way may take when the server is told to stop.
    pub shutdown: Duration,
    /// Before a request's body must have its rate.
    pub body_grace: Duration,
    /// How large and how many things may be.
    pub limits: ServerLimits,
    /// Where functions may be.
    pub guard: Policy,
    /// Whether functions are called through the proxies of the environment.
    pub proxied: bool,
    /// Names that the admin API is asked under, besides addresses.
    pub hosts: Vec<String>,
    /// Who may ask the admin API; on this machine everybody, if nobody is named.
    pub tokens: Vec<TokenSettings>,
    /// What holds for `/events`.
    pub events: SourceSettings,
    /// The functions.
    pub functions: Vec<FunctionSettings>,
    /// The sources.
    pub sources: Vec<SourceSettings>,
}

/// How large and how many things may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Of connections and heads.
    pub listen: listen::Limits,
    /// Largest body of a request, also when it is not compressed any more.
    pub body_bytes_max: u64,
    /// How many bytes a second a body must have.
    pub body_rate_min: u64,
    /// How much of requests is in memory at once.
    pub buffer_bytes_max: u64,
    /// How much of events on their way is in memory at once.
    pub memory_bytes_max: u64,
    /// How much disk the embedded queue may take; all of it, unless this is said.
    pub disk_bytes_max: u64,
    /// How many executions a node holds at once, of all functions together.
    pub in_flight_max: u32,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            admin_listen: None,
            store: StoreUrl::default(),
            trusted_proxies: Vec::new(),
            problem_base: None,
            log: Format::Text,
            is_dev: false,
            shutdown: Duration::from_secs(30),
            body_grace: Duration::from_secs(5),
            limits: ServerLimits::default(),
            hosts: Vec::new(),
            tokens: Vec::new(),
            guard: Policy::public(),
            proxied: false,
            events: SourceSettings::events(),
            functions: Vec::new(),
            sources: Vec::new(),
        }
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            listen: listen::Limits::default(),
            // A full batch of events of 8 KiB each.
            body_bytes_max: 8 << 20,
            body_rate_min: 1 << 10,
            buffer_bytes_max: 128 << 20,
            memory_bytes_max: 128 << 20,
            disk_bytes_max: u64::MAX,
            in_flight_max: IN_FLIGHT_MAX,
        }
    }
}

/// Least disk that the embedded queue can work with, in bytes: its journal is moved on in pieces, and twice that has to fit.
const DISK_BYTES_MIN: u64 = 512 << 20;
/// Most executions that a node can be told to hold at once.
const IN_FLIGHT_MOST: u64 = 100_000;
/// Shortest and longest of all times here.
const TIMES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(24));

impl ServerSettings {
    /// What holds without a file, in development or not.
    pub(crate) fn for_use(is_dev: bool) -> Self {
        Self { is_dev, guard: Policy { allow: Vec::new(), loopback: is_dev }, ..Self::default() }
    }

    /// Whether everybody who reaches this address could send events to `/events`, and nobody asked for that.
    pub(crate) fn lets_everybody_send(&self, at: SocketAddr) -> bool {
        self.events.auth == AuthSettings::Unsaid && !self.is_dev && !at.ip().is_loopback()
    }

    /// Whether everybody who reaches this address could operate the server.
    pub(crate) fn lets_everybody_operate(&self, at: SocketAddr) -> bool {
        self.tokens.is_empty() && !at.ip().is_loopback()
    }

    /// Notes where a file lets everybody do what the server would not start with. What is typed may still make it right.
    pub(super) fn check_exposed(&self, file: &Section<'_>) {
        let Some(section) = file.section("server") else { return };
        let exposed = |key: &str, at: SocketAddr, wanted: &str| {
            section.wrong(key, &at.to_string(), &format!("an address of this machine, or {wanted}"));
        };
        if self.lets_everybody_send(self.listen) {
            let wanted = "who may send events there, below `[events]`: `auth = \"bearer\"` with a `secret`, or \
                          `auth = \"none\"` if everybody may";
            exposed("listen", self.listen, wanted);
        }
        let (key, at) = self.admin_listen.map_or(("listen", self.listen), |it| ("admin_listen", it));
        if self.lets_everybody_operate(at) {
            exposed(
                key,
                at,
                "who may operate the server: `[[token]]` with a `name`, a `role` and a `secret`",
            );
        }
    }

    /// What a file says; functions at this machine are right in development.
    pub(super) fn read(file: &Section<'_>, is_dev: bool) -> Self {
        let mut settings = Self { is_dev, ..Self::default() };
        if let Some(section) = file.section("server") {
            settings = settings.read_server(section);
        }
        settings.tokens = read_tokens(file.sections("token"));
        settings.guard = guard::read(file, is_dev);
        settings.functions = read_functions(file.sections("function"), &settings.guard);
        if let Some(section) = file.section("events") {
            settings.events = read_events(section, &settings.functions, &settings.guard);
        }
        settings.sources = read_sources(file.sections("source"), &settings.functions, &settings.guard);
        settings
    }

    fn read_server(mut self, section: Section<'_>) -> Self {
        self.listen = section.text("listen", value::address).unwrap_or(self.listen);
        self.admin_listen = section.text("admin_listen", value::address);
        self.store = section.text("store", StoreUrl::parse).unwrap_or(self.store);
        self.trusted_proxies = section.list("trusted_proxies", value::network).unwrap_or_default();
        self.hosts = section.list("hosts", host).unwrap_or_default();
        self.proxied = section.text("proxy", proxied).unwrap_or(self.proxied);
        self.problem_base = section.text("problem_base", value::problem_base);
        self.log = section.text("log", Format::parse).unwrap_or(self.log);
        if let Some(section) = section.section("timeouts") {
            self.shutdown = section.duration("shutdown", TIMES.0, TIMES.1).unwrap_or(self.shutdown);
            self.body_grace = section.duration("body_grace", TIMES.0, TIMES.1).unwrap_or(self.body_grace);
            read_listen_times(&mut self.limits.listen, &section);
            section.finish();
        }
        if let Some(section) = section.section("limits") {
            self.limits.read(&section);
            section.finish();
        }
        section.finish();
        self
    }
}

/// Whether the environment's proxies are used.
fn proxied(text: &str) -> Result<bool, Wanted> {
    one_of(text, &[("none", false), ("environment", true)])
}

impl ServerLimits {
    fn read(&mut self, section: &Section<'_>) {
        read_listen_limits(&mut self.listen, section);
        for (field, key, least, most) in [
            (&mut self.body_bytes_max, "body_bytes_max", 1 << 10, 1 << 30),
            (&mut self.body_rate_min, "body_rate_min", 1, 1 << 30),
            (&mut self.buffer_bytes_max, "buffer_bytes_max", 1 << 20, 1 << 40),
            (&mut self.memory_bytes_max, "memory_bytes_max", 1 << 20, 1 << 40),
            (&mut self.disk_bytes_max, "disk_bytes_max", DISK_BYTES_MIN, 1 << 60),
        ] {
            *field = section.size(key, least, most).unwrap_or(*field);
        }
        let in_flight_max = section.number("in_flight_max", 1, IN_FLIGHT_MOST).map(|it| it as u32);
        self.in_flight_max = in_flight_max.unwrap_or(self.in_flight_max);
    }
}
