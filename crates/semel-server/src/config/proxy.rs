//! What holds for the proxy as a whole.

use super::{
    read::Section,
    route::{Route, RouteSettings, read_routes},
    value::{self, Network, UpstreamUrl},
};
use crate::{listen, log::Format, store_url::StoreUrl};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// Everything that the proxy is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxySettings {
    /// Where requests go; must be said, here or on the command line.
    pub upstream: Option<UpstreamUrl>,
    /// Whether the upstream is spoken to in HTTP/2.
    pub upstream_http2: bool,
    /// Which `Host` the upstream sees.
    pub host: HostPolicy,
    /// Where clients come in.
    pub listen: SocketAddr,
    /// Where health and readiness are asked for, if not there.
    pub admin_listen: Option<SocketAddr>,
    /// Where records are kept.
    pub store: StoreUrl,
    /// The file of the keys that responses are sealed with, if they are.
    pub seal_keys: Option<PathBuf>,
    /// Whose `Forwarded` and `X-Forwarded-…` are believed.
    pub trusted_proxies: Vec<Network>,
    /// The name in `Via`; no such header without one.
    pub via: Option<String>,
    /// The first part of every scope.
    pub service: String,
    /// What problem types begin with, if not with the pages of the documentation.
    pub problem_base: Option<String>,
    /// How events are written.
    pub log: Format,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How large and how many things may be.
    pub limits: Limits,
    /// What holds for requests that no route is for.
    pub defaults: RouteSettings,
    /// The routes; the first one that takes a request has it.
    pub routes: Vec<Route>,
}

/// Which `Host` the upstream sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostPolicy {
    /// The client's.
    Preserve,
    /// The upstream's own.
    Upstream,
}

/// How long things may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Until a connection to the upstream is made, TLS included.
    pub connect: Duration,
    /// Until the upstream begins to answer, from when the request was sent.
    pub response: Duration,
    /// Between two pieces of the upstream's answer.
    pub response_idle: Duration,
    /// For how long an unused connection to the upstream is kept.
    pub upstream_idle: Duration,
    /// How long the requests under way may take when the proxy is told to stop.
    pub shutdown: Duration,
    /// Before a request's body must have its rate.
    pub body_grace: Duration,
}

/// How large and how many things may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of connections and heads.
    pub listen: listen::Limits,
    /// Largest body of any request.
    pub body_bytes_max: u64,
    /// How many bytes a second a body must have.
    pub body_rate_min: u64,
    /// How much of requests with keys is in memory at once.
    pub buffer_bytes_max: u64,
}

impl ProxySettings {
    /// Whether the upstream is told as its `Host` which one the client asked for. Of HTTP/2 it sees its own.
    pub(crate) fn tells_host(&self) -> bool {
        self.host == HostPolicy::Preserve && !self.upstream_http2
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            upstream: None,
            upstream_http2: false,
            host: HostPolicy::Preserve,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: None,
            store: StoreUrl::default(),
            seal_keys: None,
            trusted_proxies: Vec::new(),
            via: None,
            service: "http".to_owned(),
            problem_base: None,
            log: Format::Text,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            defaults: RouteSettings::default(),
            routes: Vec::new(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_mins(1),
            response_idle: Duration::from_mins(5),
            // Below the five seconds after which Node, Apache and uvicorn hang up.
            upstream_idle: Duration::from_secs(4),
            shutdown: Duration::from_secs(30),
            body_grace: Duration::from_secs(5),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            listen: listen::Limits::default(),
            body_bytes_max: 1 << 30,
            body_rate_min: 1 << 10,
            buffer_bytes_max: 256 << 20,
        }
    }
}

/// Shortest and longest of all times here, unless said otherwise.
const TIMES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(24));

impl ProxySettings {
    /// What a file says.
    pub(super) fn read(file: &Section<'_>) -> Self {
        let mut settings = Self::default();
        if let Some(section) = file.section("proxy") {
            settings = settings.read_proxy(section);
        }
        if let Some(section) = file.section("defaults") {
            settings.defaults = settings.defaults.read(&section);
            section.finish();
        }
        settings.routes = read_routes(file.sections("route"), &settings.defaults);
        settings
    }

