//! The log of destinations: nothing without `[destinations]`, with it every way to a server and nothing else.

mod common;

use common::{PATIENCE, Running, objects, text, udp_echo};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Protocol, address and port of each line, in the order of the connections.
fn logged(folder: &Path) -> Vec<(String, String, u64)> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder).into_iter().flatten() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["user"], "127.0.0.1", "{line}");
            let word = |key: &str| line[key].as_str().unwrap().to_owned();
            lines.push((word("protocol"), word("address"), line["port"].as_u64().unwrap()));
        }
    }
    lines
}

/// A SOCKS5 request after the greeting; the port of the answer.
async fn socks(stream: &mut TcpStream, command: u8, to: SocketAddr) -> u16 {
    let SocketAddr::V4(to) = to else { panic!("IPv4") };
    let head = [&[5, command, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat();
    stream.write_all(&[&[5, 1, 0][..], &head].concat()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    u16::from_be_bytes([answer[10], answer[11]])
}

/// Each way to a server, and what is refused.
async fn every_way(gateway: &Running, objects: SocketAddr, echo: SocketAddr) {
    assert_eq!(gateway.status(&format!("http://{objects}/10")).await, 200);
    let connect = format!("CONNECT {objects} HTTP/1.1\r\nHost: x\r\n\r\nGET /1 HTTP/1.0\r\n\r\n");
    assert!(gateway.say(&connect).await.starts_with("HTTP/1.1 200"));
    let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
    socks(&mut stream, 1, objects).await;
    for refused in ["http://127.0.0.1/", "http://9.9.9.9:25/"] {
        assert_eq!(gateway.status(refused).await, 403);
    }
    let mut control = TcpStream::connect(gateway.socks).await.unwrap();
    let port = socks(&mut control, 3, SocketAddr::from(([0, 0, 0, 0], 0))).await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let SocketAddr::V4(to) = echo else { panic!("IPv4") };
    let head = [&[0, 0, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat();
    // Datagrams may be lost, so more than one is sent.
    let mut answers = 0;
    for _ in 0..100 {
        client.send_to(&[&head[..], b"hello"].concat(), ("127.0.0.1", port)).await.unwrap();
        let answer = timeout(Duration::from_secs(1), client.recv_from(&mut [0; 100])).await;
        answers += usize::from(answer.is_ok());
        if answers == 2 {
            break;
        }
    }
    assert_eq!(answers, 2);
}

/// What neighbours read at the proxy's own address.
async fn page(gateway: &Running) -> String {
    let mut stream = gateway.client().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gateway.http);
    stream.write_all(request.as_bytes()).await.unwrap();
    text(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_where_it_is_asked_for_the_way_of_each_connection_is_logged() {
    let (objects, echo) = (objects().await, udp_echo().await);
    let ports = [objects.port(), echo.port()];
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("destinations");
    let told =
        |gateway: &Running| gateway.operations.notices().iter().any(|note| note.contains("are logged"));
    let words = "logs the addresses that you reach. A log is kept for 30 days";

    let gateway = Running::start(&ports, "").await;
    every_way(&gateway, objects, echo).await;
    assert!(!told(&gateway) && !page(&gateway).await.contains("logs the addresses"));
    gateway.stop().await;
    assert!(!place.exists());

    let more = format!("[destinations]\nfolder = {place:?}\nkeep_days = 30\n");
    let gateway = Running::start(&ports, &more).await;
    every_way(&gateway, objects, echo).await;
    assert!(told(&gateway) && page(&gateway).await.contains(words));
    gateway.stop().await;
    let [objects, echo] = [("tcp", objects), ("udp", echo)]
        .map(|(protocol, server)| (protocol.to_owned(), server.ip().to_string(), u64::from(server.port())));
    assert_eq!(logged(&place), [objects.clone(), objects.clone(), objects, echo]);
}
