//! Contradictions between a configuration and the machine that it is on.

use super::values::overlaps;
use super::{Beside, Bind, Findings, Machine, SecretFile, everywhere, listeners};
use crate::config::Config;
use crate::password::parse_users;
use crate::setup;
use ipnet::IpNet;
use leeway_guard::check_private;
use leeway_net::{Attached, Interface};
use leeway_tunnel::{Token, TokenError};
use std::net::SocketAddr;
use std::path::Path;

pub(super) fn judge(path: &Path, config: &Config, machine: &Machine, findings: &mut Findings) {
    home(config, machine, findings);
    home_v6(config, machine, findings);
    home_bytes(config, machine, findings);
    owners_side(config, machine, findings);
    interface(config, machine, findings);
    addresses(config, machine, findings);
    secrets(config, machine, findings);
    itself(path, config, machine, findings);
    for (key, why) in &machine.blocked {
        findings.error(key, why, "the absolute path of an existing list");
    }
    if let Some(why) = &machine.names {
        findings.error("dns", format!("names cannot be resolved: {why}"), "dns = [\"9.9.9.9\"]");
    }
    if let Some(why) = &machine.upload {
        let right = "leeway kernel load ledbat, as root (Linux 6.10 or newer)";
        findings.note("upload", format!("uploads are limited only by the window of `uplink`: {why}"), right);
    }
    for words in config.policy(Attached::fixed(machine.surroundings.clone())).home_in_words() {
        findings.note("", words, "");
    }
}

/// Interfaces with a network that contains `network`, or is part of it.
fn in_network<'a>(machine: &'a Machine, network: &'a IpNet) -> impl Iterator<Item = &'a Interface> {
    machine.interfaces.iter().filter(|interface| interface.networks().any(|own| overlaps(&own, network)))
}

/// Whether neighbours are at this interface.
fn is_clients(config: &Config, interface: &Interface) -> bool {
    let named =
        config.transparent.as_ref().is_some_and(|transparent| transparent.interface == interface.name);
    let within = |own: IpNet| config.clients.iter().any(|clients| overlaps(&own, clients));
    named || (!interface.loopback && interface.networks().any(within))
}

fn home(config: &Config, machine: &Machine, findings: &mut Findings) {
    if config.home.is_empty() {
        let networks =
            homes(config, machine).map(|network| format!("\"{network}\"")).collect::<Vec<_>>().join(", ");
        let example = if networks.is_empty() { "\"192.168.1.0/24\"".into() } else { networks };
        let what = "no network is named as the home, so nobody sees that it is at work and yields";
        findings.warning("home", what, format!("home = [{example}]"));
        return;
    }
    for (n, network) in config.home.iter().enumerate() {
        if in_network(machine, network).next().is_none() {
            let what = format!(
                "{network} is on no interface of this machine: the gateway does not see its traffic, unless that \
                 passes this machine"
            );
            let here =
                homes(config, machine).map(|network| network.to_string()).collect::<Vec<_>>().join(", ");
            let right = match here.as_str() {
                "" => "a network of the home that this machine is in".to_owned(),
                here => format!("the networks here are {here}; one behind another router is right as it is"),
            };
            findings.warning(&format!("home[{n}]"), what, right);
        }
    }
    if let Some(why) = &machine.traffic_observer {
        let right = "run it as root, or with CAP_NET_RAW as the packaged service has it";
        findings.note("home", format!("this process cannot see packets of the home: {why}"), right);
    }
}

/// Networks of this machine that may be the home's.
fn homes<'a>(config: &'a Config, machine: &'a Machine) -> impl Iterator<Item = IpNet> + 'a {
    let others =
        machine.interfaces.iter().filter(|interface| !interface.loopback && !is_clients(config, interface));
    others.flat_map(Interface::networks)
}

