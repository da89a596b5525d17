//! The hosts and the line between them.

use crate::Error;
use crate::mechanism::{self, Mechanism};
use crate::paths::Programs;
use leeway_emulator::testnet::{Carried, Spec, Testnet};
use leeway_link::Rates;
use leeway_units::{Duration, Size};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The line that everybody shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The rate in both directions, perhaps with changes.
    pub rate: Rates,
    /// The rate towards the Internet, where it differs.
    pub up: Option<Rates>,
    /// A file of delivery opportunities (mahimahi's format) instead of a rate, for downloads.
    pub trace: Option<PathBuf>,
    /// The round-trip time without a queue.
    pub rtt: Duration,
    /// The buffer of its queues.
    pub buffer: Size,
    /// Loss on the access link of every client, such as `random:p=1%`; none by default.
    pub access_loss: Option<String>,
}

impl Default for Line {
    /// The published line: 1.72 Mbit/s and 100 packets. The round-trip time is not published.
    fn default() -> Self {
        Line {
            rate: leeway_units::Rate::from_bits_per_sec(1_720_000).into(),
            up: None,
            trace: None,
            rtt: Duration::from_millis(20),
            buffer: Size::Packets(100),
            access_loss: None,
        }
    }
}

impl Line {
    /// Its rate for downloads, if it is constant.
    pub fn steady_bps(&self) -> Option<u64> {
        let steady = self.trace.is_none() && self.rate.changes.is_empty();
        steady.then(|| self.rate.first.bits_per_sec())
    }

    /// Its highest rate; a trace counts as the highest possible rate.
    pub fn peak_bps(&self) -> u64 {
        if self.trace.is_some() {
            return u64::MAX;
        }
        let both = [Some(&self.rate), self.up.as_ref()].into_iter().flatten();
        let rates = both.flat_map(|rates| rates.changes.iter().map(|(_, rate)| *rate).chain([rates.first]));
        rates.map(leeway_units::Rate::bits_per_sec).max().unwrap_or(0)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |rates: &Rates| match rates.changes.as_slice() {
            [] => rates.first.to_string(),
            _ => format!("{} and changing", rates.first),
        };
        match &self.trace {
            Some(trace) => write!(f, "trace {}", trace.display())?,
            None => f.write_str(&rate(&self.rate))?,
        }
        if let Some(up) = &self.up {
            write!(f, ", {} up", rate(up))?;
        }
        write!(f, ", round trip {}, buffer {}", self.rtt, self.buffer)?;
        match &self.access_loss {
            Some(loss) => write!(f, ", access loses {loss}"),
            None => Ok(()),
        }
    }
}

/// Most users; their addresses begin with 10.2.1.1.
const USERS: usize = 250 * 250;
/// The secondaries' network.
pub(crate) const SECONDARIES: &str = "10.2.0.0/16";
/// The primary's network.
pub(crate) const HOME: &str = "10.1.0.0/24";
/// Addresses of the gateway towards the home and towards the line, and of the relay.
pub(crate) const GATEWAY_LAN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const GATEWAY_LINE: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 1);
pub(crate) const RELAY: Ipv4Addr = Ipv4Addr::new(20, 0, 2, 2);
/// Part of the line's rate that HTB gives out: below 1, so that the queue is at the gateway and
/// not at the line.
const HTB_SHARE: f64 = 0.95;
/// Guaranteed parts of the primary and of the secondaries.
const PRIMARY_SHARE: f64 = 0.9;
const SECONDARY_SHARE: f64 = 1.0 - PRIMARY_SHARE;
/// Burst of a class of HTB, in bytes: a little more than a packet.
const HTB_BURST: u32 = 1600;

/// Port of the web servers.
pub(crate) const WEB_PORT: u16 = 80;
/// Port of the call's listener.
pub(crate) const CALL_PORT: u16 = 5004;

/// A testbed that is up: `primary` and `secondary` behind `home`, the `gateway`, the line, `isp`,
/// behind it `server` and `relay`.
pub(crate) struct Network {
    pub net: Testnet,
    /// The proxy that the secondaries ask, if any.
    pub proxy: Option<SocketAddr>,
    programs: Programs,
}

