//! From a specification to addresses, routes and the commands that make them.

use super::spec::{Link, Named, Route, Spec};
use crate::Error;
use leeway_link::LinkSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The longest name of a device (IFNAMSIZ less its zero).
const NAME_BYTES: usize = 15;
/// Most links with automatic addresses.
const LINKS: usize = 1 << 16;

/// The network to build.
#[derive(Debug)]
pub(super) struct Plan {
    pub hosts: Vec<Host>,
    pub links: Vec<Wire>,
}

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    pub name: String,
    pub sysctl: Vec<(String, String)>,
    /// Its addresses on the first link that it has, IPv4 first; none without a link.
    pub addresses: Vec<IpAddr>,
    pub links: usize,
    /// The arguments of `ip route` for each route.
    pub routes: Vec<String>,
}

/// A link; index 0 of everything is the first end, and up.
#[derive(Debug)]
pub(super) struct Wire {
    /// Number of the link in the file.
    pub index: u16,
    /// Name of the link, and of its devices.
    pub name: String,
    /// The hosts by index.
    pub ends: [usize; 2],
    /// The addresses of each end.
    pub addresses: [Vec<Address>; 2],
    /// The emulated properties; `None` for a wire.
    pub emulated: Option<[LinkSpec; 2]>,
    pub offload: bool,
    pub log: Option<PathBuf>,
}

impl Wire {
    /// The Ethernet address of an end, from the locally administered ones.
    pub fn hardware_address(&self, end: usize) -> String {
        let [high, low] = self.index.to_be_bytes();
        format!("02:00:00:{high:02x}:{low:02x}:{:02x}", end + 1)
    }
}

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub ip: IpAddr,
    pub prefix: u8,
}

impl Plan {
    pub fn of(spec: &Spec) -> Result<Plan, Error> {
        if spec.host.0.is_empty() {
            return Err(wrong("there is no host; add a table such as [host.client]".into()));
        }
        let names: Vec<&str> = names(&spec.host);
        for (i, name) in names.iter().enumerate() {
            check_name("host", name)?;
            if names[..i].contains(name) {
                return Err(wrong(format!("there are two hosts `{name}`")));
            }
        }
        if spec.link.0.len() > LINKS {
            return Err(wrong(format!("there are {} links; at most {LINKS}", spec.link.0.len())));
        }
        let links: Vec<Wire> = spec
            .link
            .0
            .iter()
            .enumerate()
            .map(|(i, (name, link))| wire(i, name, link, &names))
            .collect::<Result<_, _>>()?;
        check_addresses(&links)?;
        let mut hosts: Vec<Host> = spec
            .host
            .0
            .iter()
            .enumerate()
            .map(|(i, (name, host))| {
                let own = |link: &Wire| link.ends.iter().position(|&end| end == i);
                let first = links.iter().find_map(|link| Some(&link.addresses[own(link)?]));
                Host {
                    name: name.clone(),
                    sysctl: host
                        .sysctl
                        .0
                        .iter()
                        .map(|(name, value)| (name.clone(), value.to_string()))
                        .collect(),
                    addresses: first.into_iter().flatten().map(|address| address.ip).collect(),
                    links: links.iter().filter(|link| own(link).is_some()).count(),
                    routes: Vec::new(),
                }
            })
            .collect();
        let paths = Paths::new(hosts.len(), &links);
        for (from, host) in hosts.iter_mut().enumerate() {
            host.routes = paths.automatic(from);
        }
        for (i, route) in spec.route.iter().enumerate() {
            let lines = paths.written(route, &names).map_err(|why| wrong(format!("route[{i}]: {why}")))?;
            hosts[lines.0].routes.extend(lines.1);
        }
        for (i, program) in spec.program.iter().enumerate() {
            index(&program.on, &names).map_err(|why| wrong(format!("program[{i}]: {why}")))?;
        }
        Ok(Plan { hosts, links })
    }
}

fn wrong(message: String) -> Error {
    Error::Spec(message)
}

fn names<T>(named: &Named<T>) -> Vec<&str> {
    named.0.iter().map(|(name, _)| name.as_str()).collect()
}

