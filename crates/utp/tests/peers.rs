//! Byte for byte against other programs' uTP: libutp (the BitTorrent reference, in C++) and
//! librqbit-utp, in both roles, over clean and over bad networks. `LEEWAY_UTP_BYTES=100000000` carries
//! so many bytes over the clean ones, instead of 10 MB.

mod common;

use common::{
    BAD, BLACK_HOLES, CLEAN, Dropped, FOUR, JUMPS, Network, SIX, black_hole, network, pattern, repeated,
    shrinking, watched, within,
};
use leeway_utp::{Config, Socket, Stream};
use std::collections::BTreeSet;
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

/// Connects to libutp, whose wrapper drops a connection for which nobody waits: the join polls `accept`
/// before the pause is over.
async fn with_libutp(
    address: IpAddr,
    conditions: Network,
    dropped: Dropped,
) -> (Stream, libutp_rs2::UtpUdpStream) {
    let at = free(address).await;
    let peer = libutp_rs2::UtpUdpContext::new_udp(at).await.unwrap();
    let through = watched(at, conditions, dropped).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    within("connect", async {
        let connect = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            socket.connect(through, Config::default()).await
        };
        let (near, far) = tokio::join!(connect, peer.accept());
        (near.unwrap(), far.unwrap())
    })
    .await
}

