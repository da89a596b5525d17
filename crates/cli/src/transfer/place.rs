//! The address of a receiver, as `HOST` or `HOST:PORT`.

use super::PORT;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// A host by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    host: String,
    port: u16,
}

impl Place {
    /// All addresses of the host, each once.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut addresses = Vec::new();
        for address in found.map_err(|error| format!("cannot find the host `{}`: {error}", self.host))? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.is_empty() {
            true => Err(format!("the host `{}` has no address", self.host)),
            false => Ok(addresses),
        }
    }
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let wrong =
            |what: &str| format!("{what}; write host, host:port, 192.0.2.7:{PORT} or [2001:db8::7]:{PORT}");
        let port = |text: &str| match text.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(wrong(&format!("`{text}` is not a port from 1 to 65535"))),
        };
        // A link-local address has its interface behind it: fe80::7%eth0.
        let is_address = match text.split_once('%') {
            Some((address, _)) => address.parse::<Ipv6Addr>().is_ok(),
            None => text.parse::<IpAddr>().is_ok(),
        };
        if is_address {
            return Ok(Place { host: text.to_owned(), port: PORT });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("the bracket is not closed"))?;
            let port = match rest.strip_prefix(':') {
                Some(text) => port(text)?,
                None if rest.is_empty() => PORT,
                None => return Err(wrong(&format!("`{rest}` after the bracket is not a port"))),
            };
            return Ok(Place { host: host.to_owned(), port });
        }
        match text.split_once(':') {
            _ if text.is_empty() || text.starts_with(':') => Err(wrong("there is no host")),
            Some((_, rest)) if rest.contains(':') => Err(wrong("an IPv6 address with a port needs brackets")),
            Some((host, text)) => Ok(Place { host: host.to_owned(), port: port(text)? }),
            None => Ok(Place { host: text.to_owned(), port: PORT }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_a_port() {
        for (text, host, port) in [
            ("example.org", "example.org", PORT),
            ("example.org:7", "example.org", 7),
            ("192.0.2.7", "192.0.2.7", PORT),
            ("2001:db8::7", "2001:db8::7", PORT),
            ("[2001:db8::7]", "2001:db8::7", PORT),
            ("[2001:db8::7]:9", "2001:db8::7", 9),
            ("fe80::7%eth0", "fe80::7%eth0", PORT),
            ("[fe80::7%eth0]:9", "fe80::7%eth0", 9),
        ] {
            assert_eq!(text.parse(), Ok(Place { host: host.into(), port }), "{text}");
        }
        for text in ["", ":7", "a:", "a:0", "a:65536", "a:b", "[::1", "[::1]7", "2001:db8::7:x:1"] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains("write host, host:port"), "{text}: {error}");
        }
    }
}
