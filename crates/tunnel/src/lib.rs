//! IP over QUIC or TCP, sent under a control law.
//!
//! A [`Server`] gives addresses to clients that have a [`Token`]. A [`Client`] connects, and
//! reconnects when the connection breaks. They exchange IP packets. Over QUIC the packets are
//! datagrams, and the sharing ([`leeway_share`]) grants each of them. It uses one-way delays
//! ([`owd`]) and the bytes that the foreground at the client's end expects ([`foreground`]). Over
//! TCP a congestion control of the kernel decides. A queue discipline stands in front
//! ([`Egress`]).
//!
//! Each end either has a TUN device ([`Tun`], [`host`]) or belongs to a program that gives and
//! takes packets itself ([`Inward`], [`Switch`]). Only [`wire`] reads what comes from the
//! network.

mod carry;
mod client;
mod device;
mod egress;
mod error;
pub mod foreground;
mod handshake_limiter;
pub mod host;
mod identity;
mod inward;
pub mod owd;
mod pool;
mod quic;
mod roster;
mod sender;
mod server;
pub mod several;
mod standing;
mod stream;
mod survey;
mod switch;
mod token;
pub mod wire;

pub use carry::Counts;
pub use client::{CONGESTION, Client, ClientOptions, MTU, Status, Transport};
pub use device::{Reader, Tun};
pub use egress::{Egress, Next, Parcel};
pub use error::Error;
pub use identity::{Admission, Denied, Fingerprint, Secret};
pub use inward::Inward;
pub use pool::{Network4, Pool, destination, source};
pub use quic::SILENCE;
pub use roster::{Invited, Paused, Roster, parse_clients};
pub use sender::{LAW, Steering};
pub use server::{Server, ServerOptions};
pub use standing::Standing;
pub use switch::{Member, Switch};
pub use token::{Token, TokenError};
