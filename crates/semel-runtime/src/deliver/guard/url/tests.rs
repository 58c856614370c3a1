//! URLs that were used to get past guards, and URLs that must work.

use super::*;
use crate::deliver::guard::{Allowed, NETWORKS_MAX, kind_of};
use std::collections::HashSet;

/// Refused, and why.
const REFUSED: &str = include_str!("refused.txt");

fn refused() -> impl Iterator<Item = (&'static str, String)> {
    let lines = REFUSED.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(reason, url)| (reason, unescaped(url)))
}

/// `\u{20}` is a space.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u{");
    let mut url = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (code, rest) = part.split_once('}').unwrap();
        url.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32).unwrap());
        url.push_str(rest);
    }
    url
}

/// Allowed, and how they are written then.
const ALLOWED: &[(&str, &str)] = &[
    ("http://example.com", "http://example.com/"),
    ("http://example.com/", "http://example.com/"),
    ("HTTPS://EXAMPLE.COM/A", "https://example.com/A"),
    ("https://example.com:443/", "https://example.com:443/"),
    ("http://example.com:8080/a/b?c=d&e=%20", "http://example.com:8080/a/b?c=d&e=%20"),
    ("http://example.com?a=b", "http://example.com/?a=b"),
    ("http://example.com/a@b", "http://example.com/a@b"),
    ("http://example.com/?q=http://10.0.0.1/", "http://example.com/?q=http://10.0.0.1/"),
    ("http://example.com//", "http://example.com//"),
    ("http://example.com/../a", "http://example.com/../a"),
    ("http://example.com/a:b", "http://example.com/a:b"),
    ("http://example.com:65535/", "http://example.com:65535/"),
    ("http://example.com:1/", "http://example.com:1/"),
    ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
    ("http://a_b.example.com/", "http://a_b.example.com/"),
    ("http://orders/", "http://orders/"),
    ("http://1and1.com/", "http://1and1.com/"),
    ("http://0xample.com/", "http://0xample.com/"),
    ("http://1.1.1.1.nip.io/", "http://1.1.1.1.nip.io/"),
    ("http://127.0.0.1.nip.io/", "http://127.0.0.1.nip.io/"),
    ("http://notlocalhost/", "http://notlocalhost/"),
    ("http://localhost.example.com/", "http://localhost.example.com/"),
    ("http://8.8.8.8/", "http://8.8.8.8/"),
    ("http://8.8.8.8:53/a", "http://8.8.8.8:53/a"),
    ("http://[2606:4700:4700::1111]/", "http://[2606:4700:4700::1111]/"),
    ("http://[2606:4700:4700:0:0:0:0:1111]:80/", "http://[2606:4700:4700::1111]:80/"),
    ("http://[64:ff9b::8.8.8.8]/", "http://[64:ff9b::808:808]/"),
    (
        "https://europe-west1-project.cloudfunctions.net/f",
        "https://europe-west1-project.cloudfunctions.net/f",
    ),
];

fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::TooLong => "too long",
        Refusal::Character => "character",
        Refusal::Scheme => "scheme",
        Refusal::Userinfo => "userinfo",
        Refusal::Fragment => "fragment",
        Refusal::Port => "port",
        Refusal::Host => "host",
        Refusal::Name => "name",
        Refusal::Address { .. } => "address",
    }
}

#[test]
fn a_target_is_told_by_which_name_and_port_it_was_called() {
    for (url, header) in [
        ("http://Example.com/", "example.com"),
        ("http://example.com:80/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://example.com:443/a", "example.com"),
        ("https://example.com:80/", "example.com:80"),
        ("http://[2606:4700:4700::1111]:8080/", "[2606:4700:4700::1111]:8080"),
    ] {
        assert_eq!(check_url(url, &Policy::public()).unwrap().host_header(), header, "{url}");
    }
}

