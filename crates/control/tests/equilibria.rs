//! Where laws settle at one bottleneck, against what their papers derive.

mod common;

use common::bottleneck::Bottleneck;
use leeway_control::Phase;

/// 10 Mbit/s.
const RATE: f64 = 10e6 / 8.0 / 1500.0;
const RTT_US: f64 = 50_000.0;

fn settle(law: &str, flows: usize, warm_s: f64) -> (f64, Vec<u64>) {
    let mut bottleneck = Bottleneck::new(RATE, RTT_US);
    for _ in 0..flows {
        bottleneck.add(law, 1);
    }
    bottleneck.run(warm_s);
    bottleneck.run(60.0)
}

fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|x| *x as f64).sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|x| (*x as f64).powi(2)).sum::<f64>())
}

/// LEDBAT: the queuing delay is the target. It cannot resolve one packet, and more flows probe a
/// little more.
#[test]
fn ledbat_holds_the_queue_at_the_target() {
    for target_ms in [5.0, 25.0, 100.0] {
        for flows in [1, 2, 5] {
            let (queue, shares) = settle(&format!("ledbat:target={target_ms}ms,floor=1"), flows, 60.0);
            let target = RATE * target_ms * 1e-3;
            let apart = (queue - target).abs();
            assert!(
                apart <= 0.8 + 0.4 * flows as f64,
                "{flows} at {target_ms} ms: {queue:.2} packets, not {target:.2}"
            );
            assert!(shares.iter().sum::<u64>() as f64 > 60.0 * RATE - 2.0, "full use");
        }
    }
}

/// fLEDBAT: queue = C tau + N alpha tau / (zeta R) packets, where R contains the queue; and equal
/// shares.
#[test]
fn fledbat_settles_where_the_fluid_model_says() {
    for (flows, zeta, alpha) in
        [(1, 0.1, 1.0), (2, 0.1, 1.0), (5, 0.1, 1.0), (10, 0.05, 1.0), (4, 0.5, 1.0), (3, 0.1, 2.0)]
    {
        let (queue, shares) =
            settle(&format!("fledbat:target=25ms,zeta={zeta},alpha={alpha},floor=1"), flows, 60.0);
        let tau = 0.025;
        let mut model = RATE * tau;
        for _ in 0..100 {
            let rtt = RTT_US * 1e-6 + model / RATE;
            model = RATE * tau + flows as f64 * alpha * tau / (zeta * rtt);
        }
        let apart = (queue / model - 1.0).abs();
        assert!(apart < 0.06, "{flows} flows, zeta {zeta}: {queue:.2} packets, the model says {model:.2}");
        assert!(jain(&shares) > 0.99, "{shares:?}");
    }
}

/// Two flows that know the base delay, one of which a loss has halved. Under fLEDBAT they become
/// equal, under LEDBAT they do not.
#[test]
fn fledbat_evens_out_and_ledbat_does_not() {
    let share_of_halved = |law: &str| {
        let mut bottleneck = Bottleneck::new(RATE, RTT_US);
        bottleneck.add(law, 1);
        bottleneck.add(law, 1);
        bottleneck.run(30.0);
        bottleneck.lose(1);
        bottleneck.lose(1);
        bottleneck.run(60.0);
        let (_, shares) = bottleneck.run(60.0);
        shares[1] as f64 / shares.iter().sum::<u64>() as f64
    };
    let (fair, unfair) = (share_of_halved("fledbat:target=25ms"), share_of_halved("ledbat:target=25ms"));
    assert!((0.48..0.52).contains(&fair) && unfair < 0.45, "{fair} {unfair}");
}

/// Vegas keeps alpha to beta packets of each flow in the queue.
#[test]
fn vegas_keeps_a_few_packets() {
    for flows in [1, 3] {
        let (queue, _) = settle("vegas", flows, 60.0);
        let each = queue / flows as f64;
        assert!((1.5..6.0).contains(&each), "{each:.2} packets of each of {flows}");
    }
}

/// FLOWER: the queuing delay is the target, where e = 0 and de = 0.
#[test]
fn flower_holds_the_queue_at_the_target() {
    for target_ms in [25.0, 100.0] {
        let (queue, _) = settle(&format!("flower:slow_start=none,target={target_ms}ms"), 1, 120.0);
        let target = RATE * target_ms * 1e-3;
        assert!((queue - target).abs() < 2.0, "{queue:.2} packets, not {target:.2}");
    }
}

/// LEDBAT++ slows down for two round trips, in which the queue empties. That takes a tenth of the
/// time.
#[test]
fn ledbatpp_slows_down_a_tenth_of_the_time() {
    let mut bottleneck = Bottleneck::new(RATE, RTT_US);
    bottleneck.add("ledbatpp", 10);
    bottleneck.run(30.0);
    let (mut slowed, mut empty, mut entered, mut last) = (0, 0, 0, Phase::Avoidance);
    let steps = 60_000;
    for _ in 0..steps {
        bottleneck.run(0.002);
        let phase = bottleneck.law(0).output().phase();
        slowed += u32::from(phase == Phase::Slowdown);
        entered += u32::from(phase == Phase::Slowdown && last != phase);
        empty += u32::from(bottleneck.queue() < 1.0);
        last = phase;
    }
    let part = f64::from(slowed) / f64::from(steps);
    assert!((0.07..=0.13).contains(&part), "{part}");
    assert!(entered >= 5, "{entered} slowdowns");
    assert!(empty > entered, "the queue empties");
}
