//! A made-up network: delays wander, packets are lost, marked and acknowledged in twos, applications pause.

use super::{Chance, MSS};
use leeway_control::{Ack, Law, Loss, Path, Rate};

/// What happens in a run, once in so many acks; 0: never.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub seed: u64,
    pub acks: usize,
    pub loss: u64,
    pub timeout: u64,
    pub mark: u64,
    pub pause: u64,
    pub stretch: u64,
    /// The queue wanders between 0 and this.
    pub queue_us: u32,
    /// Round-trip time without queue; one-way delay is half of it.
    pub rtt_us: u32,
    /// Added to one-way delays modulo 2^32: the offset of the clocks.
    pub offset_us: u32,
    /// 0: no one-way samples.
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

/// One event as a law sees it.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Ack(Ack),
    Loss(Loss),
}

/// Drives a law through the weather; `see` hears every event after the law did.
#[expect(clippy::too_many_lines, reason = "one event after the other")]
pub fn drive(law: &mut Law, weather: &Weather, mut see: impl FnMut(&Event, &Path, &Law)) {
    let mut chance = Chance(weather.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut now_us: u64 = 10_000_000;
    let mut queue_us = f64::from(weather.queue_us) / 4.0;
    let mut aim_us = queue_us;
    let mut round_ends_us = now_us;
    let mut recovering_until_us = 0;
    let mut paused_until_us = 0;
    let mut timeouts = 0;
    let mut delivered: u64 = 0;
    let mut path = Path {
        mss_bytes: weather.mss,
        initial_window_bytes: 10 * weather.mss,
        srtt_us: weather.rtt_us,
        min_rtt_us: weather.rtt_us,
        inflight_bytes: 0,
    };
    for _ in 0..weather.acks {
        if chance.one_in(60) {
            aim_us = chance.below(u64::from(weather.queue_us) + 1) as f64;
        }
        queue_us += (aim_us - queue_us) * 0.08;
        let queue = queue_us as u32;
        let rtt_us = weather.rtt_us + queue;
        let window = law.output().window_bytes_f64() / f64::from(weather.mss);
        let mut acked = u64::from(weather.mss);
        if chance.one_in(weather.stretch) {
            acked *= 1 + chance.below(3);
        }
        now_us += 1 + (f64::from(rtt_us) * acked as f64 / f64::from(weather.mss) / window.max(0.05)) as u64;
        path.srtt_us = (7 * path.srtt_us + rtt_us) / 8;
        if chance.one_in(weather.timeout) || (timeouts > 0 && chance.one_in(2)) {
            timeouts += 1;
            let sent_us = now_us.saturating_sub(u64::from(rtt_us));
            let kind = Loss::TIMEOUT;
            let loss = Loss { now_us, lost_bytes: acked, sent_us, kind, timeouts };
            law.on_loss(&loss, &path);
            see(&Event::Loss(loss), &path, law);
            continue;
        }
        timeouts = 0;
        if chance.one_in(weather.loss) {
            let sent_us = now_us - u64::from(rtt_us);
            let loss = Loss { now_us, lost_bytes: acked, sent_us, kind: Loss::DUPACK, timeouts: 0 };
            law.on_loss(&loss, &path);
            recovering_until_us = now_us + u64::from(rtt_us);
            see(&Event::Loss(loss), &path, law);
            continue;
        }
        if chance.one_in(weather.pause) {
            paused_until_us = now_us + 3 * u64::from(rtt_us);
        }
        let round_start = now_us >= round_ends_us;
        if round_start {
            round_ends_us = now_us + u64::from(rtt_us);
        }
        let noise = chance.below(300) as u32;
        let ack = Ack {
            now_us,
            acked_bytes: acked,
            prior_inflight_bytes: (window.max(1.0) * f64::from(weather.mss)) as u64,
            ce_bytes: if chance.one_in(weather.mark) { acked } else { 0 },
            rtt_us: rtt_us + noise,
            owd_us: (weather.rtt_us / 2 + queue + noise).wrapping_add(weather.offset_us),
            owd_resolution_us: weather.resolution_us,
            app_limited: u8::from(now_us < paused_until_us),
            round_start: u8::from(round_start),
            recovering: u8::from(now_us < recovering_until_us),
            last_kind: Ack::LAST_EXACT,
            last_rtt_us: rtt_us + noise,
            rate: Rate {
                delivered_bytes: delivered + acked,
                prior_delivered_bytes: delivered.saturating_sub((window * f64::from(weather.mss)) as u64),
                interval_us: rtt_us + noise,
                ..Rate::default()
            },
            ..Ack::default()
        };
        delivered += acked;
        path.inflight_bytes = ack.prior_inflight_bytes.saturating_sub(acked);
        law.on_ack(&ack, &path);
        see(&Event::Ack(ack), &path, law);
    }
}
