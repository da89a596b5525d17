//! A route with a feature that iproute2 can set from version 6.7 on only.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};
use std::io;

const RTM_NEWROUTE: u16 = 24;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE.
const FLAGS: u16 = 0x1 | 0x4 | 0x400;
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTAX_FEATURES: u16 = 12;
/// RTAX_FEATURE_TCP_USEC_TS.
const MICROSECONDS: u32 = 1 << 4;

/// Adds a route whose connections use timestamps in microseconds, if the other end does so too.
pub fn with_microseconds(to: [u8; 4], prefix: u8, via: [u8; 4]) -> io::Result<()> {
    // struct rtmsg: family, length of the prefixes, TOS, table main, protocol boot, scope
    // universe, unicast, flags.
    let mut body = vec![2, prefix, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    attribute(&mut body, RTA_DST, &to);
    attribute(&mut body, RTA_GATEWAY, &via);
    let mut metrics = Vec::new();
    attribute(&mut metrics, RTAX_FEATURES, &MICROSECONDS.to_ne_bytes());
    attribute(&mut body, RTA_METRICS, &metrics);
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(RTM_NEWROUTE.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);

    // Protocol 0 is NETLINK_ROUTE.
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &message, SendFlags::empty())?;
    let mut answer = [0u8; 512];
    recv(&kernel, &mut answer, RecvFlags::empty())?;
    // struct nlmsghdr, then struct nlmsgerr, which begins with the error number.
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Appends an attribute. The length of `value` has to be a multiple of 4 bytes.
fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend((4 + value.len() as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
}
