//! Findings about the values of a configuration that hold on any machine.

use super::{Findings, base, listeners};
use crate::config::Config;
use ipnet::IpNet;
use leeway_net::special;
use std::net::SocketAddr;

/// A network with a shorter prefix belongs to nobody alone. The shortest private prefix of IPv4 is
/// 10.0.0.0/8 (RFC 1918), and a provider of IPv6 gets at most a /19.
const EVERYBODY_BITS: [u8; 2] = [8, 19];
/// A public network with a shorter prefix belongs to more than one site. One site has 256 IPv4
/// addresses, or a /48 of IPv6 (RFC 6177).
const SITE_BITS: [u8; 2] = [24, 48];

pub(super) fn judge(config: &Config, findings: &mut Findings) {
    reach(config, findings);
    everybody(config, findings);
    overlap(config, findings);
    owners_side(config, findings);
    doubled(config, findings);
    found(config, findings);
    host_bits(config, findings);
    peers(config, findings);
    if let Some(relay) = &config.relay {
        if let Err(error) = relay.options() {
            findings.error("relay", error.to_string(), "");
        }
        if relay.token.is_none() && relay.token_file.as_os_str().is_empty() {
            let right =
                "token_file = \"/etc/leeway/relay.token\", with what `leeway invite` printed on the relay";
            findings.error("relay", "[relay] has no `token_file`", right);
        }
    }
    if let Some(caps) = &config.caps {
        if let Err(what) = caps.check() {
            findings.error("caps", what, "");
        }
        if config.accounts.is_none() {
            let what = "[caps] needs accounts, which know what was used before a restart";
            findings.error("caps", what, "add a line [accounts]");
        }
    }
    if config.vouchers && config.accounts.is_none() {
        let what = "`vouchers` needs accounts, where the codes are kept";
        findings.error("vouchers", what, "add a line [accounts]");
    }
    if let Some(destinations) = &config.destinations {
        if destinations.keep_days == 0 {
            let what = "destinations.keep_days is 0: a file would be deleted on the next day";
            findings.error("destinations.keep_days", what, "the number of days that the law demands");
        }
        let what = "the addresses that neighbours reach are logged: do this only where the law demands it";
        findings.note("destinations", what, "");
    }
    for (key, what, right) in config.block.wrong() {
        findings.error(&key, what, right);
    }
    limits(config, findings);
}

fn reach(config: &Config, findings: &mut Findings) {
    if config.observe {
        return;
    }
    if config.listen.is_empty() && config.socks.is_empty() && config.transparent.is_none() {
        let right = "give `listen`, such as [\"10.20.0.1:3128\"], `socks` or [transparent]";
        findings.error("listen", "nobody can reach the gateway", right);
    }
    if config.clients.is_empty() {
        findings.error("clients", "nobody may use the gateway", "give `clients`, such as [\"10.20.0.0/16\"]");
    }
}

/// Reports open proxies. Strangers find one within hours, and its owner is liable for what they
/// do.
fn everybody(config: &Config, findings: &mut Findings) {
    let proxies = || config.listen.iter().chain(&config.socks);
    if proxies().all(|address| address.ip().is_loopback()) && config.transparent.is_none() {
        return;
    }
    let right = "name the network of the neighbours, such as clients = [\"10.20.0.0/16\"], or let them have names \
                 and passwords: users_file = \"/etc/leeway/users\"";
    for (n, network) in config.clients.iter().enumerate() {
        let [everybody, site] =
            [EVERYBODY_BITS, SITE_BITS].map(|bits| bits[usize::from(network.addr().is_ipv6())]);
        let key = format!("clients[{n}]");
        let open = network.prefix_len() < everybody;
        let public = special(network.addr()).is_none() && network.prefix_len() < site;
        let named = config.users_file.is_some() || config.vouchers;
        if open && !named {
            let what =
                format!("an open proxy: {network} is everybody on the Internet, and nobody needs a password");
            findings.error(&key, what, right);
        } else if open {
            let what = format!(
                "{network} is everybody on the Internet: names and passwords are sent unencrypted, and anybody can guess them"
            );
            findings.warning(&key, what, "name the networks that the neighbours come from");
        } else if public && !named {
            let what =
                format!("{network} has public addresses of more than one site, and nobody needs a password");
            findings.warning(&key, what, right);
        }
    }
}

fn overlap(config: &Config, findings: &mut Findings) {
    for (n, home) in config.home.iter().enumerate() {
        for client in config.clients.iter().filter(|client| overlaps(home, client)) {
            let key = format!("home[{n}]");
            let what = match home.trunc() == client.trunc() {
                true => {
                    format!("home and clients are the same network {home}, so neighbours count as the home")
                }
                false => format!("{home} overlaps {client} of `clients`, so neighbours count as the home"),
            };
            findings.error(&key, what, "the home and the neighbours are in networks of their own");
        }
    }
}

