//! The public Internet: which addresses belong to it, and which ports strangers may reach on it.
//!
//! Gateway and relay refuse all other addresses and ports. Both use the table of this module: the
//! gateway asks [`special`] about each address, the relay gives [`special_destinations`] to
//! nftables.

use crate::Family;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// TCP ports that are open unless the owner says otherwise: the web, mail by submission and
/// reading, secure DNS, chat. Port 25 (mail between servers) is closed, because a shared line
/// would be used to send spam.
pub const TCP_PORTS: [u16; 11] = [80, 443, 465, 587, 853, 993, 995, 5222, 5223, 8080, 8443];

/// UDP ports that are open unless the owner says otherwise: DNS, NTP, QUIC, DNS over QUIC, STUN.
pub const UDP_PORTS: [u16; 5] = [53, 123, 443, 853, 3478];

/// Blocks that are not the public Internet. The first one that contains an address names it.
///
/// These are all blocks of IANA's special-purpose registry that are not globally reachable (RFC
/// 6890; the registry itself is in tests/registry), multicast (RFC 5771), and addresses that cloud
/// providers keep for themselves.
const SPECIAL_V4: [(Ipv4Net, &str); 17] = [
    (v4(0, 0, 0, 0, 8), "this network (RFC 791)"),
    (v4(10, 0, 0, 0, 8), "private (RFC 1918)"),
    (v4(100, 64, 0, 0, 10), "shared by a provider's NAT (RFC 6598)"),
    (v4(127, 0, 0, 0, 8), "loopback (RFC 1122)"),
    // Serves credentials to the machines of one cloud provider.
    (v4(168, 63, 129, 16, 32), "a metadata service"),
    (v4(169, 254, 0, 0, 16), "link-local (RFC 3927)"),
    (v4(172, 16, 0, 0, 12), "private (RFC 1918)"),
    (v4(192, 0, 0, 0, 24), "for protocols (RFC 6890)"),
    (v4(192, 0, 2, 0, 24), "for documentation (RFC 5737)"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay (RFC 7526)"),
    (v4(192, 168, 0, 0, 16), "private (RFC 1918)"),
    (v4(198, 18, 0, 0, 15), "for measurements (RFC 2544)"),
    (v4(198, 51, 100, 0, 24), "for documentation (RFC 5737)"),
    (v4(203, 0, 113, 0, 24), "for documentation (RFC 5737)"),
    (v4(224, 0, 0, 0, 4), "multicast (RFC 5771)"),
    (v4(255, 255, 255, 255, 32), "broadcast (RFC 919)"),
    (v4(240, 0, 0, 0, 4), "reserved (RFC 1112)"),
];

/// The same for IPv6.
///
/// An address that contains an IPv4 address for a translator or a tunnel is refused, whatever the
/// IPv4 address is, because another router decides where it leads.
const SPECIAL_V6: [(Ipv6Net, &str); 14] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified (RFC 4291)"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback (RFC 4291)"),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 32), "IPv4 behind a translator (RFC 6052, RFC 8215)"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "IPv4 in a Teredo tunnel (RFC 4380)"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "for protocols (RFC 2928)"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation (RFC 3849)"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "IPv4 in a 6to4 tunnel (RFC 3056)"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation (RFC 9637)"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private (RFC 4193)"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local (RFC 4291)"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast (RFC 4291)"),
    // Global unicast addresses come from 2000::/3 only (RFC 4291, 2.4, and IANA's registry of
    // them).
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 3), "reserved (RFC 4291)"),
    (v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2), "reserved (RFC 4291)"),
    (v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1), "reserved (RFC 4291)"),
];

/// The bits under [`ISATAP_MASK`] of the address of an ISATAP tunnel, in any network. The
/// interface identifier begins with `0000:5efe` or `0200:5efe` (RFC 5214, 6.1).
const ISATAP: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0x5efe, 0, 0);
const ISATAP_MASK: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0xfdff, 0xffff, 0, 0);

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(segments: [u16; 8], bits: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), bits)
}

/// Name of the special block of an address; `None` for an address of the public Internet. An
/// IPv4-mapped address counts as the IPv4 address in it.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            SPECIAL_V4.iter().find(|(block, _)| block.contains(&address)).map(|(_, what)| *what)
        }
        IpAddr::V6(address) if address & ISATAP_MASK == ISATAP => Some("an ISATAP tunnel (RFC 5214)"),
        IpAddr::V6(address) => {
            SPECIAL_V6.iter().find(|(block, _)| block.contains(&address)).map(|(_, what)| *what)
        }
    }
}

/// Conditions of nftables that together hold for a packet to an address that [`special`] names.
pub fn special_destinations(family: Family) -> Vec<String> {
    match family {
        Family::V4 => {
            vec![format!("ip daddr {}", set(SPECIAL_V4.iter().map(|(block, _)| IpNet::V4(*block))))]
        }
        Family::V6 => vec![
            format!("ip6 daddr {}", set(SPECIAL_V6.iter().map(|(block, _)| IpNet::V6(*block)))),
            format!("ip6 daddr & {ISATAP_MASK} == {ISATAP}"),
        ],
    }
}

/// An anonymous set of nftables, whose intervals may not overlap.
fn set(blocks: impl Iterator<Item = IpNet>) -> String {
    let blocks = IpNet::aggregate(&blocks.collect());
    let blocks: Vec<String> = blocks.iter().map(IpNet::to_string).collect();
    format!("{{ {} }}", blocks.join(", "))
}
