//! A tunnel of IP in IP (RFC 2003), between TUN devices because not every kernel has a device for
//! it. The tunnel has no congestion control and no encryption, so it shows the cost of a tunnel
//! alone.

use crate::Error;
use crate::network::Network;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tun_rs::{AsyncDevice, DeviceBuilder};

/// The protocol of the outer header (RFC 2003, section 3).
const IP_IN_IP: i32 = 4;
/// Bytes of the outer header.
const OVERHEAD: u16 = 20;
/// MTU of the networks around the tunnel.
const OUTER_MTU: u16 = 1500;

/// `MSG_DONTWAIT` (send(2)).
const DONT_WAIT: i32 = 0x40;
/// Period after which a reader checks whether the tunnel has ended.
const LOOK: Duration = Duration::from_millis(100);

/// One end of a tunnel.
pub(crate) struct End<'a> {
    /// The host.
    pub host: &'a str,
    /// Its address on the networks that the tunnel crosses.
    pub outer: Ipv4Addr,
    /// Its address inside the tunnel.
    pub inner: Ipv4Addr,
}

/// A tunnel that is up; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct IpInIp {
    runtime: Option<Runtime>,
    ended: Arc<AtomicBool>,
}

impl IpInIp {
    /// Makes a device with the name `device` on both hosts; a packet that is sent into one comes
    /// out of the other.
    pub fn between(network: &Network, device: &str, ends: [End<'_>; 2]) -> Result<IpInIp, Error> {
        let failed = |error| Error::Measure { what: "make a tunnel of IP in IP", error };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().map_err(failed)?;
        let ended = Arc::new(AtomicBool::new(false));
        let [one, other] = &ends;
        for (end, peer) in [(one, other), (other, one)] {
            let open = || -> io::Result<()> {
                let _guard = runtime.enter();
                let tun = Arc::new(DeviceBuilder::new().name(device).enable(false).build_async()?);
                let socket = Arc::new(raw(end.outer, peer.outer)?);
                runtime.spawn(outwards(Arc::clone(&tun), Arc::clone(&socket)));
                let ended = Arc::clone(&ended);
                runtime.spawn_blocking(move || inwards(&socket, &tun, &ended));
                Ok(())
            };
            network.net.inside(end.host, open)?.map_err(failed)?;
            let mtu = OUTER_MTU - OVERHEAD;
            let address = format!("addr add {} peer {} dev {device}", end.inner, peer.inner);
            let batch = format!("{address}\nlink set dev {device} mtu {mtu} up\n");
            network.feed(end.host, "ip", &["-batch", "-"], &batch)?;
        }
        Ok(IpInIp { runtime: Some(runtime), ended })
    }
}

impl Drop for IpInIp {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // The tasks hold the devices, and the devices hold their hosts.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(2 * LOOK);
        }
    }
}

/// A socket for packets of the peer only; the kernel writes the outer header, and the checksum in
/// it.
fn raw(local: Ipv4Addr, peer: Ipv4Addr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IP_IN_IP)))?;
    socket.set_read_timeout(Some(LOOK))?;
    socket.bind(&SocketAddrV4::new(local, 0).into())?;
    socket.connect(&SocketAddrV4::new(peer, 0).into())?;
    Ok(socket)
}

async fn outwards(tun: Arc<AsyncDevice>, socket: Arc<Socket>) {
    let mut packet = vec![0; usize::from(OUTER_MTU)];
    while let Ok(length) = tun.recv(&mut packet).await {
        let inner = packet.get(..length).unwrap_or_default();
        // The device's own IPv6 is ignored. A packet that the network does not take at once is
        // lost, as on a full device.
        if is_ipv4(inner) {
            let _ = socket.send_with_flags(inner, DONT_WAIT);
        }
    }
}

fn inwards(mut socket: &Socket, tun: &AsyncDevice, ended: &AtomicBool) {
    let mut packet = vec![0; usize::from(OUTER_MTU)];
    while !ended.load(Ordering::Relaxed) {
        // Either the period is over, or ICMP answers a packet that was sent; neither ends the
        // tunnel.
        let Ok(length) = socket.read(&mut packet) else { continue };
        if let Some(inner) = packet.get(..length).and_then(payload) {
            let _ = tun.try_send(inner);
        }
    }
}

fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 4)
}

/// The packet behind the outer header, which a raw socket receives as well.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    packet.get(header..).filter(|inner| header >= usize::from(OVERHEAD) && is_ipv4(inner))
}

#[cfg(test)]
mod tests {
    use super::payload;

    #[test]
    fn the_outer_header_is_taken_off_with_its_options() {
        let inner = [0x45, 1, 2, 3];
        let behind = |header: &[u8]| [header, &inner].concat();
        let mut outer = [0_u8; 24];
        outer[0] = 0x46;
        assert_eq!(payload(&behind(&outer)), Some(&inner[..]));
        outer[0] = 0x45;
        assert_eq!(payload(&behind(&outer[..20])), Some(&inner[..]));
        // A packet shorter than its header says, an invalid header, and an inner packet that is
        // not IPv4.
        assert_eq!(payload(&outer[..20]), None);
        assert_eq!(payload(&[0x41; 30]), None);
        assert_eq!(payload(&[0x45; 4]), None);
        assert_eq!(payload(&[&outer[..20], &[0x60]].concat()), None);
        assert_eq!(payload(&[]), None);
    }
}