async fn ours_to_libutp(address: IpAddr, conditions: Network, bytes: usize) {
    let (near, far) = with_libutp(address, conditions, Dropped::default()).await;
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

async fn with_librqbit(
    address: IpAddr,
    conditions: Network,
    dropped: Dropped,
) -> (Stream, librqbit_utp::UtpStream) {
    let at = free(address).await;
    let peer = librqbit_utp::UtpSocketUdp::new_udp(at).await.unwrap();
    let through = watched(at, conditions, dropped).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    within("connect", async {
        let (near, far) = tokio::join!(socket.connect(through, Config::default()), peer.accept());
        (near.unwrap(), far.unwrap())
    })
    .await
}

async fn ours_to_librqbit(address: IpAddr, conditions: Network, bytes: usize) {
    let (near, far) = with_librqbit(address, conditions, Dropped::default()).await;
    within("exchange", exchange(near, far, bytes)).await;
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
    common::clean_bytes(10_000_000)
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

async fn send_to_libutp(address: IpAddr, conditions: Network, bytes: usize) {
    let (near, far) = with_libutp(address, conditions, Dropped::default()).await;
    send(near, far, bytes, "to libutp that accepts").await;
}

/// Sends bytes from here to a peer, which has to receive the same ones.
async fn send(mut near: impl AsyncWrite + Unpin, mut far: impl AsyncRead + Unpin, bytes: usize, what: &str) {
    let there = pattern(bytes, 1);
    let mut got = vec![0; there.len()];
    let write = async { near.write_all(&there).await.unwrap() };
    let read = async { far.read_exact(&mut got).await.unwrap() };
    within(what, async { tokio::join!(write, read) }).await;
    assert!(got == there, "what was sent differs: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_receives_through_mtu_black_holes() {
    for hole in BLACK_HOLES {
        send_to_libutp(FOUR, hole, 2_000_000).await;
    }
    send_to_libutp(SIX, black_hole(1300), 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_receives_over_a_path_that_shrinks() {
    let connected = |address, hole| send_to_libutp(address, shrinking(hole), 10_000_000);
    let accepted = async {
        let socket = Socket::bind((FOUR, 0).into()).unwrap();
        socket.listen(Config::default());
        let peer = libutp_rs2::UtpUdpContext::new_udp(free(FOUR).await).await.unwrap();
        let through = network(socket.local_addr().unwrap(), shrinking(1200)).await;
        let mut near = within("connect", peer.connect(through)).await.unwrap();
        near.write_all(b"!").await.unwrap();
        let mut far = socket.accept().await;
        far.read_exact(&mut [0]).await.unwrap();
        send(far, near, 10_000_000, "to libutp that connects").await;
    };
    tokio::join!(connected(FOUR, 1200), connected(FOUR, 600), connected(SIX, 1300), accepted);
}

/// librqbit's ends a connection that has brought nothing new for 10 s, and the packets in flight are cut again
/// after 30 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_gives_up_before_packets_are_cut_again() {
    let (mut near, mut far) = with_librqbit(FOUR, shrinking(1200), Dropped::default()).await;
    let there = pattern(10_000_000, 1);
    let mut got = Vec::new();
    let (written, read) =
        within("the end", async { tokio::join!(near.write_all(&there), far.read_to_end(&mut got)) }).await;
    assert!(read.is_err() && written.is_err(), "librqbit has learnt to wait: {read:?}");
    assert!(got == there[..got.len()] && !got.is_empty(), "what was sent differs");
}

/// What libutp sends starts at the largest size and keeps it: the other way is open only where packets are
/// fragmented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_repeats_a_lost_probe_at_its_size() {
    let dropped = Dropped::default();
    let (mut near, mut far) = with_libutp(FOUR, black_hole(1200), dropped.clone()).await;
    // The accepting side may write once it has heard something.
    near.write_all(b"!").await.unwrap();
    within("reading", far.read_exact(&mut [0])).await.unwrap();
    let there = pattern(100_000, 1);
    let mut got = vec![0; there.len()];
    let transfer = async {
        let write = async { far.write_all(&there).await };
        let _ = tokio::join!(write, near.read_exact(&mut got));
    };
    tokio::select! {
        () = transfer => panic!("libutp has learnt to shorten packets"),
        () = within("repetitions", repeated(&dropped)) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_receives_through_mtu_black_holes() {
    let paths = BLACK_HOLES.map(|hole| (FOUR, hole)).into_iter().chain([(SIX, black_hole(1300))]);
    for (address, hole) in paths {
        let (mut near, mut far) = with_librqbit(address, hole, Dropped::default()).await;
        let there = pattern(2_000_000, 1);
        let mut got = vec![0; there.len()];
        let write = async { near.write_all(&there).await.unwrap() };
        let read = async { far.read_exact(&mut got).await.unwrap() };
        within("sending", async { tokio::join!(write, read) }).await;
        assert!(got == there, "what was sent differs");
    }
}

/// librqbit's (0.7.0) takes a lost probe back and never sends as many bytes as it had: its stream ends short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn librqbit_forgets_the_bytes_of_a_lost_probe() {
    let dropped = Dropped::default();
    let (mut near, mut far) = with_librqbit(FOUR, black_hole(1200), dropped.clone()).await;
    near.write_all(b"!").await.unwrap();
    within("reading", far.read_exact(&mut [0])).await.unwrap();
    let there = pattern(300_000, 1);
    far.write_all(&there).await.unwrap();
    let forgotten = || {
        let probes: BTreeSet<_> = dropped.lock().unwrap().iter().filter(|one| one.0 == 1).copied().collect();
        probes.iter().map(|one| one.1 - 20).sum::<usize>()
    };
    let mut got = 0;
    let mut buffer = vec![0; 65_536];
    while forgotten() == 0 || got + forgotten() < there.len() {
        let count = within("reading", near.read(&mut buffer)).await.unwrap();
        got += count;
        assert!(count > 0, "the end after {got} bytes");
    }
    let more = tokio::time::timeout(Duration::from_secs(3), near.read(&mut buffer)).await;
    assert!(more.is_err(), "librqbit has learnt to send them again: {more:?} after {got} bytes");
}

/// This side ends its stream at once, and libutp goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libutp_sends_on_after_our_fin() {
    for conditions in [CLEAN, BAD] {
        let (near, mut far) = with_libutp(FOUR, conditions, Dropped::default()).await;
        let (there, back) = (pattern(100_000, 1), pattern(1_000_000, 2));
        let near_side = async {
            let (mut reads, mut writes) = (&near, &near);
            let mut got = vec![0; back.len()];
            let end = async {
                writes.write_all(&there).await.unwrap();
                writes.shutdown().await.unwrap();
            };
            tokio::join!(end, async { reads.read_exact(&mut got).await.unwrap() });
            assert!(got == back, "what libutp sent differs");
        };
        let far_side = async {
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            assert!(got == there, "what libutp has received differs");
            far.write_all(&back).await.unwrap();
        };
        within("exchange", async { tokio::join!(near_side, far_side) }).await;
    }
}

/// librqbit's ends its stream in the middle of what this side sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_side_sends_on_after_the_fin_of_librqbit() {
    let (near, far) = with_librqbit(FOUR, CLEAN, Dropped::default()).await;
    let (mut far_reads, mut far_writes) = far.split();
    let (there, back) = (pattern(3_000_000, 1), pattern(300_000, 2));
    let sends = async {
        (&near).write_all(&there).await.unwrap();
        (&near).shutdown().await.unwrap();
    };
    let reads = async {
        let mut got = Vec::new();
        (&near).read_to_end(&mut got).await.unwrap();
        assert!(got == back, "what librqbit's sent differs");
    };
    let far_sends = async {
        far_writes.write_all(&back).await.unwrap();
        // It comes back when both directions have ended.
        let _ = far_writes.shutdown().await;
    };
    let far_receives = async {
        let mut got = vec![0; there.len()];
        far_reads.read_exact(&mut got).await.unwrap();
        assert!(got == there, "what librqbit's has received differs");
    };
    within("exchange", async { tokio::join!(sends, reads, far_sends, far_receives) }).await;
}
