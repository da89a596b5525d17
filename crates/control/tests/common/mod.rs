//! What the tests share: paths, acknowledgements, a seeded random generator, and a made-up
//! network.
#![allow(dead_code)] // each test binary uses a part of this module

pub mod bottleneck;
pub mod drive;

use leeway_control::{Ack, Law, LawSpec, Loss, Path};

pub const MSS: u32 = 1500;

pub fn path(initial_packets: u32) -> Path {
    Path {
        mss_bytes: MSS,
        initial_window_bytes: initial_packets * MSS,
        srtt_us: 50_000,
        min_rtt_us: 50_000,
        inflight_bytes: 0,
    }
}

pub fn build(text: &str, path: &Path) -> Law {
    text.parse::<LawSpec>().unwrap_or_else(|error| panic!("{error}")).build(path)
}

/// The congestion window in packets.
pub fn packets(law: &Law) -> f64 {
    law.output().window_bytes_f64() / f64::from(MSS)
}

/// One packet is acknowledged, behind a queue of `queue_us` on a path of 50 ms (25 ms one way).
pub fn ack(now_us: u64, queue_us: u32) -> Ack {
    Ack {
        now_us,
        acked_bytes: u64::from(MSS),
        prior_inflight_bytes: 1 << 32,
        rtt_us: 50_000 + queue_us,
        last_kind: Ack::LAST_EXACT,
        last_rtt_us: 50_000 + queue_us,
        owd_us: 25_000 + queue_us,
        owd_resolution_us: 1,
        ..Ack::default()
    }
}

pub fn dupack(now_us: u64, sent_us: u64) -> Loss {
    Loss { now_us, lost_bytes: u64::from(MSS), sent_us, kind: Loss::DUPACK, timeouts: 0 }
}

pub fn timeout(now_us: u64, sent_us: u64, timeouts: u32) -> Loss {
    Loss { now_us, lost_bytes: u64::from(MSS), sent_us, kind: Loss::TIMEOUT, timeouts }
}

/// The value of the law's probe `name`.
pub fn probe(law: &Law, name: &str) -> f64 {
    let mut found = None;
    law.probe(&mut |info, value| {
        if info.name == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no probe {name}"))
}

/// xorshift64*: a random generator that gives the same numbers everywhere.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in 0..n.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    /// True once in `n` calls, at random.
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }
}

/// Acknowledges `count` segments one by one, 10 µs apart, behind a queue of `queue_us`.
pub fn acks(law: &mut Law, now_us: &mut u64, count: u64, queue_us: u32) {
    for _ in 0..count {
        *now_us += 10;
        law.on_ack(&ack(*now_us, queue_us), &path(10));
    }
}
