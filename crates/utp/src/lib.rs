//! uTP (BEP 29): BitTorrent's transport over UDP, with every control law of Leeway.
//!
//! Most programs use `Socket` and `Stream` (feature `tokio`, on by default): connections as
//! streams of bytes over one UDP socket. Below them, without a clock and without a socket,
//! [`Connection`] is the protocol and [`Endpoint`] manages many connections. Packets are
//! [`Packet`] and [`Header`]; the settings of a connection are a [`Config`].
//!
//! ```
//! use leeway_utp::{Config, Connection, Packet};
//!
//! let mut home = Connection::connect(Config::default(), 7, 1, 0);
//! let mut bytes = Vec::new();
//! home.transmit(0, &mut bytes).expect("a SYN");
//! let syn = Packet::parse(&bytes)?;
//! let mut server = Connection::accept(Config::default(), &syn.header, 500, 20_000);
//! let mut answer = Vec::new();
//! server.transmit(20_000, &mut answer).expect("the answer");
//! home.receive(40_000, &Packet::parse(&answer)?);
//! assert!(home.is_open());
//! # Ok::<(), leeway_utp::WireError>(())
//! ```

mod config;
mod congestion;
mod connection;
mod cookie;
#[cfg(feature = "tokio")]
mod driver;
mod endpoint;
mod error;
mod hole;
mod mtu;
mod outgoing;
mod peer_delay;
mod reassembly;
mod rtt;
mod wire;

pub use config::Config;
pub use connection::{Connection, Steering, Transmit};
#[cfg(feature = "tokio")]
pub use driver::{Socket, Stream};
pub use endpoint::{Address, Batch, Endpoint, Handle};
pub use error::UtpError;
pub use wire::{HEADER_BYTES, Header, Kind, Packet, SACK_BITS_MAX, WireError, expand};
