//! Sets the clock of TCP timestamps. The kernel allows this for a socket in repair mode, which
//! exists for the migration of connections.
#![allow(unsafe_code)]

use super::{End, Flow};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// TCP_REPAIR_OFF_NO_WP: leaves repair mode without a window probe.
const REPAIR_OFF: i32 = -1;

/// The clock of `end`. Unit: ms.
pub fn read(flow: &Flow, end: End) -> u32 {
    let (mut value, mut length) = (0u32, size_of::<u32>() as libc::socklen_t);
    let socket = flow.socket(end).as_raw_fd();
    // SAFETY: `value` and `length` live through the call, and `length` is the length of `value`.
    let result = unsafe {
        let to = (&raw mut value).cast();
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_TIMESTAMP, to, &raw mut length)
    };
    assert_eq!(result, 0, "TCP_TIMESTAMP: {}", std::io::Error::last_os_error());
    value
}

/// Sets the clock of `end` forward to `to`. `to` has to be even, because the lowest bit means
/// microseconds.
///
/// No segment may be in flight. A segment whose timestamp is more than half of the range ahead
/// would look old to the other end (RFC 7323, 5), so a large change is made in two steps.
pub fn set(flow: &mut Flow, end: End, to: u32) {
    let now = read(flow, end);
    if to.wrapping_sub(now) > 1 << 30 {
        let half = now.wrapping_add(to.wrapping_sub(now) / 2) & !1;
        write(flow.socket(end), half);
        flow.exchange();
    }
    write(flow.socket(end), to);
    flow.exchange();
}

fn write(socket: &TcpStream, to: u32) {
    option(socket, libc::TCP_REPAIR, 1);
    option(socket, libc::TCP_TIMESTAMP, to.cast_signed());
    option(socket, libc::TCP_REPAIR, REPAIR_OFF);
}

fn option(socket: &TcpStream, name: i32, value: i32) {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value lives through the call, and `length` is its length.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, (&raw const value).cast(), length)
    };
    assert_eq!(result, 0, "option {name}: {}", std::io::Error::last_os_error());
}
