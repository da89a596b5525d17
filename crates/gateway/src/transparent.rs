//! Clients without configuration: what comes in by their interface goes to the proxy, and nothing else of it goes on.
//!
//! Two tables of nftables, each made in one transaction. The one that diverts has an owner, the process `nft` that this
//! one keeps, so that it ends with this process however it ends. The one that guards has none: after a crash nothing of
//! that interface is forwarded past the proxy, until the gateway is started again or the table is deleted. It concerns
//! that interface only, so it cannot block the home.

use crate::config::TransparentConfig;
use crate::http::Proxy;
use crate::tunnel;
use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

sockopt_impl!(
    /// Accepts connections to addresses of others.
    Transparent,
    Both,
    libc::SOL_IP,
    libc::IP_TRANSPARENT,
    bool
);

/// Marks packets for the proxy, and numbers the routing table in which everything is local: "LW" and the number of the
/// interface, so that what a crash has left is found again.
const MARK: u32 = 0x4c57_0000;
/// Bytes of the longest name of an interface.
const NAME_BYTES: usize = 15;

/// Rules and routes; they are removed when this is dropped.
#[derive(Debug)]
pub struct Divert {
    interface: String,
    mark: u32,
    owner: Child,
    /// Closed with this process, however it ends; the owner then ends too.
    commands: Option<ChildStdin>,
    /// Kept open so that the owner may write until it ends.
    _answers: BufReader<PipeReader>,
}

/// A listener for connections to anywhere.
///
/// # Errors
/// Rights: it needs CAP_NET_ADMIN.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    nix::sys::socket::setsockopt(&socket, Transparent, &true)?;
    socket.bind(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)))?;
    socket.listen(1024)
}

impl Divert {
    /// Diverts what comes in by the interface, except to the `open` ports of this machine.
    ///
    /// # Errors
    /// Rights, or a kernel without TPROXY.
    pub fn new(config: &TransparentConfig, open: &[u16]) -> io::Result<Divert> {
        let TransparentConfig { interface, port } = config;
        check_name(interface)?;
        let mark = MARK | (nix::net::if_::if_nametoindex(interface.as_str())? & 0xffff);
        // Leftovers of a crash.
        remove_routes(mark);
        nft(&guard(interface, mark, *port, open))?;
        let owned = add_routes(mark).and_then(|()| own(interface, &divert(interface, mark, *port, open)));
        match owned {
            Ok((owner, commands, answers)) => {
                let interface = interface.clone();
                Ok(Divert { interface, mark, owner, commands: Some(commands), _answers: answers })
            }
            Err(error) => {
                clean(interface, mark);
                Err(error)
            }
        }
    }
}

impl Drop for Divert {
    fn drop(&mut self) {
        self.commands = None;
        // It ends at the end of its input; nothing can be done if it does not.
        let _ = self.owner.wait();
        clean(&self.interface, self.mark);
    }
}

/// Removes what has no owner; what is not there is none of our business.
fn clean(interface: &str, mark: u32) {
    let table = guard_name(interface);
    let _ = nft(&format!("table inet {table}\ndelete table inet {table}\n"));
    remove_routes(mark);
}

fn add_routes(mark: u32) -> io::Result<()> {
    ip(&format!("rule add fwmark {mark} lookup {mark}"))?;
    ip(&format!("route replace local 0.0.0.0/0 dev lo table {mark}"))
}

fn remove_routes(mark: u32) {
    while ip(&format!("rule del fwmark {mark} lookup {mark}")).is_ok() {}
    let _ = ip(&format!("route flush table {mark}"));
}

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").arg("-4").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("ip {arguments}: {said}")))
}

