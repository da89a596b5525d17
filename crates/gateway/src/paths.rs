//! The constants and the path numbers that programs on sockets give to the sharing
//! ([`leeway_share`]). Packets of one size to one network of servers count as one path, with one
//! base delay.

use leeway_share::{Policy, small_path};
use std::net::IpAddr;

/// Why opening a flow cannot fail.
pub const UNBOUNDED: &str = "flows are bounded by the places of users";

/// The constants for both directions.
pub fn policy() -> Policy {
    Policy { flows_max: u64::MAX, ..Policy::default().for_timers() }
}

/// The path of full segments to or from `server`.
pub fn of(server: IpAddr) -> u64 {
    // The path number is the network, /24 or /48. Bit 62 tells IPv6 from IPv4.
    match server.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
        IpAddr::V6(address) => (u128::from(address) >> 80) as u64 | 1 << 62,
    }
}

/// The path of echo requests (small packets) to `server`.
pub fn echo(server: IpAddr) -> u64 {
    small_path(of(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_and_a_size_are_a_path() {
        let [near, beside, far, six] =
            ["9.9.9.9", "9.9.9.200", "9.9.8.9", "2001:db8::1"].map(|text| text.parse().unwrap());
        assert_eq!(of(near), of(beside));
        let mut all = vec![of(near), of(far), of(six), echo(near), echo(six)];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
        assert_eq!(of("::ffff:9.9.9.9".parse().unwrap()), of(near));
    }
}
