//! Resolving a doubt: `POST /.semel/resolve`, for operators.
//!
//! 1. It is answered on the address of its own (`--admin-listen`) and nowhere else, and only to programs on this machine that
//!    name it by an address or `localhost`: a name that somebody has pointed here, and a browser's page, are refused. So is
//!    what does not say that it is JSON, which no form can.
//! 2. A request is named as its client sent it (method, host, path, caller, key), or by the `record` that the log has of it.
//! 3. The library decides and writes: only what is in doubt is resolved, by the fence that was seen, and with who said it
//!    and why in the log.
//!
//! It does not find out what happened: somebody does.

use super::{exchange::is_host, forward::Answer, gateway::Inside, pattern::canonical};
use crate::{hex, listen::Connection, problem::harden};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use semel::{
    ErrorKind, Key, Resolution,
    http::{Body, IDEMPOTENCY_KEY, Problem, ProblemBase},
};
use semel_core::key::Identity;
use serde::Deserialize;
use std::{
    collections::VecDeque,
    net::{Ipv4Addr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tracing::{error, info};

/// Where doubts are resolved.
pub(super) const PATH: &str = "/.semel/resolve";
/// Most doubts that can be named by their record: the latest.
pub const DOUBTS_MAX: usize = 1_024;
/// Largest request.
const ASKED_BYTES_MAX: usize = 16 * 1024;
/// How long one may take to come.
const ASKED_MAX: Duration = Duration::from_secs(5);
/// Longest name of who says it, and longest reason.
const BY_BYTES_MAX: usize = 256;
const WHY_BYTES_MAX: usize = 4 * 1024;

/// Requests whose outcome is unknown, as far as this process has told so.
#[derive(Default)]
pub(super) struct Doubts(Mutex<VecDeque<Key>>);

impl Doubts {
    /// A client was told so.
    pub(super) fn told(&self, key: Key, route: Option<&str>) {
        error!(
            record = record(key.identity()),
            route,
            "the outcome of a request is unknown: find out, then resolve it on the address of `--admin-listen`"
        );
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.contains(&key) {
            return;
        }
        if keys.len() == DOUBTS_MAX {
            keys.pop_front();
        }
        keys.push_back(key);
    }

    fn find(&self, record: &str) -> Option<Key> {
        let identity = hex::read(record)?;
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().find(|it| it.identity().as_bytes()[..] == identity[..]).cloned()
    }

    fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it != key);
    }
}

/// As the log calls the record of a request: of its key and its caller it tells nothing.
pub(super) fn record(identity: &Identity) -> String {
    hex::write(identity.as_bytes())
}

/// What an operator says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    record: Option<String>,
    method: Option<String>,
    host: Option<String>,
    path: Option<String>,
    caller: Option<String>,
    key: Option<String>,
    happened: bool,
    by: String,
    why: String,
}

/// Why nothing was resolved: a problem, and what more there is to say about it.
struct Refused(Problem, Option<String>);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem, None)
    }
}

fn wrong(detail: impl Into<String>) -> Refused {
    Refused(Problem::BAD_REQUEST, Some(detail.into()))
}

