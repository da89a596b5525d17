//! `leeway join`: the client's end of a tunnel.

use crate::Failure;
use crate::relay::MTU;
use clap::{Args, ValueEnum};
use leeway_control::LawSpec;
use leeway_queue::QueueSpec;
use leeway_tunnel::host::{ClientHost, MARK, Route};
use leeway_tunnel::wire::Welcome;
use leeway_tunnel::{Client, ClientOptions, Error, Inward, Reader, Status, Token, Transport, Tun};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// What a program has loaded for TCP if nothing was said.
const TCP_LAW: &str = "leeway_ledbat";
/// The law of what the client sends over QUIC if nothing was said.
const QUIC_LAW: &str = "ledbat:target=25ms";

/// The client. It stays in the foreground until Ctrl-C or SIGTERM, and connects again when the connection breaks.
#[derive(Args)]
pub struct Join {
    /// What `leeway invite` printed on the server; `-` reads it from the standard input, where nobody sees it in a list of
    /// processes.
    #[arg(value_name = "TOKEN")]
    token: String,
    /// What carries the packets.
    #[arg(long, value_enum, default_value_t = Carrier::Quic)]
    transport: Carrier,
    /// The law under which this end sends: over QUIC one of `leeway laws`, ledbat:target=25ms by default; over TCP a
    /// congestion control of the kernel, leeway_ledbat by default. The server may demand another.
    #[arg(long, value_name = "LAW")]
    law: Option<String>,
    /// The queue in front of the law's window.
    #[arg(long, value_name = "QUEUE", default_value = "fq_codel")]
    queue: QueueSpec,
    /// Lead only this network into the tunnel, such as 192.0.2.0/24. May be repeated. Everything by default.
    #[arg(long = "route", value_name = "NETWORK")]
    routes: Vec<Route>,
    /// The longest packet on the tunnel in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = MTU, value_parser = clap::value_parser!(u16).range(1280..=1500))]
    mtu: u16,
    /// Say every five seconds what the law does.
    #[arg(long, short)]
    verbose: bool,
}

/// What carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Carrier {
    /// Datagrams of QUIC under a law of Leeway's.
    Quic,
    /// One TCP connection under a law of the kernel's.
    Tcp,
}

/// Joins, and stays.
pub fn run(join: &Join) -> Result<(), Failure> {
    let text = match join.token.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())?,
        token => token.to_owned(),
    };
    let token: Token =
        text.parse().map_err(|error: leeway_tunnel::TokenError| Failure::Usage(error.to_string()))?;
    let transport = match join.transport {
        Carrier::Quic => {
            let law = join.law.as_deref().unwrap_or(QUIC_LAW);
            let law: LawSpec =
                law.parse().map_err(|error: leeway_control::LawError| Failure::Usage(error.to_string()))?;
            Transport::Quic(law)
        }
        Carrier::Tcp => Transport::Tcp(join.law.clone().unwrap_or_else(|| TCP_LAW.to_owned())),
    };
    let options = ClientOptions { transport, queue: join.queue.clone(), mtu: join.mtu, mark: Some(MARK) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(stay(join, token, options))
}

async fn stay(join: &Join, token: Token, options: ClientOptions) -> Result<(), Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    // Without rights it ends before anybody is asked for anything.
    let tun = Arc::new(Tun::open("lwjoin%d")?);
    let client = Arc::new(Client::new(token, options).await?);
    tokio::spawn(read(Arc::clone(&tun), Arc::clone(&client)));
    tokio::spawn(tell(Arc::clone(&client), join.verbose));

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

/// From the device into the tunnel.
async fn read(tun: Arc<Tun>, client: Arc<Client>) {
    let (mut reader, mut parcels) = (Reader::default(), Vec::new());
    let egress = client.egress();
    // Without the device nothing arrives any more; the client goes on until somebody stops it.
    while tun.read(&mut reader, &mut parcels).await.is_ok() {
        egress.push(parcels.drain(..));
    }
    eprintln!("leeway join: the device {} has gone", tun.name());
}

/// Says how things stand.
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
                    eprintln!(
                        "leeway join: {} {}: window {} B, round trip {} us, queuing {} us",
                        steering.law, steering.phase, steering.window_bytes, steering.srtt_us, steering.queuing_us
                    );
                }
            }
        }
    }
}
