//! What tests with real peers share. Each of them uses some of it.

#![allow(dead_code)]

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Generous: the machine may be busy. A connection that hangs is what it finds.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

pub fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// Bytes over a clean network: of `LEEWAY_UTP_BYTES`, or `otherwise`.
pub fn clean_bytes(otherwise: usize) -> usize {
    std::env::var("LEEWAY_UTP_BYTES").map_or(otherwise, |bytes| bytes.parse().expect("a number of bytes"))
}

/// What a network does: of 1,000 packets so many are lost, late, and doubled.
#[derive(Clone, Copy)]
pub struct Network {
    lost: u64,
    late: u64,
    doubled: u64,
    /// The clocks of both sides jump, as far as the other one sees it.
    jumps: bool,
    /// Bytes of UDP payload above which a datagram is dropped, and nobody is told.
    largest: usize,
    /// Datagrams of one side before the limit begins.
    shrinks_after: u64,
}

pub const CLEAN: Network =
    Network { lost: 0, late: 0, doubled: 0, jumps: false, largest: usize::MAX, shrinks_after: 0 };
pub const BAD: Network = Network { lost: 30, late: 20, doubled: 20, ..CLEAN };
pub const JUMPS: Network = Network { jumps: true, ..CLEAN };

/// MTU black holes: one that a tunnel makes, and one close to the 576 bytes that IPv4 promises. Fragments do not
/// pass either.
pub const BLACK_HOLES: [Network; 2] = [black_hole(1200), black_hole(600)];

/// A path that drops every datagram of more than `largest` bytes of UDP payload, and tells nobody.
pub const fn black_hole(largest: usize) -> Network {
    Network { largest, ..CLEAN }
}

/// A path that becomes such a black hole in mid-transfer: behind 1,000 datagrams of either side.
pub const fn shrinking(largest: usize) -> Network {
    Network { shrinks_after: 1_000, ..black_hole(largest) }
}

/// Packets from one side between two jumps of its clock.
const JUMP_PACKETS: u64 = 150;
/// Clocks jump forwards and backwards, and not by the same; once to a little before their 32 bits are full.
const JUMPS_US: [u32; 5] = [40_000_000, 39_000_000, 2_000_000_000, u32::MAX - 200_000, 0];

/// What a black hole has dropped: from whom (1: the server), bytes, type and number.
pub type Dropped = Arc<Mutex<Vec<(usize, usize, u8, u16)>>>;

/// Passes datagrams between whoever writes to it and `server`; its address.
pub async fn network(server: SocketAddr, network: Network) -> SocketAddr {
    watched(server, network, Dropped::default()).await
}

/// The same; `dropped` is told of what is too long.
pub async fn watched(server: SocketAddr, network: Network, dropped: Dropped) -> SocketAddr {
    let near = Arc::new(UdpSocket::bind((server.ip(), 0)).await.unwrap());
    let far = Arc::new(UdpSocket::bind((server.ip(), 0)).await.unwrap());
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let mut client = None;
        let (mut there, mut back) = ([0; 65_536], [0; 65_536]);
        let mut random = 7u64;
        let mut packets = [0u64; 2];
        loop {
            let (mut bytes, by, to, side) = tokio::select! {
                Ok((count, from)) = near.recv_from(&mut there) => {
                    client = Some(from);
                    (there[..count].to_vec(), far.clone(), server, 0)
                }
                Ok((count, _)) = far.recv_from(&mut back) => {
                    let Some(client) = client else { continue };
                    (back[..count].to_vec(), near.clone(), client, 1)
                }
            };
            packets[side] += 1;
            if network.jumps {
                jump(&mut bytes, packets[side] / JUMP_PACKETS);
            }
            let mut draw = || {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % 1000
            };
            if bytes.len() > network.largest && packets.iter().any(|&count| count > network.shrinks_after) {
                let number = u16::from_be_bytes([bytes[16], bytes[17]]);
                dropped.lock().unwrap().push((side, bytes.len(), bytes[0] >> 4, number));
                continue;
            }
            if draw() < network.lost {
                continue;
            }
            let copies = if draw() < network.doubled { 2 } else { 1 };
            if draw() < network.late {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    let _ = by.send_to(&bytes, to).await;
                });
                continue;
            }
            for _ in 0..copies {
                let _ = by.send_to(&bytes, to).await;
            }
        }
    });
    address
}

/// Waits until the server has sent one packet three times that the black hole drops each time: no packet with a
/// later number can be read then. On a busy machine its timer may have become longer than a test: after half a
/// minute it is enough that something was dropped.
pub async fn repeated(dropped: &Dropped) {
    let started = std::time::Instant::now();
    let enough = || {
        let dropped = dropped.lock().unwrap();
        let same = |one| dropped.iter().filter(|&other| other == one).count();
        let least = if started.elapsed() < Duration::from_secs(30) { 3 } else { 1 };
        dropped.iter().any(|one| one.0 == 1 && same(one) >= least)
    };
    while !enough() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A packet whose sender's clock has jumped so many times: its stamp, and the difference that it tells (BEP 29).
fn jump(packet: &mut [u8], times: u64) {
    let by_us = JUMPS_US[(times % JUMPS_US.len() as u64) as usize];
    for field in packet.get_mut(4..12).into_iter().flat_map(|stamps| stamps.chunks_exact_mut(4)) {
        let moved = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add(by_us);
        field.copy_from_slice(&moved.to_be_bytes());
    }
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not done after {PATIENCE:?}"))
}
