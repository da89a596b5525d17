//! nftables rules for clients without a configured proxy. Packets that come in at the clients'
//! interface go to the proxy, and none of them are forwarded.
//!
//! There are two nftables tables, each made in one transaction. The table that diverts packets has
//! an owner (`flags owner`), so the kernel removes it when this process ends, however it ends. The
//! table that guards the interface has no owner. After a crash, packets of the interface are not
//! forwarded past the proxy until the gateway starts again or the table is deleted. The guard
//! concerns that interface only, so it cannot block the home.

use crate::config::TransparentConfig;
use ipnet::IpNet;
use leeway_net::{Family, Leftover, Rule, Table, given_ports, ip_of, nft, remove_rules};
use std::io;

/// Mark of packets for the proxy, and number of the routing table in which every address is local.
/// The upper 16 bits are "LW", the lower ones the interface's index, so that the leftovers of a
/// crash can be found.
const MARK: u32 = 0x4c57_0000;
/// Longest name of an interface, in bytes (IFNAMSIZ less the final zero).
const NAME_BYTES: usize = 15;

/// Rules and routes. Dropping this removes them.
#[derive(Debug)]
pub struct Divert {
    interface: String,
    mark: u32,
    divert: Option<Table>,
    /// Whether the guard table stays when this is dropped.
    guards: bool,
}

impl Divert {
    /// Diverts what comes in at the interface, except to the `open` TCP ports of this machine.
    /// [`Divert::serve`] names the clients; until then there is none.
    ///
    /// # Errors
    /// Missing privileges, or a kernel without TPROXY.
    pub fn new(config: &TransparentConfig, open: &[u16]) -> io::Result<Divert> {
        let TransparentConfig { interface, port } = config;
        check_name(interface)?;
        let mark = MARK | (nix::net::if_::if_nametoindex(interface.as_str())? & 0xffff);
        // Leftovers of a crash.
        remove_routes(mark);
        let open = open.iter().chain([port]).map(u16::to_string).collect::<Vec<_>>().join(", ");
        nft(&guard(interface, mark, &open)).map_err(io::Error::other)?;
        let table = divert_name();
        let script = divert(&table, interface, mark, *port, &open);
        match add_routes(mark).and_then(|()| Table::own("inet", &table, &script)) {
            Ok(table) => {
                Ok(Divert { interface: interface.clone(), mark, divert: Some(table), guards: false })
            }
            Err(error) => {
                clean(interface, mark);
                Err(io::Error::other(error))
            }
        }
    }
}

impl Divert {
    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Diverts the packets of these clients, and drops those of all other sources. To a source that
    /// is no client, the kernel would otherwise answer a SYN in the name of the server.
    ///
    /// # Errors
    /// What `nft` says.
    pub fn serve(&mut self, clients: &[IpNet]) -> io::Result<()> {
        let table = self.divert.as_mut().ok_or_else(|| io::Error::other("nothing is diverted"))?;
        table.tell(&serve(&divert_name(), clients)).map_err(io::Error::other)
    }

    /// Removes all but the guard table. The routes stay if another gateway has taken over.
    pub fn leave_guard(mut self) {
        self.divert = None;
        let mark = format!("{:#010x}", self.mark);
        let others =
            leeway_net::tables(DIVERT).is_ok_and(|all| all.iter().any(|(_, text)| text.contains(&mark)));
        if !others {
            remove_routes(self.mark);
        }
        self.guards = true;
    }
}

impl Drop for Divert {
    fn drop(&mut self) {
        self.divert = None;
        if !self.guards {
            clean(&self.interface, self.mark);
        }
    }
}

/// The address families that can be diverted. Diverted packets are routed to the loopback device,
/// on which IPv6 may be off. Packets of another family at the interface are refused.
pub fn families() -> &'static [Family] {
    let off = std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    let off = off.map_or(true, |text| text.trim() != "0");
    if off { &[Family::V4] } else { &Family::ALL }
}

/// Removes what has no owner. Errors are ignored: what does not exist needs no removal.
fn clean(interface: &str, mark: u32) {
    let table = guard_name(interface);
    let _ = nft(&format!("table inet {table}\ndelete table inet {table}\n"));
    remove_routes(mark);
}

fn add_routes(mark: u32) -> Result<(), leeway_net::Error> {
    families().iter().try_for_each(|&family| {
        ip_of(
            family,
            &format!(
                "rule add fwmark {mark} lookup {mark}\nroute replace local default dev lo table {mark}\n"
            ),
        )
    })
}

fn remove_routes(mark: u32) {
    for &family in families() {
        remove_rules(family, &format!("fwmark {mark} lookup {mark}"));
        let _ = ip_of(family, &format!("route flush table {mark}\n"));
    }
}

/// Start of the name of a table that diverts. The number of its process follows.
const DIVERT: &str = "leeway_divert_";
/// Start of the name of a guard table. The interface follows.
const GUARD: &str = "leeway_guard_";
/// Who left the rules, for messages.
const KILLED: &str = "a gateway that was killed";

