//! The lines of UTP_LOG, for a program that asks for them.

use crate::abi::{LOG, LOG_DEBUG, LOG_MTU, LOG_NORMAL};
use crate::context::{Context, Socket};
use std::ffi::{CString, c_int};
use std::net::SocketAddr;
use utp::{Packet, Steering};

/// Kinds of lines: UTP_LOG_NORMAL, UTP_LOG_MTU and UTP_LOG_DEBUG.
pub(crate) const LOG_KINDS: usize = 3;

impl Context {
    /// Starts or ends lines of a kind; -1 if there is no such kind.
    pub(crate) fn set_log(&self, option: c_int, wanted: bool) -> c_int {
        let mut logs = self.logs.get();
        let Some(log) = index(option).and_then(|at| logs.get_mut(at)) else { return -1 };
        *log = wanted;
        self.logs.set(logs);
        0
    }

    /// Whether lines of a kind are wanted.
    pub(crate) fn is_logged(&self, option: c_int) -> Option<bool> {
        index(option).and_then(|at| self.logs.get().get(at).copied())
    }

    /// Passes a line to the program if it wants this kind.
    pub(crate) fn log(&self, option: c_int, socket: *mut Socket, line: impl FnOnce() -> String) {
        if self.is_logged(option) != Some(true) {
            return;
        }
        let Ok(line) = CString::new(line()) else { return };
        self.call(LOG, socket, |arguments| {
            (arguments.buf, arguments.len) = (line.as_ptr().cast(), line.as_bytes().len());
        });
    }

    /// A packet that came or goes.
    pub(crate) fn log_packet(&self, socket: *mut Socket, way: &str, peer: SocketAddr, packet: &Packet<'_>) {
        self.log(LOG_DEBUG, socket, || {
            let header = packet.header;
            let (kind, id, bytes) = (header.kind, header.connection_id, packet.payload.len());
            let (seq, ack, window) = (header.seq, header.ack, header.window_bytes);
            format!(
                "{kind:?} {way} {peer}: id {id}, seq {seq}, ack {ack}, window {window} B, payload {bytes} B"
            )
        });
    }

    /// The state of a connection after an acknowledgement.
    pub(crate) fn log_state(&self, socket: *mut Socket, state: &Steering) {
        self.log(LOG_NORMAL, socket, || {
            let Steering { window_bytes, in_flight_bytes, srtt_us, queuing_delay_us, .. } = state;
            let their_us = state.peer_queuing_delay_us;
            format!(
                "acknowledged: window {window_bytes} B, in flight {in_flight_bytes} B, round trip {srtt_us} us, \
                 queuing delay {queuing_delay_us} us, the peer's {their_us} us"
            )
        });
    }

    /// The size of a full packet, where it has changed.
    pub(crate) fn log_mtu(&self, socket: *mut Socket, packet_bytes: usize) {
        self.log(LOG_MTU, socket, || format!("full packets are of {packet_bytes} B"));
    }
}

fn index(option: c_int) -> Option<usize> {
    usize::try_from(option.checked_sub(LOG_NORMAL)?).ok()
}
