//! The types of the C interface, as in `include/utp.h`, and conversion of socket addresses.

use std::ffi::{c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

pub(crate) const ON_FIREWALL: usize = 0;
pub(crate) const ON_ACCEPT: usize = 1;
pub(crate) const ON_CONNECT: usize = 2;
pub(crate) const ON_ERROR: usize = 3;
pub(crate) const ON_READ: usize = 4;
pub(crate) const ON_OVERHEAD_STATISTICS: usize = 5;
pub(crate) const ON_STATE_CHANGE: usize = 6;
pub(crate) const GET_READ_BUFFER_SIZE: usize = 7;
pub(crate) const ON_DELAY_SAMPLE: usize = 8;
pub(crate) const GET_UDP_MTU: usize = 9;
pub(crate) const GET_UDP_OVERHEAD: usize = 10;
pub(crate) const GET_MILLISECONDS: usize = 11;
pub(crate) const GET_MICROSECONDS: usize = 12;
pub(crate) const GET_RANDOM: usize = 13;
pub(crate) const LOG: usize = 14;
pub(crate) const SENDTO: usize = 15;
pub(crate) const LOG_NORMAL: c_int = 16;
pub(crate) const LOG_MTU: c_int = 17;
pub(crate) const LOG_DEBUG: c_int = 18;
pub(crate) const SNDBUF: c_int = 19;
pub(crate) const RCVBUF: c_int = 20;
pub(crate) const TARGET_DELAY: c_int = 21;
pub(crate) const ARRAY_SIZE: usize = 22;

pub(crate) const DONTFRAG: u32 = 2;

pub(crate) const STATE_CONNECT: c_int = 1;
pub(crate) const STATE_WRITABLE: c_int = 2;
pub(crate) const STATE_EOF: c_int = 3;
pub(crate) const STATE_DESTROYING: c_int = 4;

pub(crate) const ECONNREFUSED: c_int = 0;
pub(crate) const ECONNRESET: c_int = 1;
pub(crate) const ETIMEDOUT: c_int = 2;

/// Types of UTP_ON_OVERHEAD_STATISTICS, as in libutp's `utp_internal.h`.
pub(crate) const CONNECT_OVERHEAD: u32 = 1;
pub(crate) const CLOSE_OVERHEAD: u32 = 2;
pub(crate) const ACK_OVERHEAD: u32 = 3;
pub(crate) const HEADER_OVERHEAD: u32 = 4;
pub(crate) const RETRANSMIT_OVERHEAD: u32 = 5;

/// The first union of the arguments of a callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub union First {
    /// Address of a peer.
    pub address: *const libc::sockaddr,
    /// A state, an error or a sample.
    pub number: c_int,
}

/// `utp_callback_arguments`.
#[repr(C)]
pub struct Arguments {
    pub(crate) context: *mut c_void,
    pub(crate) socket: *mut c_void,
    pub(crate) len: usize,
    pub(crate) flags: u32,
    pub(crate) callback_type: c_int,
    pub(crate) buf: *const u8,
    pub(crate) first: First,
    pub(crate) address_len: libc::socklen_t,
}

/// `utp_callback_t`.
pub type Callback = unsafe extern "C" fn(*mut Arguments) -> u64;

/// `utp_context_stats`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct ContextStats {
    pub(crate) received: [u32; 5],
    pub(crate) sent: [u32; 5],
}

/// `utp_socket_stats`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct SocketStats {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) resent: u32,
    pub(crate) resent_fast: u32,
    pub(crate) sent: u32,
    pub(crate) received: u32,
    pub(crate) repeated: u32,
    pub(crate) mtu: u32,
}

impl SocketStats {
    /// Packets and bytes of a direction, headers included.
    pub(crate) fn of(&mut self, sends: bool) -> (&mut u32, &mut u64) {
        if sends {
            (&mut self.sent, &mut self.sent_bytes)
        } else {
            (&mut self.received, &mut self.received_bytes)
        }
    }
}

/// `struct utp_iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    pub(crate) base: *const u8,
    pub(crate) len: usize,
}

/// A name in a table for C programs.
#[repr(transparent)]
pub struct Name(*const c_char);

