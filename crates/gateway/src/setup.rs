//! Writes a first configuration from the interfaces of this machine.

use ipnet::IpNet;
use leeway_net::{Interface, Uplink};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The values of the configuration that `leeway gateway init` writes.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Networks of the home.
    pub home: Vec<IpNet>,
    /// Networks of the neighbours.
    pub clients: Vec<IpNet>,
    /// Addresses of the HTTP proxy.
    pub listen: Vec<SocketAddr>,
    /// The address of the owner's page, and the file of the users who may see it.
    pub page: Option<(SocketAddr, PathBuf)>,
    /// The file of neighbours with names and passwords, if they need passwords.
    pub users_file: Option<PathBuf>,
    /// The folder for the gateway's files, if it is not the usual one.
    pub state: Option<PathBuf>,
}

/// The home's networks. If this machine is behind the home's router, the networks between the two.
/// If this machine is that router, the networks of its only other interface that has none of the
/// `clients`. Empty if this cannot be decided.
pub fn home(interfaces: &[Interface], uplinks: &[Uplink], clients: &[IpNet]) -> Vec<IpNet> {
    let at_uplink = |interface: &&Interface| uplinks.iter().any(|uplink| uplink.interface == interface.name);
    let beside: Vec<IpNet> =
        usable(interfaces).filter(at_uplink).filter(is_private).flat_map(networks).collect();
    if !beside.is_empty() {
        return beside;
    }
    let mut inside = usable(interfaces).filter(|interface| !at_uplink(interface) && !is_inner(interface));
    let inside = inside.by_ref().filter(|interface| !networks(interface).any(|own| meets(&own, clients)));
    match &inside.collect::<Vec<_>>()[..] {
        [only] if !clients.is_empty() => networks(only).collect(),
        _ => vec![],
    }
}

/// The neighbours' networks: those of the only interface that is neither the home's nor leads to
/// the Internet. Empty if there is not exactly one such interface.
pub fn clients(interfaces: &[Interface], uplinks: &[Uplink], home: &[IpNet]) -> Vec<IpNet> {
    let others = usable(interfaces).filter(|interface| {
        let at_uplink = uplinks.iter().any(|uplink| uplink.interface == interface.name);
        !at_uplink && !is_inner(interface) && !networks(interface).any(|own| meets(&own, home))
    });
    match &others.collect::<Vec<_>>()[..] {
        [only] => networks(only).collect(),
        _ => vec![],
    }
}

/// The addresses of this machine in the networks `within`.
pub fn addresses(interfaces: &[Interface], within: &[IpNet]) -> Vec<IpAddr> {
    let own = usable(interfaces).flat_map(|interface| &interface.addresses).map(IpNet::addr);
    own.filter(|address| within.iter().any(|network| network.contains(address))).collect()
}

/// Whether this machine forwards IPv4 packets.
pub fn forwards() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

/// Whether packets between the home and the Internet pass this machine. They do if it forwards
/// packets, and reaches the home at other interfaces than the Internet.
pub fn passes(interfaces: &[Interface], uplinks: &[Uplink], home: &[IpNet], forwards: bool) -> bool {
    let mut at_home = at(interfaces, home).peekable();
    let inside = at_home.peek().is_some();
    inside
        && forwards
        && at_home.all(|interface| uplinks.iter().all(|uplink| uplink.interface != interface.name))
}

/// The interfaces of this machine at the networks `home`.
pub(crate) fn at<'a>(
    interfaces: &'a [Interface],
    home: &'a [IpNet],
) -> impl Iterator<Item = &'a Interface> + 'a {
    usable(interfaces).filter(|interface| networks(interface).any(|own| meets(&own, home)))
}

fn usable(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces
        .iter()
        .filter(|interface| interface.up && !interface.loopback && networks(interface).next().is_some())
}

/// The networks of an interface. A single address, as tunnels have it, is no network.
fn networks(interface: &Interface) -> impl Iterator<Item = IpNet> + '_ {
    interface.networks().filter(|network| network.prefix_len() < network.max_prefix_len())
}

/// Whether the interface is the bridge of containers or virtual machines of this machine, by the
/// names that Docker, Podman, CNI, libvirt, LXC and Incus give. No neighbours are behind it.
fn is_inner(interface: &Interface) -> bool {
    let name = interface.name.as_str();
    let of_docker = |id: &str| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bridges = ["docker", "podman", "cni", "virbr", "lxcbr", "lxdbr", "incusbr"];
    let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix("br-").is_some_and(of_docker)
        || bridges.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(numbered))
}

