//! Idle connections to servers, kept for the next request of the same user.

use crate::http::Server;
use crate::upstream::Path;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections kept of one user to one server.
const PER_SERVER: usize = 8;
/// Connections kept together.
const TOTAL: usize = 1024;
/// How long one is kept: less than servers do.
const KEPT: Duration = Duration::from_secs(15);

/// Of each user to each server: since when, the last used at the end.
type Idle = BTreeMap<(u64, SocketAddr), VecDeque<(Instant, Server)>>;

/// The idle connections.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<Idle>,
}

impl Pool {
    /// An idle connection of `user` to one of the addresses by that path; the one used last comes first.
    pub fn take(&self, user: u64, addresses: &[SocketAddr], path: Path) -> Option<Server> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        for &address in addresses {
            let Some(servers) = idle.get_mut(&(user, address)) else { continue };
            while let Some((since, server)) = servers.pop_back() {
                if since.elapsed() < KEPT && !server.sender.is_closed() && server.path == path {
                    return Some(server);
                }
            }
            idle.remove(&(user, address));
        }
        None
    }

    /// Keeps a connection.
    pub fn put(&self, user: u64, server: Server) {
        if server.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_room(&idle, user) {
            sweep(&mut idle);
            if !has_room(&idle, user) {
                return;
            }
        }
        let servers = idle.entry((user, server.address)).or_default();
        servers.push_back((Instant::now(), server));
        if servers.len() > PER_SERVER {
            servers.pop_front();
        }
    }

    /// Closes those that have been kept long enough.
    pub fn sweep(&self) {
        sweep(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A user who keeps as many as there is room for gets no more, so that there is some for others (as
/// for places, [`crate::users`]).
fn has_room(idle: &Idle, user: u64) -> bool {
    let own: usize =
        idle.iter().filter(|((whose, _), _)| *whose == user).map(|(_, servers)| servers.len()).sum();
    let all: usize = idle.values().map(VecDeque::len).sum();
    own < TOTAL.saturating_sub(all)
}

fn sweep(idle: &mut Idle) {
    for servers in idle.values_mut() {
        servers.retain(|(since, server)| since.elapsed() < KEPT && !server.sender.is_closed());
    }
    idle.retain(|_, servers| !servers.is_empty());
}
