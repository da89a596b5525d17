//! What this host is attached to: its own addresses, and the networks that it reaches without a
//! router.
//!
//! Whoever carries packets for strangers has to keep them from both: the router's firewall does
//! not stand before a machine in the same network. They change while a program runs (DHCP, PPPoE,
//! privacy extensions of IPv6), so they are followed.

use crate::netlink::{self, Changes};
use crate::{Error, Family};
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

/// The kernel's routing table of addresses that are its own (linux/rtnetlink.h, RT_TABLE_LOCAL).
const LOCAL_TABLE: u32 = 255;

/// How long it is waited for a change at a time; a thread that follows ends so long after nobody
/// needs it any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Before another attempt where the kernel could not be asked.
const AGAIN: Duration = Duration::from_millis(100);

/// Whose an address is, if it is not anybody's on the Internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// One of this host's.
    Own,
    /// Of a network that this host reaches without a router, or that it keeps for itself.
    OnLink,
}

/// Addresses and networks at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Every address of this host.
    pub own: BTreeSet<IpAddr>,
    /// Networks that are reached without a router, and the name of the device; also those whose
    /// routes lead nowhere, such as a prefix that a provider has delegated (RFC 8415) and that is
    /// divided among networks of the home.
    pub on_link: BTreeMap<IpNet, String>,
}

/// What this host is attached to, now.
#[derive(Debug, Clone, Default)]
pub struct Attached(Arc<RwLock<Surroundings>>);

impl Attached {
    /// Follows it from now on, in a thread that ends soon after the last copy of this was dropped.
    ///
    /// `changed` is called with what has become of it, never twice at a time.
    ///
    /// # Errors
    /// The kernel does not list it, or there can be no more threads.
    pub fn follow(mut changed: impl FnMut(&Surroundings) + Send + 'static) -> Result<Attached, Error> {
        // Before the first list: nothing is missed in between.
        let changes = Changes::hear()?;
        let attached = Attached(Arc::new(RwLock::new(Surroundings::now()?)));
        let weak = Arc::downgrade(&attached.0);
        let follow = move || {
            while weak.strong_count() > 0 {
                if changes.wait(PATIENCE) && !renew(&weak, &mut changed) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("attached".into());
        thread.spawn(follow).map_err(|error| Error::System { what: "start a thread", error })?;
        Ok(attached)
    }

    /// What it is, for programs that have looked at it themselves.
    pub fn fixed(surroundings: Surroundings) -> Attached {
        Attached(Arc::new(RwLock::new(surroundings)))
    }

    /// Whose that address is; none if somebody's behind a router.
    pub fn of(&self, address: IpAddr) -> Option<Attachment> {
        let address = address.to_canonical();
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now.own.contains(&address) {
            return Some(Attachment::Own);
        }
        now.on_link.keys().any(|network| network.contains(&address)).then_some(Attachment::OnLink)
    }

    /// All of it.
    pub fn surroundings(&self) -> Surroundings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lists everything anew; false once nobody needs it.
fn renew(weak: &Weak<RwLock<Surroundings>>, changed: &mut impl FnMut(&Surroundings)) -> bool {
    loop {
        let listed = Surroundings::now();
        let Some(shared) = weak.upgrade() else { return false };
        // What is known stays in force until there is something newer.
        let Ok(now) = listed else {
            drop(shared);
            std::thread::sleep(AGAIN);
            continue;
        };
        let news = *shared.read().unwrap_or_else(PoisonError::into_inner) != now;
        if news {
            *shared.write().unwrap_or_else(PoisonError::into_inner) = now.clone();
            changed(&now);
        }
        return true;
    }
}

impl Surroundings {
    /// As the kernel lists it.
    ///
    /// # Errors
    /// It does not.
    pub fn now() -> Result<Surroundings, Error> {
        let mut devices = BTreeMap::new();
        for link in netlink::links()? {
            let name = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
            let far = link.header.flags.intersects(LinkFlags::Pointopoint | LinkFlags::Loopback);
            devices.insert(link.header.index, Device { name: name.unwrap_or_default(), far });
        }
        let mut now = Surroundings::default();
        for address in netlink::addresses()? {
            now.add_address(&address, &devices);
        }
        for family in Family::ALL {
            if family == Family::V4 || crate::has_v6() {
                for route in netlink::routes(family)? {
                    now.add_route(&route, &devices);
                }
            }
        }
        Ok(now)
    }

    /// An address of this host and the network that it is in; of a point-to-point device, the
    /// address and the other end.
    fn add_address(&mut self, message: &AddressMessage, devices: &BTreeMap<u32, Device>) {
        let bits = message.header.prefix_len;
        let name = devices.get(&message.header.index).map_or("", |device| &device.name);
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        self.own.extend(local.or(address));
        if let Some(Ok(network)) = address.map(|address| IpNet::new(address, bits)) {
            self.on_link.insert(network.trunc(), name.to_owned());
        }
    }

    fn add_route(&mut self, message: &RouteMessage, devices: &BTreeMap<u32, Device>) {
        let header = &message.header;
        let (mut to, mut device, mut table, mut by_router) = (None, None, u32::from(header.table), false);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(address)) => to = Some(IpAddr::V4(*address)),
                RouteAttribute::Destination(RouteAddress::Inet6(address)) => to = Some(IpAddr::V6(*address)),
                RouteAttribute::Oif(index) => device = devices.get(index),
                RouteAttribute::Table(number) => table = *number,
                // Where several ways lead there, or a route refers to what is kept elsewhere, a
                // router is taken to be among them: such routes are made by hand or by routing
                // protocols, not by addresses.
                RouteAttribute::Gateway(_)
                | RouteAttribute::Via(_)
                | RouteAttribute::MultiPath(_)
                | RouteAttribute::NhId(_) => by_router = true,
                _ => {}
            }
        }
        // The route to everything says nothing of where it leads.
        let network = to.and_then(|to| IpNet::new(to, header.destination_prefix_length).ok());
        let Some(network) = network.filter(|network| network.prefix_len() > 0) else { return };
        let on_link = match header.kind {
            RouteType::Unicast => !by_router && device.is_some_and(|device| !device.far),
            RouteType::Local | RouteType::Anycast | RouteType::Broadcast => table == LOCAL_TABLE,
            RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit => true,
            _ => false,
        };
        if on_link && !self.on_link.contains_key(&network) {
            let name = device.map(|device| device.name.clone()).unwrap_or_default();
            self.on_link.insert(network, name);
        }
    }
}

struct Device {
    name: String,
    /// What is behind it is not beside this host: a tunnel, or this host.
    far: bool,
}
