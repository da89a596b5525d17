//! A server and clients on the loopback address, without devices. Packets go through channels.

#![allow(dead_code, reason = "no test file uses all of it")]

use bytes::Bytes;
use leeway_tunnel::{
    Client, ClientOptions, Error, Inward, Member, Network4, Parcel, Roster, SILENCE, Server, ServerOptions,
    Status, Switch, Token, Transport,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// Long enough for a busy machine. A test that passes does not wait for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Receives packets from a tunnel.
pub struct Inbox(UnboundedSender<Bytes>);

impl Inbox {
    pub fn pair() -> (Arc<dyn Inward>, UnboundedReceiver<Bytes>) {
        let (sender, receiver) = unbounded_channel();
        (Arc::new(Inbox(sender)), receiver)
    }
}

impl Inward for Inbox {
    fn deliver(&self, packets: &[Bytes]) {
        for packet in packets {
            let _ = self.0.send(packet.clone());
        }
    }
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    pub switch: Arc<Switch>,
    pub inbox: UnboundedReceiver<Bytes>,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

pub fn options(listen: SocketAddr) -> ServerOptions {
    ServerOptions {
        listen,
        law: "newreno".parse().unwrap(),
        congestion: Some("cubic".into()),
        demand: None,
        demand_congestion: None,
        queue: "fq_codel".parse().unwrap(),
        network: Network4::default(),
        mtu: 1400,
        rate: None,
    }
}

pub fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

impl Running {
    pub fn start(state: &Path, options: ServerOptions) -> Running {
        let roster = Arc::new(Roster::open(state).unwrap());
        let (inward, inbox) = Inbox::pair();
        let log = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&log);
        let bind = || {
            let heard = Arc::clone(&heard);
            let log = move |words: &str| heard.lock().unwrap().push(words.to_owned());
            Server::bind(options.clone(), Arc::clone(&roster), Arc::clone(&inward), log)
        };
        // A port that is free for QUIC may be taken for TCP.
        let bound = (0..20).find_map(|_| bind().ok());
        let server = bound.unwrap_or_else(|| bind().unwrap());
        let (address, switch) = (server.local_addr().unwrap(), server.switch());
        let stop = Arc::new(Notify::new());
        let stopping = Arc::clone(&stop);
        let task = tokio::spawn(async move { server.run(&stopping).await });
        Running { address, switch, inbox, log, stop, task }
    }

    pub async fn stop(self) {
        self.stop.notify_one();
        self.task.await.unwrap();
    }

    /// Waits until `count` clients are connected.
    pub async fn members(&self, count: usize) -> Vec<Arc<Member>> {
        let start = Instant::now();
        loop {
            let members = self.switch.members();
            if members.len() == count {
                return members;
            }
            assert!(start.elapsed() < PATIENCE, "{} clients, not {count}: {:?}", members.len(), self.log);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A client that runs.
pub struct Joined {
    pub client: Arc<Client>,
    pub inbox: UnboundedReceiver<Bytes>,
    pub task: JoinHandle<Error>,
}

pub fn quic() -> Transport {
    Transport::Quic("newreno".parse().unwrap())
}

pub fn tcp() -> Transport {
    Transport::Tcp("cubic".into())
}

pub async fn join(token: Token, transport: Transport) -> Joined {
    let options = ClientOptions {
        transport,
        queue: "fq_codel".parse().unwrap(),
        mtu: 1400,
        mark: None,
        silence: SILENCE,
    };
    let client = Arc::new(Client::new(token, options).await.unwrap());
    let (inward, inbox) = Inbox::pair();
    let running = Arc::clone(&client);
    let task = tokio::spawn(async move { running.run(|_| Ok(Arc::clone(&inward))).await });
    Joined { client, inbox, task }
}

impl Joined {
    /// Waits until the client is connected. Returns its address.
    pub async fn up(&self) -> Ipv4Addr {
        let mut status = self.client.status();
        let up = status.wait_for(|status| matches!(status, Status::Up(_)));
        let up = tokio::time::timeout(PATIENCE, up).await.expect("it joins in time").unwrap();
        let Status::Up(welcome) = &*up else { unreachable!() };
        welcome.v4
    }

    /// The error with which the client ended.
    pub async fn ended(self) -> String {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends in time").unwrap().to_string()
    }
}

pub fn invite(state: &Path, name: &str, address: SocketAddr) -> Token {
    Roster::open(state).unwrap().invite(name, &address.to_string(), None).unwrap()
}

/// An IPv4 packet of the length, with a running number.
pub fn packet(from: Ipv4Addr, to: Ipv4Addr, length: usize, number: u32) -> Vec<u8> {
    let mut packet = vec![0; length.max(24)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet[8] = 64;
    packet[9] = 253;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    let body = packet.len();
    for (index, byte) in packet[24..body].iter_mut().enumerate() {
        *byte = (index as u32).wrapping_mul(31).wrapping_add(number) as u8;
    }
    packet
}

pub fn parcel(packet: &[u8]) -> Parcel {
    Parcel::copy(packet)
}

/// Calls `send` until a packet arrives at `inbox`, because tunnels may lose packets during their
/// setup.
pub async fn until_heard(inbox: &mut UnboundedReceiver<Bytes>, mut send: impl FnMut()) -> Bytes {
    let start = Instant::now();
    loop {
        send();
        if let Ok(packet) = tokio::time::timeout(Duration::from_millis(100), inbox.recv()).await {
            return packet.expect("the tunnel lives");
        }
        assert!(start.elapsed() < PATIENCE, "nothing came through");
    }
}
