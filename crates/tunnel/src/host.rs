//! The network of a machine with a tunnel: addresses, routes, address translation, and limits on
//! what clients may reach.
//!
//! Nothing that blocks traffic outlives the process. The device goes with its descriptor, with its
//! addresses and routes. The nftables table goes with its owner. Two routing rules of a killed
//! client stay. They lead to an empty table then, and the next client removes them. The rule of a
//! killed program that binds its sockets stays as well. [`leftovers`] lists these rules.

use crate::Error;
use crate::device::Tun;
use crate::pool::{Pool, V6_BITS};
use crate::wire::Welcome;
use ipnet::IpNet;
use leeway_net::{
    Attached, Family, Leftover, Rule, Surroundings, TCP_PORTS, Table, UDP_PORTS, ip, ip_of,
    special_destinations, sysctl,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Mark of the tunnel's own packets, and number of the client's routing table.
pub const MARK: u32 = 0x1ee3a;

/// Routing tables of programs that bind their sockets: "LX" plus the interface index of the
/// device.
const BOUND: u32 = 0x4c58_0000;

/// Priority of the routing rules, before those of the system, which start at 32766.
pub(crate) const PRIORITY: u32 = 31_000;

/// Destinations that clients of a relay may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Whether addresses outside the public Internet are allowed, and networks that the server
    /// reaches without a router.
    pub private: bool,
    /// Allowed TCP ports and UDP ports; `None` for all ports and protocols.
    pub ports: Option<[Vec<u16>; 2]>,
}

impl Default for Reach {
    /// The public Internet and the ports of the gateway's default.
    fn default() -> Self {
        Reach { private: false, ports: Some([TCP_PORTS.into(), UDP_PORTS.into()]) }
    }
}

impl Reach {
    /// Rules of nftables that refuse all other forwarded packets from the device.
    fn rules(&self, table: &str, device: &str) -> String {
        let rule = |condition: &str, verdict: &str| {
            format!("add rule inet {table} forward iifname \"{device}\" {condition} {verdict}\n")
        };
        let mut rules = String::new();
        if !self.private {
            let special = Family::ALL.into_iter().flat_map(special_destinations);
            rules.extend(special.map(|condition| rule(&condition, PROHIBITED)));
        }
        if let Some([tcp, udp]) = &self.ports {
            for (protocol, ports, verdict) in
                [("tcp", tcp, "reject with tcp reset"), ("udp", udp, PROHIBITED)]
            {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                let other = format!("{protocol} dport != {{ {} }}", ports.join(", "));
                let all = format!("meta l4proto {protocol}");
                rules += &rule(if ports.is_empty() { &all } else { &other }, verdict);
            }
            rules += &rule("meta l4proto != { tcp, udp, icmp, icmpv6 }", PROHIBITED);
        }
        rules
    }
}

/// Refusal of a destination.
const PROHIBITED: &str = "reject with icmpx type admin-prohibited";

/// Interval at which the server checks that its rules exist.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Chain with the destinations that the server reaches without a router.
const NEAR: &str = "near";

/// The commands, in one line, that make [`NEAR`] refuse the networks of `now`.
fn near_rules(table: &str, now: &Surroundings) -> String {
    let networks = IpNet::aggregate(&now.on_link.keys().copied().collect());
    let mut line = format!("flush chain inet {table} {NEAR}");
    for (family, four) in [("ip", true), ("ip6", false)] {
        let of_family = networks.iter().filter(|network| network.addr().is_ipv4() == four);
        let set: Vec<String> = of_family.map(IpNet::to_string).collect();
        if !set.is_empty() {
            let set = set.join(", ");
            line += &format!("; add rule inet {table} {NEAR} {family} daddr {{ {set} }} {PROHIBITED}");
        }
    }
    line + "\n"
}

/// The server's side: device, addresses and rules.
#[derive(Debug)]
pub struct ServerHost {
    /// Name of the nftables table.
    table: String,
    /// The table until the end.
    rules: Arc<Mutex<Option<Table>>>,
    private: bool,
    /// Ends the thread that follows the networks.
    attached: Option<Attached>,
}

