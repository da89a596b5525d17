//! A made-up network: delays wander, packets are lost, marked and acknowledged in pairs,
//! applications pause.

use super::{Chance, MSS};
use leeway_control::{Ack, Law, Loss, Path, Rate};

/// How often each kind of event happens: once in this many acknowledgements; 0 for never.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub seed: u64,
    pub acks: usize,
    pub loss: u64,
    pub timeout: u64,
    pub mark: u64,
    pub pause: u64,
    pub stretch: u64,
    /// The queuing delay wanders between 0 and this.
    pub queue_us: u32,
    /// Round-trip time without a queue. The one-way delay is half of it.
    pub rtt_us: u32,
    /// Offset of the clocks, added to one-way delays modulo 2^32.
    pub offset_us: u32,
    /// Resolution of one-way delays; 0 for no one-way samples.
    pub resolution_us: u32,
    pub mss: u32,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather {
            seed: 1,
            acks: 4000,
            loss: 0,
            timeout: 0,
            mark: 0,
            pause: 0,
            stretch: 3,
            queue_us: 60_000,
            rtt_us: 50_000,
            offset_us: 12_345,
            resolution_us: 1,
            mss: MSS,
        }
    }
}

/// One event, as a law is told of it.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Ack(Ack),
    Loss(Loss),
}

/// Drives a law through the events of `weather`. `see` is called after each event.
pub fn drive(law: &mut Law, weather: &Weather, mut see: impl FnMut(&Event, &Path, &Law)) {
    let mut network = Network::new(weather);
    for _ in 0..weather.acks {
        let event = network.next(law.output().window_bytes_f64() / f64::from(weather.mss));
        match &event {
            Event::Ack(ack) => law.on_ack(ack, &network.path),
            Event::Loss(loss) => law.on_loss(loss, &network.path),
        }
        see(&event, &network.path, law);
    }
}

/// A network with some weather.
struct Network<'a> {
    weather: &'a Weather,
    chance: Chance,
    now_us: u64,
    queue_us: f64,
    /// Queuing delay that `queue_us` approaches.
    aim_us: f64,
    round_ends_us: u64,
    recovering_until_us: u64,
    paused_until_us: u64,
    timeouts: u32,
    delivered_bytes: u64,
    path: Path,
}

impl Network<'_> {
    fn new(weather: &Weather) -> Network<'_> {
        let queue_us = f64::from(weather.queue_us) / 4.0;
        let path = Path {
            mss_bytes: weather.mss,
            initial_window_bytes: 10 * weather.mss,
            srtt_us: weather.rtt_us,
            min_rtt_us: weather.rtt_us,
            inflight_bytes: 0,
        };
        Network {
            weather,
            chance: Chance(weather.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now_us: 10_000_000,
            queue_us,
            aim_us: queue_us,
            round_ends_us: 10_000_000,
            recovering_until_us: 0,
            paused_until_us: 0,
            timeouts: 0,
            delivered_bytes: 0,
            path,
        }
    }

    /// The next event for a law with a window of `window` segments.
    fn next(&mut self, window: f64) -> Event {
        let Network { weather, chance, .. } = self;
        if chance.one_in(60) {
            self.aim_us = chance.below(u64::from(weather.queue_us) + 1) as f64;
        }
        self.queue_us += (self.aim_us - self.queue_us) * 0.08;
        let rtt_us = weather.rtt_us + self.queue_us as u32;
        let mut acked = u64::from(weather.mss);
        if chance.one_in(weather.stretch) {
            acked *= 1 + chance.below(3);
        }
        let segments = acked as f64 / f64::from(weather.mss);
        self.now_us += 1 + (f64::from(rtt_us) * segments / window.max(0.05)) as u64;
        self.path.srtt_us = (7 * self.path.srtt_us + rtt_us) / 8;
        match self.loss(acked, rtt_us) {
            Some(loss) => Event::Loss(loss),
            None => Event::Ack(self.ack(acked, rtt_us, window)),
        }
    }

    fn loss(&mut self, lost_bytes: u64, rtt_us: u32) -> Option<Loss> {
        let Network { weather, chance, now_us, .. } = self;
        let sent_us = now_us.saturating_sub(u64::from(rtt_us));
        let loss = Loss { now_us: *now_us, lost_bytes, sent_us, kind: Loss::DUPACK, timeouts: 0 };
        if chance.one_in(weather.timeout) || (self.timeouts > 0 && chance.one_in(2)) {
            self.timeouts += 1;
            return Some(Loss { kind: Loss::TIMEOUT, timeouts: self.timeouts, ..loss });
        }
        self.timeouts = 0;
        if chance.one_in(weather.loss) {
            self.recovering_until_us = *now_us + u64::from(rtt_us);
            return Some(loss);
        }
        None
    }

    fn ack(&mut self, acked_bytes: u64, rtt_us: u32, window: f64) -> Ack {
        let Network { weather, chance, now_us, .. } = self;
        let (now_us, mss) = (*now_us, f64::from(weather.mss));
        if chance.one_in(weather.pause) {
            self.paused_until_us = now_us + 3 * u64::from(rtt_us);
        }
        let round_start = now_us >= self.round_ends_us;
        if round_start {
            self.round_ends_us = now_us + u64::from(rtt_us);
        }
        let rtt_us = rtt_us + chance.below(300) as u32;
        let owd_us = rtt_us - weather.rtt_us + weather.rtt_us / 2;
        let before = self.delivered_bytes;
        self.delivered_bytes += acked_bytes;
        let prior_inflight_bytes = (window.max(1.0) * mss) as u64;
        self.path.inflight_bytes = prior_inflight_bytes.saturating_sub(acked_bytes);
        Ack {
            now_us,
            acked_bytes,
            prior_inflight_bytes,
            ce_bytes: if chance.one_in(weather.mark) { acked_bytes } else { 0 },
            rtt_us,
            owd_us: owd_us.wrapping_add(weather.offset_us),
            owd_resolution_us: weather.resolution_us,
            app_limited: u8::from(now_us < self.paused_until_us),
            round_start: u8::from(round_start),
            recovering: u8::from(now_us < self.recovering_until_us),
            last_kind: Ack::LAST_EXACT,
            last_rtt_us: rtt_us,
            rate: Rate {
                delivered_bytes: self.delivered_bytes,
                prior_delivered_bytes: before.saturating_sub((window * mss) as u64),
                interval_us: rtt_us,
                ..Rate::default()
            },
            ..Ack::default()
        }
    }
}
