//! Congestion control for background traffic over QUIC: Leeway's control laws in [quinn].
//!
//! A law such as `ledbat` keeps the queue of the bottleneck short and yields to other traffic. Give
//! quinn a [`LawFactory`], and each connection of that configuration sends under the law:
//!
//! ```
//! use leeway_quinn::LawFactory;
//! use std::sync::Arc;
//!
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(LawFactory::new("ledbat:target=25ms".parse()?)));
//! # Ok::<(), leeway_quinn::LawError>(())
//! ```
//!
//! A law limits what its own side sends. For downloads, set it in the server's configuration.
//! `examples/` has a client and a server.
//!
//! # Scope and limitations
//! - Laws that use one-way delays get round-trip times instead: QUIC carries no one-way delay.
//! - quinn sends while `in_flight + mtu < window`, so the window is at least one packet.
//! - quinn paces at 1.25 windows per round trip in bursts of at least ten packets (RFC 9002, 7.7). The
//!   pacing rate, the quantum and the probe timer of a law are not used.
//! - quinn reports no timeout before persistent congestion (RFC 9002, 7.6) and no number of marked
//!   bytes: a mark counts as one packet.
//!
//! [quinn]: https://docs.rs/quinn

mod driver;

pub use driver::Driver;
pub use leeway_control::{LawError, LawSpec, Output, Phase};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// Builds the controllers of connections: each path of each connection gets a law of its own.
#[derive(Clone, Debug)]
pub struct LawFactory {
    spec: LawSpec,
}

impl LawFactory {
    /// Connections send under this law.
    pub fn new(spec: LawSpec) -> Self {
        LawFactory { spec }
    }
}

impl ControllerFactory for LawFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LawController { driver: Driver::new(&self.spec, current_mtu, now) })
    }
}

/// The law of one path as quinn's controller.
///
/// To see what a law does, ask the connection for it:
/// `connection.congestion_state().into_any().downcast::<LawController>()`.
#[derive(Clone, Debug)]
pub struct LawController {
    driver: Driver,
}

impl LawController {
    /// Name of the law, for example `ledbat`.
    pub fn law(&self) -> &'static str {
        self.driver.law().info().name
    }

    /// Window, queuing delay and phase after the last event.
    pub fn output(&self) -> &Output {
        self.driver.law().output()
    }
}

impl Controller for LawController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.driver.on_sent(now, bytes);
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.driver.on_ack(sent, bytes, rtt.get(), rtt.min());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        if let Some(ack) = self.driver.on_end_acks(now, in_flight, app_limited) {
            self.driver.acknowledged(&ack);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.driver.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.driver.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.driver.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.driver.path().initial_window_bytes.into()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