impl ServerHost {
    /// Gives the device its addresses, and translates what clients send to the Internet, within
    /// `reach`. Clients reach neither each other nor this host, except by ping to its address in
    /// the tunnel.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn new(tun: &Tun, pool: &Pool, mtu: u16, reach: &Reach) -> Result<Self, Error> {
        let name = tun.name();
        let (v4, v6) = pool.server();
        let (network_v4, network_v6) = (pool.network_v4(), pool.network_v6());
        let bits = network_v4.rsplit('/').next().unwrap_or("16").to_owned();
        // The rules come before the device is up, so that it never forwards everything. A packet
        // that the kernel cannot track would leave with the client's address in the tunnel.
        let table = format!("{}_{}", name.replace('-', "_"), std::process::id());
        let refused = reach.rules(&table, name);
        let near = if reach.private { Surroundings::default() } else { Surroundings::now()? };
        let near = near_rules(&table, &near);
        let rules = Table::own(
            "inet",
            &table,
            &format!(
                "add table inet {table} {{ flags owner; }}\n\
                 add chain inet {table} out {{ type nat hook postrouting priority 100; }}\n\
                 add chain inet {table} forward {{ type filter hook forward priority 0; }}\n\
                 add chain inet {table} input {{ type filter hook input priority 0; }}\n\
                 add chain inet {table} {NEAR}\n\
                 add rule inet {table} input iifname \"{name}\" ip daddr {v4} icmp type echo-request accept\n\
                 add rule inet {table} input iifname \"{name}\" ip6 daddr {v6} icmpv6 type echo-request accept\n\
                 add rule inet {table} input iifname \"{name}\" drop\n\
                 add rule inet {table} forward iifname \"{name}\" oifname \"{name}\" drop\n\
                 add rule inet {table} forward iifname \"{name}\" ct state invalid drop\n\
                 {near}\
                 add rule inet {table} forward iifname \"{name}\" jump {NEAR}\n\
                 {refused}\
                 add rule inet {table} forward oifname \"{name}\" ct state new drop\n\
                 add rule inet {table} forward iifname \"{name}\" tcp flags syn tcp option maxseg size set rt mtu\n\
                 add rule inet {table} forward oifname \"{name}\" tcp flags syn tcp option maxseg size set rt mtu\n\
                 add rule inet {table} out iifname \"{name}\" ip saddr {network_v4} masquerade\n\
                 add rule inet {table} out iifname \"{name}\" ip6 saddr {network_v6} masquerade\n"
            ),
        )?;
        let own_v6 =
            if has_v6(name) { format!("addr add {v6}/{V6_BITS} dev {name} nodad\n") } else { String::new() };
        ip(&format!(
            "addr add {v4}/{bits} dev {name}\n{own_v6}link set dev {name} up mtu {mtu} txqueuelen 1000\n"
        ))?;
        let rules = Arc::new(Mutex::new(Some(rules)));
        Ok(ServerHost { table, rules, private: reach.private, attached: None })
    }

    /// Keeps clients from the networks that this host reaches without a router, while those change
    /// (DHCP, router advertisements). No router's firewall protects the hosts in them. `failed`
    /// hears that the rules could not be changed; clients then reach a new network.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn follow(&mut self, failed: impl Fn(Error) + Send + Sync + 'static) -> Result<(), Error> {
        if self.private {
            return Ok(());
        }
        let near = Near { table: self.table.clone(), rules: Arc::clone(&self.rules), failed };
        let near = Arc::new(near);
        let changed = Arc::clone(&near);
        let attached = Attached::follow(move |now| changed.refuse(|| now.clone()))?;
        // What changed since the table was made.
        near.refuse(|| attached.surroundings());
        self.attached = Some(attached);
        Ok(())
    }

    /// Waits until the rules are gone, because somebody killed their owner. Clients reach
    /// everything then.
    pub async fn unguarded(&self) {
        let there = || match self.rules.try_lock() {
            Ok(mut rules) => rules.as_mut().is_some_and(Table::exists),
            // They are being changed. Whoever does that hears of their end.
            Err(_) => true,
        };
        while there() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Settings of this host that prevent forwarding, as arguments of `sysctl -w`.
    pub fn forwarding_missing() -> Vec<&'static str> {
        [
            ("/proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward=1"),
            ("/proc/sys/net/ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding=1"),
        ]
        .into_iter()
        .filter(|(path, _)| !std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1"))
        .map(|(_, setting)| setting)
        .collect()
    }
}

