//! The inner side: a network namespace without a name, and the thread that lives in it.

use crate::Error;
use crate::host::{Addresses, ip, open_tun, overruns, sysctl};
use nix::sched::{CloneFlags, unshare};
use std::io::PipeWriter;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tun_rs::SyncDevice;

/// A namespace; it ends with the last process and the last descriptor in it.
///
/// Its thread starts the command and stays, because a child's parent-death signal comes when the thread that started it
/// ends.
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
    pub fn new(name: &str, addresses: Addresses, ended: PipeWriter) -> Result<(Self, SyncDevice), Error> {
        let (go, orders) = channel::<Command>();
        let (ready, device) = channel();
        let (report, started) = channel();
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            let _ended = ended;
            let made = prepare(&name, addresses);
            let failed = made.is_err();
            // Whoever waits for these has gone only if the whole program is ending.
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

    /// Waits for the command; how it ended, and the packets that the kernel dropped on their way to the device.
    pub fn wait(self) -> Result<(ExitStatus, u64), Error> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Options("the thread of the namespace has died".into())))
    }
}

fn prepare(name: &str, Addresses { host, inside, .. }: Addresses) -> Result<SyncDevice, Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::of_errno("make a network namespace"))?;
    let device = open_tun(name)?;
    // No router solicitations on the link: they would be packets that nobody sent. A kernel without IPv6 has none.
    let _ = sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    // So that a link can be started inside this one.
    sysctl("net/ipv4/ip_forward", "1")?;
    ip(&format!(
        "link set lo up\naddr add {inside}/30 dev {name}\nlink set {name} up mtu 1500 txqueuelen 1000\n\
         route add default via {host} dev {name}\n"
    ))?;
    Ok(device)
}
