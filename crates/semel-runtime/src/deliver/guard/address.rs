//! What kind of address an address is.
//!
//! 1. The tables are IANA's registers of special-purpose addresses, IPv4 and IPv6, with multicast, and the addresses at
//!    which clouds keep the secrets of a machine.
//! 2. In IPv6, only what IANA has given out as global unicast (`2000::/3`) can be public; the rest is reserved.
//! 3. An address of IPv4 inside one of IPv6 counts as what it is: mapped ones, and those behind a well-known NAT64.
//!    6to4 and Teredo are not public, whatever is inside: nothing uses them any more, except to get past guards.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The public internet.
    Public,
    /// This very machine.
    Loopback,
    /// A network of somebody's own: private, shared by a carrier, or unique local.
    Private,
    /// Neighbours on one link; the metadata services of most clouds are there.
    LinkLocal,
    /// Where a cloud tells a machine its secrets, outside of the link-local networks.
    Metadata,
    /// Everybody in a group.
    Multicast,
    /// Documentation and benchmarks.
    Documentation,
    /// Ways from one protocol to the other: 6to4, Teredo, local NAT64, and what is left of them.
    Transition,
    /// Not given out, or for protocols themselves.
    Reserved,
}

impl Kind {
    /// As written in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "a cloud's metadata service",
            Self::Multicast => "multicast",
            Self::Documentation => "for documentation or benchmarks",
            Self::Transition => "a transition address",
            Self::Reserved => "reserved",
        }
    }

    /// Whether a function of somebody's own could live there, so that listing its host is enough.
    pub(super) const fn is_own(self) -> bool {
        matches!(self, Self::Loopback | Self::Private)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// First match wins; what is in no row is public.
const V4: &[(Ipv4Addr, u8, Kind)] = &[
    (Ipv4Addr::UNSPECIFIED, 8, Kind::Reserved), // "this network"; Linux takes 0.0.0.0 for itself
    (Ipv4Addr::new(10, 0, 0, 0), 8, Kind::Private),
    (Ipv4Addr::new(100, 100, 100, 200), 32, Kind::Metadata), // Alibaba
    (Ipv4Addr::new(100, 64, 0, 0), 10, Kind::Private),       // shared by a carrier
    (Ipv4Addr::new(127, 0, 0, 0), 8, Kind::Loopback),
    (Ipv4Addr::new(168, 63, 129, 16), 32, Kind::Metadata), // Azure
    (Ipv4Addr::new(169, 254, 0, 0), 16, Kind::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Kind::Private),
    (Ipv4Addr::new(192, 0, 0, 192), 32, Kind::Metadata), // Oracle
    (Ipv4Addr::new(192, 0, 0, 0), 24, Kind::Reserved),   // IETF protocols, DS-Lite, NAT64 discovery
    (Ipv4Addr::new(192, 0, 2, 0), 24, Kind::Documentation),
    (Ipv4Addr::new(192, 31, 196, 0), 24, Kind::Reserved), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24, Kind::Reserved), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24, Kind::Transition), // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16, Kind::Private),
    (Ipv4Addr::new(192, 175, 48, 0), 24, Kind::Reserved), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15, Kind::Documentation),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Kind::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Kind::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Kind::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Kind::Reserved), // and broadcast
];

/// First match wins; what is in no row is reserved.
const V6: &[(Ipv6Addr, u8, Kind)] = &[
    (Ipv6Addr::LOCALHOST, 128, Kind::Loopback),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, Kind::Transition), // NAT64, local
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, Kind::Metadata),  // Amazon
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0), 32, Kind::Metadata),   // Google
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0, 0), 32, Kind::Metadata),   // Oracle
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Kind::Private),        // unique local
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Kind::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, Kind::Private), // site-local, of old
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Kind::Multicast),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 63, Kind::Reserved), // discard-only, dummy
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, Kind::Reserved), // segment routing
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, Kind::Transition), // Teredo
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, Kind::Documentation), // benchmarks
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Kind::Reserved), // IETF protocols, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Kind::Documentation),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, Kind::Transition), // 6to4
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, Kind::Reserved), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Kind::Documentation),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, Kind::Reserved), // 6bone, of old
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, Kind::Public),    // the only part that is given out
];

/// Behind a NAT64 that everybody knows, so that DNS64 answers with it for public hosts: judged by what is inside.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// What this address is for.
///
/// ```
/// use semel_runtime::deliver::guard::{Kind, kind_of};
/// assert_eq!(kind_of("8.8.8.8".parse()?), Kind::Public);
/// assert_eq!(kind_of("::ffff:169.254.169.254".parse()?), Kind::LinkLocal);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn kind_of(address: IpAddr) -> Kind {
    match address.to_canonical() {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => inside_nat64(address).map_or_else(|| kind_of_v6(address), kind_of_v4),
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Kind {
    let in_row = |(network, bits, _): &&(Ipv4Addr, u8, Kind)| has_v4(*network, *bits, address);
    V4.iter().find(in_row).map_or(Kind::Public, |(_, _, kind)| *kind)
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    let in_row = |(network, bits, _): &&(Ipv6Addr, u8, Kind)| has_v6(*network, *bits, address);
    V6.iter().find(in_row).map_or(Kind::Reserved, |(_, _, kind)| *kind)
}

fn inside_nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    has_v6(NAT64, 96, address).then(|| Ipv4Addr::from_bits(address.to_bits() as u32))
}

