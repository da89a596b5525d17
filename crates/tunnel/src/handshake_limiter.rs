//! The handshake limiter: bounds the connections whose peer has not proven its key yet, in all and
//! for each source address (IPv6: for each /64).

use leeway_guard::site;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The handshakes in progress. A new handshake beyond `total` ends the oldest one. A flood mostly
/// displaces its own handshakes, because others take a few round trips only.
#[derive(Debug)]
pub(crate) struct HandshakeLimiter {
    total: usize,
    per_source: usize,
    waiting: Mutex<VecDeque<(IpAddr, Arc<Notify>)>>,
}

/// The place of one handshake. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    limiter: Arc<HandshakeLimiter>,
    displaced: Arc<Notify>,
}

impl HandshakeLimiter {
    pub fn new(total: usize, per_source: usize) -> Arc<Self> {
        Arc::new(HandshakeLimiter { total, per_source, waiting: Mutex::new(VecDeque::new()) })
    }

    /// A place for a handshake with `source`; `None` if `source` has `per_source` handshakes
    /// already.
    pub fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Place> {
        let source = site(source);
        let displaced = Arc::new(Notify::new());
        let mut waiting = self.waiting();
        if waiting.iter().filter(|(of, _)| *of == source).count() >= self.per_source {
            return None;
        }
        if waiting.len() >= self.total
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.notify_one();
        }
        waiting.push_back((source, Arc::clone(&displaced)));
        drop(waiting);
        Some(Place { limiter: Arc::clone(self), displaced })
    }

    /// Number of handshakes in progress.
    pub fn len(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(IpAddr, Arc<Notify>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until another handshake needs the place.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.limiter.waiting().retain(|(_, place)| !Arc::ptr_eq(place, &self.displaced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_place_cannot_crowd_out_the_others() {
        let limiter = HandshakeLimiter::new(8, 3);
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let flood: Vec<_> = (0..100).filter_map(|_| limiter.enter(at("192.0.2.1"))).collect();
        assert_eq!(flood.len(), 3);
        assert!(limiter.enter(at("::ffff:192.0.2.1")).is_none());
        // Addresses of one /64, which one user has.
        let six: Vec<_> =
            (0..100).filter_map(|host| limiter.enter(at(&format!("2001:db8::{host:x}")))).collect();
        assert_eq!(six.len(), 3);
        // From many networks: the oldest ones are displaced.
        let many: Vec<_> = (0..50).filter_map(|net| limiter.enter(at(&format!("10.0.{net}.1")))).collect();
        assert_eq!(many.len(), 50);
        assert_eq!(limiter.len(), 8);
        flood[0].displaced().await;
        many[41].displaced().await;
        drop((flood, six, many));
        assert_eq!(limiter.len(), 0);
    }
}
