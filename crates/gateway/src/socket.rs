//! Socket options that the standard library lacks.

use crate::notes::{CONGESTION, NEEDS_RIGHT, NOT_IN_KERNEL, Note, Value};
use leeway_net::Ends;
use leeway_share::{Acknowledged, MSS_BYTES, Received, Receiver};
use nix::sys::socket::{getsockopt, setsockopt};
use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};
use std::io;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

sockopt_impl!(
    /// Upper bound of the receive window that is announced, in bytes (`TCP_WINDOW_CLAMP`).
    WindowClamp,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_WINDOW_CLAMP,
    u32
);
sockopt_impl!(
    /// Unsent bytes in the send buffer at which the socket is no longer writable
    /// (`TCP_NOTSENT_LOWAT`).
    NotSentLowat,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);
sockopt_impl!(
    /// Which buffers keep the size that was set (`SO_BUF_LOCK`).
    BufferLock,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_BUF_LOCK,
    i32
);
/// Bytes of `tcp_info` that are read here. Newer kernels have longer structures; older ones leave
/// the last bytes zero.
const INFO_BYTES: usize = offset_of!(libc::tcp_info, tcpi_rcv_ooopack) + size_of::<u32>();
/// Window clamp of a connection whose window may grow, in bytes. It gives a window scale of 7,
/// which is Linux's default: windows up to 8 MiB in steps of 128 bytes.
const MOST_SCALED_BYTES: u32 = 4 << 20;
/// Longest time that a client or a server may leave bytes unread or unacknowledged.
const STALLED: Duration = Duration::from_secs(60);

/// Time that a refused client has to read the reason, and bytes of its request that are read
/// meanwhile.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: u64 = 64 * 1024;

/// Sends `words` to a client and closes the connection. Reads what the client has sent: TCP
/// answers unread bytes with a reset, and the client would lose `words`.
pub async fn farewell(mut stream: TcpStream, words: &[u8]) {
    let said = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(FAREWELL_BYTES), &mut tokio::io::sink()).await
    };
    // A client that does not read is not waited for.
    let _ = tokio::time::timeout(FAREWELL, said).await;
}

/// The kernel's `tcp_info` of a connection. Fields that an older kernel does not have are zero.
#[expect(unsafe_code, reason = "nix panics where the kernel's structure is not as long as its own")]
fn tcp_info(socket: &impl AsFd) -> Option<[u8; INFO_BYTES]> {
    let (mut info, mut length) = ([0; INFO_BYTES], INFO_BYTES as libc::socklen_t);
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, and the descriptor is borrowed meanwhile.
    let result = unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(descriptor, level, name, info.as_mut_ptr().cast(), &raw mut length)
    };
    (result == 0).then_some(info)
}

/// What the other end has acknowledged, and how many segments were retransmitted.
pub fn acknowledged(socket: &impl AsFd) -> Option<Acknowledged> {
    let info = tcp_info(socket)?;
    let bytes = info.get(offset_of!(libc::tcp_info, tcpi_bytes_acked)..)?.first_chunk()?;
    let again = info.get(offset_of!(libc::tcp_info, tcpi_total_retrans)..)?.first_chunk()?;
    // The SYN counts as a byte.
    let bytes = u64::from_ne_bytes(*bytes).saturating_sub(1);
    Some(Acknowledged { bytes, retransmissions: u32::from_ne_bytes(*again) })
}

/// Limits unsent bytes in the send buffer to about one MSS. Bytes that were granted earlier and
/// waited there for a window would leave later, in one burst.
pub fn hold_little(socket: &impl AsFd) -> io::Result<()> {
    setsockopt(socket, NotSentLowat, &MSS_BYTES).map_err(io::Error::from)
}

/// Makes the kernel refuse datagrams that do not fit into one packet. Fragments would leave in one
/// burst.
pub fn forbid_fragments(socket: &impl AsFd, six: bool) -> io::Result<()> {
    use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
    let done = if six {
        sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)
    } else {
        sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)
    };
    done.map_err(io::Error::from)
}

/// Sets the receive buffer and the window clamp. `spare` bytes of the buffer are not part of the
/// window.
fn bound_window(socket: &impl AsFd, bytes: u32, spare: u32) -> io::Result<()> {
    set_receive_buffer(socket, bytes + spare)?;
    setsockopt(socket, WindowClamp, &bytes).map_err(io::Error::from)
}

/// The window scale of this end (RFC 7323, 2.2); 0 if the other end does not scale.
fn window_scale(info: &[u8; INFO_BYTES]) -> u8 {
    // One byte with two bit fields. This end's scale is the second.
    let scales = info[offset_of!(libc::tcp_info, tcpi_snd_rcv_wscale)];
    if cfg!(target_endian = "little") { scales >> 4 } else { scales & 0xf }
}

