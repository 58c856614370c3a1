//! Who may come in.
//!
//! 1. A request names this server by an address, by `localhost`, or by a name that the configuration lists: a name that
//!    somebody else has pointed here (DNS rebinding) is misdirected, `421`.
//! 2. What a browser sends for another site is refused, `403`: by `Sec-Fetch-Site`, and by an `Origin` that is not the `Host`.
//! 3. Who asks is known by `Authorization: Bearer …`, once, and by nothing else: a token in the address is not looked at.
//!    Whatever is wrong with it, the answer is the same `401`. Tokens are kept as hashes and compared in constant time, each
//!    of them, whichever is right.
//! 4. An address that guesses [`GUESSES_MAX`] times within [`GUESSES_PER`] waits out that time, `429`, also if it then guesses
//!    right. Behind a proxy that is trusted, it is the address that this one says it forwards for: the last of
//!    `X-Forwarded-For` that is no trusted proxy itself. Where it says none, guesses are not counted, because they would be
//!    everybody's.
//! 5. A token has [`TOKEN_BYTES_MIN`] bytes at least, wherever it was looked up.
//! 6. Where no token is configured, everybody on this machine may do everything; the server does not start like that at any
//!    other address.
//!
//! It does not know what is asked for: see [`super::table`].

use super::{problems, views::Role};
use crate::config::{Network, NoSecret, TOKEN_BYTES_MIN, TokenSettings};
use http::{
    HeaderMap, HeaderValue, Uri,
    header::{AUTHORIZATION, HOST, ORIGIN},
};
use semel::http::Problem;
use semel_core::{sabotage::is_on, sha256::sha256};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Wrong tokens from one address before it has to wait.
pub const GUESSES_MAX: u32 = 10;
/// How long it waits, and how long a guess counts.
pub const GUESSES_PER: Duration = Duration::from_mins(1);
/// Most addresses whose guesses are counted; beyond that the oldest is forgotten.
pub const GUESSERS_MAX: usize = 4_096;
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Who asks where nobody has to say who they are.
pub(crate) const LOCAL: &str = "local";

/// Somebody who was let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    /// As the audit log has it.
    pub(crate) name: Arc<str>,
    /// What they may do.
    pub(crate) role: Role,
}

/// A token, as it is kept.
#[derive(Clone)]
struct Token {
    who: Who,
    hash: [u8; 32],
}

/// Lets people in, or does not.
pub(crate) struct Door {
    tokens: Vec<Token>,
    /// Names that this server has, in small letters.
    hosts: Vec<String>,
    guesses: Mutex<Guesses>,
}

impl Door {
    /// With these tokens and names, looked up.
    pub(crate) fn new(tokens: &[TokenSettings], hosts: &[String]) -> Result<Self, NoSecret> {
        let token = |it: &TokenSettings| {
            let who = Who { name: it.name.as_str().into(), role: it.role };
            Ok(Token { who, hash: sha256(it.secret.look_up_of(TOKEN_BYTES_MIN)?) })
        };
        Ok(Self {
            tokens: tokens.iter().map(token).collect::<Result<_, _>>()?,
            hosts: hosts.iter().map(|it| it.to_ascii_lowercase()).collect(),
            guesses: Mutex::default(),
        })
    }

    /// Who sends this, if they may come in; wrong tokens count for this address.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        uri: &Uri,
        guesser: Option<IpAddr>,
        now: Instant,
    ) -> Result<Who, Problem> {
        let host = host(headers, uri).ok_or(problems::MISDIRECTED)?;
        if !is_own(&host, &self.hosts) && !is_on("api_any_host") {
            return Err(problems::MISDIRECTED);
        }
        if !is_same_site(headers, &host) && !is_on("api_any_origin") {
            return Err(problems::CROSS_SITE);
        }
        if self.tokens.is_empty() {
            return Ok(Who { name: LOCAL.into(), role: Role::Admin });
        }
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if guesser.is_some_and(|it| guesses.are_too_many(it, now)) && !is_on("api_guesses_free") {
            return Err(problems::TOO_MANY_GUESSES);
        }
        let found = bearer(headers).and_then(|it| self.known(it));
        found.ok_or_else(|| {
            if let Some(guesser) = guesser.filter(|_| headers.contains_key(AUTHORIZATION)) {
                guesses.add(guesser, now);
            }
            problems::UNAUTHORIZED
        })
    }

    /// Whose token this is. All are compared, whole.
    fn known(&self, token: &[u8]) -> Option<Who> {
        let hash = sha256(token);
        let is_same = |it: &Token| it.hash.iter().zip(&hash).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        let found: Vec<_> = self.tokens.iter().map(|it| (is_same(it), it)).collect();
        found.into_iter().find_map(|(is_same, it)| is_same.then(|| it.who.clone()))
    }
}

