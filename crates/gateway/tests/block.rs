//! What the owner has blocked, at every door, and the way out of it by a reload.

mod common;

use common::{PATIENCE, Running, echo, name_server, objects, status, text_of, udp_echo};
use leeway_gateway::Config;
use leeway_gateway::control::ReloadRequest;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// A gateway whose configuration can be written anew.
struct Bed {
    file: PathBuf,
    base: String,
    gateway: Running,
}

impl Bed {
    async fn new(folder: &Path, ports: &[u16], names: SocketAddr, block: &str) -> Bed {
        let base = text_of(ports, &format!("dns = [\"{names}\"]"));
        let file = folder.join("gateway.toml");
        let gateway = Running::by(&format!("{base}{block}")).await;
        let source = file.clone();
        gateway.operations.read_from(Box::new(move |_| Config::read(&source)));
        Bed { file, base, gateway }
    }

    async fn reload(&self, block: &str) -> Vec<String> {
        std::fs::write(&self.file, format!("{}{block}", self.base)).unwrap();
        let operations = self.gateway.operations.clone();
        let reload = move || operations.reload(&ReloadRequest::default()).unwrap().words;
        tokio::task::spawn_blocking(reload).await.unwrap()
    }

    async fn get(&self, url: &str) -> String {
        self.gateway.say(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
    }

    async fn blocked(&self, list: &str) -> f64 {
        self.gateway.metric(&format!("leeway_gateway_blocked_total{{list=\"{list}\"}}")).await
    }

    /// After the greeting, and the answer to that request.
    async fn socks(&self, request: &[u8]) -> (TcpStream, [u8; 10]) {
        let mut stream = TcpStream::connect(self.gateway.socks).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        timeout(PATIENCE, stream.read_exact(&mut method)).await.unwrap().unwrap();
        stream.write_all(request).await.unwrap();
        let mut reply = [0; 10];
        timeout(PATIENCE, stream.read_exact(&mut reply)).await.unwrap().unwrap();
        (stream, reply)
    }

    /// What a SOCKS client is answered to CONNECT.
    async fn socks_to(&self, host: &str, port: u16) -> u8 {
        let head = [&[5, 1, 0, 3, host.len() as u8][..], host.as_bytes()].concat();
        self.socks(&[&head[..], &port.to_be_bytes()].concat()).await.1[1]
    }
}

#[tokio::test]
async fn names_and_what_is_below_them_are_refused_in_words() {
    let (objects, echo, names) = (objects().await, echo().await, name_server().await);
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("ads.txt");
    std::fs::write(&list, "# ads\n0.0.0.0 ads-127.0.0.2.test\nwrong line here\n").unwrap();
    let block = format!("[block]\ndomains = [{list:?}]\n");
    let bed = Bed::new(folder.path(), &[objects.port(), echo.port()], names, &block).await;
    let good = format!("http://good-127.0.0.2.test:{}/10", objects.port());
    assert_eq!(status(&bed.get(&good).await), 200);
    for host in ["ads-127.0.0.2.test", "x.ADS-127.0.0.2.test"] {
        let answer = bed.get(&format!("http://{host}:{}/10", objects.port())).await;
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(answer.contains("the owner of this line has blocked this name"), "{answer}");
        let connect =
            format!("CONNECT {host}:{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", echo.port());
        assert_eq!(status(&bed.gateway.say(&connect).await), 403);
        assert_eq!(bed.socks_to(host, echo.port()).await, 2, "not allowed by ruleset");
    }
    assert_eq!(bed.socks_to("good-127.0.0.2.test", echo.port()).await, 0);
    assert_eq!(bed.blocked("domains").await, 6.0);
    assert_eq!(bed.gateway.metric("leeway_gateway_refused_total{user=\"127.0.0.1\"}").await, 6.0);
    let wrong = format!("not blocked: {}:3: \"wrong line here\"", list.display());
    let notices = bed.gateway.operations.notices();
    assert!(notices.iter().any(|notice| notice.starts_with(&wrong)), "{notices:?}");

    std::fs::write(&list, "good-127.0.0.2.test\n").unwrap();
    let said = bed.reload(&block).await;
    assert_eq!(said[1..], ["blocked: 1 domains, 0 networks or ranges of addresses, 0 ports"]);
    assert_eq!(status(&bed.get(&good).await), 403);
    assert_eq!(bed.socks_to("ads-127.0.0.2.test", echo.port()).await, 0);
    // An empty list blocks nothing; the count goes on.
    bed.reload("").await;
    assert_eq!(status(&bed.get(&good).await), 200);
    assert_eq!(bed.blocked("domains").await, 7.0);
}

#[tokio::test]
async fn networks_and_ports_are_refused_for_connections_and_datagrams() {
    let (objects, udp, names) = (objects().await, udp_echo().await, name_server().await);
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::new(folder.path(), &[objects.port(), udp.port()], names, "").await;
    let url = format!("http://{objects}/10");
    let (_control, reply) = bed.socks(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[8], reply[9]])));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let [high, low] = udp.port().to_be_bytes();
    let datagram = [0, 0, 0, 1, 127, 0, 0, 2, high, low, b'!'];
    let echoes = async || {
        for _ in 0..5 {
            client.send_to(&datagram, relay).await.unwrap();
            let mut received = [0; 100];
            if timeout(Duration::from_millis(300), client.recv_from(&mut received)).await.is_ok() {
                return true;
            }
        }
        false
    };
    assert!(echoes().await);
    assert_eq!(status(&bed.get(&url).await), 200);

    // On an association and beside a connection that are there already.
    bed.reload("[block]\nnetworks = [\"127.0.0.2\"]\n").await;
    assert!(!echoes().await);
    let answer = bed.get(&url).await;
    assert_eq!(status(&answer), 403);
    assert!(answer.contains("blocked the network") && !answer.contains("127.0.0.2"), "{answer}");
    assert_eq!(bed.socks_to("127.0.0.2", objects.port()).await, 2);
    assert_eq!(bed.blocked("networks").await, 7.0, "five datagrams and two connections");

    bed.reload(&format!("[block]\nports = [{}, {}]\n", objects.port(), udp.port())).await;
    assert!(!echoes().await);
    let answer = bed.get(&url).await;
    assert_eq!(status(&answer), 403);
    assert!(answer.contains(&format!("has blocked port {}", objects.port())), "{answer}");
    assert_eq!(bed.blocked("ports").await, 6.0);
    bed.reload("").await;
    assert!(echoes().await);
    assert_eq!(status(&bed.get(&url).await), 200);
}
