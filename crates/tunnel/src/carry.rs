//! Carries packets over an established QUIC connection, both ways, until the connection ends.

use crate::egress::{Egress, Next, Parcel};
use crate::inward::Inward;
use crate::owd::Meter;
use crate::pool::source;
use crate::sender::{Leave, Sender};
use crate::standing::{Standing, Tell};
use crate::wire::{self, Datagram, HALF_HEADER, PACKET_HEADER};
use bytes::{Bytes, BytesMut};
use leeway_share::ForegroundReport;
use quinn::{Connection, ConnectionError, SendDatagramError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Most packets that are delivered together.
const BATCH: usize = 64;
/// Most bytes in the transport that are not sent yet.
pub(crate) const SEND_BUFFER: usize = 1 << 20;

/// The parts of one end of a tunnel.
#[derive(Clone)]
pub(crate) struct Ends {
    pub egress: Arc<Egress>,
    pub inward: Arc<dyn Inward>,
    /// Addresses that packets may come from; `None` for any address.
    pub from: Option<(Ipv4Addr, Ipv6Addr)>,
    pub counts: Arc<Counts>,
    /// A peer without a message for this time counts as gone.
    pub silence: Duration,
    /// The server's [`Standing`] for the client.
    pub tell: Tell,
    /// Where a client stores the server's [`Standing`]; `None` at a server.
    pub told: Option<Arc<Mutex<Option<Standing>>>>,
}

/// Packets and bytes that a tunnel carried.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) sent: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Counts {
    /// IP packets and bytes sent to the peer.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.sent_bytes.load(Ordering::Relaxed))
    }

    /// IP packets and bytes received from the peer.
    pub fn received(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.received_bytes.load(Ordering::Relaxed))
    }

    /// Packets of the peer that were not valid IP, or came from another address than the peer's.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Ends {
    /// Stores the [`Standing`] of the server. A client may not send one; it counts as refused.
    pub fn heard(&self, standing: Standing) {
        match &self.told {
            Some(told) => *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(standing),
            None => drop(self.counts.refused.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Whether `packet` may leave this tunnel. Counts the packet.
    pub fn admits(&self, packet: &[u8]) -> bool {
        let own = match (self.from, source(packet)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some((v4, _)), Some(IpAddr::V4(from))) => from == v4,
            (Some((_, v6)), Some(IpAddr::V6(from))) => from == v6,
        };
        if own {
            self.counts.received.fetch_add(1, Ordering::Relaxed);
            self.counts.received_bytes.fetch_add(packet.len() as u64, Ordering::Relaxed);
        } else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        own
    }
}

/// Carries packets until the connection ends.
pub(crate) async fn carry(connection: &Connection, sender: &Sender, ends: &Ends) -> ConnectionError {
    tokio::select! {
        error = send(connection, sender, ends) => error,
        error = receive(connection, sender, ends) => error,
    }
}

async fn send(connection: &Connection, sender: &Sender, ends: &Ends) -> ConnectionError {
    let mut next_id = 0u16;
    // The packet that left the queue and waits for its grant.
    let mut head: Option<Parcel> = None;
    let mut tell = ends.tell.clone();
    // A lost message is followed by another one.
    let say = |datagram: &[u8]| {
        let _ = connection.send_datagram(Bytes::copy_from_slice(datagram));
    };
    loop {
        let mut wake: Option<Instant> = None;
        let mut burst = 0;
        if let Some(ForegroundReport { expected_bytes, came_bytes }) = sender.home_report() {
            say(&wire::foreground_datagram(expected_bytes, came_bytes));
        }
        loop {
            let parcel = match head.take().map_or_else(|| ends.egress.pop(), Next::Parcel) {
                Next::Parcel(parcel) => parcel,
                Next::After(span) => {
                    wake = Some(Instant::now() + span);
                    break;
                }
                Next::Empty => break,
            };
            let length = parcel.packet().len();
            let waiting = SEND_BUFFER.saturating_sub(connection.datagram_send_buffer_space());
            match sender.leave(length as u64, waiting as u64) {
                Leave::Now => {}
                Leave::At(at_us) => {
                    (head, wake) = (Some(parcel), Some(sender.clock().at(at_us)));
                    break;
                }
                Leave::Blocked => {
                    head = Some(parcel);
                    break;
                }
            }
            ends.counts.count_sent(length);
            if let Err(error) = hand_over(connection, sender, parcel, &mut next_id) {
                return error;
            }
            burst += 1;
            if burst == BATCH {
                // Lets the receiving half run.
                tokio::task::yield_now().await;
                burst = 0;
            }
        }
        let tell_at = sender.home_report_us().map(|at_us| sender.clock().at(at_us));
        let wake = wake.into_iter().chain(tell_at).min();
        // The receiving half notices the end of the connection, so the wait may be long.
        let at = wake.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        tokio::select! {
            () = ends.egress.arrival(), if head.is_none() => {}
            () = sender.room() => {}
            standing = tell.next() => say(&wire::standing_datagram(&standing)),
            () = tokio::time::sleep_until(at), if wake.is_some() => {}
        }
    }
}

/// Gives a packet to QUIC, in two halves if the path does not take its length. A packet that QUIC
/// does not take now is dropped, as IP allows.
fn hand_over(
    connection: &Connection,
    sender: &Sender,
    parcel: Parcel,
    next_id: &mut u16,
) -> Result<(), ConnectionError> {
    let stamp_us = sender.clock().stamp_us();
    let Some(longest) = connection.max_datagram_size() else { return Ok(()) };
    let length = parcel.packet().len();
    if length + PACKET_HEADER <= longest {
        return sent(connection.send_datagram(parcel.with_header(wire::packet_header(stamp_us)).freeze()));
    }
    *next_id = next_id.wrapping_add(1);
    let (first, second) = parcel.packet().split_at(length.div_ceil(2));
    for (part, is_second) in [(first, false), (second, true)] {
        let mut bytes = BytesMut::with_capacity(HALF_HEADER + part.len());
        bytes.extend_from_slice(&wire::half_header(stamp_us, *next_id, is_second));
        bytes.extend_from_slice(part);
        sent(connection.send_datagram(bytes.freeze()))?;
    }
    Ok(())
}

fn sent(result: Result<(), SendDatagramError>) -> Result<(), ConnectionError> {
    match result {
        Err(SendDatagramError::ConnectionLost(error)) => Err(error),
        _ => Ok(()),
    }
}

async fn receive(connection: &Connection, sender: &Sender, ends: &Ends) -> ConnectionError {
    let mut meter = Meter::default();
    let mut halves = Halves::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut next = match connection.read_datagram().await {
            Ok(bytes) => Some(bytes),
            Err(error) => return error,
        };
        while let Some(bytes) = next {
            arrived(connection, sender, ends, &mut meter, &mut halves, &mut batch, bytes);
            next = if batch.len() < BATCH { at_hand(connection) } else { None };
        }
        if !batch.is_empty() {
            sender.packets_came();
            ends.inward.deliver(&batch);
            batch.clear();
            tokio::task::yield_now().await;
        }
    }
}

