//! The server's switch: finds the client for a packet.

use crate::carry::Counts;
use crate::egress::{Egress, Parcel};
use crate::pool::destination;
use crate::sender::{Sender, Steering};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// A client that is connected.
#[derive(Debug)]
pub struct Member {
    /// Its name in the roster.
    pub name: String,
    /// Its addresses in the tunnel.
    pub addresses: (Ipv4Addr, Ipv6Addr),
    /// The address from which it connected.
    pub from: SocketAddr,
    /// The queue of packets for it.
    pub egress: Arc<Egress>,
    /// Packets and bytes that its tunnel carried.
    pub counts: Arc<Counts>,
    /// The sender towards it; `None` over TCP, where the kernel's law sends.
    pub(crate) sender: Option<Arc<Sender>>,
    /// Notified when another connection of the same client replaces this one.
    pub(crate) replaced: Notify,
}

impl Member {
    /// The state of the law towards it; `None` over TCP.
    pub fn steering(&self) -> Option<Steering> {
        self.sender.as_ref().map(|sender| sender.steering())
    }

    /// Total time for which packets waited for the client's foreground; 0 over TCP.
    pub fn yielded(&self) -> Duration {
        self.sender.as_ref().map_or(Duration::ZERO, |sender| sender.yielded())
    }

    /// Bytes carried, and the time for which packets waited for the foreground, as text.
    pub fn account(&self) -> String {
        let [to, from] = [self.counts.sent(), self.counts.received()].map(|(_, bytes)| bytes as f64 / 1e6);
        let yielded = self.yielded().as_secs_f64();
        format!("{to:.1} MB to it, {from:.1} MB from it, yielded to its home for {yielded:.1} s")
    }
}

/// The connected clients, by their addresses.
#[derive(Debug, Default)]
pub struct Switch {
    members: RwLock<HashMap<IpAddr, Arc<Member>>>,
}

impl Switch {
    /// Sends packets to their clients. Packets for no client are dropped.
    pub fn send(&self, parcels: impl IntoIterator<Item = Parcel>) {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let mut run: Vec<Parcel> = Vec::new();
        let mut to: Option<(IpAddr, &Arc<Member>)> = None;
        for parcel in parcels {
            let Some(address) = destination(parcel.packet()) else { continue };
            if to.is_none_or(|(before, _)| before != address) {
                if let Some((_, member)) = to {
                    member.egress.push(run.drain(..));
                }
                to = members.get(&address).map(|member| (address, member));
            }
            if to.is_some() {
                run.push(parcel);
            }
        }
        if let Some((_, member)) = to {
            member.egress.push(run);
        }
    }

    /// All connected clients, in the order of addresses.
    pub fn members(&self) -> Vec<Arc<Member>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            members.iter().filter(|(at, _)| at.is_ipv4()).map(|(_, member)| Arc::clone(member)).collect();
        all.sort_by_key(|member| member.addresses.0);
        all
    }

    /// Adds a client. An older connection of the same client is replaced.
    pub(crate) fn join(&self, member: &Arc<Member>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.insert(member.addresses.1.into(), Arc::clone(member));
        if let Some(old) = members.insert(member.addresses.0.into(), Arc::clone(member)) {
            old.replaced.notify_one();
        }
    }

    /// Removes the connection of a client.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|_, other| !Arc::ptr_eq(other, member));
    }
}