/// Whether the interface has a private network (RFC 1918), as a home does. A provider gives public
/// addresses, or those of RFC 6598.
fn is_private(interface: &&Interface) -> bool {
    networks(interface).any(|network| matches!(network, IpNet::V4(v4) if v4.addr().is_private()))
}

fn meets(network: &IpNet, others: &[IpNet]) -> bool {
    others.iter().any(|other| other.contains(network) || network.contains(other))
}

impl Setup {
    /// The text of the file, with comments.
    pub fn toml(&self) -> String {
        let mut text = format!(
            "# Written by `leeway gateway init`. `leeway gateway check` says what is wrong after a change.\n\
             # share/leeway/gateway.toml of the installation explains every setting.\n\
             \n\
             # Where neighbours find the HTTP proxy.\n\
             listen = {}\n\
             \n\
             # Who may use it: machines with these addresses. They reach the Internet, never each other.\n\
             clients = {}\n\
             \n\
             # The home, whose line this is: never reached by neighbours, who yield while it is at work.\n\
             home = {}\n",
            list(&self.listen),
            list(&self.clients),
            list(&self.home),
        );
        match &self.users_file {
            Some(path) => {
                text += &format!(
                    "\n# Neighbours need a name and a password: leeway gateway passwd NAME --file {0}\n\
                     users_file = {1}\n",
                    path.display(),
                    quoted(path)
                );
            }
            None => {
                text += "\n# With this file neighbours need a name and a password.\n\
                         # users_file = \"/etc/leeway/users\"\n"
            }
        }
        text += "\n# Or they give codes, which `leeway gateway invite` and `leeway gateway voucher` make.\n\
                 # vouchers = true\n";
        text += "\n# Bytes and requests of each neighbour, for Prometheus, on this machine only.\n\
                 # metrics = \"127.0.0.1:9300\"\n";
        if let Some((listen, owners)) = &self.page {
            text += &format!(
                "\n# Your page, in the home's network only. Another password:\n\
                 # leeway gateway passwd NAME --file {}\n\
                 [page]\nlisten = \"{listen}\"\nusers_file = {}\n",
                owners.display(),
                quoted(owners)
            );
        }
        text += "\n# The bytes of each user, without destinations.\n[accounts]\n";
        if let Some(folder) = &self.state {
            let [accounts, socket] = ["accounts.db", "control.sock"].map(|name| quoted(&folder.join(name)));
            text += &format!(
                "url = {accounts}\n\n\
                 # Where `leeway gateway status` reaches the gateway, and what outlives a restart.\n"
            );
            text += &format!("[control]\nsocket = {socket}\nstate = {}\n", quoted(folder));
        }
        text += "\n# Caps that protect the bill, where the line has a volume. Without `time_zone`, days are\n\
                 # those of this machine's clock.\n\
                 # [caps]\n\
                 # time_zone = \"Europe/Madrid\"\n\
                 # month = { volume = \"1 TB\", keep_for_home = \"600 GB\" }\n\
                 # user = { daily = \"5 GB\" }\n";
        text
    }
}

