//! One entry per parser, for fuzzers and for the short run in the tests.
//!
//! 1. Every entry takes any bytes, never panics, and gives up in bounded time and memory.
//! 2. What it accepts, it also checks, by other means than the parser's own.
//!
//! Not for users.

use crate::{
    control::fuzz::{jobs, paused},
    deliver::{
        RETRY_AFTER_MAX,
        fuzz::{answer, proxies},
        guard::{Allowed, Host, Kind, Policy, Target, check_url, kind_of},
        retry_after,
    },
    queue::read_cursor,
};
use http::HeaderValue;
use semel_core::{queue::Cursor, time::Timestamp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a fuzzer calls.
pub type Entry = fn(&[u8]);

/// Every entry, by its name; the corpus is kept under the same name.
pub const ALL: [(&str, Entry); 8] = [
    ("url", url),
    ("allowed", allowed),
    ("retry_later", retry_later),
    ("cursor", cursor),
    ("answer", answer),
    ("proxies", proxies),
    ("jobs", jobs),
    ("paused", paused),
];

fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for policy in [Policy::public(), Policy::development()] {
        let Ok(target) = check_url(&text, &policy) else { continue };
        is_public(&target, policy.loopback);
        let written = target.uri().to_string();
        let authority = target.uri().authority().expect("a target has a host").as_str();
        assert!(
            !authority.contains('@') && !written.contains(['#', '\\', ' ']),
            "{written} has two readings"
        );
        assert_eq!(check_url(&written, &policy).as_ref(), Ok(&target), "its usual form is the same");
    }
}

/// Whether whoever reads the URL again, in whatever way, comes to a public address or has to ask for a name's.
fn is_public(target: &Target, is_loopback_fine: bool) {
    let host = target.uri().host().expect("a target has a host");
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let read: Option<IpAddr> = bare.parse().ok();
    match target.host() {
        Host::Address(address) => assert_eq!(read, Some(*address), "{host} is read as another address"),
        Host::Name(name) => {
            assert_eq!((name.as_str(), read), (host, None), "an address is no name");
            assert_eq!(as_of_old(host), None, "{host} is an address to the programs of old");
        }
    }
    if let Some(address) = read {
        let is_allowed = |it| it == Kind::Public || it == Kind::Loopback && is_loopback_fine;
        assert!(is_allowed(kind_of(address)), "{address} is {}", kind_of(address));
        let inside = match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => inside(address),
        };
        let is_plain = inside.is_none_or(|it| !is_special(it) || it.is_loopback() && is_loopback_fine);
        assert!(is_plain, "{address} leads to {inside:?}");
    }
}

/// The address of IPv4 that an address of IPv6 may lead to: in its last bits, or where 6to4 has it.
fn inside(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [one, two, three, .., seven, eight] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match (one, two) {
        (0x2002, _) => Some(of(two, three)),
        (0x64, 0xff9b) | (0, 0) if !address.is_loopback() => Some(of(seven, eight)),
        _ => None,
    }
}

/// What the standard library knows not to be public, without our tables.
const fn is_special(address: Ipv4Addr) -> bool {
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified()
}

/// As `inet_aton` reads it: one to four numbers, decimal, octal or hexadecimal, of which the last fills what is left.
fn as_of_old(host: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let numbers: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, parts) = numbers.split_last()?;
    let fits = parts.len() < 4 && parts.iter().all(|it| *it < 256);
    let high = parts.iter().zip([24, 16, 8]).map(|(part, bits)| part << bits).sum::<u32>();
    fits.then(|| Ipv4Addr::from(high | last))
}

fn allowed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(entry) = text.parse::<Allowed>() else { return };
    assert_eq!(entry.to_string().parse::<Allowed>().as_ref(), Ok(&entry), "written and read");
    let policy = Policy { allow: vec![entry.clone()], loopback: false };
    match &entry {
        Allowed::Network(network) => {
            let address = text.split('/').next().and_then(|it| it.parse().ok());
            assert!(
                address.is_some_and(|it| network.has(it)),
                "a network has the address that it was named by"
            );
        }
        Allowed::Host(name) => {
            assert!(
                check_url(&format!("http://{name}/"), &policy).is_ok(),
                "a host that is listed is allowed"
            );
            assert!(check_url("http://169.254.169.254/", &policy).is_err(), "and nothing else is");
        }
    }
}

fn retry_later(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    for now in [0, 784_111_777_000, u64::MAX] {
        let delay = retry_after(&value, Timestamp::from_millis(now));
        assert!(delay.is_none_or(|it| it <= RETRY_AFTER_MAX), "{delay:?}");
    }
}

fn cursor(bytes: &[u8]) {
    let cursor = Cursor(bytes.to_vec());
    if let Some(again) = read_cursor(&cursor) {
        assert_eq!(again, cursor, "what is read was written so");
    }
}