/// Leftovers of killed gateways in this network namespace that no running gateway uses.
///
/// # Errors
/// Missing privileges: without them, the tables in use cannot be listed.
pub fn leftovers() -> Result<Vec<Leftover>, leeway_net::Error> {
    // A table that diverts exists only while its process runs.
    let serving = leeway_net::tables(DIVERT)?;
    let left = |mark: u32| {
        mark & 0xffff_0000 == MARK && !serving.iter().any(|(_, text)| text.contains(&format!("{mark:#010x}")))
    };
    let mut found = Vec::new();
    for (name, text) in leeway_net::tables(GUARD)? {
        let words = text.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
        if words.filter_map(|word| u32::from_str_radix(word, 16).ok()).any(left) {
            let interface = name.trim_start_matches(GUARD);
            let what = format!("by which {KILLED} still refuses what comes in by {interface}");
            found.push(Leftover::Table(name, what));
        }
    }
    let rules = Rule::all()?.into_iter().filter(|rule| rule.mark == Some(rule.table) && left(rule.table));
    found.extend(rules.map(|rule| Leftover::Rule(rule, KILLED)));
    for &family in families() {
        let tables = leeway_net::routing_tables(family)?.into_iter().filter(|&table| left(table));
        found.extend(tables.map(|table| Leftover::Routes(family, table, KILLED)));
    }
    Ok(found)
}

fn divert_name() -> String {
    format!("{DIVERT}{}", std::process::id())
}

fn guard_name(interface: &str) -> String {
    format!("{GUARD}{}", interface.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// Forwards nothing of the interface. On this machine, its packets reach the proxy, DHCP, and UDP
/// ports of the kernel's range for automatic ports: responses, and the sockets of SOCKS5.
fn guard(interface: &str, mark: u32, open: &str) -> String {
    let table = guard_name(interface);
    let given = given_ports();
    // Created and deleted first, so that the transaction replaces what a crash has left.
    format!(
        "table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         \x20   chain forward {{\n\
         \x20       type filter hook forward priority -10; policy accept;\n\
         \x20       iifname \"{interface}\" drop\n\
         \x20   }}\n\
         \x20   chain input {{\n\
         \x20       type filter hook input priority -10; policy accept;\n\
         \x20       iifname \"{interface}\" meta mark {mark} accept\n\
         \x20       iifname \"{interface}\" tcp dport {{ {open} }} accept\n\
         \x20       iifname \"{interface}\" tcp flags & (syn | ack) == syn drop\n\
         \x20       iifname \"{interface}\" udp dport {{ 67, 547, {given} }} accept\n\
         \x20       iifname \"{interface}\" meta l4proto {{ udp, udplite, sctp, dccp }} drop\n\
         \x20   }}\n\
         }}\n"
    )
}

/// Sends TCP and UDP of clients to the proxy, and drops those of other sources. Of datagrams to this
/// machine itself, only DNS is diverted. The text is one line, because the interactive mode of nft
/// makes a transaction of each line.
fn divert(table: &str, interface: &str, mark: u32, port: u16, open: &str) -> String {
    format!(
        "add table inet {table} {{ flags owner; \
         set clients_v4 {{ type ipv4_addr; flags interval; }}; \
         set clients_v6 {{ type ipv6_addr; flags interval; }}; \
         chain divert {{ type filter hook prerouting priority -150; \
         iifname \"{interface}\" tcp dport {{ {open} }} fib daddr type local accept; \
         iifname \"{interface}\" meta pkttype {{ broadcast, multicast }} accept; \
         iifname \"{interface}\" udp dport != 53 fib daddr type local accept; \
         iifname \"{interface}\" meta l4proto {{ tcp, udp }} ip saddr != @clients_v4 drop; \
         iifname \"{interface}\" meta l4proto {{ tcp, udp }} ip6 saddr != @clients_v6 drop; \
         iifname \"{interface}\" meta l4proto {{ tcp, udp }} tproxy to :{port} meta mark set {mark} accept; }}; }}\n"
    )
}

/// Replaces the clients, in one transaction.
fn serve(table: &str, clients: &[IpNet]) -> String {
    let mut text = String::new();
    // A set of intervals has no two that overlap.
    let clients = IpNet::aggregate(&clients.to_vec());
    for (set, v4) in [("clients_v4", true), ("clients_v6", false)] {
        text += &format!("flush set inet {table} {set}; ");
        let own = clients.iter().filter(|network| matches!(network, IpNet::V4(_)) == v4);
        let own: Vec<String> = own.map(IpNet::to_string).collect();
        if !own.is_empty() {
            text += &format!("add element inet {table} {set} {{ {} }}; ", own.join(", "));
        }
    }
    text + "\n"
}

/// Refuses a name with characters that would change the rules.
fn check_name(interface: &str) -> io::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if interface.is_empty() || interface.len() > NAME_BYTES || !interface.bytes().all(plain) {
        return Err(io::Error::other(format!("`{interface}` is not the name of an interface")));
    }
    Ok(())
}
