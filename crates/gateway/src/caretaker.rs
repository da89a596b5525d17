//! A small process beside the gateway that keeps the right to change this machine's network
//! (CAP_NET_ADMIN). The gateway parses input of strangers, so it drops that right.
//!
//! The caretaker makes rules and routes, gives the tunnel its addresses, and opens sockets that
//! answer in the name of servers. It removes everything when the gateway asks for it or ends. It
//! reads only a few kinds of messages from the gateway, over a socket pair. The messages name no
//! program, file or other rule. So somebody who took over the gateway could change the rules of
//! this one gateway and answer its clients in the name of any server, and nothing else.

use crate::config::TransparentConfig;
use crate::divert::Divert;
use crate::transparent;
use ipnet::IpNet;
use leeway_guard::{Rights, give_up_but};
use leeway_tunnel::host::BoundHost;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::fmt::Display;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The hidden command of `leeway` that runs the caretaker.
pub const COMMAND: &str = "gateway-caretaker";
/// Longest message, in bytes: enough for the networks of 1,500 clients. Longer errors are cut.
const MESSAGE_BYTES: usize = 1 << 16;
/// Longest time for an answer. `ip` and `nft` need less on any machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Capabilities that the caretaker keeps: for rules, addresses and routes, and for answers from
/// ports below 1024.
const KEPT: Rights = Rights::NET_ADMIN.union(Rights::NET_BIND_SERVICE);

/// The gateway's end of the socket pair.
#[derive(Debug)]
pub struct Caretaker(Mutex<Process>);

#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    child: Child,
}

/// A request to the caretaker. Sent as a line of words.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    /// Divert what comes in at an interface to this port, except to the open ports.
    Divert(TransparentConfig, Vec<u16>),
    /// Divert the packets of these clients only.
    Serve(Vec<IpNet>),
    /// Open a socket for datagrams in the name of this server.
    Answer(SocketAddr),
    /// Make the rules for a tunnel's device with this name and index.
    Tunnel(String, u32),
    /// Set the addresses and the MTU of that device.
    Settle(Ipv4Addr, Ipv6Addr, u16),
    /// Remove everything.
    Stop,
}

impl Caretaker {
    /// Starts the caretaker, which is this program with a hidden command.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start() -> io::Result<Caretaker> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(PATIENCE),
        )?;
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // A process group of its own: Ctrl-C in the terminal goes to the gateway, which says
            // when to stop.
            .process_group(0)
            .spawn()?;
        Ok(Caretaker(Mutex::new(Process { socket, child })))
    }

    /// Diverts what comes in at an interface to the proxy.
    ///
    /// # Errors
    /// Missing privileges, or a kernel without TPROXY.
    pub fn divert(&self, config: &TransparentConfig, open: &[u16]) -> io::Result<()> {
        self.ask(&Request::Divert(config.clone(), open.to_vec())).map(drop)
    }

    /// Diverts the packets of these clients, and drops those of all other sources.
    ///
    /// # Errors
    /// Nothing is diverted, or there are more networks than fit into a message.
    pub fn serve(&self, clients: &[IpNet]) -> io::Result<()> {
        self.ask(&Request::Serve(clients.to_vec())).map(drop)
    }

    /// A socket that answers in the name of `server`. It reaches only machines behind the diverted
    /// interface.
    ///
    /// # Errors
    /// The address or its port cannot be used.
    pub fn answer(&self, server: SocketAddr) -> io::Result<UdpSocket> {
        let socket = self.ask(&Request::Answer(server))?;
        socket.map(UdpSocket::from).ok_or_else(|| io::Error::other("the caretaker sent no socket"))
    }

    /// Makes the rules for a tunnel's device.
    ///
    /// # Errors
    /// Missing privileges.
    pub fn tunnel(&self, name: &str, index: u32) -> io::Result<()> {
        self.ask(&Request::Tunnel(name.to_owned(), index)).map(drop)
    }

    /// Sets the addresses of the tunnel's device.
    ///
    /// # Errors
    /// The device is gone.
    pub fn settle(&self, v4: Ipv4Addr, v6: Ipv6Addr, mtu: u16) -> io::Result<()> {
        self.ask(&Request::Settle(v4, v6, mtu)).map(drop)
    }

    /// Lets the caretaker remove everything, and waits until it has ended.
    pub fn stop(&self) {
        if self.lives() {
            // If this fails, the caretaker ends when this end of the socket is closed.
            let _ = self.ask(&Request::Stop);
            let _ = self.lock().child.wait();
        }
    }

    /// Whether the process is running.
    pub fn lives(&self) -> bool {
        matches!(self.lock().child.try_wait(), Ok(None))
    }

    fn lock(&self) -> MutexGuard<'_, Process> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &Request) -> io::Result<Option<OwnedFd>> {
        let (mut process, request) = (self.lock(), request.to_string());
        if request.len() > MESSAGE_BYTES {
            return Err(io::Error::other(format!(
                "{} bytes of rules; {MESSAGE_BYTES} are possible, so name networks instead of single addresses",
                request.len()
            )));
        }
        let sent = send(process.socket.as_fd(), &request, None);
        let answered = sent.and_then(|()| receive(process.socket.as_fd()));
        if answered.is_err() {
            // A late answer would be taken for the answer to the next request. The gateway notices
            // that the process has ended, and stops.
            let _ = process.child.kill();
        }
        let (answer, socket) = answered?;
        match answer.as_str() {
            "ok" => Ok(socket),
            "" => Err(io::Error::other("the process that keeps the network rules has ended")),
            error => Err(io::Error::other(error.to_owned())),
        }
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the caretaker has made.
#[derive(Default)]
struct Kept {
    divert: Option<Divert>,
    tunnel: Option<BoundHost>,
}

