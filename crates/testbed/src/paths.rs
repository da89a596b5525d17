//! The programs of mechanisms: a relay with the gateway's tunnel to it, and a proxy.

use crate::Error;
use crate::ipip::{End, IpInIp};
use crate::network::{GATEWAY_LAN, GATEWAY_LINE, HOME, Network, RELAY, SECONDARIES};
use crate::program::Start;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Port of the relay.
const RELAY_PORT: u16 = 4433;
/// Port of the proxy.
const PROXY_PORT: u16 = 3128;
/// The gateway's routing table for the tunnel.
const TABLE: u32 = 77;
/// Addresses of gateway and relay inside a tunnel of IP in IP.
const INSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 3, 0, 1), Ipv4Addr::new(10, 3, 0, 2)];

/// The transport of a tunnel's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tunnel {
    /// Datagrams of QUIC under one of Leeway's laws; `None` for the program's default law.
    Quic(Option<String>),
    /// A TCP connection under a congestion control of the kernel: its own, or one of Leeway's
    /// laws.
    Tcp(String),
    /// IP in IP: each packet with an IP header before its own.
    IpInIp,
}

/// Programs that run on the hosts of a network. They end with the network, and with this process
/// in any case.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Path of `leeway`, which is also the launcher that ends a program with this process.
    leeway: PathBuf,
    children: Vec<Child>,
    law: Option<KernelLaw>,
    ipip: Option<IpInIp>,
    folder: Option<tempfile::TempDir>,
}

impl Programs {
    /// Leads the secondaries' packets through a tunnel between the gateway and the relay.
    pub fn tunnel(network: &Network, leeway: &Path, tunnel: &Tunnel) -> Result<Programs, Error> {
        let mut programs = Programs::new(leeway)?;
        let mut join = Command::new(leeway);
        // A network that nobody addresses, because the source of a packet decides whether it
        // enters the tunnel.
        join.args(["join", "--route", "203.0.113.0/24"]);
        let options: Vec<String> = match tunnel {
            Tunnel::Quic(Some(law)) => {
                join.args(["--law", law, "--home", HOME]);
                vec!["--law".into(), law.clone()]
            }
            Tunnel::Quic(None) => {
                join.args(["--home", HOME]);
                vec![]
            }
            Tunnel::Tcp(law) => {
                let law = programs.law.insert(KernelLaw::named(leeway, law)?);
                join.args(["--transport", "tcp", "--law", &law.name]);
                vec!["--tcp".into(), law.name.clone()]
            }
            Tunnel::IpInIp => return Programs::ipip(network),
        };
        join.arg(programs.relay(network, leeway, &options)?);
        programs.start(network, "gateway", "join", join, "joined as")?;
        lead_into(network, "lwjoin0")?;
        Ok(programs)
    }

    /// Leads the secondaries' packets through a tunnel of IP in IP.
    fn ipip(network: &Network) -> Result<Programs, Error> {
        let device = "ipip0";
        let end = |host, outer, inner| End { host, outer, inner };
        let [gateway, relay] = INSIDE;
        let ends = [end("gateway", GATEWAY_LINE, gateway), end("relay", RELAY, relay)];
        let mut programs = Programs::default();
        programs.ipip = Some(IpInIp::between(network, device, ends)?);
        lead_into(network, device)?;
        // Address translation as for the other tunnels.
        masquerade(network, "relay", "net-relay")?;
        Ok(programs)
    }

    /// Starts a relay, and returns a token for it.
    fn relay(&mut self, network: &Network, leeway: &Path, options: &[String]) -> Result<String, Error> {
        let state = self.path("relay");
        let mut relay = Command::new(leeway);
        relay.args(["relay", "--private", "--ports", "any", "--listen"]).arg(format!("0.0.0.0:{RELAY_PORT}"));
        relay.arg("--state").arg(&state).args(options);
        let mut invite = Command::new(leeway);
        invite.args(["invite", "--name", "gateway", "--state"]).arg(&state);
        invite.args(["--address", &format!("{RELAY}:{RELAY_PORT}")]).stdout(Stdio::piped());
        let token = output(invite, "invite")?;
        self.start(network, "relay", "relay", relay, "listening")?;
        Ok(token.trim().to_owned())
    }