/// Whether any data have arrived.
fn has_received(info: &[u8; INFO_BYTES]) -> bool {
    const AT: usize = offset_of!(libc::tcp_info, tcpi_bytes_received);
    info[AT..AT + size_of::<u64>()].iter().any(|&byte| byte > 0)
}

/// Sets the window that a connection announces first, and that may grow later.
///
/// The kernel derives the window scale (RFC 7323, 2.2) from the window clamp and from the largest
/// buffer of the system, unless the buffer is locked. So the clamp also limits the scale. With a
/// scale, the kernel rounds a small window up to a multiple of the scale's step, instead of down
/// to whole segments. If this step is most of a segment, each acknowledgement announces more than
/// the full buffer can take. The segment is dropped, and the server's retransmissions back off.
fn begin_scaled(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set_receive_buffer(socket, bytes)?;
    // Linux before 5.14 has no such lock.
    let unlocked = setsockopt(socket, BufferLock, &0);
    setsockopt(socket, WindowClamp, &if unlocked.is_ok() { MOST_SCALED_BYTES } else { bytes })
        .map_err(io::Error::from)
}

/// Sets the receive buffer. Beyond net.core.rmem_max, CAP_NET_ADMIN is needed; without it the
/// kernel caps the size.
fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, bytes as usize);
    Ok(forced.or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(socket, bytes as usize))?)
}

/// The addresses of both ends of a connection, by which its packets are recognised.
pub fn ends(socket: &TcpStream) -> Option<Ends> {
    Some(Ends { here: socket.local_addr().ok()?, there: socket.peer_addr().ok()? })
}

/// The receiving end of a connection to a server.
#[derive(Debug)]
pub struct Incoming(pub Arc<TcpStream>);

impl Receiver for Incoming {
    fn unread(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&*self.0).ok()
    }

    fn received(&self) -> Option<Received> {
        let info = tcp_info(&self.0)?;
        let number = |at: usize| Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?));
        Some(Received {
            least_rtt_us: number(offset_of!(libc::tcp_info, tcpi_min_rtt))?,
            out_of_order: number(offset_of!(libc::tcp_info, tcpi_rcv_ooopack))?,
        })
    }

    fn segment_bytes(&self) -> Option<u32> {
        getsockopt(&self.0, nix::sys::socket::sockopt::TcpMaxSeg).ok()
    }

    fn bound_window(&self, bytes: u32, granted: u32) -> bool {
        hold_window(&self.0, bytes, granted).is_ok()
    }

    fn acknowledge_at_once(&self) {
        acknowledge_at_once(&self.0);
    }
}

/// Limits the window. The buffer holds at least `granted` bytes, which may arrive before
/// anything is read.
fn hold_window(socket: &impl AsFd, bytes: u32, granted: u32) -> io::Result<()> {
    // TCP acknowledges a segment before it is read, and then announces the rest of the buffer.
    // Without a window scale, the rest is rounded to whole segments, and another acknowledgement
    // after the read makes up for it. With a scale, the rest is most of the window, and no further
    // acknowledgement follows: so the buffer gets one spare MSS. Not before the first segment:
    // from that one the kernel learns how much memory a segment takes, and then sets the clamp to
    // what it thinks the buffer holds.
    let spares = |info: [u8; INFO_BYTES]| window_scale(&info) > 0 && has_received(&info);
    let spare = if tcp_info(socket).is_some_and(spares) { MSS_BYTES } else { 0 };
    bound_window(socket, bytes, spare.max(granted.saturating_sub(bytes)))
}

fn acknowledge_at_once(socket: &impl AsFd) {
    // If this fails, acknowledgements come later, and nothing else changes.
    let _ = rustix::net::sockopt::set_tcp_quickack(socket, true);
}

/// Binds a socket to a network device.
pub fn bind_device(socket: &impl AsFd, name: &str) -> io::Result<()> {
    socket2::SockRef::from(socket).bind_device(Some(name.as_bytes()))
}

/// Sets the options that sockets of clients and servers have in common.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, STALLED)?;
    let millis = u32::try_from(STALLED.as_millis()).unwrap_or(u32::MAX);
    // RFC 5482: ends the connection if the other end is gone or does not read.
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?)
}

/// Options that are set before the first packet of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// The kernel's congestion control for uploads.
    pub congestion: Option<&'a str>,
    /// The receive window that is announced to the server, in bytes.
    pub window: Option<u32>,
    /// Whether the window may grow beyond 64 KiB.
    pub scaled: bool,
    /// Whether the unsent bytes in the send buffer are limited ([`hold_little`]).
    pub little: bool,
    /// The only device that the connection may use.
    pub device: Option<&'a str>,
}

