//! The addresses of this host, and the networks that it reaches without a router.
//!
//! A program that carries packets for strangers has to keep strangers from both, because no
//! router's firewall protects a machine in the same network. Addresses and networks change while a
//! program runs (DHCP, PPPoE, privacy extensions of IPv6), so they are followed.

use crate::netlink::{self, Changes};
use crate::{Error, Family};
use ipnet::IpNet;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkFlags;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

/// The kernel's routing table of addresses that are its own (linux/rtnetlink.h, RT_TABLE_LOCAL).
const LOCAL_TABLE: u32 = 255;

/// Longest wait for a change. A thread that follows changes ends within this time after its last
/// user.
const PATIENCE: Duration = Duration::from_secs(1);

/// Wait before another attempt after the kernel could not be asked.
const AGAIN: Duration = Duration::from_millis(100);

/// Owner of an address that does not belong to the Internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// An address of this host.
    Own,
    /// An address in a network that this host reaches without a router, or that it keeps for
    /// itself.
    OnLink,
}

/// Addresses and networks at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Every address of this host.
    pub own: BTreeSet<IpAddr>,
    /// Networks that are reached without a router, with the name of the device. Networks whose
    /// routes lead nowhere count as well, such as a prefix that a provider delegated (RFC 8415)
    /// and that is divided among networks of the home.
    pub on_link: BTreeMap<IpNet, String>,
}

/// The present addresses and networks of this host.
#[derive(Debug, Clone, Default)]
pub struct Attached(Arc<RwLock<Surroundings>>);

impl Attached {
    /// Follows the changes in a thread that ends soon after the last copy of this is dropped.
    ///
    /// `changed` is called with each new state, never twice at the same time.
    ///
    /// # Errors
    /// The kernel does not list addresses and routes, or no thread can be started.
    pub fn follow(mut changed: impl FnMut(&Surroundings) + Send + 'static) -> Result<Attached, Error> {
        // The subscription comes before the first list, so that no change is missed in between.
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

    /// A fixed state, for programs that have read it themselves.
    pub fn fixed(surroundings: Surroundings) -> Attached {
        Attached(Arc::new(RwLock::new(surroundings)))
    }

    /// Owner of the address; `None` for an address behind a router.
    pub fn of(&self, address: IpAddr) -> Option<Attachment> {
        let address = address.to_canonical();
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now.own.contains(&address) {
            return Some(Attachment::Own);
        }
        now.on_link.keys().any(|network| network.contains(&address)).then_some(Attachment::OnLink)
    }

    /// The whole state.
    pub fn surroundings(&self) -> Surroundings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lists everything again; false when nobody uses the result any more.
fn renew(weak: &Weak<RwLock<Surroundings>>, changed: &mut impl FnMut(&Surroundings)) -> bool {
    loop {
        let listed = Surroundings::now();
        let Some(shared) = weak.upgrade() else { return false };
        // The known state stays in force until there is a newer one.
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
    /// Reads the state from the kernel's lists.
    ///
    /// # Errors
    /// The kernel does not list them.
    pub fn now() -> Result<Surroundings, Error> {
        let mut devices = BTreeMap::new();
        for link in netlink::links()? {
            let name = netlink::name(&link);
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
        let (own, address) = netlink::ends(message);
        self.own.extend(own);
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
                // A route with several next hops, or one that refers to a next-hop object, is
                // taken to lead through a router: such routes are made by hand or by routing
                // protocols, not by addresses.
                RouteAttribute::Gateway(_)
                | RouteAttribute::Via(_)
                | RouteAttribute::MultiPath(_)
                | RouteAttribute::NhId(_) => by_router = true,
                _ => {}
            }
        }
        // A default route says nothing of the networks behind it.
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
    /// Networks behind such a device are not beside this host: a tunnel, or the loopback device.
    far: bool,
}
