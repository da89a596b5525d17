//! Byte for byte against other programs' uTP: libutp (the BitTorrent reference, in C++) and
//! librqbit-utp, in both roles, over clean and over bad networks.

use leeway_utp::{Config, Socket};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Generous: the machine may be busy. A connection that hangs is what it finds.
const PATIENCE: Duration = Duration::from_secs(120);

const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// A port that was free a moment ago: the peers bind it themselves.
async fn free(address: IpAddr) -> SocketAddr {
    UdpSocket::bind((address, 0)).await.unwrap().local_addr().unwrap()
}

/// What a network does: of 1,000 packets so many are lost, late, and doubled.
#[derive(Clone, Copy)]
struct Network {
    lost: u64,
    late: u64,
    doubled: u64,
}

const CLEAN: Network = Network { lost: 0, late: 0, doubled: 0 };
const BAD: Network = Network { lost: 30, late: 20, doubled: 20 };

/// Passes datagrams between whoever writes to it and `server`; its address.
async fn network(server: SocketAddr, network: Network) -> SocketAddr {
    let near = Arc::new(UdpSocket::bind((server.ip(), 0)).await.unwrap());
    let far = Arc::new(UdpSocket::bind((server.ip(), 0)).await.unwrap());
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let mut client = None;
        let (mut there, mut back) = ([0; 65_536], [0; 65_536]);
        let mut random = 7u64;
        loop {
            let (bytes, by, to) = tokio::select! {
                Ok((count, from)) = near.recv_from(&mut there) => {
                    client = Some(from);
                    (there[..count].to_vec(), far.clone(), server)
                }
                Ok((count, _)) = far.recv_from(&mut back) => {
                    let Some(client) = client else { continue };
                    (back[..count].to_vec(), near.clone(), client)
                }
            };
            let mut draw = || {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % 1000
            };
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

/// The connecting side sends, the accepting side answers; both compare what came with what was sent.
/// How a stream ends is not part of it: neither wrapper of the peers implements that in full.
async fn exchange(
    mut connected: impl AsyncRead + AsyncWrite + Unpin,
    mut accepted: impl AsyncRead + AsyncWrite + Unpin,
    bytes: usize,
) {
    let (there, back) = (pattern(bytes, 1), pattern(bytes / 2, 2));
    let connecting = async {
        connected.write_all(&there).await.unwrap();
        let mut got = vec![0; back.len()];
        connected.read_exact(&mut got).await.unwrap();
        assert!(got == back, "the answer differs");
    };
    let accepting = async {
        let mut got = vec![0; there.len()];
        accepted.read_exact(&mut got).await.unwrap();
        assert!(got == there, "what was sent differs");
        accepted.write_all(&back).await.unwrap();
    };
    tokio::join!(connecting, accepting);
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not done after {PATIENCE:?}"))
}

async fn ours_to_libutp(address: IpAddr, conditions: Network, bytes: usize) {
    let at = free(address).await;
    let peer = libutp_rs2::UtpUdpContext::new_udp(at).await.unwrap();
    let through = network(at, conditions).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    let (near, far) = within("connect", async {
        // The wrapper around libutp takes a connection only while somebody waits for it.
        let (near, far) = tokio::join!(socket.connect(through, Config::default()), peer.accept());
        (near.unwrap(), far.unwrap())
    })
    .await;
    within("exchange", exchange(near, far, bytes)).await;
}

async fn libutp_to_ours(address: IpAddr, conditions: Network, bytes: usize) {
    let at = free(address).await;
    let peer = libutp_rs2::UtpUdpContext::new_udp(at).await.unwrap();
    let socket = Socket::bind((address, 0).into()).unwrap();
    socket.listen(Config::default());
    let through = network(socket.local_addr().unwrap(), conditions).await;
    let (near, far) = within("connect", async {
        let mut near = peer.connect(through).await.unwrap();
        near.write_all(b"!").await.unwrap();
        let mut far = socket.accept().await;
        far.read_exact(&mut [0]).await.unwrap();
        (near, far)
    })
    .await;
    within("exchange", exchange(near, far, bytes)).await;
}

async fn ours_to_librqbit(conditions: Network, bytes: usize) {
    let at = free(FOUR).await;
    let peer = librqbit_utp::UtpSocketUdp::new_udp(at).await.unwrap();
    let through = network(at, conditions).await;
    let socket = Socket::bind((FOUR, 0).into()).unwrap();
    let (near, far) =
        within("connect", async { tokio::join!(socket.connect(through, Config::default()), peer.accept()) })
            .await;
    within("exchange", exchange(near.unwrap(), far.unwrap(), bytes)).await;
}

async fn librqbit_to_ours(conditions: Network, bytes: usize) {
    let peer = librqbit_utp::UtpSocketUdp::new_udp(free(FOUR).await).await.unwrap();
    let socket = Socket::bind((FOUR, 0).into()).unwrap();
    socket.listen(Config::default());
    let through = network(socket.local_addr().unwrap(), conditions).await;
    let (near, far) = within("connect", async {
        let mut near = peer.connect(through).await.unwrap();
        near.write_all(b"!").await.unwrap();
        let mut far = socket.accept().await;
        far.read_exact(&mut [0]).await.unwrap();
        (near, far)
    })
    .await;
    within("exchange", exchange(near, far, bytes)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_over_a_clean_network() {
    for address in [FOUR, SIX] {
        ours_to_libutp(address, CLEAN, 10_000_000).await;
        libutp_to_ours(address, CLEAN, 10_000_000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_over_a_network_that_loses_reorders_and_doubles() {
    ours_to_libutp(FOUR, BAD, 1_000_000).await;
    libutp_to_ours(FOUR, BAD, 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_over_a_clean_network() {
    ours_to_librqbit(CLEAN, 10_000_000).await;
    librqbit_to_ours(CLEAN, 10_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_over_a_network_that_loses_reorders_and_doubles() {
    ours_to_librqbit(BAD, 300_000).await;
    librqbit_to_ours(BAD, 300_000).await;
}
