//! Streams over real sockets on the loopback interface.

use leeway_utp::{Config, Header, Kind, Packet, Socket, Stream};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

fn pair(address: &str) -> (Socket, Socket, SocketAddr) {
    let server = Socket::bind(address.parse().unwrap()).unwrap();
    server.listen(Config::default());
    let client = Socket::bind(address.parse().unwrap()).unwrap();
    let at = server.local_addr().unwrap();
    (client, server, at)
}

async fn send(mut stream: Stream, bytes: Vec<u8>) -> io::Result<Stream> {
    stream.write_all(&bytes).await?;
    stream.shutdown().await?;
    Ok(stream)
}

async fn receive(mut stream: Stream) -> io::Result<(Vec<u8>, Stream)> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok((bytes, stream))
}

async fn both_ways(address: &str) {
    let (client, server, at) = pair(address);
    let (near, far) = tokio::join!(client.connect(at, Config::default()), server.accept());
    let (mut near, mut far) = (near.unwrap(), far);
    let (there, back) = (pattern(3_000_000, 1), pattern(2_000_000, 2));
    let (mut near_read, mut near_write) = tokio::io::split(&mut near);
    let (mut far_read, mut far_write) = tokio::io::split(&mut far);
    let (mut got_there, mut got_back) = (Vec::new(), Vec::new());
    let sending = async {
        near_write.write_all(&there).await?;
        near_write.shutdown().await
    };
    let answering = async {
        far_write.write_all(&back).await?;
        far_write.shutdown().await
    };
    let (sent, answered, one, other) = tokio::join!(
        sending,
        answering,
        far_read.read_to_end(&mut got_there),
        near_read.read_to_end(&mut got_back)
    );
    sent.unwrap();
    answered.unwrap();
    one.unwrap();
    other.unwrap();
    assert!(got_there == there && got_back == back);
}

#[tokio::test]
async fn bytes_go_both_ways_over_ipv4() {
    both_ways("127.0.0.1:0").await;
}