/// Connects to a server.
pub async fn connect(to: SocketAddr, options: Options<'_>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(name) = options.congestion {
        rustix::net::sockopt::set_tcp_congestion(&socket, name)?;
    }
    if let Some(bytes) = options.window {
        // A server whose segments are longer than a window that has shrunk sends nothing until a
        // timer lets it (RFC 9293, 3.8.6.2.1). That happens on a loopback device, and with jumbo
        // frames.
        setsockopt(&socket, nix::sys::socket::sockopt::TcpMaxSeg, &MSS_BYTES)?;
        if options.scaled { begin_scaled(&socket, bytes)? } else { bound_window(&socket, bytes, 0)? }
    }
    if options.little {
        hold_little(&socket)?;
    }
    if let Some(name) = options.device {
        bind_device(&socket, name)?;
    }
    let stream = socket.connect(to).await?;
    prepare(&stream)?;
    Ok(stream)
}

/// The first of these congestion controls that a socket of this process may use; if none, the
/// reason for each.
pub fn first_congestion(names: &[String]) -> Result<String, Vec<Note>> {
    let socket = TcpSocket::new_v4().map_err(|error| vec![Note::of(Value::error(&error))])?;
    let mut reasons = Vec::new();
    for name in names {
        match rustix::net::sockopt::set_tcp_congestion(&socket, name) {
            Ok(()) => return Ok(name.clone()),
            Err(rustix::io::Errno::NOENT) => reasons.push(Note::new(&NOT_IN_KERNEL, [Value::same(name)])),
            Err(rustix::io::Errno::PERM) => reasons.push(Note::new(&NEEDS_RIGHT, [Value::same(name)])),
            Err(errno) => {
                let values = [Value::same(name), Value::error(&errno.into())];
                reasons.push(Note::new(&CONGESTION, values));
            }
        }
    }
    Err(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut here = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        for _ in 0..100 {
            there.write_all(&[0; 10_000]).unwrap();
            here.read_exact(&mut [0; 10_000]).unwrap();
        }
        let info = tcp_info(&here).unwrap();
        let received = &info[offset_of!(libc::tcp_info, tcpi_bytes_received)..];
        assert_eq!(u64::from_ne_bytes(*received.first_chunk().unwrap()), 1_000_000);
        assert!(tcp_info(&std::io::stdin()).is_none());
    }

    /// Shrinks the window down to two and a half segments.
    #[tokio::test]
    async fn a_window_that_shrinks_is_filled_at_once_where_segments_could_be_long() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = Options { window: Some(20 * MSS_BYTES), ..Options::default() };
        let mut here = connect(listener.local_addr().unwrap(), options).await.unwrap();
        let (mut there, _) = listener.accept().unwrap();
        std::thread::spawn(move || while there.write_all(&[0; 10_000]).is_ok() {});
        let mut bytes = [0; 1460];
        for _ in 0..200 {
            tokio::io::AsyncReadExt::read_exact(&mut here, &mut bytes).await.unwrap();
        }
        hold_window(&here, 2 * MSS_BYTES + MSS_BYTES / 2, 0).unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..200 {
            tokio::io::AsyncReadExt::read_exact(&mut here, &mut bytes).await.unwrap();
            acknowledge_at_once(&here);
        }
        // With the server's timer, two segments would take 200 ms and more.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    /// The window scale is at most 7, whatever the largest buffer of the system is.
    #[tokio::test]
    async fn a_window_that_may_grow_has_a_scale_and_one_that_may_not_has_none() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        for scaled in [false, true] {
            let options = Options { window: Some(2920), scaled, ..Options::default() };
            let here = connect(address, options).await.unwrap();
            let scale = window_scale(&tcp_info(&here).unwrap());
            assert!(if scaled { (1..=7).contains(&scale) } else { scale == 0 }, "{scale}");
            // Linux allocates twice what is set.
            let buffer = |window, granted| {
                hold_window(&here, window, granted).unwrap();
                rustix::net::sockopt::socket_recv_buffer_size(&here).unwrap() / 2
            };
            assert_eq!(buffer(3650, 0), 3650);
            listener.accept().unwrap().0.write_all(&[0; 1000]).unwrap();
            here.readable().await.unwrap();
            assert_eq!(buffer(3650, 0), 3650 + if scaled { 1460 } else { 0 });
            assert_eq!(buffer(3650, 14_600), 14_600);
        }
    }
}
