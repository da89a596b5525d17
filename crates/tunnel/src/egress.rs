//! The queue in front of the window. Packets wait here, under a queue discipline, and not inside
//! the transport.

use crate::owd::Clock;
use crate::wire::HEADROOM;
use bytes::BytesMut;
use leeway_queue::{AnyQueue, BuildContext, Dequeued, Ecn, Queue, QueueSpec, Reason, Report, ip};
use leeway_units::{Bytes, Rate, Size, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Most bytes of a queue: a second at 8 Mbit/s, 13 ms at 600 Mbit/s.
const CAPACITY: u64 = 1_000_000;
/// Most packets of a queue, because each packet costs memory of its own.
const CAPACITY_PACKETS: usize = 8_192;

/// An IP packet behind [`HEADROOM`] bytes for headers of the tunnel.
#[derive(Debug)]
pub struct Parcel {
    bytes: BytesMut,
    flow: u32,
    ecn: Ecn,
}

impl Parcel {
    /// The packet in `bytes`, behind a headroom of [`HEADROOM`] bytes.
    pub fn new(bytes: BytesMut) -> Self {
        let packet = bytes.get(HEADROOM..).unwrap_or_default();
        Parcel { flow: ip::flow(packet), ecn: ip::ecn(packet), bytes }
    }

    /// A copy of `packet`.
    pub fn copy(packet: &[u8]) -> Self {
        let mut bytes = BytesMut::with_capacity(HEADROOM + packet.len());
        bytes.extend_from_slice(&[0; HEADROOM]);
        bytes.extend_from_slice(packet);
        Parcel::new(bytes)
    }

    /// The packet.
    pub fn packet(&self) -> &[u8] {
        self.bytes.get(HEADROOM..).unwrap_or_default()
    }

    /// The packet behind a header of at most [`HEADROOM`] bytes.
    pub fn with_header<const N: usize>(mut self, header: [u8; N]) -> BytesMut {
        const { assert!(N <= HEADROOM) };
        let mut bytes = self.bytes.split_off(HEADROOM - N);
        bytes[..N].copy_from_slice(&header);
        bytes
    }
}

impl leeway_queue::Packet for Parcel {
    fn bytes(&self) -> u32 {
        u32::try_from(self.packet().len()).unwrap_or(u32::MAX)
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
        if let Some(packet) = self.bytes.get_mut(HEADROOM..) {
            ip::set_ce(packet);
        }
    }
}

/// The queue of one direction of one tunnel: at most 1 MB in 8192 packets, under any discipline.
pub struct Egress {
    queue: Mutex<AnyQueue<Parcel>>,
    spec: QueueSpec,
    clock: Clock,
    ready: Notify,
    dropped: AtomicU64,
}

/// The answer of a queue.
#[derive(Debug)]
pub enum Next {
    /// The packet to send.
    Parcel(Parcel),
    /// No packet before this time, unless one arrives.
    After(Duration),
    /// The queue is empty.
    Empty,
}

impl Egress {
    /// An empty queue.
    pub fn new(spec: &QueueSpec) -> Self {
        Egress {
            queue: Mutex::new(build(spec)),
            spec: spec.clone(),
            clock: Clock::start(),
            ready: Notify::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds packets.
    pub fn push(&self, parcels: impl IntoIterator<Item = Parcel>) {
        let now = self.now();
        let mut drops = Drops(0);
        let mut queue = self.queue();
        for parcel in parcels {
            if queue.bytes() < CAPACITY && queue.packets() < CAPACITY_PACKETS {
                queue.enqueue(now, parcel, &mut drops);
            } else {
                drops.0 += 1;
            }
        }
        drop(queue);
        self.count(&drops);
        self.ready.notify_one();
    }

    /// The packet to send now.
    pub fn pop(&self) -> Next {
        let now = self.now();
        let mut drops = Drops(0);
        let next = self.queue().dequeue(now, &mut drops);
        self.count(&drops);
        match next {
            Dequeued::Packet { packet, .. } => Next::Parcel(packet),
            Dequeued::NotBefore(at) => Next::After(Duration::from_nanos(at.since(now).nanos())),
            Dequeued::Empty => Next::Empty,
        }
    }

    /// Waits for an arrival. Returns at once if there was one since the last wait.
    pub async fn arrival(&self) {
        self.ready.notified().await;
    }

    /// Whether packets wait.
    pub fn is_waiting(&self) -> bool {
        self.queue().packets() > 0
    }

    /// Drops all packets that wait.
    pub fn clear(&self) {
        *self.queue() = build(&self.spec);
    }

    /// Packets that the discipline has dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn queue(&self) -> MutexGuard<'_, AnyQueue<Parcel>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_micros(self.clock.micros())
    }

    fn count(&self, drops: &Drops) {
        if drops.0 > 0 {
            self.dropped.fetch_add(drops.0, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("spec", &self.spec).finish_non_exhaustive()
    }
}

fn build(spec: &QueueSpec) -> AnyQueue<Parcel> {
    // A start value for RED and PIE. The queue is served at the rate that the law allows.
    let rate = Rate::from_bits_per_sec(10_000_000);
    spec.build(&BuildContext::new(Size::Bytes(Bytes::new(CAPACITY)), rate))
}

struct Drops(u64);

impl Report<Parcel> for Drops {
    fn dropped(&mut self, _: Time, _: Parcel, _: Reason) {
        self.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_goes_in_front_without_a_copy() {
        let parcel = Parcel::copy(&[0x45, 1, 2, 3]);
        let at = parcel.packet().as_ptr();
        let bytes = parcel.with_header([9, 8, 7]);
        assert_eq!(&bytes[..], [9, 8, 7, 0x45, 1, 2, 3]);
        assert_eq!(bytes[3..].as_ptr(), at);
    }

    #[test]
    fn no_discipline_makes_it_grow_without_bound() {
        for name in ["droptail", "codel", "fq_codel", "sfq", "pie", "droptail:limit=unlimited"] {
            let egress = Egress::new(&name.parse().unwrap());
            for _ in 0..2_000 {
                egress.push([Parcel::copy(&[0x45; 1400])]);
            }
            let held = egress.queue().bytes();
            assert!((100_000..=CAPACITY + 1400).contains(&held), "{name}: {held} bytes");
            assert!(egress.dropped() > 0, "{name}");
            egress.clear();
            assert!(!egress.is_waiting());
            egress.push((0..10_000).map(|_| Parcel::copy(&[0x45; 20])));
            assert!(egress.queue().packets() <= CAPACITY_PACKETS, "{name}");
        }
    }
}
