//! Quality of a voice call: the E-model (ITU-T G.107), as simplified by Cole and Rosenbluth
//! (2001).

use crate::histogram::Histogram;
use crate::scenario::Codec;
use leeway_units::Duration;

/// Time between two voice packets.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// Payload of a voice packet. Unit: bytes.
pub fn payload(codec: Codec) -> u16 {
    match codec {
        Codec::G711 => 160, // 64 kbit/s
        Codec::G729 => 20,  // 8 kbit/s
    }
}

/// Equipment impairment factor Ie, packet-loss robustness Bpl (both ITU-T G.113, appendix I), and
/// codec delay in ms.
fn impairment(codec: Codec) -> (f64, f64, f64) {
    match codec {
        // with packet loss concealment; the delay is that of one packet
        Codec::G711 => (0.0, 25.1, 20.0),
        Codec::G729 => (11.0, 19.0, 25.0),
    }
}

/// Mean opinion score, from 1 to 4.5. `sent` voice packets were sent, and those that arrived had
/// the one-way delays `delays`. `None` if no packet was sent.
///
/// The listener's jitter buffer holds packets up to the 99th percentile of the delay. Packets that
/// arrive later count as lost.
pub fn mos(codec: Codec, sent: u64, delays: &Histogram) -> Option<f64> {
    if sent == 0 {
        return None;
    }
    if delays.count() == 0 {
        return Some(1.0);
    }
    let in_time = 0.99 * delays.count().min(sent) as f64;
    let loss_percent = 100.0 * (1.0 - in_time / sent as f64 - 0.01).clamp(0.0, 1.0);
    let (base, robustness, codec_delay_ms) = impairment(codec);
    let delay_ms = delays.quantile(0.99).map_or(0.0, |s| s * 1e3) + codec_delay_ms;
    let delay_impairment = 0.024 * delay_ms + 0.11 * (delay_ms - 177.3).max(0.0);
    // G.107, 3.5: effective equipment impairment under random loss.
    let loss_impairment = base + (95.0 - base) * loss_percent / (loss_percent + robustness);
    Some(score(93.2 - delay_impairment - loss_impairment))
}

/// Opinion score of the transmission rating `r` (G.107, annex B).
fn score(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(delay_ms: u64, arrived: u64) -> Histogram {
        let mut delays = Histogram::default();
        (0..arrived).for_each(|_| delays.add(Duration::from_millis(delay_ms)));
        delays
    }

    #[test]
    fn follows_the_published_curve() {
        // G.107: R = 93.2 is MOS 4.41, R = 80 is 4.03, R = 70 is 3.60, R = 50 is 2.58.
        for (r, mos) in [(93.2, 4.41), (80.0, 4.03), (70.0, 3.60), (50.0, 2.58), (0.0, 1.0), (100.0, 4.5)] {
            assert!((score(r) - mos).abs() < 0.01, "R = {r} gives {}", score(r));
        }
    }

    #[test]
    fn delay_and_loss_hurt() {
        let clean = mos(Codec::G711, 1000, &call(20, 1000)).unwrap();
        assert!(clean > 4.3, "{clean}");
        let late = mos(Codec::G711, 1000, &call(300, 1000)).unwrap();
        let lossy = mos(Codec::G711, 1000, &call(20, 950)).unwrap();
        assert!(late < clean - 0.4 && lossy < clean - 0.4, "{clean} {late} {lossy}");
        assert!(mos(Codec::G729, 1000, &call(20, 1000)).unwrap() < clean);
        assert_eq!(mos(Codec::G711, 10, &Histogram::default()), Some(1.0), "nothing arrives");
        assert_eq!(mos(Codec::G711, 0, &Histogram::default()), None);
    }
}
