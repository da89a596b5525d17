//! Addresses inside the tunnel: the server's, and each client's by its number.

use crate::Error;
use crate::identity::Secret;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 network and an IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    v4: Network4,
    v6: Ipv6Addr,
}

/// An IPv4 network, `10.213.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network4 {
    base: Ipv4Addr,
    bits: u8,
}

/// Prefix length of the pool's IPv6 network.
pub const V6_BITS: u8 = 64;

impl Pool {
    /// The pool of a server: the IPv4 network, and a unique local IPv6 network (RFC 4193) that is
    /// derived from the server's key.
    pub fn new(v4: Network4, key: &Secret) -> Self {
        let random = key.derive("leeway tunnel network");
        let mut octets = [0; 16];
        octets[0] = 0xfd;
        octets[1..8].copy_from_slice(&random[..7]);
        Pool { v4, v6: Ipv6Addr::from(octets) }
    }

    /// The IPv4 network.
    pub fn network_v4(&self) -> String {
        self.v4.to_string()
    }

    /// The IPv6 network.
    pub fn network_v6(&self) -> String {
        format!("{}/{V6_BITS}", self.v6)
    }

    /// The server's own addresses.
    pub fn server(&self) -> (Ipv4Addr, Ipv6Addr) {
        (self.host4(1), self.host6(1))
    }

    /// The addresses of the client with this number. Numbers start at 1.
    ///
    /// # Errors
    /// [`Error::Options`] if the network is too small.
    pub fn client(&self, number: u32) -> Result<(Ipv4Addr, Ipv6Addr), Error> {
        let host = number.saturating_add(1);
        // The last address is the broadcast address.
        if number == 0 || u64::from(host) + 1 >= 1 << (32 - self.v4.bits) {
            return Err(Error::Options(format!(
                "the network {} has no address for client {number}; give the server a larger one",
                self.v4
            )));
        }
        Ok((self.host4(host), self.host6(host)))
    }

    fn host4(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.v4.base) | host)
    }

    fn host6(&self, host: u32) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(self.v6) | u128::from(host))
    }
}

impl Network4 {
    /// Prefix length.
    pub const fn bits(&self) -> u8 {
        self.bits
    }
}

impl Default for Network4 {
    fn default() -> Self {
        Network4 { base: Ipv4Addr::new(10, 213, 0, 0), bits: 16 }
    }
}

impl std::fmt::Display for Network4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

impl FromStr for Network4 {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::Options(format!("{text:?} is not an IPv4 network such as 10.213.0.0/16, of /8 to /29"));
        let (base, bits) = text.split_once('/').ok_or_else(wrong)?;
        let base: Ipv4Addr = base.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().ok().filter(|bits| (8..=29).contains(bits)).ok_or_else(wrong)?;
        if u32::from(base) & (u32::MAX >> bits) != 0 {
            return Err(wrong());
        }
        Ok(Network4 { base, bits })
    }
}

/// The destination of an IP packet.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    address(packet, 16, 24)
}

/// The source of an IP packet.
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    address(packet, 12, 8)
}

fn address(packet: &[u8], at4: usize, at6: usize) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => {
            let octets: [u8; 4] = packet.get(at4..at4 + 4)?.try_into().ok()?;
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        6 if packet.len() >= 40 => {
            let octets: [u8; 16] = packet.get(at6..at6 + 16)?.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_own_addresses() {
        let pool = Pool::new("10.9.0.0/29".parse().unwrap(), &Secret::from_bytes([7; 32]));
        assert_eq!(pool.server().0, Ipv4Addr::new(10, 9, 0, 1));
        let clients: Vec<_> = (1..=5).map(|number| pool.client(number).unwrap()).collect();
        assert_eq!(clients[0].0, Ipv4Addr::new(10, 9, 0, 2));
        assert_eq!(clients[4].0, Ipv4Addr::new(10, 9, 0, 6));
        assert!(clients.iter().all(|(_, v6)| v6.segments()[0] >> 8 == 0xfd));
        // 10.9.0.7 is the broadcast address; number 0 would be the server's.
        assert!(pool.client(6).is_err());
        assert!(pool.client(0).is_err());
        assert!(pool.client(u32::MAX).is_err());
    }

    #[test]
    fn networks_are_checked() {
        for wrong in ["", "10.0.0.0", "10.0.0.1/16", "10.0.0.0/7", "10.0.0.0/30", "fd00::/8"] {
            assert!(wrong.parse::<Network4>().is_err(), "{wrong}");
        }
        assert_eq!("192.168.4.0/24".parse::<Network4>().unwrap().to_string(), "192.168.4.0/24");
    }
}