#[tokio::test]
async fn bytes_go_both_ways_over_ipv6() {
    both_ways("[::1]:0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_connections_share_a_socket() {
    let (client, server, at) = pair("127.0.0.1:0");
    let serving = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..300 {
            let stream = server.accept().await;
            tasks.spawn(async move {
                let (bytes, stream) = receive(stream).await.unwrap();
                send(stream, bytes).await.unwrap();
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    });
    let client = std::sync::Arc::new(client);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300 {
        let client = client.clone();
        tasks.spawn(async move {
            let stream = client.connect(at, Config::default()).await.unwrap();
            let bytes = pattern(5_000 + number, number);
            let stream = send(stream, bytes.clone()).await.unwrap();
            let (echo, _) = receive(stream).await.unwrap();
            assert!(echo == bytes, "connection {number}");
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    serving.await.unwrap();
}

#[tokio::test]
async fn what_was_flushed_has_left() {
    let (client, server, at) = pair("127.0.0.1:0");
    let (near, far) = tokio::join!(client.connect(at, Config::default()), server.accept());
    let (near, mut far) = (near.unwrap(), far);
    // A reference reads and writes.
    (&near).write_all(b"last words").await.unwrap();
    client.flush().await;
    let steering = near.steering().unwrap();
    assert_eq!(steering.sent_bytes, 10, "{steering:?}");
    let mut bytes = [0; 10];
    far.read_exact(&mut bytes).await.unwrap();
    (&far).write_all(b"answer").await.unwrap();
    (&near).read_exact(&mut bytes[..6]).await.unwrap();
    assert_eq!(&bytes[..6], b"answer");
}

#[tokio::test]
async fn a_socket_that_does_not_listen_refuses() {
    let server = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = server.local_addr().unwrap();
    let error = client.connect(at, Config::default()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test]
async fn a_stream_with_unread_bytes_that_is_dropped_resets_the_peer() {
    let (client, server, at) = pair("127.0.0.1:0");
    let (near, far) = tokio::join!(client.connect(at, Config::default()), server.accept());
    let (mut near, far) = (near.unwrap(), far);
    near.write_all(b"nobody reads this").await.unwrap();
    // They have arrived once they are acknowledged.
    let is_there = |steering: leeway_utp::Steering| steering.sent_bytes > 0 && steering.in_flight_bytes == 0;
    while !near.steering().is_some_and(is_there) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    drop(far);
    let error = near.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
}

/// Linux has all of 127.0.0.0/8, and would answer 127.0.0.1 from 127.0.0.1.
#[tokio::test]
async fn a_machine_with_several_addresses_answers_from_the_one_that_was_asked() {
    for (bound, peer) in [("0.0.0.0:0", "127.0.0.5"), ("[::]:0", "127.0.0.5")] {
        let server = Socket::bind(bound.parse().unwrap()).unwrap();
        server.listen(Config::default());
        let at = SocketAddr::new(peer.parse().unwrap(), server.local_addr().unwrap().port());
        let client = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let connects =
            tokio::time::timeout(std::time::Duration::from_secs(5), client.connect(at, Config::default()));
        let (near, far) = tokio::join!(connects, server.accept());
        let near = near.expect("an answer that the client knows").unwrap();
        let (sent, got) = tokio::join!(send(far, pattern(100_000, 1)), receive(near));
        assert!(got.unwrap().0 == pattern(100_000, 1), "{bound}");
        sent.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_nobody_has_taken_ends_with_its_socket() {
    let (client, server, at) = pair("127.0.0.1:0");
    let mut near = client.connect(at, Config::default()).await.unwrap();
    near.write_all(b"hello").await.unwrap();
    let is_there = |steering: leeway_utp::Steering| steering.sent_bytes > 0 && steering.in_flight_bytes == 0;
    while !near.steering().is_some_and(is_there) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    drop(server);
    let error = near.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    let since = std::time::Instant::now();
    while Socket::bind(at).is_err() {
        assert!(since.elapsed().as_secs() < 5, "the port is still taken");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_translator_that_changes_the_port_does_not_end_a_connection() {
    // The client behind a translator of addresses that forgets, once: another port from then on.
    let (client, server, at) = pair("127.0.0.1:0");
    let translator = std::sync::Arc::new(Translator::new(at).await);
    let outside = translator.address;
    let running = tokio::spawn({
        let translator = translator.clone();
        async move { translator.run().await }
    });
    let (near, far) = tokio::join!(client.connect(outside, Config::default()), server.accept());
    let (mut near, mut far) = (near.unwrap(), far);
    near.write_all(b"before").await.unwrap();
    let mut bytes = [0; 6];
    far.read_exact(&mut bytes).await.unwrap();
    let before = far.peer_addr().unwrap();
    translator.forget().await;
    near.write_all(b"behind").await.unwrap();
    far.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"behind");
    assert_ne!(far.peer_addr().unwrap(), before);
    far.write_all(b"answer").await.unwrap();
    near.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"answer");
    running.abort();
}

/// Passes datagrams between one client and a server, from a port that can change.
struct Translator {
    inside: tokio::net::UdpSocket,
    address: SocketAddr,
    server: SocketAddr,
    outside: tokio::sync::RwLock<std::sync::Arc<tokio::net::UdpSocket>>,
}

impl Translator {
    async fn new(server: SocketAddr) -> Translator {
        let inside = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let outside = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = inside.local_addr().unwrap();
        Translator { inside, address, server, outside: tokio::sync::RwLock::new(outside.into()) }
    }

    async fn forget(&self) {
        *self.outside.write().await = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap().into();
    }

    async fn run(&self) {
        let mut client = None;
        let (mut there, mut back) = ([0; 65_536], [0; 65_536]);
        loop {
            let outside = self.outside.read().await.clone();
            tokio::select! {
                Ok((count, from)) = self.inside.recv_from(&mut there) => {
                    client = Some(from);
                    // The port may have changed while nothing came.
                    let outside = self.outside.read().await.clone();
                    outside.send_to(&there[..count], self.server).await.unwrap();
                }
                Ok((count, _)) = outside.recv_from(&mut back) => {
                    if let Some(client) = client {
                        self.inside.send_to(&back[..count], client).await.unwrap();
                    }
                }
            }
        }
    }
}

/// The runtime has one thread, so everything that the peer sends waits for the driver at once.
#[tokio::test]
async fn bytes_that_come_with_a_reset_can_be_read() {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = peer.local_addr().unwrap();
    let client = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = tokio::spawn(async move {
        let stream = client.connect(at, Config::default()).await;
        stream.map(|stream| (stream, client))
    });
    let mut datagram = [0; 2000];
    peer.set_nonblocking(true).unwrap();
    let (syn, from) = loop {
        match peer.recv_from(&mut datagram) {
            Ok((count, from)) => break (Packet::parse(&datagram[..count]).unwrap().header, from),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
        }
    };
    let id = syn.connection_id;
    let header = Header { kind: Kind::State, seq: 100, ack: syn.seq, window_bytes: 1 << 20, ..syn };
    for (kind, payload) in [(Kind::State, ""), (Kind::Data, "reason"), (Kind::Reset, "")] {
        let mut packet = Vec::new();
        Header { kind, connection_id: id, ..header }.write(None, &mut packet);
        packet.extend(payload.as_bytes());
        peer.send_to(&packet, from).unwrap();
    }
    let (mut stream, _client) = connecting.await.unwrap().expect("the peer has answered");
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    assert_eq!(bytes, b"reason");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}
