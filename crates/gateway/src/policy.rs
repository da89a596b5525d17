//! Where a secondary user may go: the public Internet, and nothing else.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a destination is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not an address of the public Internet.
    #[error("{0} is {1}, not an address of the public Internet")]
    Address(IpAddr, &'static str),
    /// An address of the network whose line is shared.
    #[error("{0} belongs to the home network")]
    Home(IpAddr),
    /// An address of the gateway itself.
    #[error("{0} is the gateway itself")]
    Own(IpAddr),
    /// An address of the users of the gateway.
    #[error("{0} belongs to another user of this gateway")]
    Client(IpAddr),
    /// A port that is closed.
    #[error("port {0} is not open; the owner of the gateway can add it to `{1}`")]
    Port(u16, &'static str),
}

/// What the owner of the line says of destinations.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Networks of the home: never reached.
    pub home: Vec<IpNet>,
    /// Networks of the users: never reached through the gateway.
    pub clients: Vec<IpNet>,
    /// Addresses of the gateway: never reached.
    pub own: Vec<IpAddr>,
    /// Networks that may be reached although they are not public, for test networks.
    pub allow: Vec<IpNet>,
    /// TCP ports that may be reached.
    pub ports: Vec<u16>,
    /// UDP ports that may be reached.
    pub udp_ports: Vec<u16>,
}

/// Which kind of traffic goes to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Policy {
    /// The address to connect to: the given one in its plain form.
    ///
    /// # Errors
    /// The reason why nobody may go there.
    pub fn check(&self, address: IpAddr) -> Result<IpAddr, Refusal> {
        // ::ffff:10.0.0.1 is 10.0.0.1, and is judged and connected as that.
        let address = address.to_canonical();
        let within = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&address));
        if self.own.contains(&address) {
            return Err(Refusal::Own(address));
        }
        if within(&self.home) {
            return Err(Refusal::Home(address));
        }
        if within(&self.clients) {
            return Err(Refusal::Client(address));
        }
        match special(address) {
            Some(what) if !within(&self.allow) => Err(Refusal::Address(address, what)),
            _ => Ok(address),
        }
    }

    /// Whether that port may be reached.
    ///
    /// # Errors
    /// [`Refusal::Port`].
    pub fn check_port(&self, transport: Transport, port: u16) -> Result<(), Refusal> {
        let (ports, name) = match transport {
            Transport::Tcp => (&self.ports, "ports"),
            Transport::Udp => (&self.udp_ports, "udp_ports"),
        };
        if ports.contains(&port) { Ok(()) } else { Err(Refusal::Port(port, name)) }
    }

    /// Whether somebody at this address may use the gateway.
    pub fn is_client(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.clients.iter().any(|network| network.contains(&address))
    }
}

