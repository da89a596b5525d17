//! File sharing among peers: what a peer asks for ([`pieces`]) and whom it serves ([`choking`]),
//! without clock and network.

pub mod choking;
pub mod pieces;
