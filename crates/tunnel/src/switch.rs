//! The server's switch: finds the client that a packet goes to.

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
    /// Where it connected from.
    pub from: SocketAddr,
    /// What waits for it.
    pub egress: Arc<Egress>,
    /// What went through.
    pub counts: Arc<Counts>,
    /// The law towards it; nothing over TCP, where the kernel has it.
    pub(crate) sender: Option<Arc<Sender>>,
    /// Told when it has to go because the same client connected again.
    pub(crate) replaced: Notify,
}

impl Member {
    /// What the law towards it is doing; nothing over TCP.
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

/// The clients that are connected, by their addresses.
#[derive(Debug, Default)]
pub struct Switch {
    members: RwLock<HashMap<IpAddr, Arc<Member>>>,
}

impl Switch {
    /// Sends packets to the clients that they are for; those for nobody are dropped.
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

    /// Everybody who is connected, in the order of addresses.
    pub fn members(&self) -> Vec<Arc<Member>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            members.iter().filter(|(at, _)| at.is_ipv4()).map(|(_, member)| Arc::clone(member)).collect();
        all.sort_by_key(|member| member.addresses.0);
        all
    }

    /// A client has connected; an older connection of the same one has to go.
    pub(crate) fn join(&self, member: &Arc<Member>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.insert(member.addresses.1.into(), Arc::clone(member));
        if let Some(old) = members.insert(member.addresses.0.into(), Arc::clone(member)) {
            old.replaced.notify_one();
        }
    }

    /// A connection has ended.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|_, other| !Arc::ptr_eq(other, member));
    }
}