/// Whose guess this is; nobody's that could be told from others', if it comes through a proxy that does not say.
pub(super) fn guesser(headers: &HeaderMap, peer: IpAddr, trusted: &[Network]) -> Option<IpAddr> {
    let is_trusted = |it: IpAddr| trusted.iter().any(|network| network.contains(it));
    if !is_trusted(peer) || is_on("api_guesses_by_connection") {
        return Some(peer);
    }
    let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    // What came in is in front of what each proxy adds: only the end is to be believed.
    let elements = values.iter().rev().flat_map(|it| it.rsplit(|byte| *byte == b','));
    let addresses = elements.map(|it| address(it.trim_ascii()));
    addresses.into_iter().find(|it| !it.is_some_and(is_trusted)).flatten()
}

/// An address, as proxies write it: with a port, some of them.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|it| it.ip()))
}

/// For which host a request is: the header, or what HTTP/2 has instead.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let named = headers.get(HOST).map(HeaderValue::to_str).transpose().ok()?;
    named.or_else(|| uri.authority().map(http::uri::Authority::as_str)).map(str::to_ascii_lowercase)
}

/// Whether this server has this name. Nobody can point an address elsewhere.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let name = without_port(host);
    let is_address = name.parse::<std::net::Ipv4Addr>().is_ok()
        || name
            .strip_prefix('[')
            .and_then(|it| it.strip_suffix(']'))
            .is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
    is_address || name == "localhost" || hosts.iter().any(|it| it == name || it == host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

/// Whether no browser sends this for somebody else's page.
fn is_same_site(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        return false;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(_), Some(_)) => false,
        (Some(origin), None) => origin.to_str().is_ok_and(|origin| {
            let origin = origin.to_ascii_lowercase();
            let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            site.is_some_and(|it| it == host)
        }),
    }
}

/// What a request shows who sends it by, if it does so once.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (all.next()?.as_bytes(), all.next()) else { return None };
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// How often wrong tokens came from where.
#[derive(Default, Debug)]
struct Guesses(BTreeMap<IpAddr, (u32, Instant)>);

impl Guesses {
    fn are_too_many(&mut self, peer: IpAddr, now: Instant) -> bool {
        match self.0.get(&whole(peer)) {
            Some((_, since)) if now.duration_since(*since) >= GUESSES_PER => {
                self.0.remove(&whole(peer));
                false
            }
            Some((count, _)) => *count >= GUESSES_MAX,
            None => false,
        }
    }

    fn add(&mut self, peer: IpAddr, now: Instant) {
        let peer = whole(peer);
        if !self.0.contains_key(&peer) && self.0.len() >= GUESSERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since).map(|(peer, _)| *peer);
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
        self.0.entry(peer).or_insert((0, now)).0 += 1;
    }
}

