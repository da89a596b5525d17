//! What a machine needs around the tunnel's device: addresses, routes, translation, and what clients may reach.
//!
//! Nothing here outlives the process in a way that blocks anybody: the device goes with its descriptor and takes its
//! addresses and routes along, the nftables table goes with its owner. Two routing rules of a client that was killed
//! stay; they look into a table that is empty then, and go when the next client starts.

use crate::Error;
use crate::device::Tun;
use crate::pool::{Pool, V6_BITS};
use crate::wire::Welcome;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;

/// The mark of the tunnel's own packets, and the number of the client's routing table.
pub const MARK: u32 = 0x1ee3a;

/// Routing rules come before those of the system, which begin at 32766.
const PRIORITY: u32 = 31_000;

/// Addresses that are not the public Internet (RFC 6890 and the registries that follow it): private, shared, link-local with
/// the metadata services of clouds, multicast and documentation networks, and what translates to such.
const NOT_PUBLIC_V4: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, \
    192.0.0.0/24, 192.0.2.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, \
    224.0.0.0/3";
/// 2000::/3 is what is public; of it 6to4, Teredo and documentation are not.
const NOT_PUBLIC_V6: &str = "::/3, 2001::/32, 2001:db8::/32, 2002::/16, 4000::/2, 8000::/1";

/// The server's side: device, addresses and rules.
#[derive(Debug)]
pub struct ServerHost {
    _rules: Rules,
}

impl ServerHost {
    /// Gives the device its addresses and translates what clients send to the Internet. With `private` they also reach
    /// addresses that are not public. Never each other, nor this host, but for a ping to its address in the tunnel.
    ///
    /// # Errors
    /// [`Error::Rights`], [`Error::Missing`], [`Error::Program`].
    pub fn new(tun: &Tun, pool: &Pool, mtu: u16, private: bool) -> Result<Self, Error> {
        let name = tun.name();
        let (v4, v6) = pool.server();
        let (network_v4, network_v6) = (pool.network_v4(), pool.network_v6());
        let bits = network_v4.rsplit('/').next().unwrap_or("16").to_owned();
        // Rules before the device is up: there is no moment in which it forwards everything.
        let table = format!("{}_{}", name.replace('-', "_"), std::process::id());
        let public = if private {
            String::new()
        } else {
            format!(
                "add rule inet {table} forward iifname \"{name}\" ip daddr {{ {NOT_PUBLIC_V4} }} reject with icmpx type admin-prohibited\n\
                 add rule inet {table} forward iifname \"{name}\" ip6 daddr {{ {NOT_PUBLIC_V6} }} reject with icmpx type admin-prohibited\n"
            )
        };
        let rules = Rules::new(
            &table,
            &format!(
                "add table inet {table} {{ flags owner; }}\n\
                 add chain inet {table} out {{ type nat hook postrouting priority 100; }}\n\
                 add chain inet {table} forward {{ type filter hook forward priority 0; }}\n\
                 add chain inet {table} input {{ type filter hook input priority 0; }}\n\
                 add rule inet {table} input iifname \"{name}\" ip daddr {v4} icmp type echo-request accept\n\
                 add rule inet {table} input iifname \"{name}\" ip6 daddr {v6} icmpv6 type echo-request accept\n\
                 add rule inet {table} input iifname \"{name}\" drop\n\
                 add rule inet {table} forward iifname \"{name}\" oifname \"{name}\" drop\n\
                 {public}\
                 add rule inet {table} forward oifname \"{name}\" ct state new drop\n\
                 add rule inet {table} forward iifname \"{name}\" tcp flags syn tcp option maxseg size set rt mtu\n\
                 add rule inet {table} forward oifname \"{name}\" tcp flags syn tcp option maxseg size set rt mtu\n\
                 add rule inet {table} out ip saddr {network_v4} oifname != \"{name}\" masquerade\n\
                 add rule inet {table} out ip6 saddr {network_v6} oifname != \"{name}\" masquerade\n\
                 list table inet {table}\n"
            ),
        )?;
        let own_v6 =
            if has_v6(name) { format!("addr add {v6}/{V6_BITS} dev {name} nodad\n") } else { String::new() };
        ip(&format!(
            "addr add {v4}/{bits} dev {name}\n{own_v6}link set {name} up mtu {mtu} txqueuelen 1000\n"
        ))?;
        Ok(ServerHost { _rules: rules })
    }

