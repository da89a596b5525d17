//! Questions at the terminal.

use crate::{Failure, given};
use ipnet::IpNet;
use std::io::{self, BufRead};
use std::net::{IpAddr, SocketAddr};

/// Asks until `read` accepts the answer, and says each time why it does not.
pub fn ask<T>(prompt: &str, mut read: impl FnMut(&str) -> Result<T, String>) -> Result<T, Failure> {
    loop {
        eprint!("{prompt}: ");
        let mut line = Vec::new();
        if io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
            eprintln!();
            return Err(Failure::Usage("the questions were not answered; nothing was written".into()));
        }
        match read(String::from_utf8_lossy(&line).trim()) {
            Ok(answer) => return Ok(answer),
            Err(why) => eprintln!("  {why}"),
        }
    }
}

/// Parses networks with commas or spaces between them. They must not overlap any of the `others`.
pub fn networks(text: &str, others: &[IpNet]) -> Result<Vec<IpNet>, String> {
    let words = text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    let network = |word| match given::network(word) {
        Ok(network) => Ok(network),
        Err(Failure::Usage(why)) => Err(why),
        Err(_) => Err(format!("`{word}` is not a network")),
    };
    let networks = words.map(network).collect::<Result<Vec<IpNet>, String>>()?;
    let meets = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    for one in &networks {
        if let Some(other) = others.iter().find(|other| meets(one, other)) {
            return Err(format!("{one} overlaps {other}: home and neighbours are in networks of their own"));
        }
    }
    match networks.is_empty() {
        true => Err("that is no network, such as 192.168.1.0/24".into()),
        false => Ok(networks),
    }
}

/// Parses an address to listen at: one of this machine's `own`, or the unspecified one (0.0.0.0).
/// `port` is used if the text has none.
pub fn address(text: &str, port: u16, own: &[IpAddr]) -> Result<SocketAddr, String> {
    let alone = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, port));
    let address = alone.or_else(|_| given::address(text))?;
    match address.ip().is_unspecified() || own.contains(&address.ip()) {
        true => Ok(address),
        false => {
            let own: Vec<String> = own.iter().map(IpAddr::to_string).collect();
            Err(format!("{} is no address of this machine, which has {}", address.ip(), own.join(", ")))
        }
    }
}

/// Networks as text.
pub fn words(networks: &[IpNet]) -> String {
    networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_are_told_what_is_wrong() {
        let home = ["192.168.1.0/24".parse().unwrap()];
        let right = networks("10.20.0.0/16,10.30.0.1 ", &home).unwrap();
        assert_eq!(words(&right), "10.20.0.0/16, 10.30.0.1/32");
        for (text, why) in [
            ("10.20.0.0/40", "`10.20.0.0/40` is not a network"),
            (" , ", "no network"),
            ("192.168.1.7", "192.168.1.7/32 overlaps 192.168.1.0/24"),
            ("10.20.0.0/16 192.168.0.0/16", "192.168.0.0/16 overlaps 192.168.1.0/24"),
        ] {
            let said = networks(text, &home).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }

        let own = ["10.20.0.1".parse().unwrap(), "fd20::1".parse().unwrap()];
        for (text, read) in [
            ("10.20.0.1", "10.20.0.1:3128"),
            ("fd20::1", "[fd20::1]:3128"),
            ("[fd20::1]:80", "[fd20::1]:80"),
            ("0.0.0.0", "0.0.0.0:3128"),
        ] {
            assert_eq!(address(text, 3128, &own).unwrap().to_string(), read);
        }
        for (text, why) in [("eth0", "not an address"), ("10.20.0.2:80", "no address of this machine")] {
            let said = address(text, 3128, &own).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
