//! The host's side of a link: a device with an address, and network address translation while the
//! link exists.

use crate::Error;
use crate::device::Device;
use leeway_net::{Table, has_v6, ip};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The addresses of one link: four of 198.18.0.0/15, which RFC 2544 sets aside for measurements,
/// and a /64 of fd98:18::/32, which is for private use (RFC 4193).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The network of both, a /30.
    pub network: Ipv4Addr,
    /// The gateway's IPv4 address: this host.
    pub host: Ipv4Addr,
    /// The command's side.
    pub inside: Ipv4Addr,
    /// The gateway's IPv6 address.
    pub host_v6: Ipv6Addr,
    /// The IPv6 address of the command's side.
    pub inside_v6: Ipv6Addr,
}

impl Addresses {
    /// Addresses of the device with this number; every number of a namespace has its own.
    fn of(index: u32) -> Result<Self, Error> {
        if index >= 1 << 15 {
            return Err(Error::Options("there are 32768 links already; there are no addresses left".into()));
        }
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + index * 4;
        let [network, host, inside] = [base, base + 1, base + 2].map(Ipv4Addr::from);
        let [host_v6, inside_v6] =
            [1, 2].map(|end| Ipv6Addr::new(0xfd98, 0x18, 0, index as u16, 0, 0, 0, end));
        Ok(Addresses { network, host, inside, host_v6, inside_v6 })
    }
}

/// The host's end of a link. The device goes when its descriptor is closed, and the rules go when
/// their owner ends. So neither can outlive this process.
#[derive(Debug)]
pub(crate) struct Host {
    pub name: String,
    pub addresses: Addresses,
    _rules: Table,
}

impl Host {
    /// Makes the device, its address and its rules.
    pub fn new() -> Result<(Self, Device), Error> {
        let device = Device::open("leeway%d", true)?;
        let name = device.name()?;
        let index = name.trim_start_matches("leeway").parse().unwrap_or(u32::MAX);
        let addresses = Addresses::of(index)?;
        let host = addresses.host;
        quiet_v6(&name);
        ip(&format!("addr add {host}/30 dev {name}\nlink set dev {name} up mtu 1500 txqueuelen 1000\n"))?;
        if has_v6() {
            ip(&format!("addr add {}/64 dev {name} nodad\n", addresses.host_v6))?;
        }
        // Services that listen on the loopback address only are reached at the gateway's address.
        sysctl(&format!("net/ipv4/conf/{name}/route_localnet"), "1")?;
        let rules = rules(&name, addresses)?;
        Ok((Host { name, addresses, _rules: rules }, device))
    }

    /// Whether this host forwards packets: IPv4, IPv6.
    pub fn forwards() -> [bool; 2] {
        ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map(|name| {
            let text = std::fs::read_to_string(Path::new("/proc/sys/net").join(name));
            text.is_ok_and(|text| text.trim() == "1")
        })
    }
}

/// The name server of this host if only this host reaches it: a resolver at a loopback address.
pub(crate) fn loopback_resolver() -> Option<Ipv4Addr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").ok()?;
    let first = text.lines().find_map(|line| line.trim().strip_prefix("nameserver"))?;
    first.trim().parse().ok().filter(Ipv4Addr::is_loopback)
}

/// No link-local address and no router solicitations on the device, so that it carries only
/// packets that programs send.
pub(crate) fn quiet_v6(name: &str) {
    for (key, value) in
        [("disable_ipv6", "0"), ("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")]
    {
        // A kernel without IPv6 has none of these parameters.
        let _ = sysctl(&format!("net/ipv6/conf/{name}/{key}"), value);
    }
}

/// The rules between the command and the world.
fn rules(name: &str, addresses: Addresses) -> Result<Table, Error> {
    let Addresses { network, host, inside_v6, .. } = addresses;
    // A device's name can be free a moment before the table of its last owner is gone.
    let table = format!("{name}_{}", std::process::id());
    // DNS queries go to this host's resolver, which only this host reaches.
    let names = loopback_resolver().map_or(String::new(), |resolver| {
        format!(
            "add rule inet {table} in iifname \"{name}\" ip daddr {host} meta l4proto {{ tcp, udp }} th dport 53 \
             dnat ip to {resolver}\n"
        )
    });
    let script = format!(
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} in {{ type nat hook prerouting priority -100; }}\n\
         add chain inet {table} out {{ type nat hook postrouting priority 100; }}\n\
         {names}\
         add rule inet {table} in iifname \"{name}\" ip daddr {host} meta l4proto {{ tcp, udp }} dnat ip to 127.0.0.1\n\
         add rule inet {table} out ip6 saddr {inside_v6} oifname != \"{name}\" masquerade\n\
         add rule inet {table} out ip saddr {network}/30 oifname != \"{name}\" masquerade\n"
    );
    Ok(Table::own("inet", &table, &script)?)
}

/// Packets to the device `name` of the calling thread's namespace that the kernel dropped because
/// the device's queue was full; 0 if the kernel does not tell.
pub(crate) fn overruns(name: &str) -> u64 {
    // Bytes, packets, errors, drops and four more received, then the same sent: the twelfth
    // column.
    const SENT_DROPS: usize = 11;
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let row = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    row.and_then(|row| row.split_whitespace().nth(SENT_DROPS)?.parse().ok()).unwrap_or(0)
}

/// Sets a parameter of the calling thread's namespace.
pub(crate) fn sysctl(name: &str, value: &str) -> Result<(), Error> {
    leeway_net::sysctl(name, value).map_err(|error| Error::file(&Path::new("/proc/sys").join(name), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_its_own_addresses() {
        let first = Addresses::of(0).unwrap();
        assert_eq!(first.host, Ipv4Addr::new(198, 18, 0, 1));
        let last = Addresses::of((1 << 15) - 1).unwrap();
        assert_eq!(last.inside, Ipv4Addr::new(198, 19, 255, 254));
        assert!(Addresses::of(1 << 15).is_err());
    }
}