/// Reports listeners for the owner that neighbours can reach.
fn owners_side(config: &Config, findings: &mut Findings) {
    if let Some(page) = &config.page
        && let Err(what) = page.check(&config.clients)
    {
        findings.error("page.listen", what, "");
    }
    let Some(metrics) = config.metrics else { return };
    let ip = metrics.ip().to_canonical();
    let right = "metrics = \"127.0.0.1:9300\", or an address of the home's network";
    if ip.is_unspecified() {
        let what = format!(
            "{metrics} is every address of this machine: everybody who can reach one, and is not \
             in `clients`, can read how much each user uses"
        );
        findings.warning("metrics", what, right);
    } else if let Some(network) =
        config.clients.iter().find(|clients| clients.contains(&ip) && !ip.is_loopback())
    {
        findings.error(
            "metrics",
            format!("{metrics} is an address of the neighbours ({network} in `clients`)"),
            right,
        );
    }
}

/// Two listeners cannot have the same address. With the same port, one of them cannot have all
/// addresses.
fn doubled(config: &Config, findings: &mut Findings) {
    let all = listeners(config);
    for (n, (key, address)) in all.iter().enumerate() {
        if let Some((before, other)) = all[..n].iter().find(|(_, other)| clash(*other, *address)) {
            let what = match other == address {
                true => format!("{address} is also the address of `{before}`"),
                false => {
                    format!("{address} and {other} of `{before}` have the same port of the same address")
                }
            };
            findings.error(key, what, "give each its own port");
        }
    }
}

/// Reports port 0. A listener at port 0 gets another free port at each start, and no server has
/// port 0.
fn found(config: &Config, findings: &mut Findings) {
    for (key, address) in listeners(config).iter().filter(|(_, address)| address.port() == 0) {
        let what = format!("{address} is another port at each start, so neighbours cannot know it");
        findings.warning(key, what, "a port from 1 to 65535 that is free, such as 3128");
    }
    for (key, ports) in [("ports", &config.ports), ("udp_ports", &config.udp_ports)] {
        if let Some(n) = ports.iter().position(|&port| port == 0) {
            findings.warning(&format!("{key}[{n}]"), "no server has port 0", "ports from 1 to 65535");
        }
    }
}

fn clash(one: SocketAddr, two: SocketAddr) -> bool {
    let same = one.ip() == two.ip();
    // A socket at [::] also gets IPv4 connections unless an option forbids it. Then binding
    // 0.0.0.0, too, works or fails by chance.
    let all =
        |any: SocketAddr, other: SocketAddr| any.ip().is_unspecified() && (any.is_ipv6() || other.is_ipv4());
    one.port() == two.port() && one.port() != 0 && (same || all(one, two) || all(two, one))
}

/// Checks the other gateways.
fn peers(config: &Config, findings: &mut Findings) {
    if !config.peers.is_empty() && config.listen.is_empty() && !config.observe {
        let what = "`peers` are for the PAC file, which the HTTP proxy serves, and there is no HTTP proxy";
        findings.error("peers", what, "give `listen`, such as [\"10.20.0.1:3128\"]");
    }
    for (n, peer) in config.peers.iter().enumerate() {
        let (key, address) = (format!("peers[{n}]"), peer.address);
        if let Some(before) = config.peers[..n].iter().position(|other| other.address == address) {
            findings.error(&key, format!("{address} is also `peers[{before}]`"), "name each gateway once");
        } else if config.listen.contains(&address) {
            findings.error(&key, format!("{address} is this gateway itself"), "name the others only");
        } else if !config.clients.iter().any(|clients| clients.contains(&address.ip())) {
            let what = format!(
                "{address} is in no network of `clients`, so that gateway cannot ask this one for its state"
            );
            let alone = IpNet::from(address.ip());
            findings.warning(&key, what, format!("add \"{alone}\" to `clients`"));
        }
    }
}

fn host_bits(config: &Config, findings: &mut Findings) {
    let lists = [("clients", &config.clients), ("home", &config.home), ("allow", &config.allow)];
    let wan: Vec<IpNet> = config.wan.iter().map(|place| place.0).collect();
    for (key, networks) in lists.into_iter().chain([("wan", &wan)]) {
        for (n, network) in networks.iter().enumerate().filter(|(_, network)| **network != network.trunc()) {
            let what =
                format!("{network} is an address within a network: the gateway uses {}", network.trunc());
            let right = format!("\"{}\", or \"{}\" for that one machine", network.trunc(), network.addr());
            findings.warning(&format!("{key}[{n}]"), what, right);
        }
    }
}

