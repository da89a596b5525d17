//! `leeway join`: the client end of a tunnel to a relay.

mod several;

use crate::Failure;
use crate::given::{network, tokens};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use leeway_net::{TrafficObserver, special};
use leeway_queue::QueueSpec;
use leeway_tunnel::host::{ClientHost, MARK, Route};
use leeway_tunnel::wire::Welcome;
use leeway_tunnel::{Client, ClientOptions, Error, Inward, MTU, SILENCE, Status, Token, Transport, Tun};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// The file that lists the machine's name servers.
const RESOLVERS: &str = "/etc/resolv.conf";

/// The client. It stays in the foreground until Ctrl-C or SIGTERM, and connects again when the
/// connection breaks.
#[derive(Args)]
pub struct Join {
    /// The token that `leeway invite` printed on the server. `-` reads it from the standard input,
    /// so that no list of processes shows it. With tokens of several relays, new connections go
    /// through the best relay, and existing connections stay with theirs.
    #[arg(value_name = "TOKEN", required_unless_present = "file")]
    given: Vec<String>,
    /// File with tokens, one per line. Only its owner may have the right to read it.
    #[arg(long = "tokens", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The protocol that carries the packets.
    #[arg(long, value_enum, default_value_t = Carrier::Quic)]
    transport: Carrier,
    /// The law under which this end sends. Over QUIC it is one of `leeway laws`, by default that
    /// of `leeway relay`. Over TCP it is a congestion control of the kernel, leeway_ledbat by
    /// default. The server may demand another one.
    #[arg(long, value_name = "LAW")]
    law: Option<String>,
    /// The queue in front of the law's window.
    #[arg(long, value_name = "QUEUE", default_value = "fq_codel")]
    queue: QueueSpec,
    /// Send only the traffic to this network through the tunnel, such as 192.0.2.0/24. May be
    /// repeated. All traffic by
    #[arg(long = "route", value_name = "NETWORK")]
    routes: Vec<Route>,
    /// Network of a home behind this machine, such as 192.168.1.0/24. While its machines use the
    /// Internet outside the tunnel, the server yields to them (QUIC only). May be repeated.
    #[arg(long, value_name = "NETWORK")]
    home: Vec<String>,
    /// The longest IP packet in the tunnel, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = MTU, value_parser = clap::value_parser!(u16).range(1280..=1500))]
    mtu: u16,
    /// Print the state of the law every five seconds.
    #[arg(long, short)]
    verbose: bool,
}

/// The protocol that carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Carrier {
    /// QUIC datagrams, under a law of Leeway.
    Quic,
    /// One TCP connection, under a congestion control of the kernel.
    Tcp,
}

