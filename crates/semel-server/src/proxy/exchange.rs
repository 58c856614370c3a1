//! What is known of a request while it is under way: shared by those who read it, forward it and log it.

use crate::listen::Connection;
use http::{HeaderMap, HeaderValue, Uri, Version, header::HOST, uri::Authority};
use semel::http::Problem;
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) connection: Connection,
    /// The host that the client asked for, as its header has it.
    pub(super) host: Option<HeaderValue>,
    pub(super) is_http2: bool,
    /// How much of the request's body was read.
    received: AtomicU64,
    /// Why the body was refused, if it was.
    refused: OnceLock<Problem>,
}

impl Exchange {
    pub(super) fn new(connection: Connection, host: Option<HeaderValue>, version: Version) -> Self {
        let is_http2 = version == Version::HTTP_2;
        Self { connection, host, is_http2, received: AtomicU64::new(0), refused: OnceLock::new() }
    }

    /// So much of the request's body was read so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn receive(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Why the body was refused.
    pub(super) fn refused(&self) -> Option<Problem> {
        self.refused.get().copied()
    }

    pub(super) fn refuse(&self, problem: Problem) {
        // The first reason is the reason.
        let _ = self.refused.set(problem);
    }
}

/// A request whose host cannot be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoHost;

/// The host that a request is for: what its target names, else its one `Host`. HTTP/1.0 needs none.
pub(super) fn host(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<Option<HeaderValue>, NoHost> {
    let mut hosts = headers.get_all(HOST).iter();
    let (named, second) = (hosts.next(), hosts.next());
    if second.is_some() || !named.is_none_or(|it| is_host(it.as_bytes())) {
        return Err(NoHost);
    }
    match (uri.authority(), named) {
        (Some(authority), _) if is_host(authority.as_str().as_bytes()) => {
            HeaderValue::from_str(authority.as_str()).map(Some).map_err(|_| NoHost)
        }
        (Some(_), _) => Err(NoHost),
        (None, Some(named)) => Ok(Some(named.clone())),
        (None, None) if version == Version::HTTP_11 => Err(NoHost),
        (None, None) => Ok(None),
    }
}

/// A host as one name has it: in small letters, and without a port that is the usual one.
pub(super) fn plain_host(host: &HeaderValue) -> String {
    let mut text = String::from_utf8_lossy(host.as_bytes()).into_owned();
    text.make_ascii_lowercase();
    for usual in [":80", ":443", ":"] {
        if let Some(name) = text.strip_suffix(usual) {
            text.truncate(name.len());
            break;
        }
    }
    text
}

/// Whether this names a host, with or without a port, and nobody who asks.
pub(super) fn is_host(text: &[u8]) -> bool {
    // What nearly all of them are, told without a copy.
    let is_plain = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-');
    let (host, port) = text.split_at(text.iter().position(|it| *it == b':').unwrap_or(text.len()));
    let is_common =
        !host.is_empty() && host.iter().all(is_plain) && port.iter().skip(1).all(u8::is_ascii_digit);
    let is_rare = || Authority::try_from(text).is_ok_and(|it| !it.host().is_empty());
    is_common || (!text.contains(&b'@') && !text.contains(&b'"') && is_rare())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(uri: &str, hosts: &[&'static str], version: Version, expected: Result<Option<&str>, NoHost>) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        let found = host(&uri.parse().unwrap(), &headers, version);
        let found = found.map(|it| it.map(|it| it.to_str().unwrap().to_owned()));
        assert_eq!(found, expected.map(|it| it.map(str::to_owned)), "{uri} {hosts:?}");
    }

    #[test]
    fn a_request_is_for_one_host() {
        check("/", &["a"], Version::HTTP_11, Ok(Some("a")));
        check("/", &["a:80"], Version::HTTP_11, Ok(Some("a:80")));
        check("http://b/", &["a"], Version::HTTP_11, Ok(Some("b")));
        check("http://b/", &[], Version::HTTP_2, Ok(Some("b")));
        check("/", &[], Version::HTTP_10, Ok(None));
        check("/", &[], Version::HTTP_11, Err(NoHost));
        check("/", &["a", "b"], Version::HTTP_11, Err(NoHost));
        check("/", &["a", "a"], Version::HTTP_11, Err(NoHost));
        check("/", &[""], Version::HTTP_11, Err(NoHost));
        check("/", &["a b"], Version::HTTP_11, Err(NoHost));
        check("/", &["u@a"], Version::HTTP_11, Err(NoHost));
        check("/", &["a/b"], Version::HTTP_11, Err(NoHost));
        check("/", &[":80"], Version::HTTP_11, Err(NoHost));
        check("/", &[""], Version::HTTP_11, Err(NoHost));
        check("/", &["a:80:80"], Version::HTTP_11, Err(NoHost));
        check("/", &["a\"b"], Version::HTTP_11, Err(NoHost));
        check("/", &["a_b:80"], Version::HTTP_11, Ok(Some("a_b:80")));
        check("/", &["[::1]:80"], Version::HTTP_11, Ok(Some("[::1]:80")));
        check("http://u@b/", &["a"], Version::HTTP_11, Err(NoHost));
    }

    #[test]
    fn a_host_is_one_however_it_is_written() {
        for (written, expected) in [
            ("a.shop", "a.shop"),
            ("A.Shop:80", "a.shop"),
            ("a.shop:443", "a.shop"),
            ("a.shop:", "a.shop"),
            ("a.shop:8080", "a.shop:8080"),
            ("a.shop:180", "a.shop:180"),
            ("[::1]", "[::1]"),
            ("[::80]", "[::80]"),
            ("[::1]:80", "[::1]"),
        ] {
            assert_eq!(plain_host(&HeaderValue::from_static(written)), expected, "{written}");
        }
    }
}
