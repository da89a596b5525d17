//! The command's side of a link: a network namespace without a name, and the thread that lives in
//! it.

use crate::Error;
use crate::device::Device;
use crate::host::{Addresses, Host, loopback_resolver, overruns, quiet_v6, sysctl};
use leeway_net::{has_v6, ip, nft};
use nix::sched::{CloneFlags, unshare};
use std::io::PipeWriter;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A namespace; it ends with the last process and the last descriptor in it.
///
/// Its thread starts the command and stays, because a child's parent-death signal comes when the
/// thread that started it ends.
#[derive(Debug)]
pub(crate) struct Namespace {
    thread: JoinHandle<Result<(ExitStatus, u64), Error>>,
    go: Sender<Command>,
    started: Receiver<Result<u32, Error>>,
}

impl Namespace {
    /// Makes the namespace and in it the device `name` as its way out.
    ///
    /// `ended` is closed when the command has ended.
    pub fn new(name: &str, addresses: Addresses, ended: PipeWriter) -> Result<(Self, Device), Error> {
        let (go, orders) = channel::<Command>();
        let (ready, device) = channel();
        let (report, started) = channel();
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            let _ended = ended;
            let made = prepare(&name, addresses);
            let failed = made.is_err();
            // The receiver is gone only if the whole program is ending.
            let _ = ready.send(made);
            let none = || Ok((ExitStatus::from_raw(0), 0));
            if failed {
                return none();
            }
            let Ok(mut command) = orders.recv() else { return none() };
            match command.spawn() {
                Err(error) => {
                    let _ = report.send(Err(Error::of("start the command")(error)));
                    none()
                }
                Ok(mut child) => {
                    let _ = report.send(Ok(child.id()));
                    drop(report);
                    let status = child.wait().map_err(Error::of("wait for the command"))?;
                    Ok((status, overruns(&name)))
                }
            }
        });
        let gone = |_| Error::Options("the thread of the namespace has died".into());
        let device = device.recv().map_err(gone)??;
        Ok((Namespace { thread, go, started }, device))
    }

    /// Starts `command` in the namespace; its process id.
    pub fn start(&self, command: Command) -> Result<u32, Error> {
        let gone = || Error::Options("the thread of the namespace has died".into());
        self.go.send(command).map_err(|_| gone())?;
        self.started.recv().map_err(|_| gone())?
    }

    /// Waits for the command; how it ended, and the packets that the kernel dropped on their way
    /// to the device.
    pub fn wait(self) -> Result<(ExitStatus, u64), Error> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Options("the thread of the namespace has died".into())))
    }
}

fn prepare(name: &str, addresses: Addresses) -> Result<Device, Error> {
    let Addresses { host, inside, host_v6, inside_v6, .. } = addresses;
    // Read the host's settings before leaving its namespace.
    let ([_, forwards_v6], resolver) = (Host::forwards(), loopback_resolver());
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::of_errno("make a network namespace"))?;
    let device = Device::open(name, true)?;
    quiet_v6(name);
    // A link can then be started inside this one.
    sysctl("net/ipv4/ip_forward", "1")?;
    ip(&format!(
        "link set lo up\naddr add {inside}/30 dev {name}\nlink set dev {name} up mtu 1500 txqueuelen 1000\n\
         route add default via {host} dev {name}\n"
    ))?;
    if has_v6() {
        let _ = sysctl("net/ipv6/conf/all/forwarding", "1");
        ip(&format!("addr add {inside_v6}/64 dev {name} nodad\n"))?;
        // Without forwarding the route leads nowhere, and programs do better without it.
        if forwards_v6 {
            ip(&format!("route add default via {host_v6} dev {name}\n"))?;
        }
    }
    if resolver.is_some() {
        // DNS queries to a resolver at a loopback address go to the host, which translates them.
        sysctl(&format!("net/ipv4/conf/{name}/route_localnet"), "1")?;
        nft(&format!(
            "table ip leeway {{
                chain names {{
                    type nat hook output priority -100;
                    ip daddr 127.0.0.0/8 meta l4proto {{ tcp, udp }} th dport 53 dnat to {host}
                }}
                chain source {{
                    type nat hook postrouting priority 100;
                    ip saddr 127.0.0.0/8 ip daddr {host} snat to {inside}
                }}
            }}"
        ))?;
    }
    Ok(device)
}