    fn read_proxy(mut self, section: Section<'_>) -> Self {
        self.upstream = section.text("upstream", value::upstream);
        self.upstream_http2 = section.flag("upstream_http2").unwrap_or(self.upstream_http2);
        self.host = section.text("host", host_policy).unwrap_or(self.host);
        self.listen = section.text("listen", value::address).unwrap_or(self.listen);
        self.admin_listen = section.text("admin_listen", value::address);
        self.store = section.text("store", StoreUrl::parse).unwrap_or(self.store);
        self.seal_keys = section.text("seal_keys", file);
        self.trusted_proxies = section.list("trusted_proxies", value::network).unwrap_or_default();
        self.via = section.text("via", value::token);
        self.service = section.text("service", value::token).unwrap_or(self.service);
        self.problem_base = section.text("problem_base", value::problem_base);
        self.log = section.text("log", Format::parse).unwrap_or(self.log);
        if let Some(section) = section.section("timeouts") {
            self.timeouts.read(&section);
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

fn file(text: &str) -> Result<PathBuf, value::Wanted> {
    if text.is_empty() || text.contains('\0') {
        return Err("a file, such as `./seal-keys`".to_owned());
    }
    Ok(text.into())
}

fn host_policy(text: &str) -> Result<HostPolicy, value::Wanted> {
    match text {
        "preserve" => Ok(HostPolicy::Preserve),
        "upstream" => Ok(HostPolicy::Upstream),
        _ => Err("`preserve` or `upstream`".to_owned()),
    }
}

impl Timeouts {
    fn read(&mut self, section: &Section<'_>) {
        for (field, key) in [
            (&mut self.connect, "connect"),
            (&mut self.response, "response"),
            (&mut self.response_idle, "response_idle"),
            (&mut self.upstream_idle, "upstream_idle"),
            (&mut self.shutdown, "shutdown"),
            (&mut self.body_grace, "body_grace"),
        ] {
            *field = section.duration(key, TIMES.0, TIMES.1).unwrap_or(*field);
        }
    }
}

pub(super) fn read_listen_times(limits: &mut listen::Limits, section: &Section<'_>) {
    for (field, key) in [
        (&mut limits.first_byte, "first_byte"),
        (&mut limits.head, "head"),
        (&mut limits.idle, "idle"),
        (&mut limits.write, "write"),
    ] {
        *field = section.duration(key, TIMES.0, TIMES.1).unwrap_or(*field);
    }
}

/// How many connections and how large heads may be.
pub(super) fn read_listen_limits(listen: &mut listen::Limits, section: &Section<'_>) {
    for (field, key, least, most) in [
        (&mut listen.connections_max, "connections_max", 1, 1_000_000),
        (&mut listen.connections_per_ip_max, "connections_per_ip_max", 1, 1_000_000),
        (&mut listen.headers_max, "headers_max", 1, listen::HEADERS_MAX as u64),
        (&mut listen.streams_max, "streams_max", 1, 10_000),
    ] {
        *field = section.number(key, least, most).map_or(*field, |it| it as usize);
    }
    for (field, key, least, most) in [
        (&mut listen.head_bytes_max, "head_bytes_max", 256, 1 << 20),
        (&mut listen.uri_bytes_max, "uri_bytes_max", 16, 60 << 10),
    ] {
        *field = section.size(key, least, most).map_or(*field, |it| it as usize);
    }
}

impl Limits {
    fn read(&mut self, section: &Section<'_>) {
        read_listen_limits(&mut self.listen, section);
        for (field, key, least, most) in [
            (&mut self.body_bytes_max, "body_bytes_max", 0, 1 << 50),
            (&mut self.body_rate_min, "body_rate_min", 1, 1 << 30),
            (&mut self.buffer_bytes_max, "buffer_bytes_max", 1 << 10, 1 << 40),
        ] {
            *field = section.size(key, least, most).unwrap_or(*field);
        }
    }
}