/// A datagram that has already arrived.
fn at_hand(connection: &Connection) -> Option<Bytes> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(connection.read_datagram()).poll(&mut context) {
        Poll::Ready(Ok(bytes)) => Some(bytes),
        _ => None,
    }
}

fn arrived(
    connection: &Connection,
    sender: &Sender,
    ends: &Ends,
    meter: &mut Meter,
    halves: &mut Halves,
    batch: &mut Vec<Bytes>,
    bytes: Bytes,
) {
    let length = bytes.len();
    let (stamp_us, packet) = match Datagram::read(&bytes) {
        Ok(Datagram::Packet { stamp_us, packet }) => (stamp_us, Some(bytes.slice_ref(packet))),
        Ok(Datagram::Half { stamp_us, id, second, part }) => {
            (stamp_us, halves.add(id, second, bytes.slice_ref(part)))
        }
        Ok(Datagram::Report(report)) => return sender.report(report),
        Ok(Datagram::Foreground { expected_bytes, came_bytes }) => {
            return sender.foreground_reported(ForegroundReport { expected_bytes, came_bytes });
        }
        Ok(Datagram::Standing(standing)) => return ends.heard(standing),
        Err(_) => {
            ends.counts.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    if let Some(report) = meter.arrived(sender.clock().stamp_us(), stamp_us, length) {
        // A lost report is followed by another one.
        let _ = connection.send_datagram(Bytes::copy_from_slice(&wire::report_datagram(&report)));
    }
    batch.extend(packet.filter(|packet| ends.admits(packet)));
}

/// The half of a packet that waits for the other half. Only one is kept, to bound the memory.
#[derive(Debug, Default)]
struct Halves(Option<(u16, bool, Bytes)>);

impl Halves {
    fn add(&mut self, id: u16, second: bool, part: Bytes) -> Option<Bytes> {
        match self.0.take() {
            Some((waiting, was_second, other)) if waiting == id && was_second != second => {
                let (first, last) = if second { (other, part) } else { (part, other) };
                Some([first, last].concat().into())
            }
            _ => {
                self.0 = Some((id, second, part));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_meet_in_any_order_and_strangers_do_not() {
        let part = Bytes::from_static;
        let mut halves = Halves::default();
        assert_eq!(halves.add(1, false, part(b"ab")), None);
        assert_eq!(halves.add(1, true, part(b"cd")).as_deref(), Some(b"abcd".as_slice()));
        assert_eq!(halves.add(2, true, part(b"cd")), None);
        assert_eq!(halves.add(2, false, part(b"ab")).as_deref(), Some(b"abcd".as_slice()));
        assert_eq!(halves.add(3, false, part(b"ab")), None);
        assert_eq!(halves.add(4, true, part(b"cd")), None);
        assert_eq!(halves.add(4, true, part(b"cd")), None);
        assert_eq!(halves.add(3, true, part(b"cd")), None);
    }
}
