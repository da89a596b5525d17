//! `libleeway_utp`: uTP under a control law, with the C functions and callbacks of libutp.
//!
//! A program written for libutp links with this library instead. `include/utp.h` is the interface;
//! docs/utp.md says what differs. A context and its sockets belong to one thread at a time, as in
//! libutp.
//!
//! Safety contract of all functions: a pointer to a context or socket is null, which changes
//! nothing, or was returned by this library and is not destroyed. Buffers and addresses are as
//! long as the length given with them.
#![allow(unsafe_code, reason = "an interface for C: each block has its reason")]
#![allow(clippy::missing_safety_doc, reason = "one contract for all, above")]

mod abi;
mod context;
mod log;

use abi::{Callback, ContextStats, Part, RCVBUF, SNDBUF, SocketStats, raw_address, read_address};
use context::{Context, Socket};
use leeway_control::LawSpec;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr::null_mut;

/// The version of the interface.
const VERSION: c_int = 2;
/// Most parts of one write.
const PARTS_MAX: usize = 1024;
/// Environment variable with the law of all connections, for programs that do not choose one.
const LAW_VARIABLE: &str = "LEEWAY_UTP_LAW";

/// The context at a pointer.
unsafe fn context<'a>(pointer: *const Context) -> Option<&'a Context> {
    // SAFETY: the contract above. Only shared references are made, so a callback may call the
    // library again.
    unsafe { pointer.as_ref() }
}

/// The socket at a pointer, and its context.
unsafe fn socket<'a>(pointer: *const Socket) -> Option<(&'a Context, &'a Socket)> {
    // SAFETY: as above; a socket's context outlives it.
    let socket = unsafe { pointer.as_ref() }?;
    Some((unsafe { context(socket.context) }?, socket))
}

/// The bytes at a pointer.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> &'a [u8] {
    if pointer.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the contract above.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

/// Makes a context; null for a version other than 2.
#[unsafe(no_mangle)]
pub extern "C" fn utp_init(version: c_int) -> *mut Context {
    if version != VERSION {
        return null_mut();
    }
    let default = LawSpec::new("ledbat").expect("ledbat is a law");
    let law = std::env::var(LAW_VARIABLE).ok().map_or(Ok(default.clone()), |text| text.parse());
    let law = law.unwrap_or_else(|error| {
        eprintln!("libleeway_utp: {LAW_VARIABLE}: {error}; ledbat is used");
        default
    });
    Box::into_raw(Box::new(Context::new(law)))
}

/// Destroys a context and all its sockets. Neither the peers nor the program are told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_destroy(pointer: *mut Context) {
    if !pointer.is_null() {
        // SAFETY: the pointer came from `utp_init`, and is not used any more.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Registers `callback` for the event `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_set_callback(pointer: *mut Context, name: c_int, callback: Option<Callback>) {
    if let (Some(context), Ok(name)) = (unsafe { context(pointer) }, usize::try_from(name)) {
        context.set_callback(name, callback);
    }
}

/// Sets the program's own pointer, and returns it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_context_set_userdata(
    pointer: *mut Context,
    userdata: *mut c_void,
) -> *mut c_void {
    let Some(context) = (unsafe { context(pointer) }) else { return null_mut() };
    context.userdata.set(userdata);
    userdata
}

/// The program's own pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_context_get_userdata(pointer: *mut Context) -> *mut c_void {
    unsafe { context(pointer) }.map_or(null_mut(), |context| context.userdata.get())
}

/// Sets an option of sockets that are made from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_context_set_option(pointer: *mut Context, option: c_int, value: c_int) -> c_int {
    unsafe { context(pointer) }.map_or(-1, |context| context.set_option(option, value))
}

/// The value of an option; -1 if there is no such option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_context_get_option(pointer: *mut Context, option: c_int) -> c_int {
    unsafe { context(pointer) }.map_or(-1, |context| context.option(option))
}

/// Processes a datagram. Returns 1 if it is a uTP packet, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_process_udp(
    pointer: *mut Context,
    packet: *const u8,
    len: usize,
    from: *const libc::sockaddr,
    from_len: libc::socklen_t,
) -> c_int {
    // SAFETY: the contract above.
    let (context, from) = unsafe { (context(pointer), read_address(from, from_len)) };
    let (Some(context), Some(from)) = (context, from) else { return 0 };
    context.process(from, unsafe { bytes(packet, len) }).into()
}

