//! TCP endpoints as protocol machines: no clock, no network, only what goes in and what comes out.

pub mod receiver;
pub mod rto;
pub mod scoreboard;
pub mod sender;
