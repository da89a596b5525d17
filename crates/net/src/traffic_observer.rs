//! The traffic observer: a packet socket that shows when machines of some networks use the
//! Internet. Its filter passes at most the headers of a packet.
//!
//! From those machines to others, the observer sees requests: TCP packets with SYN or PSH, and all
//! packets of 500 bytes or more. Towards those machines it sees packets of 500 bytes or more. It
//! tells connections apart. It does not see pure acknowledgements, packets between those machines,
//! or packets to addresses of this host in the same networks.

use crate::Error;
use crate::filter::{Code, DROP, Header, OUTGOING, TCP, by_family, join, member, op, open, plain, when};
use ipnet::IpNet;
use rustix::net::{RecvFlags, recv};
use socket2::{SockFilter, Socket};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A packet of this length carries data or is a request. The first packet of QUIC has 1200 bytes.
const LARGE_BYTES: u32 = 500;

/// Buffer for packets that wait to be read. Packets beyond it are not seen.
const BUFFER_BYTES: usize = 256 * 1024;

const SYN: u32 = 0x02;
const PSH: u32 = 0x08;

/// Most packets of one report.
const OBSERVATIONS: usize = 4096;
/// Pause between two reports. No reader needs an observation earlier.
const PAUSE: Duration = Duration::from_millis(1);

/// Bytes that the filter passes of a packet: an IP header with all options, and TCP's up to the
/// flags.
const HEADER_BYTES: usize = 60 + 14;
const IPV6_HEADER: usize = 40;

/// A packet of an observed machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// A number for the connection, the same in both directions.
    pub connection: u64,
    /// What the packet does.
    pub what: What,
}

/// What a packet does for an observed machine. Bytes count the packet with its IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It requests a connection.
    Connects,
    /// It sends bytes, or requests something.
    Sends(u64),
    /// It carries bytes to the machine.
    Brings(u64),
}

/// The observer; see the module.
#[derive(Debug)]
pub struct TrafficObserver {
    socket: Socket,
    networks: Vec<IpNet>,
}

impl TrafficObserver {
    /// Observes the machines of these networks from now on.
    ///
    /// # Errors
    /// The right `CAP_NET_RAW` is missing, or the networks need more than the 4096 instructions of
    /// a filter. A hundred networks always fit.
    pub fn new(networks: &[IpNet]) -> Result<TrafficObserver, Error> {
        let socket = open(&by_family(networks, of_family), BUFFER_BYTES)
            .map_err(|error| Error::System { what: "observe packets", error })?;
        Ok(TrafficObserver { socket, networks: networks.to_vec() })
    }

    /// Calls `seen` with new observations, at most a thousand times a second. The calls come from
    /// a thread that ends soon after the returned [`Watch`] is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn watch(self, seen: impl Fn(&[Observation]) + Send + 'static) -> Result<Watch, Error> {
        Watch::begin("traffic", move |alive| {
            let mut observations = Vec::new();
            while alive() {
                observations.clear();
                // A device that is gone gives an error as well. The others go on.
                if self.add(&mut observations, RecvFlags::empty()) {
                    while observations.len() < OBSERVATIONS
                        && self.add(&mut observations, RecvFlags::DONTWAIT)
                    {}
                    seen(&observations);
                }
                std::thread::sleep(PAUSE);
            }
        })
    }

    /// Adds the next packet, if there is one. Returns whether a packet was read.
    fn add(&self, observations: &mut Vec<Observation>, flags: RecvFlags) -> bool {
        let mut header = [0; HEADER_BYTES];
        let received = recv(&self.socket, &mut header, flags);
        if let Ok((_, length)) = received {
            let header = &header[..length.min(HEADER_BYTES)];
            observations.extend(Packet::parse(header).map(|packet| packet.observation(&self.networks)));
        }
        received.is_ok()
    }
}

/// The fields of a packet's headers.
struct Packet {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    bytes: u64,
    /// TCP with SYN and without PSH.
    connects: bool,
}