/// Joins the relays and keeps the tunnels until a signal.
pub fn run(join: &Join) -> Result<(), Failure> {
    let mut tokens = tokens(&join.given, join.file.as_deref())?;
    let transport = match join.transport {
        Carrier::Quic => {
            Transport::quic(join.law.as_deref()).map_err(|error| Failure::Usage(error.to_string()))?
        }
        Carrier::Tcp => Transport::tcp(join.law.as_deref()),
    };
    let home = join.home.iter().map(|text| network(text)).collect::<Result<Vec<_>, _>>()?;
    if !home.is_empty() && join.transport == Carrier::Tcp {
        return Err(Failure::Usage(
            "--home needs --transport quic: over TCP the server cannot be told about the home".into(),
        ));
    }
    let options = ClientOptions {
        transport,
        queue: join.queue.clone(),
        mtu: join.mtu,
        mark: Some(MARK),
        silence: if tokens.len() > 1 { several::SILENCE } else { SILENCE },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match tokens.pop() {
        Some(token) if tokens.is_empty() => runtime.block_on(stay(join, token, options, &home)),
        last => {
            runtime.block_on(several::stay(join, tokens.into_iter().chain(last).collect(), options, &home))
        }
    }
}

async fn stay(join: &Join, token: Token, options: ClientOptions, home: &[IpNet]) -> Result<(), Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    // First, so that a start without rights fails before anything is sent to the server.
    let tun = Arc::new(Tun::open("lwjoin%d")?);
    let client = Arc::new(Client::new(token, options).await?);
    let told = Arc::clone(&client);
    let _watch = match home {
        [] => None,
        home => {
            let watch = TrafficObserver::new(home)
                .and_then(|observer| observer.watch(move |observations| told.home_observed(observations)));
            Some(watch.map_err(Error::from)?)
        }
    };
    tokio::spawn(read(Arc::clone(&tun), Arc::clone(&client)));
    tokio::spawn(tell(Arc::clone(&client), join.verbose));
    warn_of_names(join);

    let mut host: Option<(ClientHost, Welcome)> = None;
    let up = |welcome: &Welcome| -> Result<Arc<dyn Inward>, Error> {
        let same = |(_, before): &(ClientHost, Welcome)| {
            (before.v4, before.v6, before.mtu) == (welcome.v4, welcome.v6, welcome.mtu)
        };
        if !host.as_ref().is_some_and(same) {
            if host.take().is_some() {
                return Err(Error::Refused("the server has given other addresses; join again".into()));
            }
            host = Some((ClientHost::new(&tun, welcome, &join.routes)?, welcome.clone()));
        }
        Ok(Arc::clone(&tun) as Arc<dyn Inward>)
    };
    tokio::select! {
        error = client.run(up) => Err(error.into()),
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

/// Warns about name servers that are asked outside the tunnel.
fn warn_of_names(join: &Join) {
    if !join.routes.is_empty() {
        return;
    }
    for server in past_the_tunnel(&std::fs::read_to_string(RESOLVERS).unwrap_or_default()) {
        eprintln!(
            "leeway join: the name server {server} is still asked directly, not through the tunnel; to ask through the tunnel, \
             put a public name server into {RESOLVERS}, such as 9.9.9.9"
        );
    }
}

/// Name servers with addresses outside the public Internet. The relay does not lead to them, and
/// whoever runs them sees the names.
fn past_the_tunnel(resolvers: &str) -> Vec<IpAddr> {
    let servers = resolvers.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next()).flatten()?;
        // A link-local address ends with the name of its interface.
        address.split('%').next()?.parse().ok()
    });
    servers.filter(|&server| special(server).is_some()).collect()
}

/// Reads packets from the device and sends them into the tunnel.
async fn read(tun: Arc<Tun>, client: Arc<Client>) {
    tun.feed(&client.egress()).await;
    // No packets come from this machine any more. The client still runs until it is stopped.
    eprintln!("leeway join: the device {} has gone", tun.name());
}

/// Prints changes of the connection's state; with `verbose` also the state of the law.
async fn tell(client: Arc<Client>, verbose: bool) {
    let mut status = client.status();
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(5));
    loop {
        tokio::select! {
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                match &*status.borrow_and_update() {
                    Status::Connecting => {}
                    Status::Up(welcome) => {
                        let law = client.steering().map_or(String::new(), |steering| format!(", law {}", steering.law));
                        eprintln!("leeway join: joined as {} and {}{law}", welcome.v4, welcome.v6);
                    }
                    Status::Down(why) => eprintln!("leeway join: {why}; trying again"),
                }
            }
            _ = tick.tick(), if verbose => {
                if let Some(steering) = client.steering() {
                    eprintln!("leeway join: {steering}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_that_stay_outside() {
        let file = "# nameserver 10.0.0.1\nnameserver 192.168.1.1\nnameserver 9.9.9.9\n\tnameserver fe80::1%eth0\n\
                    nameserver 127.0.0.53 \nnameserver\nnameserver x\noptions edns0\nnameserver 2620:fe::fe\n";
        let outside: Vec<String> = past_the_tunnel(file).iter().map(ToString::to_string).collect();
        assert_eq!(outside, ["192.168.1.1", "fe80::1", "127.0.0.53"]);
    }
}
