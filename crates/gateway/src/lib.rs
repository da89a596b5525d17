//! A gateway between a home, which owns a slow line, and neighbours who may use what the home
//! leaves.
//!
//! The home's traffic does not pass through this program. Neighbours use a proxy ([`http`]), are
//! told apart ([`users`], [`login`]), and reach the public Internet and nothing else ([`policy`],
//! [`resolve`]). They share one window for downloads ([`budget`]), and a control law keeps that
//! window as large as the spare capacity of the line. The gateway limits downloads at the
//! receiving end: what it requests of all servers together stays within the window, for one
//! transfer as for a hundred small ones ([`leeway_share`]). While a relay on the Internet can be
//! reached ([`relay`]), the relay sends downloads under a law instead.

pub mod accounts;
pub mod block;
pub mod budget;
pub mod caretaker;
pub mod check;
mod client;
mod clocks;
pub mod codes;
pub mod config;
pub mod control;
mod datagrams;
pub mod destinations;
mod divert;
pub mod dns;
mod door;
mod echo;
pub mod event;
pub mod gate;
mod gateway;
mod home;
pub mod home_speed;
pub mod http;
mod language;
pub mod login;
pub mod metering;
mod notes;
pub mod observe;
mod openapi;
pub mod page;
pub mod password;
mod paths;
mod pause;
pub mod peers;
pub mod policy;
pub mod pool;
mod privileged;
mod probe;
pub mod qr;
mod refusals;
pub mod relay;
pub mod resolve;
pub mod sending;
pub mod setup;
mod socket;
mod socks;
pub mod socks_wire;
mod transparent;
mod tunnel;
pub mod upload;
pub mod upstream;
pub mod users;

pub use config::{Config, law_or_none};
pub use divert::leftovers;
pub use gateway::{Gateway, GatewayError};
pub use privileged::Privileged;
