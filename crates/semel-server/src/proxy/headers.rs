//! Which headers go on, in both directions.
//!
//! 1. Headers that belong to one connection are taken off: the known ones, and those that `Connection` names. Of `TE`,
//!    `trailers` goes on, because trailers do; over HTTP/1.1 `Connection` names it then.
//! 2. An upgrade to a WebSocket keeps its two headers. No other is passed on: one to HTTP/2 (`h2c`) would let requests
//!    past this proxy.
//! 3. `Forwarded` and `X-Forwarded-For/-Proto/-Host` say whom the proxy was called by. What the client says of itself
//!    there, in any other `X-Forwarded-…` and in `X-Real-IP` is believed only if it is a proxy that the operator trusts;
//!    then the proxy adds itself to it. Else all of that is taken off. With `_` for `-` it is taken off whoever says it:
//!    services that get headers as variables (CGI, WSGI) would take `X_Forwarded_For` for `X-Forwarded-For`.
//! 4. Several `Cookie` headers, which HTTP/2 allows, become one.
//! 5. An answer says in one way where it ends: by one length, or by chunks and nothing else. Else two programs could read
//!    different answers in it.
//!
//! Nothing here reads or writes a byte.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE},
};
use semel::http::IDEMPOTENCY_REPLAYED;
use semel_core::sabotage;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const FORWARDED: HeaderName = header::FORWARDED;
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What is spoken before the proxy.
const PROTO: HeaderValue = HeaderValue::from_static("http");

/// What belongs to one connection, whether `Connection` names it or not.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    HTTP2_SETTINGS,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

/// Takes off what only Semel may say. Where there is a layer, it does so itself.
pub(super) fn strip_own(headers: &mut HeaderMap) {
    let own = IDEMPOTENCY_REPLAYED;
    strip(headers, |it| begins(it, "semel-") || (it.len() == own.as_str().len() && begins(it, own.as_str())));
}

/// Takes off what has such a name.
fn strip(headers: &mut HeaderMap, is_such: impl Fn(&str) -> bool) {
    if !headers.keys().any(|it| is_such(it.as_str())) {
        return;
    }
    let such: Vec<HeaderName> = headers.keys().filter(|it| is_such(it.as_str())).cloned().collect();
    for name in such {
        headers.remove(name);
    }
}

/// Whether a name begins like this for those who take `_` for `-`.
fn begins(name: &str, like: &str) -> bool {
    let is_exact = sabotage::is_on("proxy_passes_underscores");
    let is_same = |(it, like): (u8, u8)| it == like || (it == b'_' && like == b'-' && !is_exact);
    name.len() >= like.len() && name.bytes().zip(like.bytes()).all(is_same)
}

/// Takes off what belongs to one connection.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    // Most have none, which is found out faster than each of them is looked for.
    if !headers.keys().any(|it| HOP_BY_HOP.contains(it)) {
        return;
    }
    let takes_trailers = tokens(headers, &TE).any(|it| it.eq_ignore_ascii_case("trailers"));
    if headers.contains_key(CONNECTION) && !sabotage::is_on("proxy_forwards_connection_headers") {
        let named: Vec<HeaderName> = tokens(headers, &CONNECTION).filter_map(|it| it.parse().ok()).collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Whether the head of an answer says in more than one way where its body ends, or in one that is not known here.
pub(super) fn is_ambiguous(headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (None, None) => false,
        (Some(length), None) => lengths.next().is_some() || !is_number(length),
        (None, Some(coding)) => {
            codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        }
        (Some(_), Some(_)) => true,
    }
}

fn is_number(value: &HeaderValue) -> bool {
    !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit)
}

/// Whether this asks for an upgrade to a WebSocket, or agrees to one.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let is_only = match (protocols.next(), protocols.next()) {
        (Some(protocol), None) => protocol.as_bytes().eq_ignore_ascii_case(b"websocket"),
        (Some(_) | None, _) => false,
    };
    is_only && tokens(headers, &CONNECTION).any(|it| it.eq_ignore_ascii_case("upgrade"))
}