fn nft(script: &str) -> io::Result<()> {
    let mut child =
        Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

fn guard_name(interface: &str) -> String {
    format!("leeway_guard_{}", interface.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// Nothing of the interface is forwarded, and of this machine it reaches the proxy and DHCP.
fn guard(interface: &str, mark: u32, port: u16, open: &[u16]) -> String {
    let table = guard_name(interface);
    let open = ports(open, port);
    // Created and deleted first, so that the transaction replaces what a crash has left.
    format!(
        "table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         \x20   chain forward {{\n\
         \x20       type filter hook forward priority -10; policy accept;\n\
         \x20       iifname \"{interface}\" drop\n\
         \x20   }}\n\
         \x20   chain input {{\n\
         \x20       type filter hook input priority -10; policy accept;\n\
         \x20       iifname \"{interface}\" meta mark {mark} accept\n\
         \x20       iifname \"{interface}\" tcp dport {{ {open} }} accept\n\
         \x20       iifname \"{interface}\" tcp flags & (syn | ack) == syn drop\n\
         \x20       iifname \"{interface}\" udp dport 1-1023 udp dport != 67 drop\n\
         \x20   }}\n\
         }}\n"
    )
}

/// Connections go to the proxy. One transaction: the shell of nft takes a line at a time.
fn divert(interface: &str, mark: u32, port: u16, open: &[u16]) -> String {
    let table = format!("leeway_divert_{}", std::process::id());
    let open = ports(open, port);
    format!(
        "add table ip {table} {{ flags owner; chain divert {{ type filter hook prerouting priority -150; \
         iifname \"{interface}\" tcp dport {{ {open} }} fib daddr type local accept; \
         iifname \"{interface}\" meta l4proto tcp tproxy to :{port} meta mark set {mark} accept; }}; }}\n\
         list table ip {table}\n"
    )
}

fn ports(open: &[u16], port: u16) -> String {
    open.iter().chain([&port]).map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Starts the owner and waits until it has listed the table.
fn own(interface: &str, script: &str) -> io::Result<(Child, ChildStdin, BufReader<PipeReader>)> {
    let (reader, writer) = io::pipe()?;
    let errors = writer.try_clone()?;
    let mut owner = Command::new("nft")
        .arg("-i")
        // It would keep a history of its commands there.
        .env("HOME", "/nonexistent")
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(errors)
        // Away from the terminal's signals.
        .process_group(0)
        .spawn()?;
    let mut commands = owner.stdin.take().ok_or_else(|| io::Error::other("nft has no input"))?;
    commands.write_all(script.as_bytes())?;
    commands.flush()?;
    let mut answers = BufReader::new(reader);
    let mut said = String::new();
    loop {
        let from = said.len();
        let read = answers.read_line(&mut said)?;
        let line = &said[from..];
        if read == 0 || line.contains("Error") || line.contains("not permitted") {
            drop(commands);
            let _ = owner.wait();
            return Err(io::Error::other(format!("nft for {interface}: {}", said.trim())));
        }
        if line.contains("tproxy to") && said.contains("flags owner") && !line.contains("add table") {
            return Ok((owner, commands, answers));
        }
    }
}

/// Serves one client: its connection goes where it wanted to go, if that is allowed.
pub async fn serve(proxy: Arc<Proxy>, stream: TcpStream, client: IpAddr) {
    let user = proxy.users.at(client);
    user.counts.requests.fetch_add(1, Ordering::Relaxed);
    let Ok(to) = stream.local_addr() else { return };
    let connected = async {
        let addresses = proxy.connector.addresses(&to.ip().to_string(), to.port()).await?;
        proxy.connector.connect(&user, &addresses).await
    };
    match connected.await {
        Ok(server) => tunnel::carry(stream, server, Duration::from_secs(proxy.limits.tunnel_s)).await,
        // There is no protocol to say why; the connection is closed.
        Err(_) => drop(user.counts.refused.fetch_add(1, Ordering::Relaxed)),
    }
}

/// A name that is no rule.
fn check_name(interface: &str) -> io::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if interface.is_empty() || interface.len() > NAME_BYTES || !interface.bytes().all(plain) {
        return Err(io::Error::other(format!("`{interface}` is not the name of an interface")));
    }
    Ok(())
}
