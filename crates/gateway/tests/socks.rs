//! The SOCKS5 proxy with real connections and datagrams.

mod common;

use common::{PASSWORD, PATIENCE, Running, echo, name_server, text, udp_echo, users};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// After the greeting without authentication.
async fn greeted(gateway: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(read::<2>(&mut stream).await, [5, 0]);
    stream
}

async fn read<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("an answer in time").unwrap();
    bytes
}

fn request(command: u8, to: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, command, 0];
    match to.parse() {
        Ok(std::net::IpAddr::V4(address)) => bytes.extend([&[1][..], &address.octets()].concat()),
        Ok(std::net::IpAddr::V6(address)) => bytes.extend([&[4][..], &address.octets()].concat()),
        Err(_) => bytes.extend([&[3, to.len() as u8][..], to.as_bytes()].concat()),
    }
    bytes.extend(port.to_be_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_by_address_and_by_name() {
    let (server, names) = (echo().await, name_server().await);
    let gateway = Running::start(&[server.port()], &format!("dns = [\"{names}\"]")).await;
    for host in ["127.0.0.2", "a-127.0.0.2.test", "::ffff:127.0.0.2"] {
        let mut stream = greeted(&gateway).await;
        stream.write_all(&request(1, host, server.port())).await.unwrap();
        assert_eq!(read::<10>(&mut stream).await[..2], [5, 0], "{host}");
        stream.write_all(b"there and back").await.unwrap();
        assert_eq!(&read::<14>(&mut stream).await, b"there and back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_or_unknown_is_answered_so() {
    let names = name_server().await;
    let gateway = Running::start(&[80], &format!("dns = [\"{names}\"]")).await;
    let cases = [
        (request(1, "127.0.0.1", 80), 2),
        (request(1, "192.168.7.9", 80), 2),
        (request(1, "::1", 80), 2),
        (request(1, "a-10.0.0.1.test", 80), 2),
        (request(1, "9.9.9.9", 25), 2),
        (request(1, "none.test", 80), 4),
        (request(1, "127.0.0.2", 80), 5),
        (request(2, "9.9.9.9", 80), 7),
        (vec![5, 1, 0, 9, 0, 0], 8),
        // Names that only some programs read as addresses.
        (request(1, "2130706433", 80), 4),
        (request(1, "0x7f.1", 80), 4),
        (request(1, "127.1", 80), 4),
        (request(1, "localhost\0.test", 80), 1),
        (request(1, "9.9.9.9", 0), 2),
    ];
    // What carries an address that is not public, as an address, as text and as a name's.
    let carriers =
        ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2"];
    let carriers = carriers.into_iter().flat_map(|carrier| {
        let hex = u128::from(carrier.parse::<std::net::Ipv6Addr>().unwrap());
        let text = [&[5, 1, 0, 3, carrier.len() as u8][..], carrier.as_bytes(), &[0, 80]].concat();
        [(request(1, carrier, 80), 2), (text, 2), (request(1, &format!("six-{hex:032x}.test"), 80), 2)]
    });
    let cases = cases.into_iter().chain(carriers);
    for (bytes, code) in cases {
        let mut stream = greeted(&gateway).await;
        stream.write_all(&bytes).await.unwrap();
        let answer = read::<10>(&mut stream).await;
        // Somebody may listen on port 80 of this machine.
        assert!(answer[1] == code || (code == 5 && answer[1] == 0), "{bytes:?}: {answer:?}");
    }
    let mut garbage = TcpStream::connect(gateway.socks).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(text(&mut garbage).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords() {
    let (_file, users) = users();
    let gateway = Running::start(&[80], &users).await;
    for (password, answer) in [(PASSWORD, 0), ("b phrase", 1)] {
        let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
        stream.write_all(&[5, 2, 0, 2]).await.unwrap();
        assert_eq!(read::<2>(&mut stream).await, [5, 2]);
        stream.write_all(&[&b"\x01\x03ann\x08"[..], password.as_bytes()].concat()).await.unwrap();
        assert_eq!(read::<2>(&mut stream).await, [1, answer], "{password}");
    }
    let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(read::<2>(&mut stream).await, [5, 0xff]);
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_go_there_and_back_and_nowhere_else() {
    let server = udp_echo().await;
    let gateway = Running::start(&[server.port()], "").await;
    let mut control = greeted(&gateway).await;
    control.write_all(&request(3, "0.0.0.0", 0)).await.unwrap();
    let answer = read::<10>(&mut control).await;
    assert_eq!(answer[..4], [5, 0, 0, 1]);
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[8], answer[9]])));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut received = [0; 100];
    let mut head = request(0, "127.0.0.2", server.port());
    head[0] = 0;
    // Not the client's: neither carried nor taken for the client's port.
    let stranger = UdpSocket::bind("127.0.0.17:0").await.unwrap();
    stranger.send_to(&[&head[..], b"stranger"].concat(), relay).await.unwrap();
    // Datagrams may be lost, so more than one is sent.
    let mut length = 0;
    for _ in 0..20 {
        client.send_to(&[&head[..], b"hello"].concat(), relay).await.unwrap();
        if let Ok(got) = timeout(Duration::from_secs(1), client.recv_from(&mut received)).await {
            length = got.unwrap().0;
            break;
        }
    }
    assert_eq!(&received[..length], [&head[..], b"hello"].concat());
    // Forbidden, fragmented, broken: no answer, and the association goes on.
    let mut forbidden = request(0, "127.0.0.1", server.port());
    forbidden[0] = 0;
    client.send_to(&[&forbidden[..], b"no"].concat(), relay).await.unwrap();
    client.send_to(&[&[0, 0, 7][..], &head[3..], b"no"].concat(), relay).await.unwrap();
    client.send_to(&[0, 0], relay).await.unwrap();
    client.send_to(&[&head[..], b"again"].concat(), relay).await.unwrap();
    let (length, _) = timeout(PATIENCE, client.recv_from(&mut received)).await.unwrap().unwrap();
    assert!(
        received[..length].ends_with(b"again") || received[..length].ends_with(b"hello"),
        "no answer to a `no`"
    );
    // The association ends with its connection.
    drop(control);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while gateway.metric("leeway_gateway_connections").await > 0.0 {
        assert!(tokio::time::Instant::now() < deadline, "the association ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