pub(super) fn has_v4(network: Ipv4Addr, bits: u8, address: Ipv4Addr) -> bool {
    let differing = network.to_bits() ^ address.to_bits();
    differing.leading_zeros() >= u32::from(bits)
}

pub(super) fn has_v6(network: Ipv6Addr, bits: u8, address: Ipv6Addr) -> bool {
    let differing = network.to_bits() ^ address.to_bits();
    differing.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], expected: Kind) {
        for address in addresses {
            assert_eq!(kind_of(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        check(
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "168.63.129.15",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "191.255.255.255",
                "192.0.1.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700::1111",
                "2a00:1450:4001::200e",
                "2001:200::1",
                "2400::",
                "3ffd::1",
                "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8",
            ],
            Kind::Public,
        );
    }

    #[test]
    fn loopback_is_loopback_in_every_form() {
        check(
            &["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
            Kind::Loopback,
        );
    }

    #[test]
    fn private_networks_are_private_to_their_last_address() {
        check(
            &[
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.127.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.168.0.0",
                "192.168.255.255",
                "fc00::",
                "fdff:ffff::1",
                "fec0::1",
                "::ffff:10.0.0.1",
                "64:ff9b::10.0.0.1",
            ],
            Kind::Private,
        );
    }

    #[test]
    fn metadata_services_are_never_public() {
        check(
            &[
                "169.254.169.254",
                "169.254.0.0",
                "169.254.255.255",
                "fe80::1",
                "febf::1",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
            ],
            Kind::LinkLocal,
        );
        check(
            &[
                "168.63.129.16",
                "100.100.100.200",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd20:ce::254",
                "fd00:c1::a9fe:a9fe",
            ],
            Kind::Metadata,
        );
    }

    #[test]
    fn what_nobody_was_given_is_refused_by_its_kind() {
        check(&["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"], Kind::Multicast);
        check(
            &[
                "192.0.2.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.9",
                "2001:db8::1",
                "2001:2::1",
                "3fff::1",
                "3fff:fff::1",
            ],
            Kind::Documentation,
        );
        check(
            &["2002:7f00::", "2002:808:808::1", "2001::1", "64:ff9b:1::1", "192.88.99.1"],
            Kind::Transition,
        );
        check(
            &[
                "0.0.0.0",
                "0.255.255.255",
                "192.0.0.1",
                "192.0.0.255",
                "240.0.0.0",
                "255.255.255.255",
                "::",
                "::2",
                "::7f00:1",
                "::127.0.0.1",
                "100::1",
                "100:0:0:1::1",
                "5f00::1",
                "2001:1::1",
                "2001:1ff::1",
                "2001:20::1",
                "4000::1",
                "8000::1",
                "fe00::1",
                "1fff::1",
                "3ffe::1",
                "64:ff9a::1",
                "64:ff9b:2::1",
                "::ffff:0:127.0.0.1",
            ],
            Kind::Reserved,
        );
    }

    /// Every network of IANA's two registers of special-purpose addresses; what is mapped or behind NAT64 is judged by
    /// what is inside, and not here.
    const REGISTERED: [&str; 45] = [
        "0.0.0.0/8",
        "0.0.0.0/32",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.0.0/29",
        "192.0.0.8/32",
        "192.0.0.9/32",
        "192.0.0.10/32",
        "192.0.0.170/32",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.88.99.2/32",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "255.255.255.255/32",
        "::1/128",
        "::/128",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001::/32",
        "2001:1::1/128",
        "2001:1::3/128",
        "2001:2::/48",
        "2001:3::/32",
        "2001:4:112::/48",
        "2001:10::/28",
        "2001:20::/28",
        "2001:30::/28",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "fc00::/7",
        "fe80::/10",
    ];

    #[test]
    fn no_registered_network_has_a_public_end() {
        for network in
            REGISTERED.into_iter().chain(["2620:4f:8000::/48", "5f00::/16", "224.0.0.0/4", "ff00::/8"])
        {
            let (first, bits) = network.split_once('/').unwrap();
            let (first, bits): (IpAddr, u32) = (first.parse().unwrap(), bits.parse().unwrap());
            let last: IpAddr = match first {
                IpAddr::V4(first) => {
                    Ipv4Addr::from_bits(first.to_bits() | u32::MAX.checked_shr(bits).unwrap_or(0)).into()
                }
                IpAddr::V6(first) => {
                    Ipv6Addr::from_bits(first.to_bits() | u128::MAX.checked_shr(bits).unwrap_or(0)).into()
                }
            };
            assert_ne!(kind_of(first), Kind::Public, "{network}");
            assert_ne!(kind_of(last), Kind::Public, "{network} at {last}");
        }
    }
}
