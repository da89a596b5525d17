//! A law with the state of one flow.

use crate::abi::{Ack, Loss, Output, Path, Phase};
use crate::ffi::State;
use crate::info::{LawInfo, ProbeInfo};

/// The congestion controller of one flow: a law of the C library with its state. It has no clock
/// and no timer; every call brings the time.
#[derive(Clone)]
pub struct Law {
    info: &'static LawInfo,
    needs_rate: bool,
    state: State,
}

impl Law {
    pub(crate) fn new(info: &'static LawInfo, params: &[u32], path: &Path, word: u64) -> Law {
        Law { info, needs_rate: info.needs_rate(params), state: State::new(info.raw, params, path, word) }
    }

    /// Whether the law needs delivery rates ([`Ack::rate`]). A stack measures them for such laws
    /// only.
    pub fn needs_rate(&self) -> bool {
        self.needs_rate
    }

    /// Whether the law reads delays. If so, the stack leaves out the time by which a receiver
    /// delays acknowledgements: see [`Sender::waited`](crate::sender::Sender::waited) and
    /// [`in_pairs`](crate::sender::in_pairs).
    pub fn needs_delay(&self) -> bool {
        self.info.needs_delay()
    }

    /// Name of the law.
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// The law's entry in the table of laws.
    pub fn info(&self) -> &'static LawInfo {
        self.info
    }

    /// An acknowledgement has arrived. `path` is the state after it.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.state.on_ack(ack, path);
    }

    /// A loss was found. `path` is the state after it.
    #[inline]
    pub fn on_loss(&mut self, loss: &Loss, path: &Path) {
        self.state.on_loss(loss, path);
    }

    /// The decision after the last event.
    #[inline]
    pub fn output(&self) -> &Output {
        self.state.output()
    }

    /// The congestion window in whole bytes.
    pub fn window_bytes(&self) -> u64 {
        self.output().cwnd_q16 >> 16
    }

    /// What the law is doing.
    pub fn phase(&self) -> Phase {
        self.output().phase()
    }

    /// Calls `visit` with each variable of the state that is worth plotting, and its value.
    pub fn probe(&self, visit: &mut dyn FnMut(&ProbeInfo, f64)) {
        for probe in &self.info.probes {
            visit(probe, self.state.read(probe.offset, probe.size, probe.signed) / probe.divisor);
        }
    }

    /// The bytes of the C state, for a comparison with another place that runs the same law.
    pub fn state(&self) -> Vec<u8> {
        self.state.bytes()
    }

    /// Sets the congestion window and the slow-start threshold. A stack does so to undo the
    /// reaction to a spurious loss.
    pub fn set_window(&mut self, cwnd_q16: u64, ssthresh_bytes: u64) {
        self.state.set_window(cwnd_q16, ssthresh_bytes);
    }
}

impl std::fmt::Debug for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Law").field("name", &self.info.name).field("output", self.output()).finish()
    }
}