impl Network {
    /// Builds the testbed, with everything that `mechanism` needs on the hosts and the line.
    /// Gateway and relay run the program `leeway`.
    pub fn up(
        line: &Line,
        mechanism: &Mechanism,
        users: usize,
        leeway: &Path,
        seed: u64,
    ) -> Result<Network, Error> {
        if users > USERS {
            return Err(Error::Usage(format!("{users} users are too many; at most {USERS} have an address")));
        }
        let text = description(line, mechanism, seed);
        let spec = Spec::parse(&text, Path::new("/the testbed"))?;
        let mut network = Network { net: Testnet::up(&spec)?, proxy: None, programs: Programs::default() };
        let mut batch = String::new();
        for user in 0..users {
            let _ = writeln!(batch, "addr add {}/16 dev access-s", secondary(user));
        }
        network.feed("secondary", "ip", &["-batch", "-"], &batch)?;
        match &mechanism.path {
            mechanism::Path::PrimaryOnly | mechanism::Path::BestEffort => {}
            mechanism::Path::Borrowing => {
                // In both directions the packets leave the gateway.
                let up = line.up.as_ref().unwrap_or(&line.rate);
                network.feed(
                    "gateway",
                    "tc",
                    &["-batch", "-"],
                    &(htb("lan", &line.rate) + &htb("line", up)),
                )?;
                network.feed("gateway", "nft", &["-f", "-"], &rules("meta priority set 1:20"))?;
            }
            mechanism::Path::BorrowingLine => {
                for host in ["gateway", "isp"] {
                    network.feed(host, "nft", &["-f", "-"], &rules("ip dscp set cs1"))?;
                }
            }
            mechanism::Path::Tunnel(tunnel) => network.programs = Programs::tunnel(&network, leeway, tunnel)?,
            mechanism::Path::Proxy(_) | mechanism::Path::ProxyRelay => {
                let law =
                    if let mechanism::Path::Proxy(law) = &mechanism.path { law.as_deref() } else { None };
                let relayed = mechanism.path == mechanism::Path::ProxyRelay;
                let (programs, address) = Programs::proxy(&network, leeway, law, relayed)?;
                network.programs = programs;
                network.proxy = Some(address);
            }
        }
        Ok(network)
    }

    /// The address of a host.
    pub fn address(&self, host: &str) -> Result<IpAddr, Error> {
        let v4 = self.net.addresses(host)?.iter().copied().find(IpAddr::is_ipv4);
        v4.ok_or_else(|| Error::Usage(format!("{host} has no address")))
    }

    /// The web server.
    pub fn web(&self) -> Result<SocketAddr, Error> {
        Ok(SocketAddr::new(self.address("server")?, WEB_PORT))
    }

    /// Segments that the TCP of a host has retransmitted since the host exists.
    pub fn retransmitted(&self, host: &str) -> Result<u64, Error> {
        let table = self.net.inside(host, || std::fs::read_to_string("/proc/thread-self/net/snmp"))?;
        Ok(table.ok().and_then(|table| counter(&table, "Tcp:", "RetransSegs")).unwrap_or(0))
    }

    /// Ends the testbed, and returns the figures of the line.
    pub fn close(self) -> Result<Vec<Carried>, Error> {
        drop(self.programs);
        Ok(self.net.close()?)
    }