/// Says that `TE` is for the next hop alone, as HTTP/1.1 wants it.
pub(super) fn name_te(headers: &mut HeaderMap) {
    if headers.contains_key(TE) {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Asks for an upgrade to a WebSocket, or agrees to one.
pub(super) fn set_websocket(headers: &mut HeaderMap) {
    // Which has no trailers.
    headers.remove(TE);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// The elements of a list, over all its headers.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|it| it.split(',')).map(str::trim).filter(|it| !it.is_empty())
}

/// Whom the proxy was called by.
#[derive(Clone, Copy, Debug)]
pub(super) struct CalledBy<'a> {
    /// Its address.
    pub(super) peer: &'a HeaderValue,
    pub(super) host: Option<&'a HeaderValue>,
    /// Whether what it says of those before it is believed.
    pub(super) is_trusted: bool,
}

/// Says whom the proxy was called by.
pub(super) fn set_forwarded(headers: &mut HeaderMap, by: &CalledBy<'_>) {
    let peer = by.peer.to_str().unwrap_or_default();
    let element = forwarded(peer, by.host);
    strip(headers, |it| it.contains('_') && is_hearsay(it));
    if by.is_trusted || sabotage::is_on("proxy_trusts_client_forwarded") {
        append_to_list(headers, &X_FORWARDED_FOR, peer);
        append_to_list(headers, &FORWARDED, &element);
        headers.entry(X_FORWARDED_PROTO).or_insert(PROTO);
        if let Some(host) = by.host {
            headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
        }
        return;
    }
    strip(headers, is_hearsay);
    // These take the place of whatever the client said.
    headers.insert(X_FORWARDED_FOR, by.peer.clone());
    set(headers, FORWARDED, element.into());
    headers.insert(X_FORWARDED_PROTO, PROTO);
    match by.host {
        Some(host) => headers.insert(X_FORWARDED_HOST, host.clone()),
        None => headers.remove(X_FORWARDED_HOST),
    };
}

/// Whether this says where a client is, also in words that this proxy does not use itself: the upstream may know them
/// (`X-Forwarded-Prefix`, `X-Real-IP`), and would take them for the proxy's.
fn is_hearsay(name: &str) -> bool {
    begins(name, "x-forwarded-") || (name.len() == "x-real-ip".len() && begins(name, "x-real-ip"))
}

/// An element of `Forwarded` (RFC 7239).
fn forwarded(peer: &str, host: Option<&HeaderValue>) -> String {
    let mut element = String::with_capacity(96);
    let is_v6 = peer.contains(':');
    element.extend(if is_v6 { ["for=\"[", peer, "]\""] } else { ["for=", peer, ""] });
    if let Some(host) = host.and_then(|it| it.to_str().ok()) {
        // A host contains no quotes and no backslashes.
        element.extend([";host=\"", host, "\""]);
    }
    element.push_str(";proto=http");
    element
}

/// Says this, and no more. What cannot be said is not.
fn set(headers: &mut HeaderMap, name: HeaderName, value: Bytes) {
    match HeaderValue::from_maybe_shared(value) {
        Ok(value) => headers.insert(name, value),
        Err(_) => headers.remove(name),
    };
}

/// Adds to a list, all in one header.
fn append_to_list(headers: &mut HeaderMap, name: &HeaderName, element: &str) {
    let mut list: Vec<u8> = Vec::new();
    for value in headers.get_all(name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    set(headers, name.clone(), list.into());
}

/// Adds this proxy to those that a message came through.
pub(super) fn add_via(headers: &mut HeaderMap, is_http2: bool, name: &str) {
    append_to_list(headers, &header::VIA, &format!("{} {name}", if is_http2 { "2" } else { "1.1" }));
}

/// Makes one `Cookie` of many, as HTTP/1 wants it.
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::name_of;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_belongs_to_a_connection_stays_there() {
        let mut all = headers(&[
            ("connection", "close, X-Hop"),
            ("connection", "x-other ,, bad name"),
            ("x-hop", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("trailer", "digest"),
            ("accept", "*/*"),
        ]);
        strip_hop_by_hop(&mut all);
        assert_eq!(names(&all), ["accept", "trailer"]);
    }

    #[test]
    fn trailers_are_still_wanted() {
        let mut all = headers(&[("connection", "te"), ("te", "gzip;q=0.5, Trailers")]);
        strip_hop_by_hop(&mut all);
        assert_eq!(all, headers(&[("te", "trailers")]));
    }

    #[test]
    fn an_upgrade_needs_both_headers_and_is_to_a_websocket() {
        assert!(is_websocket(&headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")])));
        assert!(!is_websocket(&headers(&[("upgrade", "websocket")])));
        assert!(!is_websocket(&headers(&[("connection", "upgrade")])));
        for other in ["h2c", "websocket, h2c", "h2c, websocket", "TLS/1.0", ""] {
            assert!(!is_websocket(&headers(&[("connection", "upgrade"), ("upgrade", other)])), "{other}");
        }
        let two = [("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")];
        assert!(!is_websocket(&headers(&two)));
    }

    #[test]
    fn an_answer_ends_where_its_head_says_it_in_one_way() {
        let (length, coding) = ("content-length", "transfer-encoding");
        for lines in [&[][..], &[(length, "5")], &[(coding, "chunked")], &[(coding, "Chunked")]] {
            assert!(!is_ambiguous(&headers(lines)), "{lines:?}");
        }
        for lines in [
            &[(length, "5"), (coding, "chunked")][..],
            &[(length, "5"), (length, "5")],
            &[(length, "5"), (length, "6")],
            &[(length, "5, 5")],
            &[(length, "+5")],
            &[(length, "")],
            &[(coding, "gzip")],
            &[(coding, "gzip, chunked")],
            &[(coding, "chunked"), (coding, "chunked")],
        ] {
            assert!(is_ambiguous(&headers(lines)), "{lines:?}");
        }
    }

    fn forwarded_by(peer: &str, is_trusted: bool) -> HeaderMap {
        let mut all = headers(&[
            ("forwarded", "for=1.2.3.4"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "5.6.7.8"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "public.example"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-prefix", "/admin"),
            ("x-real-ip", "1.2.3.4"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x-forwarded_proto", "https"),
            ("x_real_ip", "1.2.3.4"),
            ("x_real", "kept"),
        ]);
        let host = HeaderValue::from_static("example.com:8080");
        set_forwarded(
            &mut all,
            &CalledBy { peer: &name_of(peer.parse().unwrap()), host: Some(&host), is_trusted },
        );
        all
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_added_to() {
        let expected = headers(&[
            ("forwarded", "for=1.2.3.4, for=10.0.0.9;host=\"example.com:8080\";proto=http"),
            ("x-forwarded-for", "1.2.3.4, 5.6.7.8, 10.0.0.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "public.example"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-prefix", "/admin"),
            ("x-real-ip", "1.2.3.4"),
            ("x_real", "kept"),
        ]);
        assert_eq!(forwarded_by("::ffff:10.0.0.9", true), expected);
    }

    #[test]
    fn a_client_says_nothing_about_itself() {
        let expected = headers(&[
            ("forwarded", "for=\"[2001:db8::1]\";host=\"example.com:8080\";proto=http"),
            ("x-forwarded-for", "2001:db8::1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "example.com:8080"),
            ("x_real", "kept"),
        ]);
        assert_eq!(forwarded_by("2001:db8::1", false), expected);
    }

    #[test]
    fn what_is_our_own_is_taken_off() {
        let mut all = headers(&[
            ("semel-fence", "1"),
            ("semel_fence", "1"),
            ("idempotency-replayed", "true"),
            ("idempotency_replayed", "true"),
            ("idempotency-replayed-by", "1"),
            ("semelweis", "1"),
        ]);
        strip_own(&mut all);
        assert_eq!(names(&all), ["idempotency-replayed-by", "semelweis"]);
    }

    #[test]
    fn cookies_are_joined() {
        let mut all = headers(&[("cookie", "a=1"), ("cookie", "b=2; c=3")]);
        join_cookies(&mut all);
        assert_eq!(all, headers(&[("cookie", "a=1; b=2; c=3")]));
    }
}