    /// Which settings of this host keep packets from being forwarded, as arguments of `sysctl -w`.
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

/// A network that is reached through the tunnel, such as `192.0.2.0/24` or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(String);

impl Route {
    fn is_v6(&self) -> bool {
        self.0.contains(':')
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
    /// Whether everything goes through the tunnel, by rules that have to be removed.
    everything: bool,
}

impl ClientHost {
    /// Gives the device the addresses of `welcome`, and leads `routes` into it; all traffic where there are none.
    ///
    /// The tunnel's own packets carry [`MARK`] and go around it.
    ///
    /// # Errors
    /// [`Error::Rights`], [`Error::Missing`], [`Error::Program`].
    pub fn new(tun: &Tun, welcome: &Welcome, routes: &[Route]) -> Result<Self, Error> {
        let name = tun.name();
        let Welcome { v4, v6, server_v4, server_v6, mtu, .. } = welcome;
        let mut batch = format!("addr add {v4} peer {server_v4}/32 dev {name}\n");
        let families: &[&str] = if has_v6(name) {
            batch.push_str(&format!("addr add {v6} peer {server_v6}/128 dev {name} nodad\n"));
            &["-4", "-6"]
        } else {
            &["-4"]
        };
        batch.push_str(&format!("link set {name} up mtu {mtu} txqueuelen 1000\n"));
        let everything = routes.is_empty();
        if everything {
            remove_rules();
            // As wg-quick does it: everything without the mark looks into a table of its own, unless the main table knows
            // better than by its default route.
            for family in families {
                batch.push_str(&format!(
                    "{family} route add default dev {name} table {MARK}\n\
                     {family} rule add not fwmark {MARK} table {MARK} priority {}\n\
                     {family} rule add table main suppress_prefixlength 0 priority {PRIORITY}\n",
                    PRIORITY + 1
                ));
            }
            // Answers to marked packets come where unmarked ones would not go; strict filters have to see the mark.
            let _ = sysctl("net/ipv4/conf/all/src_valid_mark", "1");
        }
        for route in routes {
            let family = if route.is_v6() { "-6" } else { "-4" };
            batch.push_str(&format!("{family} route add {} dev {name}\n", route.0));
        }
        let host = ClientHost { everything };
        ip_each(&batch)?;
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

/// Also those of a client that was killed.
fn remove_rules() {
    for family in ["-4", "-6"] {
        for priority in [PRIORITY, PRIORITY + 1] {
            let priority = priority.to_string();
            // Until there is none: the second call would fail.
            while Command::new("ip")
                .args([family, "rule", "del", "priority", &priority])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
            {}
        }
    }
}

/// An nftables table with its owner, whose end is the table's end.
#[derive(Debug)]
struct Rules {
    owner: Child,
    /// Closed with this process, however it ends; the owner then ends too.
    commands: Option<ChildStdin>,
    /// Kept open so that the owner may write until it ends.
    answers: BufReader<PipeReader>,
}

impl Rules {
    /// `script` makes `table` and ends with listing it.
    fn new(table: &str, script: &str) -> Result<Self, Error> {
        let (reader, writer) = io::pipe().map_err(Error::of("make a pipe"))?;
        let errors = writer.try_clone().map_err(Error::of("make a pipe"))?;
        let mut owner = Command::new("nft")
            .arg("-i")
            // It would keep a history of its commands there.
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(errors)
            // Away from the terminal's signals: Ctrl-C is for us.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Missing { program: "nft", package: "nftables", error })?;
        let mut commands = owner.stdin.take();
        let sent =
            commands.as_mut().map(|pipe| pipe.write_all(script.as_bytes()).and_then(|()| pipe.flush()));
        let mut rules = Rules { owner, commands, answers: BufReader::new(reader) };
        sent.transpose().map_err(Error::of("tell nft its rules"))?;
        rules.confirm(table)?;
        Ok(rules)
    }

    /// Waits until the table is listed whole.
    fn confirm(&mut self, table: &str) -> Result<(), Error> {
        let mut said = String::new();
        loop {
            let from = said.len();
            let read = self.answers.read_line(&mut said).map_err(Error::of("hear from nft"))?;
            let line = &said[from..];
            if read == 0 || line.contains("Error") || line.contains("not permitted") {
                return Err(Error::Program { program: "nft", message: said.trim().to_owned() });
            }
            if line.starts_with('}') && said.contains(&format!("table inet {table}")) {
                return Ok(());
            }
        }
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.commands = None;
        // It ends at the end of its input; nothing can be done if it does not.
        let _ = self.owner.wait();
    }
}

/// Whether the device can have IPv6 addresses; also where the host's other devices have none.
fn has_v6(name: &str) -> bool {
    sysctl(&format!("net/ipv6/conf/{name}/disable_ipv6"), "0").is_ok()
}

/// Runs lines of `ip`, of which each may begin with the family.
fn ip_each(lines: &str) -> Result<(), Error> {
    let of = |family: &str| -> String {
        let own = |line: &&str| line.starts_with(family);
        lines.lines().filter(own).map(|line| format!("{}\n", line[family.len()..].trim_start())).collect()
    };
    let plain: String =
        lines.lines().filter(|line| !line.starts_with('-')).map(|line| format!("{line}\n")).collect();
    run_ip(&["-batch", "-"], &plain)?;
    run_ip(&["-4", "-batch", "-"], &of("-4"))?;
    run_ip(&["-6", "-batch", "-"], &of("-6"))
}

fn ip(batch: &str) -> Result<(), Error> {
    run_ip(&["-batch", "-"], batch)
}

fn run_ip(arguments: &[&str], batch: &str) -> Result<(), Error> {
    let missing = |error| Error::Missing { program: "ip", package: "iproute2", error };
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let input = child.stdin.take();
    let sent = input.map(|mut pipe| pipe.write_all(batch.as_bytes())).transpose();
    let output = child.wait_with_output().map_err(missing)?;
    if !output.status.success() || sent.is_err() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Program { program: "ip", message });
    }
    Ok(())
}

fn sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(Path::new("/proc/sys").join(name), value)
}
