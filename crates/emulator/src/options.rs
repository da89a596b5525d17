//! The properties of a link, as options and files give them.

use crate::Error;
use leeway_link::{Arq, JitterSpec, LinkSpec, LossSpec, Rates, Service, Trace};
use leeway_queue::QueueSpec;
use leeway_units::{Duration, Rate, Size};
use std::path::Path;
use std::sync::Arc;

/// Size of a packet in a BDP, and the MTU of a device, in bytes.
pub(crate) const PACKET_BYTES: u32 = 1500;
/// Rate of a direction without one: a packet takes 12 ns.
const NO_LIMIT: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
/// Buffer where none is given and there is no delay for a bandwidth-delay product.
const PLAIN_BUFFER: Size = Size::Packets(100);

/// The properties of one direction; all are optional, and are set by assignment to the default.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DirectionOptions {
    /// The rate, perhaps with changes.
    pub rates: Option<Rates>,
    /// Delivery opportunities instead of a rate.
    pub trace: Option<Arc<Trace>>,
    /// The queue discipline.
    pub queue: Option<QueueSpec>,
    /// The buffer.
    pub buffer: Option<Size>,
    /// The propagation delay; none by default.
    pub delay: Option<Duration>,
    /// How the delay varies.
    pub jitter: Option<JitterSpec>,
    /// How packets are lost.
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission.
    pub arq: Option<Arq>,
}

/// A link in both directions; the properties are set by assignment to the default.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LinkOptions {
    /// Properties of both directions, unless a direction has its own.
    pub both: DirectionOptions,
    /// Properties of one direction: up, then down.
    pub directions: [DirectionOptions; 2],
}

impl LinkOptions {
    /// Whether the link is a wire, without any property.
    pub fn is_plain(&self) -> bool {
        *self == LinkOptions::default()
    }

    /// The links up and down.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn specs(&self) -> Result<[LinkSpec; 2], Error> {
        let [up, down] =
            [&self.directions[0], &self.directions[1]].map(|direction| self.of(direction).spec());
        Ok([up?, down?])
    }

    fn of(&self, direction: &DirectionOptions) -> DirectionOptions {
        let LinkOptions { both, directions } = self;
        let served = |direction: &DirectionOptions| direction.rates.is_some() || direction.trace.is_some();
        // A queue for both directions applies to those that have a rate. A queue where neither has
        // one is an error.
        let queues = served(direction) || served(both) || !directions.iter().any(served);
        // A rate replaces a trace, and a trace replaces a rate.
        let (rates, trace) = match served(direction) {
            true => (&direction.rates, &direction.trace),
            false => (&both.rates, &both.trace),
        };
        DirectionOptions {
            rates: rates.clone(),
            trace: trace.clone(),
            queue: direction.queue.clone().or(both.queue.clone().filter(|_| queues)),
            buffer: direction.buffer.or(both.buffer.filter(|_| queues)),
            delay: direction.delay.or(both.delay),
            jitter: direction.jitter.clone().or(both.jitter.clone()),
            loss: direction.loss.clone().or(both.loss.clone()),
            arq: direction.arq.clone().or(both.arq.clone()),
        }
    }
}

impl DirectionOptions {
    /// Reads a trace file of mahimahi's format.
    pub fn read_trace(path: &Path) -> Result<Arc<Trace>, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        let trace = Trace::parse(&text).map_err(|error| Error::file(path, std::io::Error::other(error)))?;
        Ok(Arc::new(trace))
    }

    /// The link, with its buffer in packets or bytes.
    pub fn spec(&self) -> Result<LinkSpec, Error> {
        let wrong = |message: &str| Err(Error::Options(message.into()));
        if self.arq.is_some() && self.loss.is_none() {
            return wrong(
                "retransmission (arq) needs something to retransmit: add a loss such as random:p=1%",
            );
        }
        let service = match (&self.rates, &self.trace) {
            (Some(_), Some(_)) => return wrong("a direction has a rate or a trace, not both"),
            (Some(rates), None) => Service::Rates(rates.clone()),
            (None, Some(trace)) => Service::Trace(trace.clone()),
            (None, None) if self.queue.is_some() || self.buffer.is_some() => {
                return wrong("a queue or a buffer needs a rate or a trace");
            }
            (None, None) => Service::Rates(NO_LIMIT.into()),
        };
        if service.rate() == Rate::ZERO && matches!(&service, Service::Rates(r) if r.changes.is_empty()) {
            return wrong("a rate of 0 carries nothing; give one above 0");
        }
        let rate = service.rate();
        let delay = self.delay.unwrap_or_default();
        let buffer = match self.buffer {
            _ if rate == NO_LIMIT => Size::Unlimited,
            Some(buffer) => buffer,
            None if delay.is_zero() => PLAIN_BUFFER,
            None => Size::Bdp(1_000_000),
        };
        let mut spec = LinkSpec::new(rate, resolved(buffer, rate, delay));
        spec.service = service;
        spec.queue = self.queue.clone().unwrap_or_default();
        spec.delay = delay;
        spec.jitter = self.jitter.clone();
        spec.loss = self.loss.clone();
        spec.arq = self.arq.clone();
        Ok(spec)
    }
}

/// A buffer in packets or bytes: as in a scenario, a BDP is the rate times twice the delay of this
/// direction, rounded up to packets, and at least one.
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
            delay: Some(delay.parse().unwrap()),
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
        assert!(arq.spec().unwrap_err().to_string().contains("loss"));
        assert!(at("0 bit/s", "0").spec().unwrap_err().to_string().contains("above 0"));
    }

    #[test]
    fn without_a_rate_only_the_delay_is_left() {
        let spec =
            DirectionOptions { delay: Some(Duration::from_millis(5)), ..DirectionOptions::default() }.spec();
        assert_eq!(spec.unwrap().buffer, Size::Unlimited);
    }

    #[test]
    fn what_is_said_of_both_holds_where_one_says_nothing() {
        let queued = DirectionOptions { queue: Some("codel".parse().unwrap()), ..at("1mbit", "5ms") };
        let both = DirectionOptions { rates: None, ..queued };
        let up = DirectionOptions { queue: Some("pie".parse().unwrap()), ..at("1mbit", "9ms") };
        let options = LinkOptions { both, directions: [up, DirectionOptions::default()] };
        let [up, down] = options.specs().unwrap();
        assert_eq!((up.queue.name(), up.delay), ("pie", Duration::from_millis(9)));
        // A direction without a rate has no queue; that is an error only where neither has one.
        assert_eq!((down.queue.name(), down.delay), ("droptail", Duration::from_millis(5)));
        let plain = LinkOptions { directions: Default::default(), ..options };
        assert!(plain.specs().unwrap_err().to_string().contains("needs a rate"));
    }
}