// SAFETY: the pointer points to a constant of this program.
unsafe impl Sync for Name {}

const fn name(text: &'static std::ffi::CStr) -> Name {
    Name(text.as_ptr())
}

/// `utp_state_names`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static utp_state_names: [Name; 5] = [
    Name(std::ptr::null()),
    name(c"UTP_STATE_CONNECT"),
    name(c"UTP_STATE_WRITABLE"),
    name(c"UTP_STATE_EOF"),
    name(c"UTP_STATE_DESTROYING"),
];

/// `utp_error_code_names`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static utp_error_code_names: [Name; 3] =
    [name(c"UTP_ECONNREFUSED"), name(c"UTP_ECONNRESET"), name(c"UTP_ETIMEDOUT")];

/// `utp_callback_names`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static utp_callback_names: [Name; ARRAY_SIZE] = [
    name(c"UTP_ON_FIREWALL"),
    name(c"UTP_ON_ACCEPT"),
    name(c"UTP_ON_CONNECT"),
    name(c"UTP_ON_ERROR"),
    name(c"UTP_ON_READ"),
    name(c"UTP_ON_OVERHEAD_STATISTICS"),
    name(c"UTP_ON_STATE_CHANGE"),
    name(c"UTP_GET_READ_BUFFER_SIZE"),
    name(c"UTP_ON_DELAY_SAMPLE"),
    name(c"UTP_GET_UDP_MTU"),
    name(c"UTP_GET_UDP_OVERHEAD"),
    name(c"UTP_GET_MILLISECONDS"),
    name(c"UTP_GET_MICROSECONDS"),
    name(c"UTP_GET_RANDOM"),
    name(c"UTP_LOG"),
    name(c"UTP_SENDTO"),
    name(c"UTP_LOG_NORMAL"),
    name(c"UTP_LOG_MTU"),
    name(c"UTP_LOG_DEBUG"),
    name(c"UTP_SNDBUF"),
    name(c"UTP_RCVBUF"),
    name(c"UTP_TARGET_DELAY"),
];

/// A socket address in the system's form, with its length.
pub(crate) struct Raw {
    bytes: libc::sockaddr_in6,
    pub(crate) len: libc::socklen_t,
}

impl Raw {
    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.bytes).cast()
    }
}

/// Reads a socket address. `None` if it is neither IPv4 nor IPv6, or too short.
///
/// # Safety
/// `address` points to `len` readable bytes, or is null.
pub(crate) unsafe fn read_address(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<SocketAddr> {
    if address.is_null() || (len as usize) < size_of::<libc::sockaddr>() {
        return None;
    }
    // SAFETY: a `sockaddr` is readable, by the length above; callers need not align it.
    let family = unsafe { address.read_unaligned() }.sa_family;
    if i32::from(family) == libc::AF_INET && len as usize >= size_of::<libc::sockaddr_in>() {
        // SAFETY: of this length, by the line above.
        let four = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        let ip = Ipv4Addr::from(four.sin_addr.s_addr.to_ne_bytes());
        return Some(SocketAddrV4::new(ip, u16::from_be(four.sin_port)).into());
    }
    if i32::from(family) == libc::AF_INET6 && len as usize >= size_of::<libc::sockaddr_in6>() {
        // SAFETY: of this length, by the line above.
        let six = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
        let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
        return Some(SocketAddrV6::new(ip, u16::from_be(six.sin6_port), 0, six.sin6_scope_id).into());
    }
    None
}

/// Converts an address to the system's form.
pub(crate) fn raw_address(address: SocketAddr) -> Raw {
    // SAFETY: all zeros are a valid value of this struct of numbers.
    let mut bytes: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let len = match address {
        SocketAddr::V4(four) => {
            // SAFETY: as above.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = four.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(four.ip().octets());
            // SAFETY: the larger struct has room for the smaller one, and its alignment.
            unsafe { (&raw mut bytes).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(six) => {
            bytes.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            bytes.sin6_port = six.port().to_be();
            bytes.sin6_addr.s6_addr = six.ip().octets();
            bytes.sin6_scope_id = six.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    Raw { bytes, len: len as libc::socklen_t }
}