unsafe fn icmp(
    pointer: *mut Context,
    packet: (*const u8, usize),
    to: (*const libc::sockaddr, libc::socklen_t),
    next_hop_mtu: Option<u16>,
) -> c_int {
    // SAFETY: the contract above.
    let (context, to) = unsafe { (context(pointer), read_address(to.0, to.1)) };
    let (Some(context), Some(to)) = (context, to) else { return 0 };
    context.process_icmp(to, unsafe { bytes(packet.0, packet.1) }, next_hop_mtu).into()
}

/// Processes an ICMP message that a packet was not delivered. Returns 1 if a connection sent the
/// packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_process_icmp_error(
    pointer: *mut Context,
    packet: *const u8,
    len: usize,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> c_int {
    // SAFETY: the contract above.
    unsafe { icmp(pointer, (packet, len), (to, to_len), None) }
}

/// Processes an ICMP message that a packet was too long. Returns 1 if a connection sent the
/// packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_process_icmp_fragmentation(
    pointer: *mut Context,
    packet: *const u8,
    len: usize,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
    next_hop_mtu: u16,
) -> c_int {
    // SAFETY: the contract above.
    unsafe { icmp(pointer, (packet, len), (to, to_len), Some(next_hop_mtu)) }
}

/// Runs the timers. Must be called at least every half second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_check_timeouts(pointer: *mut Context) {
    if let Some(context) = unsafe { context(pointer) } {
        context.check();
    }
}

/// Sends delayed acknowledgements. Must be called after the last waiting datagram was processed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_issue_deferred_acks(pointer: *mut Context) {
    if let Some(context) = unsafe { context(pointer) } {
        context.acknowledge();
    }
}

/// Counters of packets by size; the pointer is valid as long as the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_get_context_stats(pointer: *mut Context) -> *mut ContextStats {
    unsafe { context(pointer) }.map_or(null_mut(), Context::stats)
}

/// Makes a socket that is not connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_create_socket(pointer: *mut Context) -> *mut Socket {
    unsafe { context(pointer) }.map_or(null_mut(), Context::create)
}

/// Sets the program's own pointer, and returns it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_set_userdata(pointer: *mut Socket, userdata: *mut c_void) -> *mut c_void {
    let Some((_, socket)) = (unsafe { socket(pointer) }) else { return null_mut() };
    socket.userdata.set(userdata);
    userdata
}

/// The program's own pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_get_userdata(pointer: *mut Socket) -> *mut c_void {
    unsafe { socket(pointer) }.map_or(null_mut(), |(_, socket)| socket.userdata.get())
}

/// Sets the size of a buffer; -1 if there is no such option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_setsockopt(pointer: *mut Socket, option: c_int, value: c_int) -> c_int {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    let (Ok(size), [send, receive]) = (usize::try_from(value), socket.buffers()) else { return -1 };
    match option {
        SNDBUF => context.set_buffers(socket, [size, receive]),
        RCVBUF => context.set_buffers(socket, [send, size]),
        _ => return -1,
    }
    0
}

/// The size of a buffer; -1 if there is no such option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_getsockopt(pointer: *mut Socket, option: c_int) -> c_int {
    let Some((_, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    let [send, receive] = socket.buffers();
    let size = match option {
        SNDBUF => send,
        RCVBUF => receive,
        _ => return -1,
    };
    c_int::try_from(size).unwrap_or(c_int::MAX)
}

/// Starts to connect to a peer. Returns 0, or -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_connect(
    pointer: *mut Socket,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> c_int {
    // SAFETY: the contract above.
    let (socket, to) = unsafe { (socket(pointer), read_address(to, to_len)) };
    let (Some((context, socket)), Some(to)) = (socket, to) else { return -1 };
    context.connect(socket, to)
}

/// Takes bytes to send. Returns their number, or -1 without a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_write(pointer: *mut Socket, from: *mut c_void, count: usize) -> libc::ssize_t {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    context.write(socket, &[unsafe { bytes(from.cast(), count) }]) as libc::ssize_t
}

