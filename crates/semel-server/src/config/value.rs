//! What single values mean, on the command line and in the file alike.
//!
//! 1. Each function takes what was typed and gives what it means, or says what is allowed.
//! 2. Times and sizes carry their unit: `30s`, `64KiB`.
//!
//! It does not know where a value stood: whoever asked does.

use super::mistake::quoted;
use http::{HeaderName, Method, Uri, uri::Authority};
use semel::http::IDEMPOTENCY_KEY;
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// What is allowed instead, as a phrase that follows "wanted".
pub(crate) type Wanted = String;

const UNITS_OF_TIME: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const UNITS_OF_SIZE: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A time such as `500ms`, `30s`, `10m`, `24h` or `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, Wanted> {
    let millis = with_unit(text, &UNITS_OF_TIME)
        .ok_or("a time with its unit, such as `500ms`, `30s`, `10m`, `24h` or `7d`")?;
    Ok(Duration::from_millis(millis))
}

/// A size such as `512B`, `64KiB`, `1MiB` or `1GiB`.
pub(crate) fn size(text: &str) -> Result<u64, Wanted> {
    with_unit(text, &UNITS_OF_SIZE)
        .ok_or_else(|| "a size with its unit, such as `64KiB` or `1MiB`".to_owned())
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A time, as it would be written.
pub(crate) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    let fits = |(_, factor): &&(&str, u64)| millis >= *factor && millis.is_multiple_of(*factor);
    let (unit, factor) = UNITS_OF_TIME.iter().rev().find(fits).unwrap_or(&("ms", 1));
    format!("{}{unit}", millis / factor)
}

/// A size, as it would be written.
pub(crate) fn size_text(size: u64) -> String {
    let fits = |(_, factor): &&(&str, u64)| size >= *factor && size.is_multiple_of(*factor);
    let (unit, factor) = UNITS_OF_SIZE.iter().rev().find(fits).unwrap_or(&("B", 1));
    format!("{}{unit}", size / factor)
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, Wanted> {
    text.parse().map_err(|_| "an IP address and a port, such as `127.0.0.1:8080` or `[::]:8080`".to_owned())
}

/// Where requests are forwarded to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamUrl {
    /// Whether the connection is encrypted.
    pub is_https: bool,
    /// The host and the port.
    pub authority: Authority,
    /// What comes before every path; empty, or begins with a slash and does not end with one.
    pub base: String,
}

/// The URL of the upstream.
pub(crate) fn upstream(text: &str) -> Result<UpstreamUrl, Wanted> {
    let wanted = || "a URL such as `http://127.0.0.1:9000` or `https://api.example.com`".to_owned();
    let uri: Uri = text.parse().map_err(|_| wanted())?;
    let is_https = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(_) | None => return Err(wanted()),
    };
    let authority = uri.authority().filter(|it| !it.host().is_empty()).ok_or_else(wanted)?;
    if authority.as_str().contains('@') {
        return Err(format!("{} without user and password", wanted()));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("{} without a query or a fragment", wanted()));
    }
    Ok(UpstreamUrl {
        is_https,
        authority: authority.clone(),
        base: uri.path().trim_end_matches('/').to_owned(),
    })
}

/// Who a key belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// Whoever sends this `Authorization`.
    Authorization,
    /// Whoever sends this value of a header.
    Header(HeaderName),
    /// All callers share one namespace.
    Anyone,
}

/// Who a key belongs to: `authorization`, `header:NAME` or `anyone`.
pub(crate) fn caller(text: &str) -> Result<Caller, Wanted> {
    match text {
        "authorization" => Ok(Caller::Authorization),
        "anyone" => Ok(Caller::Anyone),
        other => match other.strip_prefix("header:").map(header) {
            // Whoever tells callers apart by their keys has no callers, and anybody's key is everybody's.
            Some(Ok(name)) if name == IDEMPOTENCY_KEY => {
                Err("a header that says who calls, which `idempotency-key` does not; `anyone` if nobody does"
                    .to_owned())
            }
            Some(Ok(name)) => Ok(Caller::Header(name)),
            Some(Err(_)) | None => {
                Err("`authorization`, `header:NAME` (such as `header:x-api-key`) or `anyone`".to_owned())
            }
        },
    }
}

/// The name of a header.
pub(crate) fn header(text: &str) -> Result<HeaderName, Wanted> {
    HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| "the name of a header, such as `content-type`".to_owned())
}

/// A method.
pub(crate) fn method(text: &str) -> Result<Method, Wanted> {
    let is_upper = text.bytes().all(|it| it.is_ascii_uppercase() || it == b'-');
    Method::from_bytes(text.as_bytes())
        .ok()
        .filter(|_| is_upper)
        .ok_or_else(|| "a method in capitals, such as `POST`".to_owned())
}

