//! What is known of a request while it is under way: shared by those who read it, forward it and log it.

use crate::listen::{Connection, Peer};
use http::{HeaderMap, Uri, Version, header::HOST, uri::Authority};
use semel::http::Problem;
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// One request and its answer; in the request's extensions.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) peer: Peer,
    pub(super) connection: Connection,
    /// The host that the client asked for.
    pub(super) host: Option<Authority>,
    pub(super) is_http2: bool,
    /// How much of the request's body was read.
    received: AtomicU64,
    /// Why the body was refused, if it was.
    refused: OnceLock<Problem>,
}

impl Exchange {
    pub(super) fn new(peer: Peer, connection: Connection, host: Option<Authority>, version: Version) -> Self {
        let is_http2 = version == Version::HTTP_2;
        Self { peer, connection, host, is_http2, received: AtomicU64::new(0), refused: OnceLock::new() }
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
pub(super) fn host(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<Option<Authority>, NoHost> {
    let mut hosts = headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(NoHost);
    }
    let named = first.map(|it| Authority::try_from(it.as_bytes()).map_err(|_| NoHost)).transpose()?;
    let found = uri.authority().cloned().or(named);
    match found {
        // Nobody may be asked for in somebody's name.
        Some(authority) if authority.as_str().contains('@') => Err(NoHost),
        None if version == Version::HTTP_11 => Err(NoHost),
        found => Ok(found),
    }
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
        assert_eq!(
            found.as_ref().map(|it| it.as_ref().map(Authority::as_str)),
            expected.as_ref().copied(),
            "{uri} {hosts:?}"
        );
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
    }
}