/// What an address is if it is not one of the public Internet (IANA's special-purpose registries, RFC 6890).
///
/// An IPv6 address that carries an IPv4 address for a translator or a tunnel is refused whatever it carries, because
/// where it leads is decided by somebody else's router.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    Some(match (a, b, c, d) {
        (0, ..) => "this network (RFC 791)",
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => "private (RFC 1918)",
        (100, 64..=127, ..) => "shared by a provider's NAT (RFC 6598)",
        (127, ..) => "loopback",
        (169, 254, ..) => "link-local (RFC 3927)",
        // Answers machines of one cloud only, with their credentials.
        (168, 63, 129, 16) => "a metadata service",
        (192, 0, 0, _) => "for protocols (RFC 6890)",
        (192, 0, 2, _) | (198, 51, 100, _) | (203, 0, 113, _) => "for documentation (RFC 5737)",
        (192, 88, 99, _) => "a 6to4 relay (RFC 7526)",
        (198, 18..=19, ..) => "for measurements (RFC 2544)",
        (224..=239, ..) => "multicast",
        (240..=255, ..) => "reserved (RFC 1112)",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, ..] = address.segments();
    Some(match (a, b, c) {
        _ if address.is_unspecified() => "unspecified",
        _ if address.is_loopback() => "loopback",
        // The interface identifier of ISATAP (RFC 5214, 6.1), in any network.
        _ if matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, ..]) => {
            "an ISATAP tunnel (RFC 5214)"
        }
        (0x64, 0xff9b, _) => "IPv4 behind a translator (RFC 6052, RFC 8215)",
        (0x2001, 0, _) => "IPv4 in a Teredo tunnel (RFC 4380)",
        (0x2001, 0xdb8, _) | (0x3fff, 0..=0xfff, _) => "for documentation (RFC 3849, RFC 9637)",
        (0x2001, 0..=0x1ff, _) => "for protocols (RFC 2928)",
        (0x2002, ..) => "IPv4 in a 6to4 tunnel (RFC 3056)",
        (0xfc00..=0xfdff, ..) => "private (RFC 4193)",
        (0xfe80..=0xfebf, ..) => "link-local",
        (0xff00.., ..) => "multicast",
        // Everything that has been given out is in 2000::/3.
        (0x2000..=0x3fff, ..) => return None,
        _ => "reserved (RFC 4291)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn what(text: &str) -> Option<&'static str> {
        special(text.parse().unwrap())
    }

    /// First and last address of every special block, and their neighbours outside.
    #[test]
    fn blocks_end_where_the_registry_says() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            let [low, high] = [first, last].map(|text| u32::from(text.parse::<Ipv4Addr>().unwrap()));
            for inside in [low, low + (high - low) / 2, high] {
                let mapped = IpAddr::V6(Ipv4Addr::from(inside).to_ipv6_mapped());
                assert!(
                    special_v4(inside.into()).is_some() && special(mapped).is_some(),
                    "{first} to {last}"
                );
            }
            let outside = [low.checked_sub(1), high.checked_add(1)];
            for outside in outside.into_iter().flatten() {
                assert_eq!(special_v4(outside.into()), None, "beside {first} to {last}");
            }
        }
    }

    #[test]
    fn every_form_of_ipv6_that_is_not_public() {
        for text in [
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:192.168.1.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:c0a8:101::1",
            "2002:808:808::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
            "2a00:1450::200:5efe:10.0.0.1",
            "2a00:1450::5efe:192.168.0.1",
        ] {
            assert!(what(text).is_some(), "{text}");
        }
        for text in
            ["2606:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::64", "::ffff:8.8.8.8", "2400::1"]
        {
            assert_eq!(what(text), None, "{text}");
        }
    }

    #[test]
    fn home_gateway_and_users_come_before_what_is_allowed() {
        let policy = Policy {
            home: vec!["192.168.1.0/24".parse().unwrap(), "2a00:1::/64".parse().unwrap()],
            clients: vec!["10.9.0.0/16".parse().unwrap()],
            own: vec!["203.0.113.7".parse().unwrap(), "9.9.9.10".parse().unwrap()],
            allow: vec!["0.0.0.0/0".parse().unwrap()],
            ports: vec![80, 443],
            udp_ports: vec![53],
        };
        let check = |text: &str| policy.check(text.parse().unwrap());
        assert!(matches!(check("192.168.1.5"), Err(Refusal::Home(_))));
        assert!(matches!(check("::ffff:192.168.1.5"), Err(Refusal::Home(_))));
        assert!(matches!(check("2a00:1::5"), Err(Refusal::Home(_))));
        assert!(matches!(check("10.9.3.3"), Err(Refusal::Client(_))));
        assert!(matches!(check("::ffff:9.9.9.10"), Err(Refusal::Own(_))));
        assert_eq!(check("10.8.0.1"), Ok("10.8.0.1".parse().unwrap()));
        assert_eq!(check("::ffff:8.8.8.8"), Ok("8.8.8.8".parse().unwrap()));
        assert!(policy.is_client("::ffff:10.9.0.1".parse().unwrap()));
        assert!(policy.check_port(Transport::Tcp, 443).is_ok());
        let refused = policy.check_port(Transport::Tcp, 25).unwrap_err();
        assert!(refused.to_string().contains("port 25"), "{refused}");
        assert!(policy.check_port(Transport::Udp, 443).is_err());
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
}