/// A network, such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it. An IPv4 address that is written as an IPv6 one is taken as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                u32::from(own).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                u128::from(own).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// A network, or one address.
pub(crate) fn network(text: &str) -> Result<Network, Wanted> {
    let wanted = || "an IP address or a network, such as `10.0.0.0/8` or `fd00::/8`".to_owned();
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wanted())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(bits_max), |it| it.parse::<u8>().map_err(|_| wanted()))?;
    if bits <= bits_max { Ok(Network { address, bits }) } else { Err(wanted()) }
}

/// One of a few words.
pub(crate) fn one_of<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, Wanted> {
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| format!("one of {}", quoted(&all.iter().map(|it| it.0).collect::<Vec<_>>())))
}

/// A name that fits into a header: `Via`, or the first part of scopes.
pub(crate) fn token(text: &str) -> Result<String, Wanted> {
    let is_token = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
    if !text.is_empty() && text.len() <= 100 && text.bytes().all(is_token) {
        return Ok(text.to_owned());
    }
    Err("a word of at most 100 letters, digits, dots or dashes".to_owned())
}

/// A URL that problem types begin with.
pub(crate) fn problem_base(text: &str) -> Result<String, Wanted> {
    let uri: Option<Uri> = text.parse().ok();
    let is_right = uri.is_some_and(|it| it.scheme().is_some() && it.authority().is_some());
    if is_right && text.ends_with('/') {
        return Ok(text.to_owned());
    }
    Err("a URL that ends with a slash, such as `https://api.example.com/problems/`".to_owned())
}

/// A URL that is encrypted.
pub(crate) fn https_url(text: &str) -> Result<String, Wanted> {
    let uri: Option<Uri> = text.parse().ok();
    let is_right = uri.is_some_and(|it| it.scheme_str() == Some("https") && it.authority().is_some());
    if is_right { Ok(text.to_owned()) } else { Err("a URL that begins with `https://`".to_owned()) }
}

/// What was typed, without a password: it may be shown and logged.
pub(crate) fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_carry_their_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(duration("7d"), Ok(Duration::from_hours(7 * 24)));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for wrong in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "1.5s",
            "5S",
            "5weeks",
            "99999999999999999999d",
            "18446744073709551615d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "5", "5MB", "5mib", "KiB", "18446744073709551615GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for millis in [1, 999, 1_000, 1_001, 60_000, 61_000, 3_600_000, 86_400_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(super::duration(&duration_text(duration)), Ok(duration));
        }
        for bytes in [1, 1_023, 1_024, 1_025, 1 << 20, 1 << 30] {
            assert_eq!(size(&size_text(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn an_upstream_is_a_place_and_nothing_else() {
        let right = upstream("https://api.example.com:8443/v1/").unwrap();
        assert_eq!(
            (right.is_https, right.authority.as_str(), right.base.as_str()),
            (true, "api.example.com:8443", "/v1")
        );
        assert_eq!(upstream("http://127.0.0.1:9000").unwrap().base, "");
        for wrong in [
            "127.0.0.1:9000",
            "ftp://a",
            "http://",
            "http://a?b",
            "http://a#b",
            "http://u:p@a",
            "/a",
            "",
            "http://a b",
        ] {
            assert!(upstream(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses() {
        let check = |text: &str, address: &str, expected: bool| {
            assert_eq!(
                network(text).unwrap().contains(address.parse().unwrap()),
                expected,
                "{text} {address}"
            );
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.1.1.1", true);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("fd00::/8", "fd12::1", true);
        check("fd00::/8", "fe80::1", false);
        check("::/0", "fe80::1", true);
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(redacted("postgres://app:s3cret@db:5432/shop"), "postgres://***@db:5432/shop");
        assert_eq!(redacted("nats://t0ken@host"), "nats://***@host");
        assert_eq!(redacted("redis://:p@ss@host/0?x=a@b"), "redis://***@host/0?x=a@b");
        assert_eq!(redacted("./semel-data"), "./semel-data");
        assert_eq!(redacted("http://127.0.0.1:9000/a@b"), "http://127.0.0.1:9000/a@b");
    }

    #[test]
    fn callers_are_named() {
        assert_eq!(caller("header:X-Api-Key"), Ok(Caller::Header(HeaderName::from_static("x-api-key"))));
        assert_eq!(caller("anyone"), Ok(Caller::Anyone));
        for wrong in ["", "header:", "header:a b", "Anyone", "cookie", "header:Idempotency-Key"] {
            assert!(caller(wrong).is_err(), "{wrong}");
        }
    }
}
