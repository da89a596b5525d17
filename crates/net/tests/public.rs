//! The table of what is not the public Internet, beside IANA's special-purpose registries as of
//! 2026-07-18 (www.iana.org/assignments/iana-ipv4-special-registry, iana-ipv6-special-registry).

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use leeway_net::special;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const V4: &str = include_str!("registry/ipv4-2026-07-18.csv");
const V6: &str = include_str!("registry/ipv6-2026-07-18.csv");

/// Blocks that IANA calls globally reachable, and that [`special`] refuses.
const REFUSED_BESIDES: [(&str, &str); 10] = [
    ("192.0.0.9/32", "anycast for hosts behind a translator, of no use to others"),
    ("192.0.0.10/32", "the same"),
    ("64:ff9b::/96", "a translator of this network decides where it leads"),
    ("2001:1::1/128", "all of 2001::/23 is for protocols, not for hosts"),
    ("2001:1::2/128", "the same"),
    ("2001:1::3/128", "the same"),
    ("2001:3::/32", "the same"),
    ("2001:4:112::/48", "the same"),
    ("2001:20::/28", "identifiers, which no router has a way to (RFC 7343)"),
    ("2001:30::/28", "the same (RFC 9374)"),
];

/// The fields of a line of CSV; a quote within quotes is doubled (RFC 4180).
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

/// Every block of the registries, and whether it is globally reachable. Notes in brackets are not
/// part of either.
fn registry() -> Vec<(IpNet, bool)> {
    let mut blocks = Vec::new();
    for line in [V4, V6].iter().flat_map(|text| text.lines().skip(1)) {
        let fields = fields(line);
        assert_eq!(fields.len(), 10, "{line}");
        let reachable = fields[8].starts_with("True");
        for block in fields[0].split(", ") {
            blocks.push((block.split(' ').next().unwrap().parse().unwrap(), reachable));
        }
    }
    blocks
}

fn ends(block: &IpNet) -> [IpAddr; 2] {
    [block.network(), block.broadcast()]
}

#[test]
fn every_block_that_is_not_globally_reachable_is_refused() {
    let registry = registry();
    assert_eq!(registry.len(), 26 + 25);
    for (block, reachable) in &registry {
        let besides = REFUSED_BESIDES.iter().any(|(listed, _)| listed.parse() == Ok(*block));
        for end in ends(block) {
            // The kernel never sends ::ffff:0:0/96; it stands for the IPv4 address in it.
            if block.to_string() == "::ffff:0:0/96" {
                assert_eq!(special(end), special(end.to_canonical()), "{end}");
            } else {
                assert_eq!(special(end).is_some(), !reachable || besides, "{end} of {block}");
            }
        }
    }
}

#[test]
fn what_is_beside_a_block_is_judged_by_the_blocks_around_it() {
    let registry = registry();
    let neighbours = |block: &IpNet| match block {
        IpNet::V4(block) => {
            let [low, high] = [block.network(), block.broadcast()].map(u32::from);
            let beside = [low.checked_sub(1), high.checked_add(1)];
            beside.into_iter().flatten().map(|bits| IpAddr::V4(bits.into())).collect::<Vec<_>>()
        }
        IpNet::V6(block) => {
            let [low, high] = [block.network(), block.broadcast()].map(u128::from);
            let beside = [low.checked_sub(1), high.checked_add(1)];
            beside.into_iter().flatten().map(|bits| IpAddr::V6(bits.into())).collect()
        }
    };
    // What the registries do not have: multicast, the reserved part of IPv6.
    let multicast = "224.0.0.0/4".parse::<Ipv4Net>().unwrap();
    let unicast = "2000::/3".parse::<Ipv6Net>().unwrap();
    for address in registry.iter().flat_map(|(block, _)| neighbours(block)) {
        let listed = registry.iter().any(|(block, reachable)| !reachable && block.contains(&address));
        let other = match address.to_canonical() {
            IpAddr::V4(address) => multicast.contains(&address),
            IpAddr::V6(address) => !unicast.contains(&address),
        };
        let besides =
            REFUSED_BESIDES.iter().any(|(block, _)| block.parse::<IpNet>().unwrap().contains(&address));
        assert_eq!(special(address).is_some(), listed || other || besides, "{address}");
    }
}

#[test]
fn every_other_form_that_leads_somewhere_else() {
    for text in [
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "100.100.100.200",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::8.8.8.8",
        "64:ff9b:ffff::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:0:0a00:0001::1",
        "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2002:c0a8:101::1",
        "2002:808:808::1",
        "3fff:fff:ffff::1",
        "4000::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "2a00:1450::200:5efe:10.0.0.1",
        "2a00:1450::5efe:192.168.0.1",
        "2a00:1450:1:2:0:5efe:8.8.8.8",
    ] {
        assert!(special(text.parse().unwrap()).is_some(), "{text}");
    }
    for text in [
        "8.8.8.8",
        "168.63.129.15",
        "168.63.129.17",
        "2606:4700::1111",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2a00:1450:4001::64",
        "3fff:1000::1",
        "2a00:1450::100:5efe:1:1",
        "::ffff:8.8.8.8",
    ] {
        assert_eq!(special(text.parse().unwrap()), None, "{text}");
    }
}

proptest! {
    /// A mapped address is judged exactly as the address in it.
    #[test]
    fn mapped_addresses_are_judged_as_what_they_carry(bits: u32) {
        let address = Ipv4Addr::from(bits);
        prop_assert_eq!(special(address.to_ipv6_mapped().into()), special(address.into()));
    }

    /// The standard library's notions of non-public addresses are all included.
    #[test]
    fn what_the_library_calls_local_is_never_public(bits: u32, wide: u128) {
        let four = Ipv4Addr::from(bits);
        let local = four.is_private() || four.is_loopback() || four.is_link_local() || four.is_multicast()
            || four.is_broadcast() || four.is_documentation() || four.is_unspecified();
        prop_assert!(!local || special(four.into()).is_some());
        // Of all addresses, and of the first 16 bits 8 are enough to meet every block.
        for six in [Ipv6Addr::from(wide), Ipv6Addr::from(wide >> 8 | 0xfd << 120), Ipv6Addr::from(wide >> 96)] {
            let local = six.is_loopback() || six.is_unspecified() || six.is_multicast()
                || six.is_unique_local() || six.is_unicast_link_local();
            prop_assert!(!local || special(six.into()).is_some());
        }
    }
}