#[test]
fn hostile_25_no_forbidden_url_is_a_target() {
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for (expected, url) in refused() {
        let found = check_url(&url, &Policy::public()).map_or_else(reason, |_| "allowed");
        if found != expected {
            wrong.push((url.clone(), found, expected));
        }
        assert!(seen.insert(url.clone()), "{url:?} is there twice");
    }
    assert_eq!(wrong, [], "the URL, what came of it, and what should have");
    assert!(seen.len() >= 300, "{} URLs", seen.len());
}

#[test]
fn what_is_refused_in_public_is_refused_in_development_but_for_loopback() {
    let is_loopback = |url: &str| {
        let url = url.to_ascii_lowercase();
        [
            "://localhost/",
            "://localhost:8080/",
            ".localhost/",
            "://127.",
            "://[::1]",
            ":0001]/",
            "0:0:1]/",
            "64:ff9b::127.",
        ]
        .iter()
        .any(|part| url.contains(part))
    };
    for (reason, url) in refused() {
        let is_allowed = matches!(reason, "name" | "address") && is_loopback(&url);
        assert_eq!(check_url(&url, &Policy::development()).is_ok(), is_allowed, "{url:?}");
    }
}

#[test]
fn good_urls_are_targets_in_their_usual_form() {
    for (url, written) in ALLOWED {
        let target = check_url(url, &Policy::public()).unwrap_or_else(|refusal| panic!("{url:?}: {refusal}"));
        assert_eq!(target.uri().to_string(), *written);
        let again = check_url(written, &Policy::public());
        assert_eq!(again.as_ref(), Ok(&target), "the usual form of {url:?} is its own usual form");
        assert_eq!(target.uri().host(), Some(target.host().to_string().as_str()), "one reading of {url:?}");
        let port = target.uri().port_u16().unwrap_or(if written.starts_with("https") { 443 } else { 80 });
        assert_eq!(target.port(), port);
    }
}

fn allowing(entries: &[&str]) -> Policy {
    Policy { allow: entries.iter().map(|entry| entry.parse().unwrap()).collect(), loopback: false }
}

#[test]
fn what_is_listed_is_allowed_and_nothing_beside_it() {
    let policy = allowing(&["10.1.0.0/16", "192.168.7.9", "fd12::/16", "orders.internal", "localhost"]);
    for url in [
        "http://10.1.2.3/",
        "http://192.168.7.9/",
        "http://[fd12::1]/",
        "http://orders.internal/",
        "http://ORDERS.internal/",
        "http://localhost/",
    ] {
        assert!(check_url(url, &policy).is_ok(), "{url}");
    }
    for url in [
        "http://10.2.0.0/",
        "http://10.0.255.255/",
        "http://192.168.7.8/",
        "http://[fd13::1]/",
        "http://a.orders.internal/",
        "http://127.0.0.1/",
    ] {
        assert!(check_url(url, &policy).is_err(), "{url}");
    }
}

#[test]
fn a_listed_host_may_be_private_but_never_a_metadata_service() {
    let policy = allowing(&["orders.internal"]);
    let host = Host::Name("orders.internal".into());
    let check = |address: &str| policy.check_address(&host, address.parse().unwrap()).is_ok();
    for address in
        ["10.0.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "::1", "fd12::1", "::ffff:10.0.0.1", "8.8.8.8"]
    {
        assert!(check(address), "{address}");
    }
    for address in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "168.63.129.16",
        "fd00:ec2::254",
        "0.0.0.0",
        "224.0.0.1",
        "2002:7f00::",
        "::",
    ] {
        assert!(!check(address), "{address}");
    }
    let other = Host::Name("billing.internal".into());
    assert!(policy.check_address(&other, "10.0.0.1".parse().unwrap()).is_err());
}