fn limits(config: &Config, findings: &mut Findings) {
    let limits = &config.limits;
    // hyper needs 8192 bytes at least. The upper bound keeps 10,000 connections small.
    if !(8192..=1 << 20).contains(&limits.head_bytes) {
        let what = format!("limits.head_bytes is {}", limits.head_bytes);
        findings.error("limits.head_bytes", what, "a number from 8192 to 1048576");
    }
    for (name, value) in [
        ("limits.connections", limits.connections),
        ("limits.connections_per_user", limits.connections_per_user),
        ("limits.upstream_per_user", limits.upstream_per_user),
    ] {
        if value == 0 {
            findings.error(base(name), format!("{name} is 0, so nobody would be served"), "give at least 1");
        }
    }
}

/// Whether one of the networks contains the other.
pub(super) fn overlaps(one: &IpNet, two: &IpNet) -> bool {
    one.contains(two) || two.contains(one)
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, first_error};
    use super::*;

    const GOOD: &str =
        "listen = [\"10.20.0.1:3128\"]\nclients = [\"10.20.0.0/16\"]\nhome = [\"192.168.1.0/24\"]\n";

    fn said(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&Config::parse(text).unwrap(), &mut findings);
        findings
            .0
            .iter()
            .map(|finding| format!("{:?} {}: {}", finding.severity, finding.key, finding.words()))
            .collect()
    }

    /// Expects one finding that begins with `begins` and contains `part`.
    fn one(text: &str, begins: &str, part: &str) {
        let said = said(text);
        assert!(said.len() == 1 && said[0].starts_with(begins) && said[0].contains(part), "{text}{said:#?}");
    }

    #[test]
    fn a_good_configuration_has_no_findings() {
        assert!(said(GOOD).is_empty(), "{:?}", said(GOOD));
        // Only this machine can reach the proxy.
        assert!(said("listen = [\"127.0.0.1:1\", \"[::1]:1\"]\nclients = [\"0.0.0.0/0\"]").is_empty());
    }

    #[test]
    fn an_open_proxy_is_found() {
        let listen = "listen = [\"0.0.0.0:3128\"]\n";
        for everybody in ["0.0.0.0/0", "::/0", "0.0.0.0/1", "2000::/3"] {
            one(
                &format!("{listen}clients = [\"{everybody}\"]"),
                "Error clients[0]: an open proxy",
                "users_file",
            );
        }
        let named = format!("{listen}clients = [\"0.0.0.0/0\"]\nusers_file = \"/u\"");
        one(&named, "Warning clients[0]: 0.0.0.0/0 is everybody", "unencrypted");
        one(
            &format!("{listen}clients = [\"10.0.0.0/8\", \"9.8.0.0/16\"]"),
            "Warning clients[1]: 9.8.0.0/16 has public",
            "",
        );
        assert!(
            said(&format!("{listen}clients = [\"10.0.0.0/8\", \"9.8.7.0/24\", \"2a00:1:2::/48\"]"))
                .is_empty()
        );
    }

    #[test]
    fn a_log_of_destinations_is_noted_and_kept_for_a_day_at_the_least() {
        one(&format!("{GOOD}[destinations]\nkeep_days = 1"), "Note destinations: the addresses that", "");
        let all = said(&format!("{GOOD}[destinations]\nkeep_days = 0"));
        assert!(all.iter().any(|one| one.starts_with("Error destinations.keep_days: ")), "{all:?}");
    }

    #[test]
    fn what_cannot_be_blocked_is_found() {
        let text =
            format!("{GOOD}[block]\ndomains = [\"/ads.txt\", \"two words\"]\nnetworks = [\"192.0.2.0/24\"]");
        one(&text, "Error block.domains[1]: `two words`", "example.org");
    }

    #[test]
    fn a_home_that_is_the_clients_is_found() {
        one(
            &GOOD.replace("192.168.1.0/24", "10.20.0.0/16"),
            "Error home[0]: home and clients are the same",
            "own",
        );
        one(
            &GOOD.replace("192.168.1.0/24", "10.20.7.0/24"),
            "Error home[0]: 10.20.7.0/24 overlaps 10.20.0.0/16",
            "",
        );
        one(
            &GOOD.replace("192.168.1.0/24", "10.0.0.0/8"),
            "Error home[0]: 10.0.0.0/8 overlaps 10.20.0.0/16",
            "",
        );
    }

    #[test]
    fn metrics_and_page_for_neighbours_are_found() {
        one(
            &format!("{GOOD}metrics = \"0.0.0.0:9300\""),
            "Warning metrics: 0.0.0.0:9300 is every",
            "127.0.0.1:9300",
        );
        one(
            &format!("{GOOD}metrics = \"10.20.0.1:9300\""),
            "Error metrics: 10.20.0.1:9300 is an address of the",
            "home",
        );
        assert!(said(&format!("{GOOD}metrics = \"192.168.1.2:9300\"")).is_empty());
        let page = |listen: &str| format!("{GOOD}[page]\nlisten = \"{listen}\"\nusers_file = \"/o\"");
        one(&page("0.0.0.0:8080"), "Error page.listen: ", "which neighbours reach as well");
        one(&page("10.20.0.1:8080"), "Error page.listen: ", "an address of the neighbours");
        assert!(said(&page("192.168.1.2:8080")).is_empty());
    }

    #[test]
    fn the_same_address_twice_is_found() {
        let with = |more: &str| format!("{GOOD}{more}");
        one(
            &with("socks = [\"10.20.0.1:3128\"]"),
            "Error socks[0]: 10.20.0.1:3128 is also the address of `listen[0]`",
            "",
        );
        one(
            &with("socks = [\"0.0.0.0:3128\"]"),
            "Error socks[0]: 0.0.0.0:3128 and 10.20.0.1:3128",
            "own port",
        );
        one(
            &with("[transparent]\ninterface = \"m\"\nport = 3128"),
            "Error transparent.port: ",
            "`listen[0]`",
        );
        assert!(said(&with("socks = [\"10.20.0.2:3128\", \"10.20.0.1:1080\"]")).is_empty());
        let two = GOOD.replace("10.20.0.1:3128\"", "127.0.0.1:0\", \"127.0.0.1:0\"");
        let said = said(&two);
        let warned = said.iter().all(|one| one.starts_with("Warning listen["));
        assert!(said.len() == 2 && warned, "the kernel gives each its own: {said:#?}");
    }

    #[test]
    fn a_port_that_nobody_can_know_is_found() {
        let free = GOOD.replace("3128", "0");
        one(&free, "Warning listen[0]: 10.20.0.1:0 is another port at each start", "1 to 65535");
        one(&format!("{GOOD}ports = [443, 0]"), "Warning ports[1]: no server has port 0", "1 to 65535");
        one(&format!("{GOOD}udp_ports = [0]"), "Warning udp_ports[0]: no server has port 0", "1 to 65535");
    }

    #[test]
    fn peers_that_are_none_are_found() {
        let with = |peers: &str| format!("{GOOD}peers = [{peers}]\n");
        assert!(said(&with("\"http://10.20.0.2:3128\", \"http://10.20.0.3:3128\"")).is_empty());
        let twice = "\"http://10.20.0.2:3128\", \"http://10.20.0.2:3128/\"";
        one(&with(twice), "Error peers[1]: 10.20.0.2:3128 is also `peers[0]`", "once");
        one(
            &with("\"http://10.20.0.1:3128\""),
            "Error peers[0]: 10.20.0.1:3128 is this gateway itself",
            "others",
        );
        one(
            &with("\"http://192.0.2.7:3128\""),
            "Warning peers[0]: 192.0.2.7:3128 is in no network of `clients`",
            "add \"192.0.2.7/32\"",
        );
        let socks = with("\"http://10.20.0.2:3128\"").replace("listen", "socks");
        one(&socks, "Error peers: ", "give `listen`");
        let message = Config::parse(&with("\"attic:3128\"")).unwrap_err();
        assert!(message.contains("line 4") && message.contains("http://192.0.2.7:3128"), "{message}");
    }

    #[test]
    fn networks_with_host_bits_are_found() {
        let text = GOOD.replace("10.20.0.0/16", "10.20.0.1/16");
        one(
            &text,
            "Warning clients[0]: 10.20.0.1/16 is an address within",
            "\"10.20.0.0/16\", or \"10.20.0.1\"",
        );
        one(&GOOD.replace("192.168.1.0", "192.168.1.2"), "Warning home[0]: ", "192.168.1.0/24");
        one(&format!("{GOOD}allow = [\"10.1.0.1/16\"]"), "Warning allow[0]", "");
        one(&format!("{GOOD}wan = [\"203.0.113.7/24\"]"), "Warning wan[0]", "");
    }

    #[test]
    fn every_error_is_found_and_the_first_stops_a_start() {
        let text = "[caps]\n[limits]\nconnections = 0\nhead_bytes = 1\n[relay]\nlaw = \"ledbad\"\n";
        let said = said(text);
        assert_eq!(said.len(), 7, "{said:#?}");
        let first = first_error(&Config::parse(text).unwrap()).unwrap();
        assert_eq!((first.severity, first.key.as_str()), (Severity::Error, "listen"));
        assert!(first.words().contains("nobody can reach the gateway: give `listen`"), "{}", first.words());
    }
}
