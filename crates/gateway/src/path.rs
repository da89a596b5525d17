//! Numbers of paths: what has a base delay of its own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The path of full segments to or from the network of `server` (/24, /48).
pub fn path(server: IpAddr) -> u64 {
    number(server, false)
}

/// That of small packets, which take less time on a slow line.
pub fn echo_path(server: IpAddr) -> u64 {
    number(server, true)
}

fn number(address: IpAddr, echo: bool) -> u64 {
    let network = match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) & !0xff).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !(u128::MAX >> 48)).into()),
    };
    let mut hasher = DefaultHasher::new();
    (network, echo).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_network_share_a_path_and_small_packets_have_another() {
        let [one, beside, far] = ["9.9.9.9", "::ffff:9.9.9.200", "1.1.1.1"].map(|text| text.parse().unwrap());
        assert_eq!(path(one), path(beside));
        assert_ne!(path(one), path(far));
        assert_ne!(path(one), echo_path(one));
        let [one, beside] = ["2001:db8:1::1", "2001:db8:1:5::7"].map(|text| text.parse().unwrap());
        assert_eq!(path(one), path(beside));
    }
}
