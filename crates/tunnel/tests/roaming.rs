//! A client whose address changes keeps its connection (RFC 9000, 9).

mod common;

use common::*;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const INTERNET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

/// A translator of addresses between one client and a server. The server sees the client at the
/// outer socket.
struct Translator {
    front: Arc<UdpSocket>,
    outer: Arc<Mutex<Arc<UdpSocket>>>,
    client: Arc<Mutex<Option<SocketAddr>>>,
}

impl Translator {
    fn start(server: SocketAddr) -> Translator {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let outer = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let translator = Translator { front, outer: Arc::new(Mutex::new(outer)), client: Arc::default() };
        let (front, current, client) =
            (Arc::clone(&translator.front), Arc::clone(&translator.outer), Arc::clone(&translator.client));
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((length, from)) = front.recv_from(&mut bytes) {
                *client.lock().unwrap() = Some(from);
                let _ = current.lock().unwrap().send_to(&bytes[..length], server);
            }
        });
        translator.listen();
        translator
    }

    /// Forwards what arrives at the outer socket, until that socket is replaced.
    fn listen(&self) {
        let outer = Arc::clone(&self.outer.lock().unwrap());
        outer.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (front, current, client) =
            (Arc::clone(&self.front), Arc::clone(&self.outer), Arc::clone(&self.client));
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            while Arc::ptr_eq(&outer, &current.lock().unwrap()) {
                if let (Ok(length), Some(to)) = (outer.recv(&mut bytes), *client.lock().unwrap()) {
                    let _ = front.send_to(&bytes[..length], to);
                }
            }
        });
    }

    /// From now on the server sees the client at `address`.
    fn move_to(&self, address: &str) {
        *self.outer.lock().unwrap() = Arc::new(UdpSocket::bind(address).unwrap());
        self.listen();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_moves_keeps_its_connection() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Running::start(state.path(), options(anywhere()));
    let translator = Translator::start(server.address);
    let mut bob = join(invite(state.path(), "bob", translator.front.local_addr().unwrap()), quic()).await;
    let own = bob.up().await;
    let member = server.members(1).await.remove(0);
    let egress = bob.client.egress();
    // Another port, as after a restart of the translator, and then another network.
    for (number, address) in ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"].into_iter().enumerate() {
        translator.move_to(address);
        for (number, length) in [(3 * number, 300), (3 * number + 1, 1400), (3 * number + 2, 60)] {
            let number = number as u32;
            let there = packet(own, INTERNET, length, number);
            while until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await != there {}
            let back = packet(INTERNET, own, length, 100 + number);
            while until_heard(&mut bob.inbox, || server.switch.send([parcel(&back)])).await != back {}
        }
        assert!(
            Arc::ptr_eq(&member, &server.members(1).await[0]),
            "a new connection at {address}: {:?}",
            server.log
        );
    }
    assert!(bob.client.steering().is_some_and(|steering| steering.line.srtt_us > 0));
}