    /// Runs a program with the standard input `input` on a host.
    pub fn feed(
        &self,
        host: &str,
        program: &'static str,
        arguments: &[&str],
        input: &str,
    ) -> Result<(), Error> {
        if input.is_empty() {
            return Ok(());
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.net.spawn(host, command)?;
        let failed = |why: String| Error::Program { program, host: host.into(), why };
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(|error| failed(error.to_string()))?;
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }
}

/// The address of a secondary user.
pub(crate) fn secondary(user: usize) -> IpAddr {
    Ipv4Addr::new(10, 2, 1 + (user / 250) as u8, 1 + (user % 250) as u8).into()
}

/// The test network's file.
fn description(line: &Line, mechanism: &Mechanism, seed: u64) -> String {
    let access = |name: &str, host: &str, ipv4: &str| {
        let loss = line.access_loss.as_ref().map(|loss| format!("loss = \"{loss}\"\n")).unwrap_or_default();
        format!("[link.{name}]\nbetween = [\"{host}\", \"home\"]\nipv4 = [{ipv4}]\n{loss}")
    };
    let queue = |rate: &Rates| match (&mechanism.path, &mechanism.queue) {
        (mechanism::Path::BorrowingLine, _) => {
            let part = |share: f64| format!("{}bit/s", (rate.first.bits_per_sec() as f64 * share) as u64);
            let (first, rest, all) = (part(PRIMARY_SHARE), part(SECONDARY_SHARE), part(1.0));
            format!("borrowing:class0={first}..{all}@0,class1={rest}..{all}@1")
        }
        (_, Some(queue)) => queue.to_string(),
        (_, None) => "droptail".into(),
    };
    let up = line.up.as_ref().unwrap_or(&line.rate);
    let down = match &line.trace {
        Some(trace) => format!("trace = {:?}", trace.display().to_string()),
        None => format!("rate = \"{}\"", line.rate),
    };
    let owd = Duration::from_nanos(line.rtt.nanos() / 2);
    let mut text = format!("seed = {seed}\n");
    // Connections do not inherit what earlier ones measured of the line.
    for host in ["primary", "secondary", "home", "gateway", "isp", "server", "relay"] {
        let forwards = i32::from(!["primary", "secondary", "server"].contains(&host));
        let _ = writeln!(
            text,
            "[host.{host}]\nsysctl = {{ \"net.ipv4.tcp_no_metrics_save\" = 1, \"net.ipv4.ip_forward\" = {forwards} }}"
        );
    }
    text += &access("access-p", "primary", r#""10.1.0.2/24", "10.1.0.1/24""#);
    text += &access("access-s", "secondary", r#""10.2.0.2/16", "10.2.0.1/16""#);
    let _ = write!(
        text,
        r#"
[link.lan]
between = ["home", "gateway"]
ipv4 = ["10.0.0.1/24", "10.0.0.2/24"]
[link.line]
between = ["gateway", "isp"]
ipv4 = ["20.0.0.1/24", "20.0.0.2/24"]
delay = "{owd}"
buffer = "{buffer}"
up = {{ rate = "{up}", queue = "{up_queue}" }}
down = {{ {down}, queue = "{down_queue}" }}
[link.net-server]
between = ["isp", "server"]
ipv4 = ["20.0.1.1/24", "20.0.1.2/24"]
[link.net-relay]
between = ["isp", "relay"]
ipv4 = ["20.0.2.1/24", "20.0.2.2/24"]
"#,
        buffer = line.buffer,
        up_queue = queue(up),
        down_queue = queue(&line.rate),
    );
    for (host, via) in [("gateway", "lan"), ("isp", "line"), ("server", "net-server"), ("relay", "net-relay")]
    {
        let _ = writeln!(text, "[[route]]\non = \"{host}\"\nto = \"{SECONDARIES}\"\nvia = \"{via}\"");
    }
    text
}

/// The HTB classes of a device: the second for the secondaries' traffic, the first for everything
/// else.
fn htb(device: &str, rate: &Rates) -> String {
    let all = rate.first.bits_per_sec() as f64 * HTB_SHARE;
    let class = |parent: &str, id: &str, share: f64, prio: u32| {
        format!(
            "class add dev {device} parent {parent} classid {id} htb rate {:.0}bit ceil {all:.0}bit burst {HTB_BURST} \
             cburst {HTB_BURST} prio {prio}\n",
            all * share,
        )
    };
    let leaf = |parent: &str| format!("qdisc add dev {device} parent {parent} pfifo limit 100\n");
    format!("qdisc add dev {device} root handle 1: htb default 10\n")
        + &class("1:", "1:1", 1.0, 0)
        + &class("1:1", "1:10", PRIMARY_SHARE, 0)
        + &class("1:1", "1:20", SECONDARY_SHARE, 1)
        + &leaf("1:10")
        + &leaf("1:20")
}

/// Applies the rule `what` to every packet of a secondary.
fn rules(what: &str) -> String {
    format!(
        "table ip testbed {{ chain classes {{ type filter hook postrouting priority 0;\n\
         ip saddr {SECONDARIES} {what}\nip daddr {SECONDARIES} {what}\n}}\n}}\n"
    )
}

/// A counter of `/proc/net/snmp`, where a line of names comes before each line of values.
fn counter(table: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(protocol));
    let names = lines.next()?.split_whitespace();
    let values = lines.next()?.split_whitespace();
    names.zip(values).find(|(known, _)| *known == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_has_a_network() {
        for (name, _) in crate::mechanism::NAMES {
            let text = description(&Line::default(), &name.parse().unwrap(), 1);
            Spec::parse(&text, Path::new("net.toml"))
                .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        }
        let wireless = Line { access_loss: Some("random:p=1%".into()), ..Line::default() };
        let text = description(&wireless, &"codel".parse().unwrap(), 1);
        Spec::parse(&text, Path::new("net.toml")).unwrap();
    }

    #[test]
    fn a_line_says_what_it_is() {
        assert_eq!(Line::default().steady_bps(), Some(1_720_000));
        assert_eq!(Line::default().to_string(), "1.72 Mbit/s, round trip 20 ms, buffer 100 pkt");
        let other = Line {
            rate: "10 Mbit/s, 2 Mbit/s at 5 s".parse().unwrap(),
            up: Some("1 Mbit/s".parse().unwrap()),
            access_loss: Some("random:p=1%".into()),
            ..Line::default()
        };
        assert_eq!(other.steady_bps(), None);
        let said = other.to_string();
        assert!(said.starts_with("10 Mbit/s and changing, 1 Mbit/s up, "), "{said}");
        assert!(said.ends_with("access loses random:p=1%"), "{said}");
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let table = "Ip: Forwarding\nIp: 1\nTcp: InSegs RetransSegs\nTcp: 7 42\n";
        assert_eq!(counter(table, "Tcp:", "RetransSegs"), Some(42));
        assert_eq!(counter(table, "Tcp:", "Nothing"), None);
    }
}