/// Machines of a home with IPv6 normally prefer it (RFC 6724). So half of the traffic is not seen
/// if only the home's IPv4 network is configured.
fn home_v6(config: &Config, machine: &Machine, findings: &mut Findings) {
    if config.home.is_empty() || config.home.iter().any(|network| network.addr().is_ipv6()) {
        return;
    }
    let global =
        |network: &IpNet| matches!(network, IpNet::V6(v6) if v6.addr().segments()[0] & 0xe000 == 0x2000);
    let beside = |interface: &&Interface| {
        interface.networks().any(|own| config.home.iter().any(|home| overlaps(home, &own)))
    };
    let networks = |all: &mut dyn Iterator<Item = &Interface>| -> Vec<String> {
        all.flat_map(Interface::networks).filter(global).map(|network| format!("\"{network}\"")).collect()
    };
    let others = || {
        machine.interfaces.iter().filter(|interface| !interface.loopback && !is_clients(config, interface))
    };
    let found = networks(&mut others().filter(beside));
    let named: Vec<String> = config.home.iter().map(|network| format!("\"{network}\"")).collect();
    let what = "only the home's IPv4 network is named, and this machine has IPv6: the home's IPv6 traffic is not seen";
    if !found.is_empty() {
        findings.warning("home", what, format!("home = [{}, {}]", named.join(", "), found.join(", ")));
    } else if !networks(&mut others()).is_empty() {
        let right =
            format!("home = [{}, and its network of IPv6, which the home's router shows]", named.join(", "));
        findings.warning("home", what, right);
    }
}

/// Reports caps that depend on the home's bytes, if they are not counted here.
fn home_bytes(config: &Config, machine: &Machine, findings: &mut Findings) {
    let Some(caps) = &config.caps else { return };
    if setup::passes(&machine.interfaces, &machine.uplinks, &config.home, machine.forwards) {
        return;
    }
    if caps.percentile.is_some() {
        let what = "the home's packets do not pass this machine, so the level that the home pays \
                    for is not known, and neighbours stay paused";
        let right = "run the gateway on the home's router, or limit neighbours by `hours` or `rate`";
        findings.warning("caps.percentile", what, right);
    }
    if let Some(month) = &caps.month {
        let what = "the home's packets do not pass this machine, so its bytes are not counted";
        let right = format!(
            "keep_for_home (now {}) is the most that the home uses in a month, and not its average",
            month.keep_for_home
        );
        findings.warning("caps.month", what, right);
    }
}

/// Reports listeners for the owner at an interface with neighbours, even if its addresses are not
/// in `clients`.
fn owners_side(config: &Config, machine: &Machine, findings: &mut Findings) {
    let page = config.page.as_ref().map(|page| ("page.listen", page.listen));
    for (key, address) in page.into_iter().chain(config.metrics.map(|metrics| ("metrics", metrics))) {
        let ip = address.ip().to_canonical();
        let theirs =
            machine.interfaces.iter().find(|interface| interface.has(ip) && is_clients(config, interface));
        // An address in `clients` is reported by the checks of the values.
        if let Some(interface) =
            theirs.filter(|_| !config.clients.iter().any(|clients| clients.contains(&ip)))
        {
            let what = format!(
                "{address} is on {}, the interface of the neighbours, so they can reach it",
                interface.name
            );
            findings.error(key, what, "an address of the home's network, or 127.0.0.1");
        }
    }
}

fn interface(config: &Config, machine: &Machine, findings: &mut Findings) {
    let Some(transparent) = &config.transparent else { return };
    let key = "transparent.interface";
    let known = || machine.interfaces.iter().filter(|interface| !interface.loopback);
    match machine.interfaces.iter().find(|interface| interface.name == transparent.interface) {
        Some(interface) if !interface.up => findings.warning(
            key,
            format!("the interface {} is switched off", interface.name),
            format!("ip link set dev {} up", interface.name),
        ),
        Some(_) => {}
        None => {
            let names = known().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
            let what = format!("there is no interface \"{}\" on this machine", transparent.interface);
            findings.error(key, what, if names.is_empty() { names } else { format!("one of {names}") });
        }
    }
}