/// Runs the caretaker. Its standard input is the socket. It ends when the gateway asks for it, or
/// has ended.
///
/// # Errors
/// The process was not started by a gateway.
pub fn run() -> io::Result<()> {
    give_up_but(KEPT)?;
    // A service manager sends SIGTERM to all processes of a service. The gateway needs this one
    // until it has ended.
    for signal in [nix::sys::signal::Signal::SIGTERM, nix::sys::signal::Signal::SIGINT] {
        ignore(signal)?;
    }
    let input = io::stdin();
    let (socket, mut kept) = (input.as_fd(), Kept::default());
    loop {
        let (request, _) = receive(socket)?;
        if request.is_empty() {
            // The gateway was killed or has crashed: nothing gets past the proxy until it is
            // started again.
            kept.divert.take().into_iter().for_each(Divert::leave_guard);
            return Ok(());
        }
        let request: Result<Request, String> = request.parse();
        let stop = request == Ok(Request::Stop);
        match request.and_then(|request| kept.serve(request)) {
            Ok(opened) => send(socket, "ok", opened.as_ref().map(AsFd::as_fd))?,
            Err(error) => send(socket, &error, None)?,
        }
        if stop {
            return Ok(());
        }
    }
}

#[expect(unsafe_code, reason = "signal handlers are unsafe to set; to ignore a signal runs no code")]
fn ignore(signal: nix::sys::signal::Signal) -> io::Result<()> {
    // SAFETY: no handler is run.
    unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
    Ok(())
}

impl Kept {
    fn serve(&mut self, request: Request) -> Result<Option<OwnedFd>, String> {
        match request {
            Request::Divert(config, open) if self.divert.is_none() => {
                self.divert = Some(Divert::new(&config, &open).map_err(said)?);
            }
            Request::Serve(clients) => {
                self.divert.as_mut().ok_or("nothing is diverted")?.serve(&clients).map_err(said)?;
            }
            Request::Tunnel(name, index) if self.tunnel.is_none() => {
                self.tunnel = Some(BoundHost::new(&name, index).map_err(said)?);
            }
            Request::Answer(server) => {
                let divert = self.divert.as_ref().ok_or("nothing is diverted")?;
                let socket = transparent::answer_socket(server, divert.interface()).map_err(said)?;
                return Ok(Some(socket.into()));
            }
            Request::Settle(v4, v6, mtu) => {
                self.tunnel.as_ref().ok_or("there is no tunnel")?.settle(v4, v6, mtu).map_err(said)?;
            }
            Request::Stop => *self = Kept::default(),
            Request::Divert(..) | Request::Tunnel(..) => return Err("there is one already".into()),
        }
        Ok(None)
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}

impl Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Request::Divert(TransparentConfig { interface, port }, open) => {
                write!(f, "divert {interface} {port}")?;
                open.iter().try_for_each(|port| write!(f, " {port}"))
            }
            Request::Serve(clients) => {
                f.write_str("serve")?;
                clients.iter().try_for_each(|network| write!(f, " {network}"))
            }
            Request::Answer(server) => write!(f, "answer {server}"),
            Request::Tunnel(name, index) => write!(f, "tunnel {name} {index}"),
            Request::Settle(v4, v6, mtu) => write!(f, "settle {v4} {v6} {mtu}"),
            Request::Stop => f.write_str("stop"),
        }
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no request");
        let words: Vec<&str> = text.split(' ').collect();
        let number = |word: &str| word.parse::<u16>().map_err(|_| wrong());
        Ok(match words[..] {
            ["divert", interface, port, ref open @ ..] => Request::Divert(
                TransparentConfig { interface: interface.to_owned(), port: number(port)? },
                open.iter().map(|port| number(port)).collect::<Result<_, _>>()?,
            ),
            ["serve", ref clients @ ..] => Request::Serve(
                clients.iter().map(|word| word.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?,
            ),
            ["answer", server] => Request::Answer(server.parse().map_err(|_| wrong())?),
            ["tunnel", name, index] if is_device(name) => {
                Request::Tunnel(name.to_owned(), index.parse().map_err(|_| wrong())?)
            }
            ["settle", v4, v6, mtu] => Request::Settle(
                v4.parse().map_err(|_| wrong())?,
                v6.parse().map_err(|_| wrong())?,
                number(mtu)?,
            ),
            ["stop"] => Request::Stop,
            _ => return Err(wrong()),
        })
    }
}

