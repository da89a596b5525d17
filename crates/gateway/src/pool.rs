//! Idle connections to servers, kept for the next request of the same user.

use crate::http::Server;
use crate::upstream::Path;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most idle connections of one user to one server.
const PER_SERVER: usize = 8;
/// Most idle connections of all users.
const TOTAL: usize = 1024;
/// Time that an idle connection is kept. It is shorter than the idle timeouts of usual servers.
const KEPT: Duration = Duration::from_secs(15);

/// Idle connections of each user to each server, each with the time of its last use, in the order
/// of that time.
type Idle = BTreeMap<(u64, SocketAddr), VecDeque<(Instant, Server)>>;

/// The idle connections.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<Idle>,
}

impl Pool {
    /// An idle connection of `user` by the path `path` to one of the addresses; the one used last
    /// comes first.
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

    /// Keeps a connection for later requests.
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

    /// Closes connections that have been idle for 15 s, or that the server has closed.
    pub fn sweep(&self) {
        sweep(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether `user` may keep another connection: fewer than the number of free places. So one user
/// cannot take all places (the same rule as in [`crate::users`]).
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
