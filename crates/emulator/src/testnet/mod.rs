//! Several hosts with links between them, each a network namespace of this machine.
//!
//! A [`Spec`] describes a network, and a [`Testnet`] is a running one: programs and closures run
//! on its hosts. A link with a rate, a delay or any other property of a [`leeway_link::Link`] is
//! emulated by an [`Engine`] of its own. All other links are wires.

mod namespace;
mod plan;
mod run;
mod spec;

pub use run::{exec, run};
pub use spec::{Host, Link, LinkDirection, Named, Program, Route, Setting, Spec};

use crate::Error;
use crate::device::Device;
use crate::engine::{Ended, Engine, Stop, Stopper};
use crate::host::{overruns, sysctl};
use crate::record::Writer;
use leeway_net::ip;
use namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plan::{Plan, Wire};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for processes to end when a network ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running test network. Dropping it removes everything: links, hosts, and the processes on
/// them. Where the program is killed instead, the links go with it, and the hosts with the last
/// process on them.
#[derive(Debug)]
pub struct Testnet {
    // The order of the fields matters: the links end before the hosts.
    links: Vec<LiveLink>,
    hosts: Vec<LiveHost>,
}

/// A host that is up.
#[derive(Debug)]
struct LiveHost {
    name: String,
    addresses: Vec<IpAddr>,
    namespace: Namespace,
}

/// An emulated link that is up.
#[derive(Debug)]
struct LiveLink {
    name: String,
    ends: [usize; 2],
    stopper: Option<Stopper>,
    engine: Option<JoinHandle<Result<Ended, Error>>>,
}

/// The outcome of an emulated link.
#[derive(Debug)]
pub struct Carried {
    /// The link.
    pub name: String,
    /// What its engine did.
    pub ended: Ended,
    /// Packets up and down that the kernel dropped because the engine read too late.
    pub overruns: [u64; 2],
}

impl Testnet {
    /// Builds a network: hosts, links, addresses, routes, and parameters. Programs are started by
    /// [`Testnet::start_programs`].
    ///
    /// # Errors
    /// Rights, a missing program, and what the kernel refuses.
    pub fn up(spec: &Spec) -> Result<Testnet, Error> {
        let plan = Plan::of(spec)?;
        let table = hosts_table(&plan);
        let mut net = Testnet { links: Vec::new(), hosts: Vec::new() };
        for host in &plan.hosts {
            let namespace = Namespace::new(&host.name, &table, host.links > 1)?;
            net.hosts.push(LiveHost {
                name: host.name.clone(),
                addresses: host.addresses.clone(),
                namespace,
            });
        }
        for wire in &plan.links {
            net.lay(wire, spec.seed)?;
        }
        for (host, live) in plan.hosts.into_iter().zip(&net.hosts) {
            let routes = host
                .routes
                .iter()
                .fold(String::new(), |batch, route| batch + "route replace " + route + "\n");
            live.namespace.ask(move || {
                ip(&routes)?;
                host.sysctl.iter().try_for_each(|(name, value)| sysctl(&name.replace('.', "/"), value))
            })??;
        }
        Ok(net)
    }

