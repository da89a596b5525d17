//! One direction of a link as people ask for it.

use crate::Error;
use leeway_link::{Arq, JitterSpec, LinkSpec, LossSpec, Rates, Service, Trace};
use leeway_queue::QueueSpec;
use leeway_units::{Duration, Rate, Size};
use std::path::Path;
use std::sync::Arc;

/// What a BDP is counted in, and what a device carries at most.
pub(crate) const PACKET_BYTES: u32 = 1500;
/// The rate of a direction that has none: a packet takes 12 ns.
const NO_LIMIT: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
/// The buffer where none is given and the delay gives no bandwidth-delay product.
const PLAIN_BUFFER: Size = Size::Packets(100);

/// What is known of one direction; everything may be left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionOptions {
    /// The rate, perhaps with changes.
    pub rates: Option<Rates>,
    /// Delivery opportunities instead of a rate.
    pub trace: Option<Arc<Trace>>,
    /// The queue discipline.
    pub queue: Option<QueueSpec>,
    /// The buffer.
    pub buffer: Option<Size>,
    /// The propagation delay.
    pub delay: Duration,
    /// How the delay varies.
    pub jitter: Option<JitterSpec>,
    /// How packets are lost.
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission.
    pub arq: Option<Arq>,
}

impl DirectionOptions {
    /// Reads a trace file of mahimahi's format.
    pub fn read_trace(path: &Path) -> Result<Arc<Trace>, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        let trace = Trace::parse(&text).map_err(|error| Error::file(path, std::io::Error::other(error)))?;
        Ok(Arc::new(trace))
    }

    /// The link itself, its buffer in packets or bytes.
    pub fn spec(&self) -> Result<LinkSpec, Error> {
        let wrong = |message: &str| Err(Error::Options(message.into()));
        if self.arq.is_some() && self.loss.is_none() {
            return wrong("retransmission (--arq) needs something to retransmit: add --loss random:p=1%");
        }
        let service = match (&self.rates, &self.trace) {
            (Some(_), Some(_)) => return wrong("a direction has a rate or a trace, not both"),
            (Some(rates), None) => Service::Rates(rates.clone()),
            (None, Some(trace)) => Service::Trace(trace.clone()),
            (None, None) if self.queue.is_some() || self.buffer.is_some() => {
                return wrong("a queue or a buffer needs a rate: give --up and --down, or --trace");
            }
            (None, None) => Service::Rates(NO_LIMIT.into()),
        };
        if service.rate() == Rate::ZERO && matches!(&service, Service::Rates(r) if r.changes.is_empty()) {
            return wrong("a rate of 0 carries nothing; give one above 0");
        }
        let rate = service.rate();
        let buffer = match self.buffer {
            _ if rate == NO_LIMIT => Size::Unlimited,
            Some(buffer) => buffer,
            None if self.delay.is_zero() => PLAIN_BUFFER,
            None => Size::Bdp(1_000_000),
        };
        Ok(LinkSpec {
            queue: self.queue.clone().unwrap_or_default(),
            delay: self.delay,
            jitter: self.jitter.clone(),
            loss: self.loss.clone(),
            arq: self.arq.clone(),
            service,
            ..LinkSpec::new(rate, resolved(buffer, rate, self.delay))
        })
    }
}

/// A buffer in packets or bytes: as in a scenario, a BDP is the rate times twice the delay of this direction, rounded
/// up to packets, and at least one.
fn resolved(buffer: Size, rate: Rate, delay: Duration) -> Size {
    let Size::Bdp(millionths) = buffer else { return buffer };
    let bits_e15 = u128::from(rate.bits_per_sec())
        .saturating_mul(2 * u128::from(delay.nanos()))
        .saturating_mul(u128::from(millionths));
    let packets = bits_e15.div_ceil(u128::from(PACKET_BYTES) * 8 * 1_000_000_000_000_000).max(1);
    Size::Packets(u32::try_from(packets).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: &str, delay: &str) -> DirectionOptions {
        DirectionOptions {
            rates: Some(rate.parse().unwrap()),
            delay: delay.parse().unwrap(),
            ..DirectionOptions::default()
        }
    }

    #[test]
    fn a_buffer_is_a_bdp_unless_told_otherwise() {
        // 10 Mbit/s x 50 ms = 62500 bytes = 41.7 packets.
        assert_eq!(at("10mbit", "25ms").spec().unwrap().buffer, Size::Packets(42));
        assert_eq!(at("10mbit", "0").spec().unwrap().buffer, Size::Packets(100));
        let half = DirectionOptions { buffer: Some("0.5 BDP".parse().unwrap()), ..at("10mbit", "25ms") };
        assert_eq!(half.spec().unwrap().buffer, Size::Packets(21));
    }

    #[test]
    fn contradictions_are_refused() {
        let queue = DirectionOptions { queue: Some("codel".parse().unwrap()), ..DirectionOptions::default() };
        assert!(queue.spec().unwrap_err().to_string().contains("needs a rate"));
        let arq = DirectionOptions { arq: Some("tries=2".parse().unwrap()), ..at("1mbit", "0") };
        assert!(arq.spec().unwrap_err().to_string().contains("--loss"));
        assert!(at("0 bit/s", "0").spec().unwrap_err().to_string().contains("above 0"));
    }

    #[test]
    fn without_a_rate_only_the_delay_is_left() {
        let spec = DirectionOptions { delay: Duration::from_millis(5), ..DirectionOptions::default() }.spec();
        assert_eq!(spec.unwrap().buffer, Size::Unlimited);
    }
}