impl Packet {
    fn parse(header: &[u8]) -> Option<Packet> {
        let short = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let first = *header.first()?;
        let (source, destination, transport, protocol, bytes) = if first >> 4 == 4 {
            let address = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<4>()?));
            (address(12)?, address(16)?, usize::from(first & 0xf) * 4, *header.get(9)?, u64::from(short(2)?))
        } else {
            let address = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<16>()?));
            let bytes = u64::from(short(4)?) + IPV6_HEADER as u64;
            (address(8)?, address(24)?, IPV6_HEADER, *header.get(6)?, bytes)
        };
        // A fragment and other protocols have other bytes in place of the ports. They still tell
        // connections apart.
        let ports = [short(transport).unwrap_or(0), short(transport + 2).unwrap_or(0)];
        let flags = header.get(transport + 13).copied().unwrap_or(0);
        let connects = u32::from(protocol) == TCP && u32::from(flags) & (SYN | PSH) == SYN;
        Some(Packet { source: (source, ports[0]), destination: (destination, ports[1]), bytes, connects })
    }

    fn observation(&self, networks: &[IpNet]) -> Observation {
        let sends = networks.iter().any(|network| network.contains(&self.source.0));
        let (inside, outside) =
            if sends { (self.source, self.destination) } else { (self.destination, self.source) };
        let mut hasher = DefaultHasher::new();
        (inside, outside).hash(&mut hasher);
        let what = match (sends, self.connects) {
            (true, true) => What::Connects,
            (true, false) => What::Sends(self.bytes),
            (false, _) => What::Brings(self.bytes),
        };
        Observation { connection: hasher.finish(), what }
    }
}

/// An observer at work. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    _alive: Arc<()>,
}

impl Watch {
    /// Runs `work` in a thread. `work` returns when its argument says that the watch is dropped.
    pub(crate) fn begin(
        name: &str,
        work: impl FnOnce(&dyn Fn() -> bool) + Send + 'static,
    ) -> Result<Watch, Error> {
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let thread = std::thread::Builder::new().name(name.into());
        let begun = thread.spawn(move || work(&|| weak.strong_count() > 0));
        begun.map_err(|error| Error::System { what: "start a thread", error })?;
        Ok(Watch { _alive: alive })
    }
}

/// Passes the packets of one family that the module describes, and drops all others.
fn of_family(header: &Header, networks: &[IpNet]) -> Code {
    let to_them = between(networks, header.destination, header.source);
    let large = [vec![plain(op::LOAD_LENGTH, 0)], when(op::IF_AT_LEAST, LARGE_BYTES, to_them), vec![DROP]];
    join([
        vec![plain(op::LOAD_WORD, op::DIRECTION)],
        when(op::IF_EQUAL, OUTGOING, join(large)),
        asks(header),
        between(networks, header.source, header.destination),
    ])
}

/// Continues with requests, and drops other packets.
fn asks(header: &Header) -> Code {
    let mut flags =
        vec![plain(op::LOAD_BYTE, header.protocol), SockFilter::new(op::IF_EQUAL, 1, 0, TCP), DROP];
    if header.varies {
        flags.extend([plain(op::LOAD_X_HEADER, 0), plain(op::LOAD_BYTE_AT_X, 13)]);
    } else {
        flags.push(plain(op::LOAD_BYTE, 40 + 13));
    }
    flags.extend([SockFilter::new(op::IF_ANY_BIT, 1, 0, PSH | SYN), DROP]);
    let large = SockFilter::new(op::IF_AT_LEAST, flags.len() as u8, 0, LARGE_BYTES);
    join([vec![plain(op::LOAD_LENGTH, 0), large], flags])
}

/// Passes packets with one address in the networks and the other one outside.
fn between(networks: &[IpNet], inside: u32, outside: u32) -> Code {
    let mut code = member(networks, inside);
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 1), DROP]);
    code.extend(member(networks, outside));
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 0), DROP]);
    code.push(plain(op::RETURN, HEADER_BYTES as u32));
    code
}