/// Somebody with IPv6 has a whole network to guess from.
fn whole(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn door() -> Door {
        let token = |name: &str, role| TokenSettings {
            name: name.to_owned(),
            role,
            secret: Secret::Literal(format!("{name}-0123456789abcdef")),
        };
        let tokens = [token("ann", Role::Viewer), token("bob", Role::Admin)];
        Door::new(&tokens, &["semel.example".to_owned()]).unwrap()
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    const HERE: &str = "127.0.0.1:8787";
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn ask(door: &Door, all: &[(&'static str, &str)]) -> Result<String, u16> {
        let asked = door.admit(&headers(all), &Uri::from_static("/v1/jobs"), Some(PEER), Instant::now());
        asked.map(|it| format!("{} {}", it.name, it.role.as_str())).map_err(|it| it.status().as_u16())
    }

    #[test]
    fn a_token_says_who_asks() {
        let door = door();
        let right = ("authorization", "Bearer bob-0123456789abcdef");
        assert_eq!(ask(&door, &[("host", HERE), right]), Ok("bob admin".to_owned()));
        assert_eq!(
            ask(&door, &[("host", HERE), ("authorization", "bearer ann-0123456789abcdef")]),
            Ok("ann viewer".to_owned())
        );
        for wrong in [
            "",
            "Bearer ",
            "Bearer bob",
            "Basic bob-0123456789abcdef",
            "bob-0123456789abcdef",
            "Bearer  bob-0123456789abcdef",
        ] {
            assert_eq!(ask(&door, &[("host", HERE), ("authorization", wrong)]), Err(401), "{wrong}");
        }
        assert_eq!(ask(&door, &[("host", HERE)]), Err(401));
        assert_eq!(ask(&door, &[("host", HERE), right, right]), Err(401));
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        let right = ("authorization", "Bearer bob-0123456789abcdef");
        for host in [
            "localhost",
            "LOCALHOST:8787",
            "127.0.0.1",
            "[::1]:8787",
            "192.168.0.9:1",
            "semel.example",
            "Semel.Example:8787",
        ] {
            assert!(ask(&door(), &[("host", host), right]).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "semel.example.evil",
            "",
            "[::1",
            "localhost:a",
        ] {
            assert_eq!(ask(&door(), &[("host", host), right]), Err(421), "{host}");
        }
    }

    #[test]
    fn a_browser_comes_from_here_or_not_at_all() {
        let ask = |more: (&'static str, &str)| ask(&Door::new(&[], &[]).unwrap(), &[("host", HERE), more]);
        for right in [
            ("origin", "http://127.0.0.1:8787"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(ask(right), Ok("local admin".to_owned()), "{right:?}");
        }
        for wrong in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:9999"),
            ("origin", "http://127.0.0.1:8787.evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(ask(wrong), Err(403), "{wrong:?}");
        }
    }

    #[test]
    fn whoever_guesses_too_often_waits() {
        let (door, now) = (door(), Instant::now());
        let ask = |token: &str, peer: &str, now| {
            let headers = headers(&[("host", HERE), ("authorization", &format!("Bearer {token}"))]);
            let asked = door.admit(&headers, &Uri::from_static("/v1"), Some(peer.parse().unwrap()), now);
            asked.map_or_else(|it| it.status().as_u16(), |_| 200)
        };
        for _ in 0..GUESSES_MAX {
            assert_eq!(ask("wrong", "10.0.0.1", now), 401);
        }
        assert_eq!(ask("wrong", "10.0.0.1", now), 429);
        assert_eq!(ask("bob-0123456789abcdef", "::ffff:10.0.0.1", now), 429);
        assert_eq!(ask("bob-0123456789abcdef", "10.0.0.2", now), 200);
        assert_eq!(ask("bob-0123456789abcdef", "10.0.0.1", now + GUESSES_PER), 200);
        let wrong = headers(&[("host", HERE), ("authorization", "Bearer wrong")]);
        for _ in 0..=GUESSES_MAX {
            let told = door.admit(&wrong, &Uri::from_static("/v1"), None, now);
            assert_eq!(told.unwrap_err().status().as_u16(), 401, "nobody knows whose guess it is");
        }
    }

    #[test]
    fn behind_a_proxy_a_guess_is_that_of_whom_it_forwards_for() {
        let trusted: Vec<_> = ["10.0.0.0/8", "fd00::/8"].map(|it| crate::config::network(it).unwrap()).into();
        let check = |peer: &str, forwarded: &[&str], wanted: Option<&str>| {
            let all: Vec<_> = forwarded.iter().map(|it| (FORWARDED_FOR, *it)).collect();
            let found = guesser(&headers(&all), peer.parse().unwrap(), &trusted);
            assert_eq!(found, wanted.map(|it| it.parse().unwrap()), "{peer} {forwarded:?}");
        };
        check("192.0.2.1", &[], Some("192.0.2.1"));
        check("192.0.2.1", &["203.0.113.7"], Some("192.0.2.1"));
        check("10.0.0.1", &["203.0.113.7"], Some("203.0.113.7"));
        check("::ffff:10.0.0.1", &["198.51.100.9, 203.0.113.7"], Some("203.0.113.7"));
        check("10.0.0.1", &["198.51.100.9", "203.0.113.7 , 10.1.2.3"], Some("203.0.113.7"));
        check("fd00::1", &["203.0.113.7:50123"], Some("203.0.113.7"));
        check("10.0.0.1", &["[2001:db8::7]:443"], Some("2001:db8::7"));
        for nobody in [&[][..], &["unknown"], &["203.0.113.7, _hidden"], &["203.0.113.7,"], &["10.0.0.9"]] {
            check("10.0.0.1", nobody, None);
        }
    }

    #[test]
    fn guessers_are_not_remembered_without_end() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..=GUESSERS_MAX as u32 {
            guesses.add(IpAddr::V4(number.into()), now + Duration::from_millis(u64::from(number)));
        }
        assert_eq!(guesses.0.len(), GUESSERS_MAX);
        assert!(!guesses.0.contains_key(&IpAddr::V4(0.into())));
        let (one, other) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for _ in 0..GUESSES_MAX {
            guesses.add(one, now);
        }
        assert!(guesses.are_too_many(other, now));
    }
}