impl Drop for ServerHost {
    fn drop(&mut self) {
        // The rules end with the process at the latest, not with the thread that changes them.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Changes the rules of [`NEAR`].
struct Near<F> {
    table: String,
    rules: Arc<Mutex<Option<Table>>>,
    failed: F,
}

impl<F: Fn(Error)> Near<F> {
    fn refuse(&self, now: impl Fn() -> Surroundings) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that an older state never replaces a newer one.
        let said = rules.as_mut().map(|rules| rules.tell(&near_rules(&self.table, &now())));
        if let Some(Err(error)) = said {
            (self.failed)(error.into());
        }
    }
}

/// A network to reach through the tunnel, such as `192.0.2.0/24` or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(String);

impl Route {
    pub(crate) fn family(&self) -> Family {
        if self.0.contains(':') { Family::V6 } else { Family::V4 }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl FromStr for Route {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::Options(format!("{text:?} is not a network such as 192.0.2.0/24 or 2001:db8::/32"));
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
        Ok(Route(format!("{address}/{bits}")))
    }
}

/// The client's side: device, addresses and routes.
#[derive(Debug)]
pub struct ClientHost {
    /// Whether all traffic uses the tunnel, by rules that have to be removed.
    everything: bool,
}

impl ClientHost {
    /// Gives the device the addresses of `welcome`, and leads `routes` into it. Empty `routes`
    /// stand for all traffic.
    ///
    /// The tunnel's own packets carry [`MARK`] and go around it.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn new(tun: &Tun, welcome: &Welcome, routes: &[Route]) -> Result<Self, Error> {
        let name = tun.name();
        let Welcome { v4, v6, server_v4, server_v6, mtu, .. } = welcome;
        let mut plain = format!("addr add {v4} peer {server_v4}/32 dev {name}\n");
        let speaks_v6 = has_v6(name);
        if speaks_v6 {
            plain.push_str(&format!("addr add {v6} peer {server_v6}/128 dev {name} nodad\n"));
        }
        plain.push_str(&format!("link set dev {name} up mtu {mtu} txqueuelen 1000\n"));
        let everything = routes.is_empty();
        if everything {
            remove_rules();
            // Responses to marked packets arrive on an interface that unmarked packets would not
            // use. Strict reverse-path filters need to see the mark.
            let _ = sysctl("net/ipv4/conf/all/src_valid_mark", "1");
        }
        let host = ClientHost { everything };
        ip(&plain)?;
        for family in Family::ALL {
            let mut batch = String::new();
            if everything && (family == Family::V4 || speaks_v6) {
                // As wg-quick does it: packets without the mark use a table of their own, unless
                // the main table has a more specific route than the default route.
                batch.push_str(&format!(
                    "route add default dev {name} table {MARK}\n\
                     rule add not fwmark {MARK} table {MARK} priority {}\n\
                     rule add table main suppress_prefixlength 0 priority {PRIORITY}\n",
                    PRIORITY + 1
                ));
            }
            for route in routes.iter().filter(|route| route.family() == family) {
                batch.push_str(&format!("route add {} dev {name}\n", route.0));
            }
            ip_of(family, &batch)?;
        }
        Ok(host)
    }
}

impl Drop for ClientHost {
    fn drop(&mut self) {
        if self.everything {
            remove_rules();
        }
    }
}

/// The client's side in a program in which only sockets bound to the device use the tunnel. No
/// other traffic of this host enters the tunnel, and only responses to those sockets leave it.
#[derive(Debug)]
pub struct BoundHost {
    name: String,
    /// Number of the routing table that leads into the device.
    table: u32,
    _rules: Table,
}

impl BoundHost {
    /// Sets up the rules for the device with that name and interface index.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn new(name: &str, index: u32) -> Result<Self, Error> {
        let name = name.to_owned();
        let ports = leeway_net::given_ports();
        let table = format!("{}_{}", name.replace('-', "_"), std::process::id());
        let rules = Table::own(
            "inet",
            &table,
            &format!(
                "add table inet {table} {{ flags owner; }}\n\
                 add chain inet {table} forward {{ type filter hook forward priority -10; }}\n\
                 add chain inet {table} input {{ type filter hook input priority -10; }}\n\
                 add rule inet {table} forward iifname \"{name}\" drop\n\
                 add rule inet {table} forward oifname \"{name}\" drop\n\
                 add rule inet {table} input iifname \"{name}\" tcp flags & (syn | ack) == syn drop\n\
                 add rule inet {table} input iifname \"{name}\" udp dport {{ {ports} }} accept\n\
                 add rule inet {table} input iifname \"{name}\" meta l4proto {{ udp, udplite, sctp, dccp }} drop\n"
            ),
        )?;
        let host = BoundHost { name, table: BOUND | (index & 0xffff), _rules: rules };
        // Rules of a killed program go as well.
        host.remove_rules();
        let families = if has_v6(&host.name) { &Family::ALL[..] } else { &[Family::V4] };
        for &family in families {
            ip_of(family, &format!("rule add {}\n", host.rule()))?;
        }
        // Responses from the whole Internet arrive on this device. The kernel takes the larger of
        // two filter values, and 2 is the loose filter.
        let _ = sysctl(&format!("net/ipv4/conf/{}/rp_filter", host.name), "2");
        Ok(host)
    }

