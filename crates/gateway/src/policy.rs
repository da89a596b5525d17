//! The policy for destinations: neighbours reach the public Internet, and nothing else.

use crate::block::{Blocklist, List};
use crate::notes::{BEHIND_UNKNOWN, HOME, Note, Value, WAN_UNKNOWN, in_english};
use ipnet::IpNet;
use leeway_net::{Attached, Attachment, special as special_address};
use std::net::IpAddr;
use std::sync::Arc;

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
    /// An address of a network that the gateway reaches without a router.
    #[error("{0} is in a network that the gateway is in")]
    OnLink(IpAddr),
    /// An address of the users of the gateway.
    #[error("{0} belongs to another user of this gateway")]
    Client(IpAddr),
    /// A port that is not open.
    #[error("port {0} is not open; the owner of the gateway can add it to `{1}`")]
    Port(u16, &'static str),
    /// A name of the owner's blocklist, or a name below one of them.
    #[error("the owner of the gateway has blocked the name")]
    BlockedName,
    /// An address in a network of the owner's blocklist.
    #[error("the owner of the gateway has blocked the network of {0}")]
    BlockedNetwork(IpAddr),
    /// A port of the owner's blocklist.
    #[error("the owner of the gateway has blocked port {0}")]
    BlockedPort(u16),
}

impl Refusal {
    /// The owner's blocklist that refuses, if one does.
    pub fn list(self) -> Option<List> {
        match self {
            Refusal::BlockedName => Some(List::Domains),
            Refusal::BlockedNetwork(_) => Some(List::Networks),
            Refusal::BlockedPort(_) => Some(List::Ports),
            _ => None,
        }
    }
}

/// What the owner of the line allows as destinations.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Networks of the home, and addresses of its routers on the side of the Internet. Never
    /// reached.
    pub home: Vec<IpNet>,
    /// Networks of the users. Never reached through the gateway.
    pub clients: Vec<IpNet>,
    /// Addresses of the gateway, which are never reached, and the networks that it is in. Read
    /// anew for each check.
    pub attached: Attached,
    /// Networks that may be reached although they are not public or the gateway is in them, for
    /// test networks.
    pub allow: Vec<IpNet>,
    /// TCP ports that may be reached.
    pub ports: Vec<u16>,
    /// UDP ports that may be reached.
    pub udp_ports: Vec<u16>,
    /// The owner's blocklists. They also apply to what `allow` or `ports` contain.
    pub block: Arc<Blocklist>,
}

