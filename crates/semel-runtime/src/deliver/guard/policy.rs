//! Which addresses and hosts are allowed.

use super::{
    Host, Kind, Refusal,
    address::{has_v4, has_v6, kind_of},
};
use semel_core::sabotage;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Most entries of an allow-list.
pub const NETWORKS_MAX: usize = 1_024;

/// What may be called, besides the public internet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// What is listed: networks and hosts; the first [`NETWORKS_MAX`] count.
    pub allow: Vec<Allowed>,
    /// Whether this machine itself may be called: in development.
    pub loopback: bool,
}

/// An entry of an allow-list.
///
/// ```
/// use semel_runtime::deliver::guard::Allowed;
/// let network: Allowed = "10.1.0.0/16".parse()?;
/// let host: Allowed = "orders.internal".parse()?;
/// assert!(matches!((network, host), (Allowed::Network(_), Allowed::Host(_))));
/// # Ok::<(), semel_runtime::deliver::guard::InvalidAllowed>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Allowed {
    /// Every address of a network.
    Network(Network),
    /// A host by its name, in lower case.
    Host(String),
}

/// A network: all addresses that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Text that is neither a network nor a host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("neither an address, nor a network as in `10.0.0.0/8`, nor the name of a host")]
pub struct InvalidAllowed;

impl FromStr for Allowed {
    type Err = InvalidAllowed;

    fn from_str(text: &str) -> Result<Self, InvalidAllowed> {
        if let Ok(address) = text.parse::<IpAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return Ok(Self::Network(Network { address, bits }));
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address = address.parse().map_err(|_| InvalidAllowed)?;
            let bits = bits.parse().map_err(|_| InvalidAllowed)?;
            return Network::new(address, bits).map(Self::Network).ok_or(InvalidAllowed);
        }
        match Host::parse(text) {
            Ok(Host::Name(name)) => Ok(Self::Host(name)),
            Ok(Host::Address(_)) | Err(_) => Err(InvalidAllowed),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(Network { address, bits }) => write!(f, "{address}/{bits}"),
            Self::Host(name) => f.write_str(name),
        }
    }
}

impl Network {
    /// The network of this address, so many bits long; `None` if it has not as many.
    pub const fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if bits > bits_max { None } else { Some(Self { address, bits }) }
    }

    /// Whether the address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => has_v4(network, self.bits, address),
            (IpAddr::V6(network), IpAddr::V6(address)) => has_v6(network, self.bits, address),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// An address that the guard let pass. There is no other way to have one, and no connection without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::deliver) struct Vetted(SocketAddr);

impl Vetted {
    pub(in crate::deliver) const fn address(self) -> SocketAddr {
        self.0
    }
}

impl Policy {
    /// Everything public, and nothing else.
    pub const fn public() -> Self {
        Self { allow: Vec::new(), loopback: false }
    }

    /// Everything public, and this machine.
    pub const fn development() -> Self {
        Self { allow: Vec::new(), loopback: true }
    }

    /// Whether a host may be at this address.
    pub fn check_address(&self, host: &Host, address: IpAddr) -> Result<(), Refusal> {
        let address = address.to_canonical();
        let kind = kind_of(address);
        let is_allowed = kind == Kind::Public
            || (kind == Kind::Loopback && self.loopback)
            || (kind.is_own() && self.lists_host(host))
            || self.lists_address(address);
        if is_allowed { Ok(()) } else { Err(Refusal::Address { address, kind }) }
    }

    /// Whether a name is listed, or stands for nothing that would have to be.
    pub(super) fn check_name(&self, host: &Host) -> Result<(), Refusal> {
        let Host::Name(name) = host else { return Ok(()) };
        let is_loopback = has_suffix(name, "localhost");
        let is_special = is_loopback || SPECIAL_NAMES.iter().any(|special| has_suffix(name, special));
        if !is_special || (is_loopback && self.loopback) || self.lists_host(host) {
            return Ok(());
        }
        Err(Refusal::Name)
    }

    /// Every address of a host, checked: one that is refused is enough to refuse them all.
    pub(in crate::deliver) fn vet(
        &self,
        host: &Host,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<Vec<Vetted>, Refusal> {
        let mut checks = addresses.iter().map(|address| self.check_address(host, *address));
        let is_skipped = sabotage::is_on("addresses_checked_at_configuration_only")
            || (sabotage::is_on("one_good_address_is_enough") && checks.clone().any(|check| check.is_ok()));
        if !is_skipped {
            checks.try_for_each(|check| check)?;
        }
        let vetted = addresses.iter().map(|address| Vetted(SocketAddr::new(address.to_canonical(), port)));
        Ok(vetted.collect())
    }

    fn entries(&self) -> impl Iterator<Item = &Allowed> {
        self.allow.iter().take(NETWORKS_MAX)
    }

    fn lists_host(&self, host: &Host) -> bool {
        let Host::Name(name) = host else { return false };
        self.entries().any(|entry| matches!(entry, Allowed::Host(listed) if listed == name))
    }

    fn lists_address(&self, address: IpAddr) -> bool {
        self.entries().any(|entry| matches!(entry, Allowed::Network(network) if network.has(address)))
    }
}

/// Names that no public host has: of this machine, this network, or nothing.
const SPECIAL_NAMES: [&str; 9] =
    ["local", "localdomain", "internal", "home.arpa", "lan", "test", "invalid", "onion", "alt"];

/// Whether a name is this one, or below it.
fn has_suffix(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