/// The index of the host `name`.
pub(super) fn index(name: &str, names: &[&str]) -> Result<usize, String> {
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| format!("there is no host `{name}`; the hosts are {}", names.join(", ")))
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let word = !name.is_empty() && !name.starts_with(['-', '_']) && !name.bytes().all(|b| b.is_ascii_digit());
    let reserved = ["lo", "all", "default", "localhost", "tx", "rx"].contains(&name);
    if plain && word && !reserved && name.len() <= NAME_BYTES {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}` cannot be the name of a {what}; use letters, digits, `-` and `_`, at most {NAME_BYTES}, and none of the \
         kernel's own names (lo, all, default, localhost, tx, rx)"
    )))
}

fn wire(i: usize, name: &str, link: &Link, hosts: &[&str]) -> Result<Wire, Error> {
    let at = |why: String| wrong(format!("link.{name}: {why}"));
    check_name("link", name)?;
    let [first, second] = link.between.each_ref().map(|end| self::index(end, hosts));
    let ends = [first.map_err(at)?, second.map_err(at)?];
    if ends[0] == ends[1] {
        return Err(at(format!("it leads from `{0}` to `{0}`", link.between[0])));
    }
    let index = i as u16;
    let [high, low] = index.to_be_bytes();
    let v4 = |end| Address { ip: Ipv4Addr::new(10, high, low, end).into(), prefix: 24 };
    let v6 = |end| Address { ip: Ipv6Addr::new(0xfd00, 0, 0, index, 0, 0, 0, end).into(), prefix: 64 };
    let v4 = pair(link.ipv4.as_ref(), [v4(1), v4(2)], IpAddr::is_ipv4, "ipv4", "192.0.2.1/24").map_err(at)?;
    let v6 =
        pair(link.ipv6.as_ref(), [v6(1), v6(2)], IpAddr::is_ipv6, "ipv6", "2001:db8::1/64").map_err(at)?;
    let options = link.options()?;
    let emulated = match options.is_plain() {
        true => None,
        false => Some(options.specs().map_err(|error| at(error.to_string()))?),
    };
    if emulated.is_none() && link.log.is_some() {
        return Err(at("only an emulated link has a log; give it a rate or a delay".into()));
    }
    let addresses = [vec![v4[0], v6[0]], vec![v4[1], v6[1]]];
    Ok(Wire {
        index,
        name: name.into(),
        ends,
        addresses,
        emulated,
        offload: link.offload,
        log: link.log.clone(),
    })
}

/// The given addresses, or `default`.
fn pair(
    given: Option<&[String; 2]>,
    default: [Address; 2],
    family: impl Fn(&IpAddr) -> bool,
    field: &str,
    example: &str,
) -> Result<[Address; 2], String> {
    let Some(given) = given else { return Ok(default) };
    let read = |text: &String| {
        Address::read(text).filter(|address| family(&address.ip)).ok_or_else(|| {
            format!("{field}: `{text}` is not an address with a prefix, such as \"{example}\"")
        })
    };
    let [first, second] = [read(&given[0])?, read(&given[1])?];
    if first.prefix != second.prefix || first.network() != second.network() {
        return Err(format!("{field}: {} and {} are not of the same network", given[0], given[1]));
    }
    Ok([first, second])
}

fn check_addresses(links: &[Wire]) -> Result<(), Error> {
    let all: Vec<(&Wire, Address)> =
        links.iter().flat_map(|link| link.addresses.iter().flatten().map(move |&a| (link, a))).collect();
    for (i, (link, address)) in all.iter().enumerate() {
        if let Some((other, _)) = all[..i].iter().find(|(_, earlier)| earlier.ip == address.ip) {
            return Err(wrong(format!(
                "link.{}: {} is used by link.{} too",
                link.name, address.ip, other.name
            )));
        }
        let clash = all[..i].iter().find(|(other, earlier)| {
            other.name != link.name
                && earlier.prefix == address.prefix
                && earlier.network() == address.network()
        });
        if let Some((other, _)) = clash {
            return Err(wrong(format!(
                "link.{}: the network of {}/{} is that of link.{} too",
                link.name, address.ip, address.prefix, other.name
            )));
        }
    }
    Ok(())
}

impl Address {
    fn read(text: &str) -> Option<Address> {
        let (ip, prefix) = text.split_once('/')?;
        let address = Address { ip: ip.trim().parse().ok()?, prefix: prefix.trim().parse().ok()? };
        (1..=address.bits()).contains(&address.prefix).then_some(address)
    }

    fn bits(&self) -> u8 {
        if self.ip.is_ipv4() { 32 } else { 128 }
    }

    /// The network of this address only.
    fn alone(self) -> Address {
        Address { prefix: self.bits(), ..self }
    }

    /// The network of the address, as `ip` reads it.
    fn written(&self) -> String {
        let host = u128::from(self.bits() - self.prefix);
        let cut = |value: u128| if host < 128 { value >> host << host } else { 0 };
        let network: IpAddr = match self.ip {
            IpAddr::V4(ip) => Ipv4Addr::from(cut(u128::from(u32::from(ip))) as u32).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(cut(ip.into())).into(),
        };
        format!("{network}/{}", self.prefix)
    }

    /// The network: whether it is IPv4, and the bits of its prefix.
    fn network(&self) -> (bool, u128) {
        let value = match self.ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
            IpAddr::V6(ip) => ip.into(),
        };
        (self.ip.is_ipv4(), value >> (128 - u32::from(self.prefix)))
    }
}

/// The shortest paths: by links, then by the order of the file.
struct Paths<'a> {
    links: &'a [Wire],
    /// Links from one host to another; `usize::MAX` where there is no path.
    distance: Vec<Vec<usize>>,
}

impl<'a> Paths<'a> {
    fn new(hosts: usize, links: &'a [Wire]) -> Self {
        let from = |start: usize| {
            let mut distance = vec![usize::MAX; hosts];
            distance[start] = 0;
            let mut next = vec![start];
            let mut steps = 0;
            while !next.is_empty() {
                steps += 1;
                let mut reached = Vec::new();
                for link in links {
                    for (here, there) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
                        if next.contains(&here) && distance[there] == usize::MAX {
                            distance[there] = steps;
                            reached.push(there);
                        }
                    }
                }
                next = reached;
            }
            distance
        };
        Paths { links, distance: (0..hosts).map(from).collect() }
    }

    /// The links of `host`, each with the end that is the other host's.
    fn of(&self, host: usize) -> impl Iterator<Item = (&'a Wire, usize)> {
        self.links
            .iter()
            .filter_map(move |link| Some((link, 1 - link.ends.iter().position(|&end| end == host)?)))
    }

    /// Routes to every address that is not on a link of the host itself.
    fn automatic(&self, from: usize) -> Vec<String> {
        let mut routes = Vec::new();
        for link in self.links {
            for (end, &to) in link.ends.iter().enumerate() {
                if link.ends.contains(&from) {
                    continue;
                }
                let Some((first, far)) = self.first(from, to) else { continue };
                let hops = &first.addresses[far];
                let targets = link.addresses[end].iter().map(|address| address.alone());
                routes.extend(targets.map(|target| route(target, hops, &first.name)));
            }
        }
        routes
    }

    /// The first link of the path from one host to another, and its far end.
    fn first(&self, from: usize, to: usize) -> Option<(&'a Wire, usize)> {
        let left = self.distance[from][to];
        if left == usize::MAX {
            return None;
        }
        self.of(from).find(|(link, far)| self.distance[link.ends[*far]][to] + 1 == left)
    }

    /// The routes that an entry of the file asks for, and the host that gets them.
    fn written(&self, asked: &Route, names: &[&str]) -> Result<(usize, Vec<String>), String> {
        let from = index(&asked.on, names)?;
        let to = names.iter().position(|name| *name == asked.to);
        let targets: Vec<Address> = match to {
            Some(to) => self
                .of(to)
                .flat_map(|(link, far)| link.addresses[1 - far].clone())
                .map(|address| address.alone())
                .collect(),
            None if asked.to == "default" => vec![
                Address { ip: Ipv4Addr::UNSPECIFIED.into(), prefix: 0 },
                Address { ip: Ipv6Addr::UNSPECIFIED.into(), prefix: 0 },
            ],
            None => vec![Address::read(&asked.to).ok_or_else(|| {
                format!(
                    "`{}` is not a host, not a network such as \"192.0.2.0/24\" and not \"default\"; the hosts are {}",
                    asked.to,
                    names.join(", ")
                )
            })?],
        };
        let (link, far) = match (&asked.via, to) {
            (Some(via), _) => self.of(from).find(|(link, _)| link.name == *via).ok_or_else(|| {
                let own: Vec<&str> = self.of(from).map(|(link, _)| link.name.as_str()).collect();
                format!("`{}` has no link `{via}`; it has {}", asked.on, own.join(", "))
            })?,
            (None, Some(to)) => self
                .first(from, to)
                .ok_or_else(|| format!("no links lead from `{}` to `{}`", asked.on, asked.to))?,
            (None, None) => return Err("it needs a link to begin with: add `via`".into()),
        };
        let congestion = match &asked.congestion {
            Some(name) if name.bytes().any(|byte| !byte.is_ascii_graphic()) => {
                return Err(format!("`{name}` is not a name of a congestion control"));
            }
            Some(name) => format!(" congctl {name}"),
            None => String::new(),
        };
        let hops = &link.addresses[far];
        let lines = targets.iter().map(|&target| route(target, hops, &link.name) + &congestion);
        Ok((from, lines.collect()))
    }
}

/// The arguments of `ip route` for the network of `target`.
fn route(target: Address, hops: &[Address], device: &str) -> String {
    let hop = hops.iter().find(|hop| hop.ip.is_ipv4() == target.ip.is_ipv4());
    match hop {
        Some(hop) if hop.ip != target.ip => format!("{} via {} dev {device}", target.written(), hop.ip),
        _ => format!("{} dev {device}", target.written()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan(text: &str) -> Result<Plan, String> {
        let spec = Spec::parse(text, Path::new("net.toml")).map_err(|error| error.to_string())?;
        Ok(Plan::of(&spec).expect("checked when it was read"))
    }

    const CHAIN: &str = r#"
        host = { a = {}, b = {}, c = {}, d = {} }
        link.ab = { between = ["a", "b"] }
        link.bc = { between = ["b", "c"], delay = "5 ms", up = "1 Mbit/s", down = { rate = "2mbit", queue = "codel" } }
        link.cd = { between = ["c", "d"], ipv4 = ["192.0.2.1/30", "192.0.2.2/30"] }
    "#;

    #[test]
    fn routes_are_the_shortest_ways() {
        let plan = plan(CHAIN).unwrap();
        assert_eq!(
            plan.hosts[0].routes,
            [
                "10.0.1.1/32 via 10.0.0.2 dev ab",
                "fd00:0:0:1::1/128 via fd00::2 dev ab",
                "10.0.1.2/32 via 10.0.0.2 dev ab",
                "fd00:0:0:1::2/128 via fd00::2 dev ab",
                "192.0.2.1/32 via 10.0.0.2 dev ab",
                "fd00:0:0:2::1/128 via fd00::2 dev ab",
                "192.0.2.2/32 via 10.0.0.2 dev ab",
                "fd00:0:0:2::2/128 via fd00::2 dev ab",
            ]
        );
        assert_eq!(plan.hosts[3].addresses[0].to_string(), "192.0.2.2");
        let emulated = plan.links[1].emulated.as_ref().unwrap();
        assert_eq!((emulated[0].queue.name(), emulated[1].queue.name()), ("droptail", "codel"));
        assert!(plan.links[0].emulated.is_none());
    }

    #[test]
    fn a_ring_goes_the_shorter_way_round_unless_told_otherwise() {
        let ring = r#"
            host = { a = {}, b = {}, c = {} }
            link.ab = { between = ["a", "b"] }
            link.bc = { between = ["b", "c"] }
            link.ca = { between = ["c", "a"] }
            route = [{ on = "a", to = "b", via = "ca", congestion = "reno" }, { on = "a", to = "default", via = "ab" },
                     { on = "b", to = "192.0.2.77/24", via = "bc" }]
        "#;
        let plan = plan(ring).unwrap();
        let routes = &plan.hosts[0].routes;
        assert!(routes.contains(&"10.0.1.1/32 via 10.0.0.2 dev ab".into()), "{routes:?}");
        assert!(routes.contains(&"10.0.0.2/32 via 10.0.2.1 dev ca congctl reno".into()), "{routes:?}");
        assert!(routes.contains(&"::/0 via fd00::2 dev ab".into()), "{routes:?}");
        assert!(plan.hosts[1].routes.contains(&"192.0.2.0/24 via 10.0.1.2 dev bc".into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, why) in [
            ("host = {}", "[host.client]"),
            ("[host.a]\n[link.x]\nbetween = [\"a\", \"b\"]", "link.x: there is no host `b`; the hosts are a"),
            ("[host.a]\n[link.x]\nbetween = [\"a\", \"a\"]", "from `a` to `a`"),
            ("[host.lo]", "`lo` cannot be the name"),
            ("[host.a]\nspeed = 1", "unknown field `speed`"),
            ("[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\nqueue = \"codel\"", "needs a rate"),
            ("[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\nup = 7", "a rate such as"),
            (
                "[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\nup = { rat = 7 }",
                "unknown field `rat`",
            ),
            ("[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\ndelay = \"5\"", "`5`"),
            (
                "[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\nipv4 = [\"192.0.2.1/24\", \"192.0.3.1/24\"]",
                "not of the same network",
            ),
            (
                "[host.a]\n[host.b]\n[link.x]\nbetween = [\"a\", \"b\"]\n\
                 [link.y]\nbetween = [\"a\", \"b\"]\nipv4 = [\"10.0.0.7/24\", \"10.0.0.8/24\"]",
                "is that of link.x too",
            ),
            ("[host.a]\n[[route]]\non = \"a\"\nto = \"b\"\nvia = \"x\"", "route[0]: `b` is not a host"),
            ("[host.a]\n[[program]]\non = \"c\"\nrun = \"true\"", "program[0]: there is no host `c`"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(why) && error.starts_with("net.toml: "), "{text}: {error}");
        }
    }
}