#[test]
fn entries_of_an_allow_list_are_read_or_refused() {
    for entry in [
        "10.0.0.0/8",
        "10.0.0.1",
        "::/0",
        "0.0.0.0/0",
        "fd00::/8",
        "orders",
        "orders.internal",
        "Orders.Internal",
    ] {
        assert!(entry.parse::<Allowed>().is_ok(), "{entry}");
    }
    for entry in [
        "",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "10.0.0.0/a",
        "/8",
        "10.1",
        "0x7f.1",
        "a b",
        "*.internal",
        "http://orders",
        "orders:80",
        "orders.",
    ] {
        assert!(entry.parse::<Allowed>().is_err(), "{entry}");
    }
    assert_eq!("10.0.0.1".parse::<Allowed>().unwrap().to_string(), "10.0.0.1/32");
}

#[test]
fn no_more_entries_count_than_the_limit() {
    let mut policy = Policy { allow: vec![Allowed::Host("other".into()); NETWORKS_MAX], loopback: false };
    policy.allow.push("10.0.0.1".parse().unwrap());
    assert!(check_url("http://10.0.0.1/", &policy).is_err());
    policy.allow.swap(0, NETWORKS_MAX);
    assert!(check_url("http://10.0.0.1/", &policy).is_ok());
}

#[test]
fn long_urls_and_names_are_refused() {
    let padded =
        |bytes: usize| format!("http://example.com/{}", "a".repeat(bytes - "http://example.com/".len()));
    assert!(check_url(&padded(URL_BYTES_MAX), &Policy::public()).is_ok());
    assert_eq!(check_url(&padded(URL_BYTES_MAX + 1), &Policy::public()), Err(Refusal::TooLong));
    let label = |bytes: usize| format!("http://{}.com/", "a".repeat(bytes));
    assert!(check_url(&label(63), &Policy::public()).is_ok());
    assert_eq!(check_url(&label(64), &Policy::public()), Err(Refusal::Host));
    let name =
        |bytes: usize| format!("http://{}{}/", "a.".repeat((bytes - 1) / 2), "b".repeat(2 - bytes % 2));
    assert!(check_url(&name(253), &Policy::public()).is_ok());
    assert_eq!(check_url(&name(255), &Policy::public()), Err(Refusal::Host));
}

#[test]
fn a_target_does_not_show_its_path() {
    let target = check_url("https://example.com/hook?token=canary", &Policy::public()).unwrap();
    assert_eq!(target.to_string(), "https://example.com:443");
    assert!(!format!("{target:?}").contains("canary"));
}

/// Cuts, doubles and swaps parts of two URLs.
fn mutated(random: &mut fastrand::Rng, one: &str, other: &str) -> String {
    let mut bytes = one.as_bytes().to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=bytes.len());
        match random.u8(..4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.choice(*b"@:/?#[].%\\0x1a-_ \t\r\n\0\xff").unwrap_or(b'.')),
            2 => bytes.extend_from_slice(&other.as_bytes()[random.usize(..=other.len())..]),
            _ => bytes.rotate_left(at),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn whatever_is_let_through_has_one_reading_and_no_forbidden_address() {
    let seed = std::env::var("SEMEL_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("SEMEL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let allowed = ALLOWED.iter().map(|(url, _)| (*url).to_string());
    let corpus: Vec<String> = refused().map(|(_, url)| url).chain(allowed).collect();
    let mut let_through = 0;
    for _ in 0..50_000 {
        let (one, other) = (random.choice(&corpus).unwrap(), random.choice(&corpus).unwrap());
        let url = mutated(&mut random, one, other);
        let Ok(target) = check_url(&url, &Policy::public()) else { continue };
        let_through += 1;
        let written = target.uri().to_string();
        assert_eq!(check_url(&written, &Policy::public()).as_ref(), Ok(&target), "{url:?}");
        assert_eq!(target.uri().host(), Some(target.host().to_string().as_str()), "{url:?}");
        assert!(written.is_ascii() && !written.contains(['\r', '\n', ' ', '#', '\\']), "{url:?}");
        let authority = target.uri().authority().unwrap().as_str();
        assert!(!authority.contains('@'), "{url:?}");
        if let Host::Address(address) = target.host() {
            assert_eq!(kind_of(*address), Kind::Public, "{url:?}");
        }
    }
    assert!(let_through > 1_000, "{let_through} of the mutants are URLs");
}
