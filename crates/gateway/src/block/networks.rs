//! Blocked networks, as ranges of addresses without overlaps.

use crate::notes::{NO_NETWORK, Phrase};
use ipnet::IpNet;
use std::net::IpAddr;

/// Ranges of IPv4 and of IPv6 addresses, sorted.
#[derive(Debug, Default)]
pub struct Networks([Vec<(u128, u128)>; 2]);

impl Networks {
    /// The addresses of these networks.
    pub fn new(networks: &[IpNet]) -> Networks {
        let mut ranges = [Vec::new(), Vec::new()];
        for network in networks {
            // A network of IPv4-mapped addresses counts as IPv4.
            let [first, last] = [network.network(), network.broadcast()].map(|end| end.to_canonical());
            let [first, last] = if first.is_ipv4() == last.is_ipv4() {
                [first, last]
            } else {
                [network.network(), network.broadcast()]
            };
            ranges[usize::from(first.is_ipv6())].push((number(first), number(last)));
        }
        Networks(ranges.map(merged))
    }

    /// Whether one of the networks contains `address`.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (ranges, number) = (&self.0[usize::from(address.is_ipv6())], number(address));
        let after = ranges.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= ranges[after - 1].1
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// The network of a line, if it has one. What follows `#` or `;` is a comment.
///
/// # Errors
/// The text is no network.
pub fn line(line: &str) -> Result<Option<IpNet>, &'static Phrase<0>> {
    let text = line.split(['#', ';']).next().unwrap_or_default().trim();
    if text.is_empty() { Ok(None) } else { network(text).map(Some) }
}

/// A network, or a single address.
///
/// # Errors
/// The text is neither.
pub fn network(text: &str) -> Result<IpNet, &'static Phrase<0>> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or_else(|_| alone()).map_err(|_| &NO_NETWORK)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Sorts the ranges, and joins those that touch or overlap.
fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1.saturating_add(1);
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
    ranges.shrink_to_fit();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_have_what_their_networks_have(
            networks in proptest::collection::vec((any::<[u8; 4]>(), 0..=32u8), 0..20),
            asked in proptest::collection::vec(any::<[u8; 4]>(), 0..50),
        ) {
            let net = |(address, bits): &([u8; 4], u8)| IpNet::new(IpAddr::from(*address), *bits).unwrap();
            let networks: Vec<IpNet> = networks.iter().map(net).collect();
            let ranges = Networks::new(&networks);
            let ends = networks.iter().flat_map(|network| [network.network(), network.broadcast()]);
            for address in asked.into_iter().map(IpAddr::from).chain(ends) {
                let inside = networks.iter().any(|network| network.contains(&address));
                prop_assert_eq!(ranges.has(address), inside, "{}", address);
            }
        }
    }

    #[test]
    fn families_are_apart() {
        let of = |text: &str| Networks::new(&[text.parse().unwrap()]);
        let (four, six, mapped) = (of("0.0.0.0/0"), of("::/0"), of("::ffff:10.0.0.0/104"));
        let [v4, v6]: [IpAddr; 2] = ["10.1.1.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert!(four.has(v4) && !four.has(v6) && six.has(v6) && !six.has(v4));
        assert!(mapped.has(v4) && !mapped.has(v6));
    }
}