    /// The names of the hosts, in the order of the file.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.name.as_str())
    }

    /// The addresses of a host on its first link, IPv4 first. Every host reaches them.
    ///
    /// # Errors
    /// There is no such host.
    pub fn addresses(&self, host: &str) -> Result<&[IpAddr], Error> {
        Ok(&self.host(host)?.addresses)
    }

    /// Starts a command on a host. The command knows the other hosts by name, through
    /// `/etc/hosts`.
    ///
    /// # Errors
    /// There is no such host; the command cannot be started.
    pub fn spawn(&self, host: &str, command: Command) -> Result<Child, Error> {
        let mut command = command;
        command.env("LEEWAY_HOST", host).env(run::HOSTS, self.places());
        self.host(host)?.namespace.spawn(command)?.map_err(Error::of("start a program on a host"))
    }

    /// Runs a closure in the network of a host, on a thread of its own. Sockets that the closure
    /// makes belong to the host for good. [`Testnet::spawn`] starts processes.
    ///
    /// # Errors
    /// There is no such host.
    pub fn inside<T: Send>(&self, host: &str, step: impl FnOnce() -> T + Send) -> Result<T, Error> {
        self.host(host)?.namespace.inside(step)
    }

    /// Starts the programs of `spec` through `launcher`, a program and its arguments to which a
    /// command is appended; without one directly.
    ///
    /// # Errors
    /// A program cannot be started, ends before it listens, or does not listen in time.
    pub fn start_programs(
        &self,
        spec: &Spec,
        launcher: &[std::ffi::OsString],
    ) -> Result<Vec<(Program, Child)>, Error> {
        spec.program
            .iter()
            .map(|program| {
                let shell = ["/bin/sh".into(), "-c".into(), program.run.clone().into()];
                let mut words = launcher.iter().cloned().chain(shell);
                let mut command = Command::new(words.next().unwrap_or_default());
                let null = std::process::Stdio::null;
                command.args(words).stdin(null()).stdout(null());
                // A process group of its own: Ctrl-C at the terminal is for the command.
                std::os::unix::process::CommandExt::process_group(&mut command, 0);
                let mut child = self.spawn(&program.on, command)?;
                if let Some(port) = program.listens {
                    self.wait_for(program, port, &mut child)?;
                }
                Ok((program.clone(), child))
            })
            .collect()
    }

    /// Ends the network; what its emulated links did.
    ///
    /// # Errors
    /// An engine failed while it ran.
    pub fn close(mut self) -> Result<Vec<Carried>, Error> {
        self.kill_all();
        let mut links = std::mem::take(&mut self.links);
        links.iter_mut().map(|link| link.end(&self.hosts)).collect()
    }

    fn host(&self, name: &str) -> Result<&LiveHost, Error> {
        let names: Vec<&str> = self.hosts().collect();
        let index = plan::index(name, &names).map_err(Error::Options)?;
        Ok(&self.hosts[index])
    }

    /// Where the kernel shows each host: `client=/proc/7/task/8 server=/proc/7/task/9`.
    fn places(&self) -> String {
        let one = |host: &LiveHost| format!("{}={}", host.name, host.namespace.process.display());
        self.hosts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn lay(&mut self, wire: &Wire, seed: u64) -> Result<(), Error> {
        let [first, second] = wire.ends.map(|end| &self.hosts[end].namespace);
        let name = wire.name.clone();
        let joins = wire.offload;
        let mut devices = None;
        if wire.emulated.is_some() {
            let open = |host: &Namespace| {
                let name = name.clone();
                host.ask(move || Device::open(&name, joins))?
            };
            devices = Some([open(first)?, open(second)?]);
        } else {
            let peer = second.thread_id;
            let [one, other] = [0, 1].map(|end| wire.hardware_address(end));
            first.ask(move || {
                ip(&format!(
                    "link add name {name} address {one} type veth peer name {name} address {other} netns {peer}\n"
                ))
            })??;
        }
        for (end, host) in [first, second].into_iter().enumerate() {
            let name = &wire.name;
            let mut batch = String::new();
            for address in &wire.addresses[end] {
                let nodad = if address.ip.is_ipv6() { " nodad" } else { "" };
                let _ = writeln!(batch, "addr add {}/{} dev {name}{nodad}", address.ip, address.prefix);
            }
            // A segment is a packet, as on a real wire, unless `offload` is set.
            let segments = if wire.offload { "" } else { " gso_max_segs 1" };
            let _ = writeln!(batch, "link set dev {name} up mtu 1500 txqueuelen 1000{segments}");
            // The neighbours are entered, so that no packet waits for ARP or neighbour discovery.
            for address in wire.addresses[1 - end].iter().filter(|_| wire.emulated.is_none()) {
                let at = wire.hardware_address(1 - end);
                let _ = writeln!(batch, "neigh replace {} lladdr {at} dev {name} nud permanent", address.ip);
            }
            host.ask(move || ip(&batch))??;
        }
        if let (Some(specs), Some(devices)) = (&wire.emulated, devices) {
            let log = wire.log.as_deref().map(Writer::create).transpose()?;
            let engine = Engine::new(devices, specs, seed, log);
            let (stopper, stop) = Stop::new()?;
            let thread = std::thread::Builder::new().name(wire.name.clone()).spawn(move || engine.run(&stop));
            let engine = Some(thread.map_err(Error::of("start a thread"))?);
            let (name, ends) = (wire.name.clone(), wire.ends);
            self.links.push(LiveLink { name, ends, stopper: Some(stopper), engine });
        }
        Ok(())
    }

    fn wait_for(&self, program: &Program, port: u16, child: &mut Child) -> Result<(), Error> {
        let start = Instant::now();
        let failed = |why: String| Error::Options(format!("`{}` on {}: {why}", program.run, program.on));
        while !self.host(&program.on)?.namespace.ask(move || listens(port))? {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(failed(format!("ended with {status} before it listened on port {port}")));
            }
            if start.elapsed() > 2 * PATIENCE {
                return Err(failed(format!("does not listen on port {port}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills all processes on the hosts, and waits until they are gone.
    fn kill_all(&self) {
        let start = Instant::now();
        let own = std::process::id();
        while start.elapsed() < PATIENCE {
            let mut left = false;
            let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            for entry in processes {
                let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
                let Some(pid) = pid.filter(|&pid| pid != own) else { continue };
                if self.hosts.iter().any(|host| host.namespace.holds(&entry.path())) {
                    left = true;
                    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
                }
            }
            if !left {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Testnet {
    fn drop(&mut self) {
        self.kill_all();
        for link in &mut self.links {
            let _ = link.end(&self.hosts);
        }
    }
}

impl LiveLink {
    fn end(&mut self, hosts: &[LiveHost]) -> Result<Carried, Error> {
        let missed = |end: usize| {
            let name = self.name.clone();
            hosts[end].namespace.ask(move || overruns(&name))
        };
        let overruns = [missed(self.ends[0])?, missed(self.ends[1])?];
        self.stopper = None;
        let died = || Error::Options(format!("the engine of {} has died", self.name));
        let engine = self.engine.take().ok_or_else(died)?;
        let ended = engine.join().unwrap_or_else(|_| Err(died()))?;
        Ok(Carried { name: self.name.clone(), ended, overruns })
    }
}

/// The `/etc/hosts` of all hosts.
fn hosts_table(plan: &Plan) -> String {
    let mut table = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n".to_owned();
    for host in &plan.hosts {
        for address in &host.addresses {
            let _ = writeln!(table, "{address} {}", host.name);
        }
    }
    table
}

/// Whether a program listens on the TCP port in the namespace of the calling thread.
fn listens(port: u16) -> bool {
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].into_iter().any(|path: &str| {
        let table = std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace();
            let local = words.nth(1).and_then(|address| address.rsplit_once(':'));
            let listening = words.nth(1) == Some("0A");
            listening && local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port))
        })
    })
}
