//! Values that several commands are given.

use crate::Failure;
use ipnet::IpNet;
use leeway_tunnel::Token;
use std::net::IpAddr;

/// A network; an address is a network of one.
pub fn network(text: &str) -> Result<IpNet, Failure> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| Failure::Usage(format!("`{text}` is not a network, such as 192.168.1.0/24"));
    text.parse().or_else(|_| alone()).map_err(wrong)
}

/// A token; `-` is the standard input.
pub fn token(text: &str) -> Result<Token, Failure> {
    let read = if text == "-" { std::io::read_to_string(std::io::stdin())? } else { text.to_owned() };
    read.parse().map_err(|error: leeway_tunnel::TokenError| Failure::Usage(error.to_string()))
}
