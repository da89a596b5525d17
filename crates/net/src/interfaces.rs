//! The interfaces of this host with their addresses, and those that lead to the Internet.

use crate::netlink;
use crate::{Error, Family};
use ipnet::IpNet;
use netlink_packet_route::link::LinkFlags;
use netlink_packet_route::route::{RouteAttribute, RouteType};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The kernel's main routing table (linux/rtnetlink.h, RT_TABLE_MAIN).
const MAIN_TABLE: u32 = 254;

/// An interface of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Its addresses with the lengths of their prefixes: `192.168.1.2/24`.
    pub addresses: Vec<IpNet>,
}

/// A default route of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// The family of addresses.
    pub family: Family,
    /// The interface to which the route leads.
    pub interface: String,
}

impl Interface {
    /// The networks of its addresses, without link-local ones (fe80::/10, 169.254.0.0/16).
    pub fn networks(&self) -> impl Iterator<Item = IpNet> + '_ {
        let link_local = |network: &IpNet| match network {
            IpNet::V4(v4) => v4.addr().is_link_local(),
            IpNet::V6(v6) => v6.addr().is_unicast_link_local(),
        };
        self.addresses.iter().filter(move |network| !link_local(network)).map(IpNet::trunc)
    }

    /// Whether the interface has this address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }
}

/// All interfaces of this host, in the order of their numbers.
///
/// # Errors
/// The kernel does not list them.
pub fn interfaces() -> Result<Vec<Interface>, Error> {
    let mut all = BTreeMap::new();
    for link in netlink::links()? {
        let flags = link.header.flags;
        let interface = Interface {
            name: netlink::name(&link).unwrap_or_default(),
            up: flags.contains(LinkFlags::Up),
            loopback: flags.contains(LinkFlags::Loopback),
            addresses: Vec::new(),
        };
        all.insert(link.header.index, interface);
    }
    for message in netlink::addresses()? {
        let (own, _) = netlink::ends(&message);
        let network = own.and_then(|address| IpNet::new(address, message.header.prefix_len).ok());
        if let Some(interface) = all.get_mut(&message.header.index) {
            interface.addresses.extend(network);
        }
    }
    Ok(all.into_values().collect())
}

/// The default routes of the main table, in the kernel's order.
///
/// # Errors
/// The kernel does not list them.
pub fn uplinks() -> Result<Vec<Uplink>, Error> {
    let mut names = BTreeMap::new();
    for link in netlink::links()? {
        if let Some(name) = netlink::name(&link) {
            names.insert(link.header.index, name);
        }
    }
    let mut found = Vec::new();
    for family in Family::ALL {
        if family == Family::V6 && !crate::has_v6() {
            continue;
        }
        for route in netlink::routes(family)? {
            let (mut table, mut device) = (u32::from(route.header.table), None);
            for attribute in &route.attributes {
                match attribute {
                    RouteAttribute::Table(number) => table = *number,
                    RouteAttribute::Oif(index) => device = names.get(index),
                    _ => {}
                }
            }
            let default = route.header.destination_prefix_length == 0
                && route.header.kind == RouteType::Unicast
                && table == MAIN_TABLE;
            if let Some(interface) = device.filter(|_| default) {
                found.push(Uplink { family, interface: interface.clone() });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there_with_its_network() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|interface| interface.loopback).expect("every host has one");
        assert_eq!(lo.name, "lo");
        if lo.up {
            assert!(lo.has("127.0.0.1".parse().unwrap()), "{lo:?}");
            assert!(lo.networks().any(|network| network.to_string() == "127.0.0.0/8"), "{lo:?}");
        }
        for uplink in uplinks().unwrap() {
            assert!(all.iter().any(|interface| interface.name == uplink.interface), "{uplink:?}");
        }
    }

    #[test]
    fn networks_of_one_link_are_left_out() {
        let addresses = ["192.168.1.2/24", "fe80::2/64", "2001:db8:1::2/64", "169.254.7.7/16"];
        let addresses = addresses.map(|text| text.parse().unwrap()).into();
        let interface = Interface { name: "eth0".into(), up: true, loopback: false, addresses };
        let networks: Vec<String> = interface.networks().map(|network| network.to_string()).collect();
        assert_eq!(networks, ["192.168.1.0/24", "2001:db8:1::/64"]);
    }
}