/// Takes bytes from several buffers. Returns their number, or -1 without a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_writev(pointer: *mut Socket, parts: *mut Part, count: usize) -> libc::ssize_t {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    if parts.is_null() {
        return -1;
    }
    // SAFETY: the contract above.
    let parts = unsafe { std::slice::from_raw_parts(parts, count.min(PARTS_MAX)) };
    let parts: Vec<&[u8]> = parts.iter().map(|part| unsafe { bytes(part.base, part.len) }).collect();
    context.write(socket, &parts) as libc::ssize_t
}

/// Writes the peer's address, as much of it as fits, to `address`, and its length. Returns 0, or
/// -1 on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_getpeername(
    pointer: *mut Socket,
    address: *mut libc::sockaddr,
    address_len: *mut libc::socklen_t,
) -> c_int {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    let Some(peer) = context.peer(socket) else { return -1 };
    if address.is_null() || address_len.is_null() {
        return -1;
    }
    let raw = raw_address(peer);
    // SAFETY: both are writable, by the contract above; no more is written than there is room for.
    unsafe {
        let len = raw.len.min(*address_len);
        std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), address.cast::<u8>(), len as usize);
        *address_len = len;
    }
    0
}

/// The program has read its bytes, so the window may grow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_read_drained(pointer: *mut Socket) {
    if let Some((context, socket)) = unsafe { socket(pointer) } {
        context.drained(socket);
    }
}

/// The queuing delays of this side's packets and of the peer's, in microseconds, and how many milliseconds ago a
/// packet of the peer measured them; `UINT32_MAX` if none has. Returns 0, or -1 before `utp_connect`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_get_delays(
    pointer: *mut Socket,
    ours: *mut u32,
    theirs: *mut u32,
    age: *mut u32,
) -> c_int {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return -1 };
    let delays = context.delays(socket);
    for (place, value) in [ours, theirs, age].into_iter().zip(delays.unwrap_or_default()) {
        if !place.is_null() {
            // SAFETY: the place is writable, by the contract above.
            unsafe { place.write(value) };
        }
    }
    delays.map_or(-1, |_| 0)
}

/// Counters of a socket; the pointer is valid as long as the socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_get_stats(pointer: *mut Socket) -> *mut SocketStats {
    unsafe { socket(pointer) }.map_or(null_mut(), |(context, socket)| context.stats_of(socket))
}

/// The context of a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_get_context(pointer: *mut Socket) -> *mut Context {
    unsafe { socket(pointer) }.map_or(null_mut(), |(_, socket)| socket.context.cast_mut())
}

/// Ends one direction or both: arriving bytes are dropped (SHUT_RD), or nothing more is written
/// (SHUT_WR).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_shutdown(pointer: *mut Socket, how: c_int) {
    let Some((context, socket)) = (unsafe { socket(pointer) }) else { return };
    if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
        socket.is_deaf.set(true);
    }
    if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR) {
        context.finish(socket);
    }
}

/// Closes a socket. Written bytes are still sent; a later `utp_check_timeouts` destroys the
/// socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utp_close(pointer: *mut Socket) {
    if let Some((context, socket)) = unsafe { socket(pointer) } {
        context.close(socket);
    }
}

/// Sets the law of connections that are made from now on; -1 if there is no such law.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leeway_utp_set_law(pointer: *mut Context, law: *const c_char) -> c_int {
    let Some(context) = unsafe { context(pointer) }.filter(|_| !law.is_null()) else { return -1 };
    // SAFETY: a string that ends with a zero byte, by the contract above.
    let law = unsafe { CStr::from_ptr(law) }.to_str().ok().and_then(|law| law.parse().ok());
    law.map_or(-1, |law| {
        context.set_law(law);
        0
    })
}

/// Microseconds until `utp_check_timeouts` must be called; -1 if only a packet can require a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leeway_utp_next_timeout_us(pointer: *mut Context) -> c_longlong {
    let wait_us = unsafe { context(pointer) }.and_then(Context::next_timeout_us);
    wait_us.and_then(|wait_us| c_longlong::try_from(wait_us).ok()).unwrap_or(-1)
}
