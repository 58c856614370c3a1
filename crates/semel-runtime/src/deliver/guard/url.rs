//! URLs that can be read in one way only.

use super::{Kind, Policy};
use http::{HeaderValue, Uri};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// Longest URL of a target, in bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// Longest name of a host, and longest part of it, in bytes, as DNS has it.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Where a function is called: a URL that was checked. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Arc<Checked>);

#[derive(PartialEq, Eq)]
struct Checked {
    uri: Uri,
    host: Host,
    port: u16,
    /// What every delivery needs is made here: the URL without its host, and the header that says it instead.
    origin_form: Uri,
    host_header: HeaderValue,
}

/// A host as it stands in a URL.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name, in lower case and without a dot at its end.
    Name(String),
}

/// Why a target is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Spaces, control characters, backslashes, other scripts.
    #[error("the URL has a character that no URL has; write other scripts as `xn--…` or `%…`")]
    Character,
    /// Neither of the two that are spoken.
    #[error("the URL begins with neither `http://` nor `https://`")]
    Scheme,
    /// A user or a password.
    #[error("the URL has a user or a password in it; use a header or a signature")]
    Userinfo,
    /// A `#`.
    #[error("the URL has a fragment, which is never sent")]
    Fragment,
    /// Not a number from 1 to 65,535.
    #[error("the port of the URL is not a number from 1 to 65535")]
    Port,
    /// Neither a name nor an address, or one that could be read in two ways.
    #[error("the host of the URL is neither a name nor an address in its usual form")]
    Host,
    /// A name of this machine or this network.
    #[error("the host is of this machine or its network; list it in `allow` if functions are there")]
    Name,
    /// An address that is not public.
    #[error("{address} is not public ({kind}); list it in `allow` if functions are there")]
    Address {
        /// The address.
        address: IpAddr,
        /// What it is for.
        kind: Kind,
    },
}

/// Checks a URL before anything is sent there, and takes it apart.
///
/// ```
/// use semel_runtime::deliver::guard::{Policy, Refusal, check_url};
/// let policy = Policy::public();
/// assert!(check_url("https://orders.example.com/created", &policy).is_ok());
/// assert_eq!(check_url("http://0x7f.1/", &policy), Err(Refusal::Host));
/// assert_eq!(check_url("ftp://example.com/", &policy), Err(Refusal::Scheme));
/// ```
pub fn check_url(url: &str, policy: &Policy) -> Result<Target, Refusal> {
    let target = parse(url)?;
    policy.check_name(target.host())?;
    if let Host::Address(address) = *target.host() {
        policy.check_address(target.host(), address)?;
    }
    Ok(target)
}

fn parse(url: &str) -> Result<Target, Refusal> {
    if url.len() > URL_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let (scheme, rest) = url.split_once("://").ok_or(Refusal::Scheme)?;
    let is_https = scheme.eq_ignore_ascii_case("https");
    if !is_https && !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::Scheme);
    }
    if rest.contains('#') {
        return Err(Refusal::Fragment);
    }
    if !rest.bytes().all(is_url_byte) {
        return Err(Refusal::Character);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(Refusal::Userinfo);
    }
    let (host, port) = split_port(authority);
    let host = Host::parse(host)?;
    let port = port.map(parse_port).transpose()?;
    let scheme = if is_https { "https" } else { "http" };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let written = match port {
        Some(port) => format!("{scheme}://{host}:{port}{slash}{path}"),
        None => format!("{scheme}://{host}{slash}{path}"),
    };
    let uri = Uri::try_from(written).map_err(|_| Refusal::Character)?;
    let usual = if is_https { 443 } else { 80 };
    let port = port.unwrap_or(usual);
    let host_header = if port == usual { host.to_string() } else { format!("{host}:{port}") };
    let host_header = HeaderValue::try_from(host_header).map_err(|_| Refusal::Host)?;
    let origin_form = uri.path_and_query().cloned().map(Uri::from).ok_or(Refusal::Character)?;
    Ok(Target(Arc::new(Checked { uri, host, port, origin_form, host_header })))
}

/// What may stand in a URL, besides `#`; brackets only in its host, but they do no harm elsewhere.
const fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}')
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_brackets = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_brackets..].find(':') {
        None => (authority, None),
        Some(colon) => {
            let (host, port) = authority.split_at(after_brackets + colon);
            (host, Some(&port[1..]))
        }
    }
}

fn parse_port(port: &str) -> Result<u16, Refusal> {
    let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    port.parse().ok().filter(|_| is_plain).ok_or(Refusal::Port)
}

impl Host {
    /// Reads a host as it stands in a URL.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(Refusal::Host)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| Refusal::Host)?;
            // Its usual form is that of IPv4.
            return match address.to_ipv4_mapped() {
                Some(_) => Err(Refusal::Host),
                None => Ok(Self::Address(address.into())),
            };
        }
        if ends_in_number(text) {
            // The standard library's parser takes four decimal numbers without leading zeros, and nothing else.
            return text
                .parse::<Ipv4Addr>()
                .map(|address| Self::Address(address.into()))
                .map_err(|_| Refusal::Host);
        }
        let is_name = text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label);
        if is_name { Ok(Self::Name(text.to_ascii_lowercase())) } else { Err(Refusal::Host) }
    }
}

/// Whether somebody could read a host as an address of IPv4: its last part is a number, decimal, octal or hexadecimal.
fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    is_decimal || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_label(label: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(is_known)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Target {
    /// The URL, in its usual form.
    pub fn uri(&self) -> &Uri {
        &self.0.uri
    }

    /// Its host.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Its port, also if the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// What the header `Host` says: the host, and the port where it is not the usual one.
    pub(crate) fn host_header(&self) -> &HeaderValue {
        &self.0.host_header
    }

    /// As it stands in a request to the host itself: the path, and what follows it.
    pub(crate) fn origin_form(&self) -> &Uri {
        &self.0.origin_form
    }
}

impl fmt::Display for Target {
    /// Without its path: people put secrets there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.uri().scheme_str().unwrap_or("http");
        write!(f, "{scheme}://{}:{}", self.host(), self.port())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests;