impl Inside {
    /// Resolves what is named, if it is in doubt.
    pub(super) async fn resolve(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Response<Answer> {
        match self.resolved(request, connection).await {
            Ok(body) => json(StatusCode::OK, "application/json", body),
            Err(Refused(problem, None)) => problem.response(&self.problems),
            Err(Refused(problem, Some(detail))) => {
                let body = detailed(&problem, &detail, &self.problems);
                json(problem.status(), "application/problem+json", body)
            }
        }
    }

    async fn resolved(&self, request: Request<Incoming>, connection: &Connection) -> Result<String, Refused> {
        let is_local = connection.peer().ip().to_canonical().is_loopback();
        if !(is_local && is_called_directly(request.uri(), request.headers())) {
            return Err(Problem::OPERATOR_ONLY.into());
        }
        if request.method() != Method::POST {
            return Err(Problem::NOT_FOUND.into());
        }
        if !is_json(request.headers()) {
            return Err(Problem::MEDIA_TYPE.into());
        }
        let reading = Limited::new(request.into_body(), ASKED_BYTES_MAX).collect();
        let read = tokio::time::timeout(ASKED_MAX, reading).await.map_err(|_| Problem::REQUEST_TIMEOUT)?;
        let body = read.map_err(|error| {
            let is_too_large = error.is::<LengthLimitError>();
            if is_too_large { Problem::REQUEST_TOO_LARGE } else { Problem::REQUEST_INCOMPLETE }
        })?;
        let body = body.to_bytes();
        let said: Said = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
        for (name, text, most) in [("by", &said.by, BY_BYTES_MAX), ("why", &said.why, WHY_BYTES_MAX)] {
            if text.trim().is_empty() || text.len() > most {
                return Err(wrong(format!("`{name}` must be a text of 1 to {most} bytes")));
            }
        }
        let key = self.named(&said)?;
        let resolution = if said.happened { Resolution::happened() } else { Resolution::did_not_happen() };
        let receipt = self.health.once.resolve(&key, resolution, &said.by, &said.why).await;
        let receipt = receipt.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Problem::NO_RECORD,
            ErrorKind::Refused => Problem::NOT_IN_DOUBT,
            ErrorKind::Store | ErrorKind::Contended => Problem::STORE,
            _ => Problem::INTERNAL,
        })?;
        self.doubts.forget(&key);
        let (record, Said { happened, by, why, .. }) = (record(key.identity()), said);
        info!(record, happened, by, why, "a request of unknown outcome was resolved");
        let status = receipt.after.map(|it| it.to_string());
        let told = serde_json::json!({"record": record, "happened": happened, "status": status, "by": by, "why": why});
        Ok(format!("{told}\n"))
    }

    /// The record that is meant.
    fn named(&self, said: &Said) -> Result<Key, Refused> {
        let Said { record, method, host, path, caller, key, .. } = said;
        match (record, method, path, key) {
            (Some(record), None, None, None) if caller.is_none() && host.is_none() => {
                self.doubts.find(record).ok_or_else(|| Problem::NO_RECORD.into())
            }
            (None, Some(method), Some(path), Some(key)) => {
                self.named_as_sent(method, host.as_deref(), path, caller.as_deref(), key)
            }
            _ => Err(wrong(
                "name the request by `method`, `host`, `path`, `caller` and `key`, or by `record` alone",
            )),
        }
    }

    /// The record of a request that was sent so.
    fn named_as_sent(
        &self,
        method: &str,
        host: Option<&str>,
        path: &str,
        caller: Option<&str>,
        key: &str,
    ) -> Result<Key, Refused> {
        let uri: Uri = path.parse().map_err(|_| wrong("`path` is no path"))?;
        let route = self.routes.find(&canonical(uri.path()));
        let (Some(layer), caller_header) = (route.layer(), route.caller_header()) else {
            return Err(wrong("keys are off for this path"));
        };
        let mut request = Request::builder().method(method).uri(uri).version(Version::HTTP_11);
        request = request.header(IDEMPOTENCY_KEY, quoted(key));
        match (caller_header, caller) {
            (Some(name), Some(caller)) => request = request.header(name, caller),
            (None, None) => {}
            (Some(name), None) => return Err(wrong(format!("`caller` is missing: the value of `{name}`"))),
            (None, Some(_)) => return Err(wrong("all callers share their keys here: leave `caller` out")),
        }
        match (route.is_per_host(), host) {
            (true, Some(host)) if is_host(host.as_bytes()) => request = request.header(HOST, host),
            (true, Some(_)) => return Err(wrong("`host` is no host")),
            (true, None) => return Err(wrong("`host` is missing: the one that the client asked for")),
            (false, None) => {}
            (false, Some(_)) => return Err(wrong("all hosts share their keys here: leave `host` out")),
        }
        let unsendable = |_| wrong("`method`, `caller` or `key` cannot be sent in HTTP");
        let (parts, ()) = request.body(()).map_err(unsendable)?.into_parts();
        match layer.key_of(&parts) {
            Ok(Some(key)) => Ok(key),
            Ok(None) => Err(wrong("keys do not apply to this method here")),
            Err(problem) => Err(problem.into()),
        }
    }
}

/// A key as the header has it; it may be written without its quotes.
fn quoted(key: &str) -> String {
    if key.starts_with('"') {
        return key.to_owned();
    }
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether no name was pointed here, and no browser sends this for a page.
fn is_called_directly(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).map(HeaderValue::to_str).transpose();
    let Ok(named) = host else { return false };
    let host = named.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let is_v6 = |it: &str| it.parse::<Ipv6Addr>().is_ok();
    let is_address = name.parse::<Ipv4Addr>().is_ok()
        || name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).is_some_and(is_v6);
    let is_page = headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site");
    (is_address || name.eq_ignore_ascii_case("localhost")) && !is_page
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else { return false };
    let essence = one.as_bytes().split(|it| *it == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

fn json(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    harden(response.headers_mut());
    response
}

/// A problem that says what exactly is wrong: to an operator, who sent it.
fn detailed(problem: &Problem, detail: &str, base: &ProblemBase) -> String {
    let (address, title, status) = (base.address(problem), problem.title(), problem.status().as_u16());
    serde_json::json!({"type": address, "title": title, "status": status, "detail": detail}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_direct(lines: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        is_called_directly(&Uri::from_static(PATH), &headers)
    }

    #[test]
    fn only_who_calls_by_an_address_and_is_no_page_is_heard() {
        for host in ["127.0.0.1:8081", "127.0.0.1", "[::1]:8081", "localhost", "LOCALHOST:1", "10.0.0.7"] {
            assert!(is_direct(&[("host", host)]), "{host}");
            assert!(!is_direct(&[("host", host), ("origin", "http://127.0.0.1:8081")]), "{host}");
            assert!(!is_direct(&[("host", host), ("sec-fetch-site", "cross-site")]), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost:a"]
        {
            assert!(!is_direct(&[("host", host)]), "{host}");
        }
        assert!(!is_direct(&[]));
    }

    #[test]
    fn a_key_may_be_written_with_its_quotes_or_without() {
        for (key, expected) in [("k", "\"k\""), ("\"k\"", "\"k\""), ("a\\b\"c", "\"a\\\\b\\\"c\"")] {
            assert_eq!(quoted(key), expected);
        }
    }

    #[test]
    fn only_the_latest_doubts_are_remembered() {
        let doubts = Doubts::default();
        let key = |n: usize| Key::new("pay", n as u64).unwrap();
        for n in 0..=DOUBTS_MAX {
            doubts.told(key(n), None);
            doubts.told(key(n), None);
        }
        assert_eq!(doubts.0.lock().unwrap().len(), DOUBTS_MAX);
        assert_eq!(doubts.find(&record(key(0).identity())), None);
        assert_eq!(doubts.find(&record(key(1).identity())), Some(key(1)));
        doubts.forget(&key(1));
        assert_eq!(doubts.find(&record(key(1).identity())), None);
        assert_eq!(doubts.find("no digits"), None);
    }
}