/// Whether this is the name of a tunnel's device of this program. No other device gets addresses
/// or rules.
fn is_device(name: &str) -> bool {
    let number = name.strip_prefix(crate::relay::DEVICE);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Sends a message, and a descriptor if there is one. A message that is too long is cut.
fn send(socket: BorrowedFd<'_>, text: &str, opened: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let opened: Vec<BorrowedFd<'_>> = opened.into_iter().collect();
    if !opened.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&opened));
    }
    let end = text.floor_char_boundary(MESSAGE_BYTES);
    sendmsg(socket, &[IoSlice::new(&text.as_bytes()[..end])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message and its descriptor. The message is empty at the end of the stream.
fn receive(socket: BorrowedFd<'_>) -> io::Result<(String, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MESSAGE_BYTES];
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let opened = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let text = std::str::from_utf8(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok((text.to_owned(), opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
        let mesh = TransparentConfig { interface: "mesh0".into(), port: 3129 };
        for request in [
            Request::Divert(mesh.clone(), vec![3128, 1080]),
            Request::Divert(mesh, vec![]),
            Request::Serve(vec![]),
            Request::Serve(vec!["10.20.0.0/16".parse().unwrap(), "fd20::/64".parse().unwrap()]),
            Request::Answer("198.51.100.7:443".parse().unwrap()),
            Request::Answer("[2001:db8::1]:53".parse().unwrap()),
            Request::Tunnel("lwrelay0".into(), 70_000),
            Request::Settle(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 1400),
            Request::Stop,
        ] {
            assert_eq!(request.to_string().parse(), Ok(request));
        }
    }

    /// Messages that somebody who has taken over the gateway might send.
    #[test]
    fn nothing_else_is_understood() {
        for text in [
            "",
            "stop now",
            "tunnel eth0 2",
            "tunnel lwrelay 2",
            "tunnel lwrelay0; 2",
            "answer 198.51.100.7",
            "answer host:53",
            "divert mesh0",
            "divert mesh0 3129 x",
            "serve 10.20.0.0/16 }",
            "serve 10.20.0.0",
            "serve @home",
            "settle 10.0.0.1 ::1 99999",
            "settle 10.0.0.1/0 ::1 1400",
            "settle 10.0.0.1\nlink ::1 1400",
        ] {
            assert!(text.parse::<Request>().is_err(), "{text:?}");
        }
        let mut kept = Kept::default();
        assert!(kept.serve(Request::Answer("198.51.100.7:53".parse().unwrap())).is_err());
        assert!(kept.serve(Request::Settle(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 1400)).is_err());
    }

    #[test]
    fn a_descriptor_comes_with_its_message() {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        send(there.as_fd(), "ok", Some(socket.as_fd())).unwrap();
        send(there.as_fd(), "no", None).unwrap();
        drop(there);
        let (text, opened) = receive(here.as_fd()).unwrap();
        let opened = UdpSocket::from(opened.unwrap());
        assert_eq!((text.as_str(), opened.local_addr().unwrap()), ("ok", socket.local_addr().unwrap()));
        let (text, opened) = receive(here.as_fd()).unwrap();
        assert!(text == "no" && opened.is_none());
        assert_eq!(receive(here.as_fd()).unwrap().0, "");
    }
}
