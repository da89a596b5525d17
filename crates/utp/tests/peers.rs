//! Byte for byte against other programs' uTP: libutp (the BitTorrent reference, in C++) and
//! librqbit-utp, in both roles, over clean and over bad networks. `LEEWAY_UTP_BYTES=100000000` carries
//! so many bytes over the clean ones, instead of 10 MB.

mod common;

use common::{BAD, CLEAN, FOUR, JUMPS, Network, SIX, network, pattern, within};
use leeway_utp::{Config, Socket};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;

/// A port that was free a moment ago: the peers bind it themselves.
async fn free(address: IpAddr) -> SocketAddr {
    UdpSocket::bind((address, 0)).await.unwrap().local_addr().unwrap()
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

async fn ours_to_libutp(address: IpAddr, conditions: Network, bytes: usize) {
    let at = free(address).await;
    let peer = libutp_rs2::UtpUdpContext::new_udp(at).await.unwrap();
    let through = network(at, conditions).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    let (near, far) = within("connect", async {
        // The wrapper around libutp drops a connection for which nobody waits: the join polls
        // `accept` before the pause is over.
        let connect = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            socket.connect(through, Config::default()).await
        };
        let (near, far) = tokio::join!(connect, peer.accept());
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

async fn ours_to_librqbit(address: IpAddr, conditions: Network, bytes: usize) {
    let at = free(address).await;
    let peer = librqbit_utp::UtpSocketUdp::new_udp(at).await.unwrap();
    let through = network(at, conditions).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    let (near, far) =
        within("connect", async { tokio::join!(socket.connect(through, Config::default()), peer.accept()) })
            .await;
    within("exchange", exchange(near.unwrap(), far.unwrap(), bytes)).await;
}

async fn librqbit_to_ours(address: IpAddr, conditions: Network, bytes: usize) {
    let peer = librqbit_utp::UtpSocketUdp::new_udp(free(address).await).await.unwrap();
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

/// What the clean networks carry.
fn clean_bytes() -> usize {
    std::env::var("LEEWAY_UTP_BYTES").map_or(10_000_000, |bytes| bytes.parse().expect("a number of bytes"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_over_a_clean_network() {
    for address in [FOUR, SIX] {
        ours_to_libutp(address, CLEAN, clean_bytes()).await;
        libutp_to_ours(address, CLEAN, clean_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_over_a_network_that_loses_reorders_and_doubles() {
    ours_to_libutp(FOUR, BAD, 1_000_000).await;
    libutp_to_ours(FOUR, BAD, 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_over_a_clean_network() {
    for address in [FOUR, SIX] {
        ours_to_librqbit(address, CLEAN, clean_bytes()).await;
        librqbit_to_ours(address, CLEAN, clean_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_over_a_network_that_loses_reorders_and_doubles() {
    ours_to_librqbit(FOUR, BAD, 300_000).await;
    librqbit_to_ours(FOUR, BAD, 300_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_with_clocks_that_jump() {
    ours_to_libutp(FOUR, JUMPS, 2_000_000).await;
    libutp_to_ours(FOUR, JUMPS, 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_with_clocks_that_jump() {
    ours_to_librqbit(FOUR, JUMPS, 2_000_000).await;
    librqbit_to_ours(FOUR, JUMPS, 2_000_000).await;
}