fn addresses(config: &Config, machine: &Machine, findings: &mut Findings) {
    for (key, address) in listeners(config) {
        let port = address.port();
        match machine.bound.get(&address) {
            None | Some(Bind::Free) => {}
            Some(Bind::Taken) => taken(&key, address, &machine.gateway, findings),
            Some(Bind::NotHere) => {
                let all = machine.interfaces.iter().flat_map(|interface| &interface.addresses);
                let all = all
                    .map(IpNet::addr)
                    .filter(|own| own.is_ipv4() == address.is_ipv4() && !own.is_loopback());
                let all =
                    all.map(|own| SocketAddr::new(own, port).to_string()).collect::<Vec<_>>().join(", ");
                let what = format!("{} is no address of this machine", address.ip());
                let right =
                    if all.is_empty() { "an address that it has".into() } else { format!("one of {all}") };
                findings.error(&key, what, right);
            }
            Some(Bind::Denied) => findings.note(
                &key,
                format!("this process may not use port {port}"),
                "run it as root, or with CAP_NET_BIND_SERVICE as the packaged service has it",
            ),
            Some(Bind::Failed(why)) => {
                findings.error(&key, format!("cannot listen on {address}: {why}"), "another address");
            }
        }
    }
}

fn taken(key: &str, address: SocketAddr, gateway: &Beside, findings: &mut Findings) {
    let port = address.port();
    let right = format!("another port, or stop the program that uses it: ss -ltnp sport = :{port}");
    match gateway {
        Beside::Holds(own) if own.contains(&address) || own.contains(&everywhere(port)) => {}
        Beside::Hidden => {
            let what = format!("{address} is taken; only root can see whether the running gateway uses it");
            findings.warning(key, what, "run this as root");
        }
        _ => findings.error(key, format!("{address} is taken by another program"), right),
    }
}

fn secrets(config: &Config, machine: &Machine, findings: &mut Findings) {
    let users = |text: &str, path: &Path| match parse_users(text) {
        Err(why) => Some((format!("{}: {why}", path.display()), String::new())),
        Ok(users) if users.is_empty() => {
            let right = format!("leeway gateway passwd NAME --file {}", path.display());
            Some((format!("{}: there are no users in it", path.display()), right))
        }
        Ok(_) => None,
    };
    let token = |text: &str, path: &Path| {
        let wrong = text.trim().parse::<Token>().err();
        wrong.map(|error: TokenError| (format!("{}: {error}", path.display()), String::new()))
    };
    if let Some(path) = &config.users_file {
        secret("users_file", path, machine, users, findings);
    }
    if let Some(page) = &config.page {
        secret("page.users_file", &page.users_file, machine, users, findings);
    }
    if let Some(relay) = config.relay.as_ref().filter(|relay| !relay.token_file.as_os_str().is_empty()) {
        secret("relay.token_file", &relay.token_file, machine, token, findings);
    }
}

fn secret(
    key: &str,
    path: &Path,
    machine: &Machine,
    wrong: impl Fn(&str, &Path) -> Option<(String, String)>,
    findings: &mut Findings,
) {
    match machine.files.get(path) {
        Some(SecretFile::Read { rights, text }) => {
            if let Some(Err(error)) = rights.map(|(mode, owner)| check_private(path, mode, owner)) {
                let words = error.to_string();
                let (what, right) = words.split_once("; mend that with: ").unwrap_or((&words, ""));
                findings.error(key, what, right);
            }
            if let Some((what, right)) = wrong(text, path) {
                findings.error(key, what, right);
            }
        }
        Some(SecretFile::Denied) => {
            findings.warning(key, format!("this user may not read {}", path.display()), "run this as root");
        }
        Some(SecretFile::Failed(why)) => {
            findings.error(
                key,
                format!("cannot read {}: {why}", path.display()),
                "the path of an existing file",
            );
        }
        None => {}
    }
}