    /// Starts the proxy on the gateway, with a relay behind it if asked for, and returns the
    /// proxy's address.
    pub fn proxy(
        network: &Network,
        leeway: &Path,
        law: Option<&str>,
        relayed: bool,
    ) -> Result<(Programs, SocketAddr), Error> {
        let mut programs = Programs::new(leeway)?;
        let address = SocketAddr::new(GATEWAY_LAN.into(), PROXY_PORT);
        let mut gateway = Command::new(leeway);
        gateway.args(["gateway", "--client", SECONDARIES, "--home", HOME, "--listen", &address.to_string()]);
        if let Some(law) = law {
            gateway.args(["--law", law]);
        }
        if relayed {
            gateway.arg("--relay").arg(programs.relay(network, leeway, &[])?);
        }
        let ready = if relayed { "connections go through it" } else { "listening" };
        programs.start(network, "gateway", "gateway", gateway, ready)?;
        Ok((programs, address))
    }

    fn new(leeway: &Path) -> Result<Programs, Error> {
        let mut programs = Programs::default();
        programs.leeway = leeway.into();
        let folder = tempfile::tempdir().map_err(|error| Error::Measure { what: "make a folder", error })?;
        programs.folder = Some(folder);
        Ok(programs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(PathBuf::new, |folder| folder.path().join(name))
    }

    /// Starts a program and waits until its standard error contains `ready`.
    fn start(
        &mut self,
        network: &Network,
        host: &str,
        name: &'static str,
        command: Command,
        ready: &str,
    ) -> Result<(), Error> {
        let log = self.path(&format!("{name}.log"));
        let start = Start { leeway: &self.leeway, host, name, command: &command, log: &log, ready };
        self.children.push(start.on(&network.net)?);
        Ok(())
    }
}

/// Routes the secondaries' packets on the gateway into the tunnel `device`, under the gateway's
/// address there.
fn lead_into(network: &Network, device: &str) -> Result<(), Error> {
    let routes = format!(
        "rule add from {SECONDARIES} lookup {TABLE} priority 1000\nroute add default dev {device} table {TABLE}\n"
    );
    network.feed("gateway", "ip", &["-batch", "-"], &routes)?;
    masquerade(network, "gateway", device)
}

/// A host sends everything through `device` under its own address.
fn masquerade(network: &Network, host: &str, device: &str) -> Result<(), Error> {
    let rules = format!(
        "table ip tunnel {{ chain out {{ type nat hook postrouting priority 100;\noifname \"{device}\" masquerade\n}}\n}}\n"
    );
    network.feed(host, "nft", &["-f", "-"], &rules)
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A congestion control of the kernel. A law of Leeway is registered while this exists.
#[derive(Debug)]
struct KernelLaw {
    name: String,
    unload: Option<PathBuf>,
}

impl KernelLaw {
    fn named(leeway: &Path, law: &str) -> Result<KernelLaw, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own =
            fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        if own.split_whitespace().any(|name| name == law) {
            return Ok(KernelLaw { name: law.into(), unload: None });
        }
        // At most 15 characters, and unique among testbeds.
        let name = format!("tb{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut load = Command::new(leeway);
        load.args(["kernel", "load", law, "--name", &name]);
        output(load, "kernel load")?;
        Ok(KernelLaw { name, unload: Some(leeway.into()) })
    }
}

impl Drop for KernelLaw {
    fn drop(&mut self) {
        if let Some(leeway) = &self.unload {
            let _ =
                Command::new(leeway).args(["kernel", "unload", &self.name]).stdout(Stdio::null()).status();
        }
    }
}

/// The output of a program, if the program succeeds.
fn output(mut command: Command, program: &'static str) -> Result<String, Error> {
    let failed = |why: String| Error::Program { program, host: "this machine".into(), why };
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