    /// Gives the device these addresses and this MTU.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn settle(&self, v4: Ipv4Addr, v6: Ipv6Addr, mtu: u16) -> Result<(), Error> {
        let BoundHost { name, table, .. } = self;
        ip(&format!(
            "addr flush dev {name} scope global\naddr add {v4}/32 dev {name}\n\
             link set dev {name} up mtu {mtu} txqueuelen 1000\n"
        ))?;
        ip_of(Family::V4, &format!("route replace default dev {name} table {table}\n"))?;
        if has_v6(name) {
            ip_of(
                Family::V6,
                &format!(
                    "addr add {v6}/128 dev {name} nodad\nroute replace default dev {name} table {table}\n"
                ),
            )?;
        }
        Ok(())
    }

    fn rule(&self) -> String {
        format!("oif {} lookup {} priority {}", self.name, self.table, PRIORITY - 1)
    }

    fn remove_rules(&self) {
        for family in Family::ALL {
            leeway_net::remove_rules(family, &format!("oif {} priority {}", self.name, PRIORITY - 1));
        }
    }
}

impl Drop for BoundHost {
    fn drop(&mut self) {
        self.remove_rules();
    }
}

/// Removes the client's rules, also those of a client that was killed.
pub(crate) fn remove_rules() {
    for family in Family::ALL {
        for priority in [PRIORITY, PRIORITY + 1] {
            leeway_net::remove_rules(family, &format!("priority {priority}"));
        }
    }
}

/// The rules that killed clients left in this network namespace, without those in use.
///
/// # Errors
/// The kernel does not list the rules.
pub fn leftovers() -> Result<Vec<Leftover>, leeway_net::Error> {
    let devices = leeway_net::devices()?;
    // A running client adds its route before its rules.
    let lives = |&family: &Family| leeway_net::routing_tables(family).map(|tables| tables.contains(&MARK));
    let client = Family::ALL.iter().map(lives).collect::<Result<Vec<bool>, _>>()?.contains(&true);
    let left = |rule: Rule| {
        let bound = rule.priority == PRIORITY - 1 && rule.table & 0xffff_0000 == BOUND;
        let around = rule.priority == PRIORITY || rule.priority == PRIORITY + 1 && rule.mark == Some(MARK);
        match &rule.device {
            Some(device) if bound && !devices.contains(device) => {
                Some(Leftover::Rule(rule, "a gateway with a relay that was killed"))
            }
            _ if around && !client => Some(Leftover::Rule(rule, "a `leeway join` that was killed")),
            _ => None,
        }
    };
    Ok(Rule::all()?.into_iter().filter_map(left).collect())
}

/// Whether the device can have IPv6 addresses, even if other devices of the host have none.
pub(crate) fn has_v6(name: &str) -> bool {
    let key = format!("net/ipv6/conf/{name}/disable_ipv6");
    // Without the right to write the setting, it may already have the value.
    let already = || std::fs::read_to_string(format!("/proc/sys/{key}")).is_ok_and(|text| text.trim() == "0");
    sysctl(&key, "0").is_ok() || already()
}