fn list(entries: &[impl ToString]) -> String {
    let entries = entries.iter().map(|entry| format!("\"{}\"", entry.to_string()));
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

/// A string in TOML.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Document, Machine, Severity, judge};
    use crate::config::Config;
    use leeway_net::Family;

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Interface { name: name.into(), up: true, loopback: name == "lo", addresses }
    }

    fn uplink(interface: &str) -> Vec<Uplink> {
        vec![Uplink { family: Family::V4, interface: interface.into() }]
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// A machine behind the home's router, with a mesh at a second interface.
    fn beside() -> Vec<Interface> {
        vec![
            interface("lo", &["127.0.0.1/8"]),
            interface("eth0", &["192.168.1.2/24", "2001:db8:1::2/64", "fe80::2/64"]),
            interface("mesh0", &["10.20.0.1/16", "fd20::1/64", "fe80::3/64"]),
            interface("wg0", &["10.99.0.1/32"]),
        ]
    }

    /// The home's router itself.
    fn router() -> Vec<Interface> {
        vec![
            interface("wan", &["9.8.7.6/22"]),
            interface("lan", &["192.168.1.1/24", "2001:db8:1::1/64"]),
            interface("mesh0", &["10.20.0.1/16"]),
        ]
    }

    #[test]
    fn a_machine_beside_the_router_knows_home_and_neighbours() {
        let (all, up) = (beside(), uplink("eth0"));
        let home = home(&all, &up, &[]);
        assert_eq!(home, nets(&["192.168.1.0/24", "2001:db8:1::/64"]));
        let clients = clients(&all, &up, &home);
        assert_eq!(clients, nets(&["10.20.0.0/16", "fd20::/64"]));
        let own =
            |within: &[IpNet]| addresses(&all, within).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(own(&clients), ["10.20.0.1", "fd20::1"]);
        assert_eq!(own(&home), ["192.168.1.2", "2001:db8:1::2"]);
        assert!(!passes(&all, &up, &home, true), "the home has a router of its own");
    }

    #[test]
    fn the_home_s_router_is_told_which_network_is_the_neighbours() {
        let (all, up) = (router(), uplink("wan"));
        assert!(
            home(&all, &up, &[]).is_empty() && clients(&all, &up, &[]).is_empty(),
            "it may be the one or the other"
        );
        let home = home(&all, &up, &nets(&["10.20.0.0/16"]));
        assert_eq!(home, nets(&["192.168.1.0/24", "2001:db8:1::/64"]));
        assert_eq!(clients(&all, &up, &home), nets(&["10.20.0.0/16"]));
        assert!(passes(&all, &up, &home, true) && !passes(&all, &up, &home, false));
    }

    #[test]
    fn containers_of_this_machine_are_no_neighbours() {
        let inner = [
            interface("docker0", &["172.17.0.1/16"]),
            interface("br-0a1b2c3d4e5f", &["172.18.0.1/16"]),
            interface("virbr0", &["192.168.122.1/24"]),
        ];
        let alone = [&beside()[..2], &inner].concat();
        let home = home(&alone, &uplink("eth0"), &[]);
        assert!(clients(&alone, &uplink("eth0"), &home).is_empty());
        // A bridge of neighbours may have such a name, too.
        let mesh = interface("br-mesh", &["10.20.0.1/16"]);
        let all = [&alone[..], &[mesh]].concat();
        assert_eq!(clients(&all, &uplink("eth0"), &home), nets(&["10.20.0.0/16"]));
        let router = [&router()[..], &inner].concat();
        assert_eq!(super::home(&router, &uplink("wan"), &nets(&["10.20.0.0/16"])).len(), 2);
    }

    #[test]
    fn a_machine_with_one_interface_has_no_neighbours() {
        let all = &beside()[..2];
        let home = home(all, &uplink("eth0"), &[]);
        assert!(!home.is_empty() && clients(all, &uplink("eth0"), &home).is_empty());
        let down = Interface { up: false, ..interface("mesh0", &["10.20.0.1/16"]) };
        assert!(clients(&[all[1].clone(), down], &uplink("eth0"), &home).is_empty());
    }

    #[test]
    fn what_is_written_is_right() {
        let all = Setup {
            home: nets(&["192.168.1.0/24", "2001:db8:1::/64"]),
            clients: nets(&["10.20.0.0/16", "fd20::/64"]),
            listen: vec!["10.20.0.1:3128".parse().unwrap(), "[fd20::1]:3128".parse().unwrap()],
            page: Some(("192.168.1.2:8080".parse().unwrap(), "/etc/leeway/owners".into())),
            users_file: Some("/etc/lee\"way/users".into()),
            state: Some("/tmp/state".into()),
        };
        let least = Setup { page: None, users_file: None, state: None, ..all.clone() };
        for setup in [&all, &least] {
            let text = setup.toml();
            let machine = Machine { interfaces: beside(), ..Machine::default() };
            let findings = judge(Path::new("g.toml"), &Document::read(&text), Some(&machine));
            let bad = findings.iter().find(|finding| finding.severity != Severity::Note);
            assert!(bad.is_none(), "{text}\n{bad:#?}");
            let config = Config::parse(&text).unwrap();
            assert_eq!(
                (&config.home, &config.clients, &config.listen),
                (&setup.home, &setup.clients, &setup.listen)
            );
            assert_eq!(config.users_file, setup.users_file);
            assert_eq!(config.page.map(|page| page.listen), setup.page.as_ref().map(|(listen, _)| *listen));
            assert_eq!(config.control.map(|control| control.state), setup.state);
            // The settings that are commented out can be used as well.
            let more = text
                .replace("# [caps]", "[caps]")
                .replace("# time", "time")
                .replace("# month", "month")
                .replace("# user =", "user =");
            assert!(Config::parse(&more).unwrap().caps.unwrap().month.is_some());
        }
    }
}