/// Reports a password in the configuration file itself, if others can read the file.
fn itself(path: &Path, config: &Config, machine: &Machine, findings: &mut Findings) {
    let Some(SecretFile::Read { rights: Some((mode, owner)), .. }) = machine.files.get(path) else { return };
    let url = config.accounts.as_ref().map(|accounts| accounts.url.as_str()).unwrap_or_default();
    let login = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(login, _)| login);
    if login.is_some_and(|login| login.contains(':'))
        && let Err(error) = check_private(path, *mode, *owner)
    {
        let words = error.to_string();
        let (_, right) = words.split_once("; mend that with: ").unwrap_or((&words, ""));
        let what = format!("there is a password in the URL, and others can read {}", path.display());
        findings.error("accounts.url", what, right);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Document, Severity, judge as judge_all};
    use super::*;
    use crate::password::Hash;
    use leeway_net::{Family, Surroundings, Uplink};

    const GOOD: &str = "listen = [\"10.20.0.1:3128\"]\nclients = [\"10.20.0.0/16\"]\n\
                        home = [\"192.168.1.0/24\", \"2001:db8:1::/64\"]\n";
    const FILE: &str = "/etc/leeway/gateway.toml";

    /// A machine behind the home's router, with neighbours at a second interface.
    fn box_beside_the_router() -> Machine {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.into(),
            up: true,
            loopback: name == "lo",
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let own = ["127.0.0.1", "192.168.1.2", "10.20.0.1"].map(|text| text.parse().unwrap());
        Machine {
            interfaces: vec![
                interface("lo", &["127.0.0.1/8", "::1/128"]),
                interface("eth0", &["192.168.1.2/24", "2001:db8:1::2/64", "fe80::2/64"]),
                interface("mesh0", &["10.20.0.1/16", "172.20.0.1/24", "fe80::3/64"]),
            ],
            surroundings: Surroundings { own: own.into(), on_link: Default::default() },
            ..Machine::default()
        }
    }

    fn findings(text: &str, machine: &Machine) -> Vec<String> {
        let all = judge_all(Path::new(FILE), &Document::read(text), Some(machine));
        let all =
            all.iter().filter(|finding| finding.severity != Severity::Note || !finding.right.is_empty());
        all.map(|finding| finding.to_string().replace("\n    right: ", " | ")).collect()
    }

    /// Expects one finding that begins with `begins` and contains `part`.
    #[track_caller]
    fn one(text: &str, machine: &Machine, begins: &str, part: &str) {
        let said = findings(text, machine);
        let begins = format!("{FILE}:{begins}");
        assert!(said.len() == 1 && said[0].starts_with(&begins) && said[0].contains(part), "{text}{said:#?}");
    }

    #[test]
    fn a_good_configuration_has_nothing_but_notes_of_what_the_home_is() {
        let machine = box_beside_the_router();
        assert!(findings(GOOD, &machine).is_empty(), "{:#?}", findings(GOOD, &machine));
        let all = judge_all(Path::new(FILE), &Document::read(GOOD), Some(&machine));
        assert!(
            all.iter().any(|note| note.what.starts_with("the home, which users never reach: 192.168.1.0/24")),
            "{all:#?}"
        );
    }

    #[test]
    fn a_home_that_is_not_here_or_not_named_is_found() {
        let machine = box_beside_the_router();
        let away = GOOD.replace("192.168.1.0/24", "192.168.7.0/24");
        one(
            &away,
            &machine,
            "3: warning: home[0]: 192.168.7.0/24 is on no interface",
            "192.168.1.0/24, 2001:db8:1::/64",
        );
        let none = GOOD.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
        let said = findings(&none, &machine);
        assert!(
            said.len() == 1 && said[0].contains("home = [\"192.168.1.0/24\", \"2001:db8:1::/64\"]"),
            "{said:#?}"
        );
        let blind = Machine { traffic_observer: Some("Operation not permitted".into()), ..machine };
        one(GOOD, &blind, "3: note: home: this process cannot see", "CAP_NET_RAW");
    }

    #[test]
    fn a_home_without_its_ipv6_is_found() {
        let mut machine = box_beside_the_router();
        let v4 = GOOD.replace(", \"2001:db8:1::/64\"", "");
        one(
            &v4,
            &machine,
            "3: warning: home: only the home's IPv4",
            "home = [\"192.168.1.0/24\", \"2001:db8:1::/64\"]",
        );
        machine.interfaces[1].addresses.remove(1);
        assert!(findings(&v4, &machine).is_empty(), "no IPv6 but that of the link");
        // IPv6 at the neighbours' interface does not belong to the home.
        machine.interfaces[2].addresses.push("2001:db8:20::1/64".parse().unwrap());
        assert!(findings(&v4, &machine).is_empty());
        let wan = Interface {
            name: "wan".into(),
            up: true,
            loopback: false,
            addresses: vec!["2001:db8:9::2/64".parse().unwrap()],
        };
        machine.interfaces.push(wan);
        one(&v4, &machine, "3: warning: home: only the home's IPv4", "which the home's router shows");
    }

    #[test]
    fn caps_on_bytes_of_a_home_that_is_not_seen_are_found() {
        let beside = box_beside_the_router();
        let uplink = |interface: &str| vec![Uplink { family: Family::V4, interface: interface.into() }];
        let router = Machine { uplinks: uplink("ppp0"), forwards: true, ..beside.clone() };
        let month =
            format!("{GOOD}[accounts]\n[caps]\nmonth = {{ volume = \"1 TB\", keep_for_home = \"6 GB\" }}\n");
        let percentile = format!("{GOOD}[accounts]\n[caps]\npercentile = {{}}\n");
        let beside = Machine { uplinks: uplink("eth0"), forwards: true, ..beside };
        one(&month, &beside, "6: warning: caps.month: ", "keep_for_home (now 6 GB) is the most");
        one(&percentile, &beside, "6: warning: caps.percentile: ", "neighbours stay paused");
        for text in [month, percentile] {
            assert!(findings(&text, &router).is_empty(), "{:#?}", findings(&text, &router));
        }
    }

    #[test]
    fn what_is_for_the_owner_at_the_interface_of_neighbours_is_found() {
        let machine = box_beside_the_router();
        let metrics = format!("{GOOD}metrics = \"172.20.0.1:9300\"");
        one(&metrics, &machine, "4: error: metrics: 172.20.0.1:9300 is on mesh0", "home's network");
        let page = format!("{GOOD}[page]\nlisten = \"172.20.0.1:8080\"\nusers_file = \"/o\"");
        one(&page, &machine, "5: error: page.listen: 172.20.0.1:8080 is on mesh0", "home's network");
        assert!(findings(&page.replace("172.20.0.1", "192.168.1.2"), &machine).is_empty());
    }

    #[test]
    fn an_interface_that_is_absent_or_off_is_found() {
        let mut machine = box_beside_the_router();
        let text = |name: &str| format!("{GOOD}[transparent]\ninterface = \"{name}\"\n");
        assert!(findings(&text("mesh0"), &machine).is_empty());
        one(
            &text("mesh1"),
            &machine,
            "5: error: transparent.interface: there is no interface \"mesh1\"",
            "eth0, mesh0",
        );
        machine.interfaces[2].up = false;
        one(
            &text("mesh0"),
            &machine,
            "5: warning: transparent.interface: the interface mesh0 is switched off",
            "ip link set dev",
        );
    }

    #[test]
    fn an_address_that_is_taken_is_found_unless_the_running_gateway_has_it() {
        let mut machine = box_beside_the_router();
        let address: SocketAddr = "10.20.0.1:3128".parse().unwrap();
        machine.bound.insert(address, Bind::Taken);
        one(GOOD, &machine, "1: error: listen[0]: 10.20.0.1:3128 is taken by another", "ss -ltnp");
        machine.gateway = Beside::Hidden;
        one(GOOD, &machine, "1: warning: listen[0]: 10.20.0.1:3128 is taken; only root", "root");
        machine.gateway = Beside::Holds(["10.20.0.1:3129".parse().unwrap()].into());
        one(GOOD, &machine, "1: error: listen[0]", "");
        for own in ["10.20.0.1:3128", "0.0.0.0:3128"] {
            machine.gateway = Beside::Holds([own.parse().unwrap()].into());
            assert!(findings(GOOD, &machine).is_empty(), "{own}");
        }
    }

    #[test]
    fn an_address_that_is_not_here_or_not_allowed_is_found() {
        let mut machine = box_beside_the_router();
        let address: SocketAddr = "10.20.0.1:3128".parse().unwrap();
        machine.bound.insert(address, Bind::NotHere);
        one(
            GOOD,
            &machine,
            "1: error: listen[0]: 10.20.0.1 is no address of this machine",
            "192.168.1.2:3128",
        );
        machine.bound.insert(address, Bind::Denied);
        one(GOOD, &machine, "1: note: listen[0]: this process may not use port 3128", "CAP_NET_BIND_SERVICE");
        machine.bound.insert(address, Bind::Failed("no".into()));
        one(GOOD, &machine, "1: error: listen[0]: cannot listen on 10.20.0.1:3128: no", "");
    }

    #[test]
    fn secrets_that_others_can_read_and_files_that_are_wrong_are_found() {
        let machine = box_beside_the_router();
        let line = format!("ann:{}\n", Hash::of("long enough").unwrap());
        let text = format!("{GOOD}users_file = \"/etc/leeway/users\"");
        let with = |file: SecretFile| {
            let files = [("/etc/leeway/users".into(), file)].into();
            Machine { files, ..machine.clone() }
        };
        let file = |mode: u32, owner: u32, text: &str| {
            with(SecretFile::Read { rights: Some((mode, owner)), text: text.into() })
        };
        for good in [file(0o600, 0, &line), file(0o640, 0, &line), file(0o600, 1000, &line)] {
            assert!(findings(&text, &good).is_empty());
        }
        assert!(findings(&text, &with(SecretFile::Read { rights: None, text: line.clone() })).is_empty());
        one(
            &text,
            &file(0o644, 0, &line),
            "4: error: users_file: /etc/leeway/users has secrets",
            "chmod 0640 /etc/leeway/users",
        );
        one(&text, &file(0o640, 1000, &line), "4: error: users_file: ", "its group can read it");
        one(
            &text,
            &file(0o600, 0, "ann:secret7"),
            "4: error: users_file: /etc/leeway/users: line 1",
            "leeway gateway passwd ann",
        );
        one(
            &text,
            &file(0o600, 0, ""),
            "4: error: users_file: /etc/leeway/users: there are no users",
            "passwd NAME",
        );
        one(&text, &with(SecretFile::Denied), "4: warning: users_file: this user may not read", "root");
        one(
            &text,
            &with(SecretFile::Failed("gone".into())),
            "4: error: users_file: cannot read /etc/leeway/users: gone",
            "",
        );
        let relay = format!("{GOOD}[relay]\ntoken_file = \"/etc/leeway/users\"");
        one(&relay, &file(0o600, 0, "leeway1_x"), "5: error: relay.token_file: /etc/leeway/users: ", "");
    }

    #[test]
    fn a_password_in_a_file_that_others_can_read_is_found() {
        let mut machine = box_beside_the_router();
        let text = format!("{GOOD}[accounts]\nurl = \"postgresql://leeway:secret7@db/leeway\"");
        let rights = |mode| SecretFile::Read { rights: Some((mode, 0)), text: String::new() };
        machine.files.insert(FILE.into(), rights(0o644));
        one(&text, &machine, "5: error: accounts.url: there is a password", &format!("chmod 0640 {FILE}"));
        assert!(!findings(&text, &machine)[0].contains("secret7"));
        assert!(findings(&text.replace(":secret7", ""), &machine).is_empty());
        machine.files.insert(FILE.into(), rights(0o640));
        assert!(findings(&text, &machine).is_empty(), "{:#?}", findings(&text, &machine));
    }

    #[test]
    fn a_list_that_cannot_be_read_is_found() {
        let blocked = vec![("block.domains[1]".into(), "cannot read /etc/leeway/ads.txt".into())];
        let machine = Machine { blocked, ..box_beside_the_router() };
        let text = format!("{GOOD}[block]\ndomains = [\"example.org\", \"/etc/leeway/ads.txt\"]");
        one(&text, &machine, "5: error: block.domains[1]: cannot read /etc/leeway/ads.txt", "absolute path");
    }

    #[test]
    fn names_that_cannot_be_found_are_found() {
        let machine = Machine { names: Some("there is no name server".into()), ..box_beside_the_router() };
        let said = findings(GOOD, &machine);
        assert!(said.len() == 1 && said[0].contains("error: dns: names cannot be resolved"), "{said:#?}");
        let machine = Machine { upload: Some("lp is not in this kernel".into()), ..box_beside_the_router() };
        let said = findings(GOOD, &machine);
        assert!(
            said.len() == 1 && said[0].contains("note: upload") && said[0].contains("leeway kernel load"),
            "{said:#?}"
        );
    }
}