/// The transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl Policy {
    /// Checks an address, and returns it in its plain form, to connect to.
    ///
    /// # Errors
    /// Why the address is refused.
    pub fn check(&self, address: IpAddr) -> Result<IpAddr, Refusal> {
        // ::ffff:10.0.0.1 is 10.0.0.1, and is checked and connected to as that.
        let address = address.to_canonical();
        let within = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&address));
        let attachment = self.attached.of(address);
        if attachment == Some(Attachment::Own) {
            return Err(Refusal::Own(address));
        }
        if within(&self.home) {
            return Err(Refusal::Home(address));
        }
        if within(&self.clients) {
            return Err(Refusal::Client(address));
        }
        if self.block.has_address(address) {
            return Err(Refusal::BlockedNetwork(address));
        }
        if within(&self.allow) {
            return Ok(address);
        }
        match (special_address(address), attachment) {
            (Some(what), _) => Err(Refusal::Address(address, what)),
            (None, Some(_)) => Err(Refusal::OnLink(address)),
            (None, None) => Ok(address),
        }
    }

    /// Checks whether a port may be reached.
    ///
    /// # Errors
    /// [`Refusal::BlockedPort`] or [`Refusal::Port`].
    pub fn check_port(&self, transport: Transport, port: u16) -> Result<(), Refusal> {
        let (ports, name) = match transport {
            Transport::Tcp => (&self.ports, "ports"),
            Transport::Udp => (&self.udp_ports, "udp_ports"),
        };
        if self.block.has_port(port) {
            return Err(Refusal::BlockedPort(port));
        }
        if ports.contains(&port) { Ok(()) } else { Err(Refusal::Port(port, name)) }
    }

    /// Checks whether a name may be resolved.
    ///
    /// # Errors
    /// [`Refusal::BlockedName`].
    pub fn check_name(&self, name: &str) -> Result<(), Refusal> {
        if self.block.has_name(name) { Err(Refusal::BlockedName) } else { Ok(()) }
    }

    /// What counts as the home, and what cannot be known about it, as sentences for the owner.
    pub fn home_in_words(&self) -> Vec<String> {
        in_english(&self.home_notes())
    }

    /// [`Policy::home_in_words`] as notes.
    pub(crate) fn home_notes(&self) -> Vec<Note> {
        let now = self.attached.surroundings();
        // Each network is listed once, and only if a packet to it would leave this machine.
        let everywhere = |network: &IpNet| network.addr().is_loopback() || network.addr().is_multicast();
        let link_local =
            |network: &IpNet| matches!(network, IpNet::V6(v6) if v6.addr().is_unicast_link_local());
        let inside = |network: &IpNet| {
            let others = now.on_link.keys().chain(&self.home).chain(&self.clients);
            others.into_iter().any(|other| other != network && other.contains(network))
        };
        let on_link = now.on_link.iter().filter(|(network, _)| {
            !everywhere(network)
                && !link_local(network)
                && !inside(network)
                && !self.home.contains(network)
                && !self.clients.contains(network)
        });
        let named = self.home.iter().map(IpNet::to_string);
        let on_link = on_link.map(|(network, device)| format!("{network} ({device})"));
        let networks = named.chain(on_link).collect::<Vec<_>>().join(", ");
        let networks = if networks.is_empty() { networks } else { networks + ", " };
        let mut notes = vec![Note::new(&HOME, [Value::same(networks)])];
        let public = |address: &IpAddr| address.is_ipv4() && special_address(*address).is_none();
        if !now.own.iter().any(public) && !self.home.iter().any(|network| public(&network.addr())) {
            notes.push(Note::new(&WAN_UNKNOWN, []));
        }
        notes.push(Note::new(&BEHIND_UNKNOWN, []));
        notes
    }

    /// Whether a client at this address may use the gateway.
    pub fn is_client(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.clients.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockConfig;
    use leeway_net::Surroundings;
    #[test]
    fn home_gateway_and_users_come_before_what_is_allowed() {
        let block = BlockConfig {
            domains: vec!["ads.example".into()],
            networks: ["9.8.7.128/25", "8.8.4.0/24"].map(str::to_owned).into(),
            ports: [6881].into(),
        };
        let block = Blocklist::read(&block).unwrap();
        let policy = Policy {
            home: vec!["192.168.1.0/24".parse().unwrap(), "2a00:1::/64".parse().unwrap()],
            clients: vec!["10.9.0.0/16".parse().unwrap()],
            attached: Attached::fixed(Surroundings {
                own: ["203.0.113.7", "9.9.9.10"].map(|text| text.parse().unwrap()).into(),
                on_link: ["9.9.9.0/24", "2a00:2::/64", "9.8.0.0/16"]
                    .map(|text| (text.parse().unwrap(), "eth0".to_owned()))
                    .into(),
            }),
            allow: ["10.0.0.0/8", "9.8.7.0/24"].map(|text| text.parse().unwrap()).into(),
            ports: vec![80, 443],
            udp_ports: vec![53],
            block: Arc::new(block),
        };
        let check = |text: &str| policy.check(text.parse().unwrap());
        assert!(matches!(check("192.168.1.5"), Err(Refusal::Home(_))));
        assert!(matches!(check("::ffff:192.168.1.5"), Err(Refusal::Home(_))));
        assert!(matches!(check("2a00:1::5"), Err(Refusal::Home(_))));
        assert!(matches!(check("10.9.3.3"), Err(Refusal::Client(_))));
        assert!(matches!(check("::ffff:9.9.9.10"), Err(Refusal::Own(_))));
        assert!(matches!(check("9.9.9.11"), Err(Refusal::OnLink(_))));
        assert!(matches!(check("::ffff:9.9.9.11"), Err(Refusal::OnLink(_))));
        assert!(matches!(check("2a00:2::77"), Err(Refusal::OnLink(_))));
        assert!(matches!(check("9.8.6.1"), Err(Refusal::OnLink(_))));
        assert!(matches!(check("172.16.0.1"), Err(Refusal::Address(..))));
        assert_eq!(check("9.8.7.1"), Ok("9.8.7.1".parse().unwrap()), "the owner has said so");
        assert_eq!(check("10.8.0.1"), Ok("10.8.0.1".parse().unwrap()));
        assert_eq!(check("::ffff:8.8.8.8"), Ok("8.8.8.8".parse().unwrap()));
        assert_eq!(check("9.8.7.129"), Err(Refusal::BlockedNetwork("9.8.7.129".parse().unwrap())));
        assert!(matches!(check("::ffff:8.8.4.4"), Err(Refusal::BlockedNetwork(_))));
        assert_eq!(policy.check_name("x.ads.example"), Err(Refusal::BlockedName));
        assert_eq!(policy.check_name("example"), Ok(()));
        assert_eq!(policy.check_port(Transport::Udp, 6881), Err(Refusal::BlockedPort(6881)));
        assert!(policy.is_client("::ffff:10.9.0.1".parse().unwrap()));
        assert!(policy.check_port(Transport::Tcp, 443).is_ok());
        let refused = policy.check_port(Transport::Tcp, 25).unwrap_err();
        assert!(refused.to_string().contains("port 25"), "{refused}");
        assert!(policy.check_port(Transport::Udp, 443).is_err());
    }
}
