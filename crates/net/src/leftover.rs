//! Finds, names and removes routing rules, routes and nftables tables that a killed program
//! left.
//!
//! The program that makes such rules knows which of them are in use; see `leftovers` of the
//! gateway and of the tunnel.

use crate::{Error, Family, ip_of, netlink, nft, remove_rules};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::RouteAttribute;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use std::collections::BTreeSet;
use std::fmt;
use std::process::Command;

/// A routing rule of this host, with the fields that show which program made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The family of addresses.
    pub family: Family,
    /// The kernel tries rules in the order of this number.
    pub priority: u32,
    /// The firewall mark that the rule compares, with or without inversion.
    pub mark: Option<u32>,
    /// The device to which sockets of its packets are bound.
    pub device: Option<String>,
    /// The routing table to which it leads.
    pub table: u32,
}

impl Rule {
    /// All rules of this host.
    ///
    /// # Errors
    /// The kernel does not list them.
    pub fn all() -> Result<Vec<Rule>, Error> {
        Ok(netlink::rules()?.iter().filter_map(Rule::of).collect())
    }

    fn of(message: &RuleMessage) -> Option<Rule> {
        let family = match message.header.family {
            AddressFamily::Inet => Family::V4,
            AddressFamily::Inet6 => Family::V6,
            _ => return None,
        };
        let table = u32::from(message.header.table);
        let mut rule = Rule { family, priority: 0, mark: None, device: None, table };
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Priority(priority) => rule.priority = *priority,
                RuleAttribute::FwMark(mark) => rule.mark = Some(*mark),
                RuleAttribute::Oifname(name) => rule.device = Some(name.clone()),
                RuleAttribute::Table(table) => rule.table = *table,
                _ => {}
            }
        }
        Some(rule)
    }
}

/// Something that a killed program left, with the name of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A routing rule.
    Rule(Rule, &'static str),
    /// The routes of a table.
    Routes(Family, u32, &'static str),
    /// A table of nftables of the family `inet`, and what it does while it exists.
    Table(String, String),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leftover::Rule(Rule { family, priority, table, .. }, of) => {
                write!(f, "the {family} routing rule {priority} to table {table} of {of}")
            }
            Leftover::Routes(family, table, of) => {
                write!(f, "the {family} routes in table {table} of {of}")
            }
            Leftover::Table(name, what) => write!(f, "the nftables table inet {name}, {what}"),
        }
    }
}

impl Leftover {
    /// Removes it.
    ///
    /// # Errors
    /// [`Error::Program`], for instance without rights.
    pub fn remove(&self) -> Result<(), Error> {
        match self {
            Leftover::Rule(rule, _) => {
                let selector = format!("priority {} lookup {}", rule.priority, rule.table);
                remove_rules(rule.family, &selector);
                // If it is still there, the next attempt says why.
                match Rule::all()?.contains(rule) {
                    true => ip_of(rule.family, &format!("rule del {selector}\n")),
                    false => Ok(()),
                }
            }
            Leftover::Routes(family, table, _) => ip_of(*family, &format!("route flush table {table}\n")),
            Leftover::Table(name, _) => nft(&format!("delete table inet {name}\n")),
        }
    }
}

/// The numbers of all routing tables that have a route of the family.
///
/// # Errors
/// The kernel does not list them.
pub fn routing_tables(family: Family) -> Result<BTreeSet<u32>, Error> {
    let number = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Table(number) => Some(*number),
        _ => None,
    };
    let routes = netlink::routes(family)?;
    let tables = routes.iter().map(|route| {
        route.attributes.iter().find_map(number).unwrap_or_else(|| u32::from(route.header.table))
    });
    Ok(tables.collect())
}

/// The names of all devices.
///
/// # Errors
/// The kernel does not list them.
pub fn devices() -> Result<BTreeSet<String>, Error> {
    Ok(netlink::links()?.iter().filter_map(netlink::name).collect())
}

/// The nftables tables of the family `inet` whose names start with `prefix`, with their text.
///
/// # Errors
/// `nft` is not installed, or the right to list tables is missing.
pub fn tables(prefix: &str) -> Result<Vec<(String, String)>, Error> {
    let names = listed(&["list", "tables", "inet"])?;
    let names = names.lines().filter_map(|line| line.strip_prefix("table inet "));
    let ours = names.filter(|name| name.starts_with(prefix));
    // A table that is gone since the first list is left out.
    let text = |name: &str| listed(&["list", "table", "inet", name]).ok();
    Ok(ours.filter_map(|name| Some((name.to_owned(), text(name)?))).collect())
}

fn listed(arguments: &[&str]) -> Result<String, Error> {
    let missing = |error| Error::Missing { program: "nft", package: "nftables", error };
    let output = Command::new("nft").args(arguments).output().map_err(missing)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::Program { program: "nft", message: text(&output.stderr) }),
    }
}
