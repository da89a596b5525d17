//! A gateway between a home, which has a slow line, and others who may use what the home does not.
//!
//! The traffic of the home does not pass here. Others come to a proxy ([`http`]), are told apart ([`users`], [`login`]), reach the
//! public Internet and nothing else ([`policy`], [`resolve`]), and share one window ([`budget`]) that a control law
//! keeps as large as the line has capacity to spare: downloads are held back from the receiving end, by asking for no
//! more than the window, whether in one transfer or in a hundred small ones ([`leeway_share`]). While a relay on the
//! Internet is there ([`relay`]), it sends downloads under a law instead.

pub mod accounts;
pub mod block;
pub mod budget;
pub mod caretaker;
pub mod check;
mod client;
pub mod codes;
pub mod config;
pub mod control;
mod datagrams;
mod divert;
pub mod dns;
mod door;
mod downlink;
mod echo;
pub mod gate;
mod gateway;
pub mod http;
pub mod login;
pub mod metering;
pub mod page;
pub mod password;
mod paths;

pub mod policy;
pub mod pool;
mod privileged;
pub mod qr;
pub mod relay;
pub mod resolve;
pub mod setup;
mod socket;
mod socks;
pub mod socks_wire;
mod transparent;
mod tunnel;
pub mod uplink;
pub mod upload;
pub mod upstream;
pub mod users;

pub use config::{Config, law_or_none};
pub use divert::leftovers;
pub use gateway::{Gateway, GatewayError};
pub use privileged::Privileged;
