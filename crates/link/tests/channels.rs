//! Losses, retransmission and delay lines.

mod common;

use common::{drain, mbit, ms, pkt, played, queue, us};
use leeway_link::{Arq, Delay, JitterSpec, LinkSpec, Loss, LossSpec, Transmitter};
use leeway_queue::{Log, Queue, Reason};
use leeway_units::{Duration, Size};

fn loss(spec: &str, seed: u64) -> Loss {
    Loss::new(spec.parse().unwrap(), seed)
}

fn arq(text: &str) -> Arq {
    text.parse().unwrap()
}

/// The share of losses and the mean length of a burst of losses, over a million packets.
fn measured(spec: &str) -> (f64, f64) {
    let mut loss = loss(spec, 3);
    let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
    for _ in 0..1_000_000 {
        let now = loss.is_lost();
        lost += u32::from(now);
        bursts += u32::from(now && !before);
        before = now;
    }
    (f64::from(lost) / 1e6, f64::from(lost) / f64::from(bursts.max(1)))
}

#[test]
fn losses_have_their_share_and_their_bursts() {
    let check = |spec: &str, share: f64, burst: f64| {
        let (got_share, got_burst) = measured(spec);
        assert!((got_share - share).abs() < 0.02 * share.max(0.01), "{spec}: {got_share}, not {share}");
        assert!((got_burst / burst - 1.0).abs() < 0.03, "{spec}: {got_burst}, not {burst}");
        assert!((spec.parse::<LossSpec>().unwrap().mean() - share).abs() < 1e-12, "{spec}");
    };
    // Independent losses: bursts are geometric.
    check("random:p=10%", 0.1, 1.0 / 0.9);
    // Gilbert: a share p/(p+r) is in the bad state, in which all packets are lost, 1/r in a row.
    check("gilbert_elliott:p=1%,r=30%", 0.01 / 0.31, 1.0 / 0.3);
    check("gilbert_elliott:p=5%,r=20%", 0.2, 5.0);
    // Elliott: half of the packets pass in the bad state.
    let share = 0.2 * 0.5;
    let (got, burst) = measured("gilbert_elliott:p=5%,r=20%,h=50%");
    assert!((got - share).abs() < 0.002 && burst < 2.5, "{got} {burst}");
    assert!(("gilbert_elliott:p=5%,r=20%,h=50%".parse::<LossSpec>().unwrap().mean() - share).abs() < 1e-12);
    // One packet in a hundred is lost in the good state as well.
    let share = 0.8 * 0.01 + 0.2;
    let (got, _) = measured("gilbert_elliott:p=5%,r=20%,k=99%");
    assert!((got - share).abs() < 0.004, "{got}");
    assert!(("gilbert_elliott:p=5%,r=20%,k=99%".parse::<LossSpec>().unwrap().mean() - share).abs() < 1e-12);
    assert_eq!(measured("random:p=0").0, 0.0);
    assert_eq!(measured("random:p=100%").0, 1.0);
    assert_eq!(measured("gilbert_elliott:p=0,r=0").0, 0.0);
}

#[test]
fn a_lost_packet_takes_its_time_and_does_not_depart() {
    let mut link = Transmitter::new(queue("droptail", 1000), mbit(8)).with_loss(loss("random:p=30%", 1));
    let mut log = Log::default();
    for id in 0..500 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    let departures = drain(&mut link, &mut log);
    // Packet n ends at n + 1 ms, also if it is lost.
    for departure in &departures {
        assert_eq!(departure.at, ms(departure.packet.id + 1));
    }
    for (time, packet, reason) in &log.dropped {
        assert_eq!((*time, *reason), (ms(packet.id + 1), Reason::Loss));
    }
    assert_eq!(departures.len() + log.dropped.len(), 500);
    assert!((100..200).contains(&log.dropped.len()), "{}", log.dropped.len());
}

#[test]
fn retransmission_turns_loss_into_delay_and_keeps_order() {
    // The failing transmissions are known before, by the same seed.
    let mut fate = loss("random:p=40%", 9);
    let mut link = Transmitter::new(queue("droptail", 1000), mbit(8))
        .with_arq(loss("random:p=40%", 9), arq("tries=3,delay=20ms"));
    let (mut log, mut expected, mut end, mut released) = (Log::default(), Vec::new(), 0, 0);
    let mut lost = Vec::new();
    for id in 0..300 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
        let tries = (1..=3).find(|_| !fate.is_lost());
        // Each transmission takes 1 ms on the link, and each retry delays the delivery by 20 ms.
        // No packet overtakes another.
        end += tries.unwrap_or(3);
        released = released.max(end + 20 * (tries.unwrap_or(3) - 1));
        match tries {
            Some(_) => expected.push((id, released * 1000)),
            None => lost.push((ms(end), pkt(id, 1000), Reason::Retries)),
        }
    }
    let got: Vec<_> = drain(&mut link, &mut log).iter().map(|d| (d.packet.id, d.at.micros())).collect();
    assert_eq!(got, expected);
    assert_eq!(log.dropped, lost);
    assert!(lost.len() > 5 && got.iter().any(|(_, at)| at % 1000 == 0));
    assert!(got.is_sorted_by_key(|(_, at)| *at) && got.is_sorted_by_key(|(id, _)| *id));
}

#[test]
fn with_enough_tries_nothing_is_lost() {
    let mut link = Transmitter::new(queue("droptail", 1000), mbit(8))
        .with_arq(loss("gilbert_elliott:p=10%,r=20%", 4), arq("tries=1000,delay=0s"));
    let arrivals: Vec<_> = (0..1000).map(|id| (ms(0), pkt(id, 1000))).collect();
    let got = played(&mut link, &arrivals);
    assert_eq!(got.len(), 1000);
    // In the long run a third is lost, so the link needs half as much time again.
    let last = got.last().unwrap().1;
    assert!((1_300_000..1_700_000).contains(&last), "{last}");
}

#[test]
fn a_packet_held_for_order_is_not_ready_but_counted() {
    // The first packet must fail once. Losses are random, so a seed is searched.
    let seed = (0..100).find(|&seed| {
        let mut fate = loss("random:p=50%", seed);
        [fate.is_lost(), fate.is_lost(), fate.is_lost()] == [true, false, false]
    });
    let mut link = Transmitter::new(queue("droptail", 10), mbit(8))
        .with_arq(loss("random:p=50%", seed.unwrap()), arq("arq:tries=9,delay=50ms"));
    for id in 0..2 {
        link.offer(ms(0), pkt(id, 1000), &mut ());
    }
    // Packet 0 is sent at 1 and 2 ms and delivered at 52 ms, packet 1 is sent at 3 ms and waits
    // for it.
    assert_eq!(link.poll(ms(51), &mut ()), None);
    assert_eq!((link.ready().len(), link.is_busy(), link.next()), (2, false, Some(ms(52))));
    let times: Vec<_> = drain(&mut link, &mut Log::default()).iter().map(|d| (d.packet.id, d.at)).collect();
    assert_eq!(times, [(0, ms(52)), (1, ms(52))]);
}

#[test]
fn a_fixed_delay_moves_everything() {
    let mut line = Delay::fixed(Duration::from_millis(30));
    assert_eq!((line.next(), line.is_empty()), (None, true));
    line.push(ms(1), 'a');
    line.push(ms(1), 'b');
    line.push(ms(4), 'c');
    assert_eq!((line.next(), line.len()), (Some(ms(31)), 3));
    assert_eq!(line.poll(us(30_999)), None);
    assert_eq!(line.poll(ms(100)), Some((ms(31), 'a')));
    assert_eq!(line.poll(ms(31)), Some((ms(31), 'b')));
    assert_eq!(line.poll(ms(33)), None);
    assert_eq!(line.poll(ms(34)), Some((ms(34), 'c')));
    assert_eq!((line.next(), line.poll(ms(1000))), (None, None));
}

#[test]
fn a_shorter_route_keeps_order_unless_told_otherwise() {
    let run = |reorder| {
        let mut line = Delay::fixed(Duration::from_millis(30)).with_reordering(reorder);
        line.push(ms(0), 0);
        line.push(ms(5), 1);
        line.set_delay(Duration::from_millis(10));
        assert_eq!(line.delay(), Duration::from_millis(10));
        line.push(ms(6), 2);
        line.push(ms(22), 3);
        line.push(ms(40), 4);
        std::iter::from_fn(|| line.poll(ms(1000)))
            .map(|(at, id)| (id, at.micros() / 1000))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(false), [(0, 30), (1, 35), (2, 35), (3, 35), (4, 50)]);
    assert_eq!(run(true), [(2, 16), (0, 30), (3, 32), (1, 35), (4, 50)]);
}

#[test]
fn packets_of_one_time_keep_their_order_even_when_overtaking() {
    let mut line = Delay::fixed(Duration::from_millis(10)).with_reordering(true);
    line.push(ms(0), 'a');
    line.set_delay(Duration::from_millis(20));
    line.push(ms(0), 'c');
    line.set_delay(Duration::from_millis(9));
    line.push(ms(1), 'b');
    let order: Vec<_> = std::iter::from_fn(|| line.poll(ms(100))).collect();
    assert_eq!(order, [(ms(10), 'a'), (ms(10), 'b'), (ms(20), 'c')]);
}

/// Delays added to 20,000 packets, one every `gap` us, in milliseconds, and whether the order was
/// kept.
fn jittered(spec: &str, gap: u64) -> (Vec<f64>, bool) {
    let jitter: JitterSpec = spec.parse().unwrap();
    let mut line = Delay::jittered(Duration::from_millis(50), jitter, 5);
    for id in 0..20_000 {
        line.push(us(id * gap), id);
    }
    let (mut delays, mut order, mut last) = (Vec::new(), true, None);
    let mut before = ms(0);
    while let Some((at, id)) = line.poll(ms(1_000_000_000)) {
        assert!(at >= before, "times ascend");
        before = at;
        order &= last.replace(id) < Some(id);
        delays.push((at - us(id * gap)).millis_f64() - 50.0);
    }
    assert_eq!(delays.len(), 20_000);
    (delays, order)
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

#[test]
fn jitter_has_its_distribution_and_may_keep_order() {
    // Packets so far apart that they cannot overtake.
    let (delays, order) = jittered("uniform:range=10ms", 100_000);
    let (mean, deviation) = mean_and_deviation(&delays);
    assert!(
        order && (mean - 5.0).abs() < 0.1 && (deviation - 10.0 / 12f64.sqrt()).abs() < 0.05,
        "{mean} {deviation}"
    );
    assert!(delays.iter().all(|delay| (0.0..10.0).contains(delay)));
    let (mean, deviation) = mean_and_deviation(&jittered("normal:deviation=4ms", 100_000).0);
    assert!(mean.abs() < 0.1 && (deviation - 4.0).abs() < 0.1, "{mean} {deviation}");
    let (delays, _) = jittered("exponential:mean=3ms", 1_000_000);
    let (mean, deviation) = mean_and_deviation(&delays);
    assert!((mean - 3.0).abs() < 0.1 && (deviation - 3.0).abs() < 0.1, "{mean} {deviation}");
    // Packets close together.
    assert!(jittered("uniform:range=10ms", 500).1);
    assert!(!jittered("uniform:range=10ms,reorder=true", 500).1);
    assert!(!jittered("normal:deviation=1ms,reorder=true", 500).1);
    assert!(!jittered("exponential:mean=1ms,reorder=true", 500).1);
    // Overtaking does not change a packet's own delay.
    let (mean, _) = mean_and_deviation(&jittered("uniform:range=10ms,reorder=true", 500).0);
    assert!((mean - 5.0).abs() < 0.1, "{mean}");
    // A delay is never negative.
    let mut line = Delay::jittered(Duration::ZERO, "normal:deviation=9ms,reorder=true".parse().unwrap(), 1);
    for id in 0..100 {
        line.push(ms(1000), id);
    }
    assert_eq!(line.next(), Some(ms(1000)));
}

#[test]
fn a_delay_line_can_lose_what_it_is_offered() {
    let mut line = Delay::fixed(Duration::from_millis(1)).with_loss(loss("random:p=25%", 2));
    let mut log = Log::default();
    for id in 0..4000u64 {
        line.offer(ms(id), id, &mut log);
    }
    assert_eq!(line.len() + log.dropped.len(), 4000);
    assert!((900..1100).contains(&log.dropped.len()));
    assert!(log.dropped.iter().all(|(time, id, reason)| *time == ms(*id) && *reason == Reason::Loss));
}

#[test]
fn a_whole_link_from_data() {
    let mut spec = LinkSpec::new(mbit(8), Size::Packets(2));
    spec.delay = Duration::from_millis(25);
    let (mut link, mut log) = (spec.build(1), Log::default());
    for id in 0..4 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    assert_eq!(log.dropped.len(), 1);
    assert_eq!(link.next(), Some(ms(1)));
    let first = loop {
        let now = link.next().unwrap();
        if let Some(arrival) = link.poll(now, &mut log) {
            break arrival;
        }
    };
    assert_eq!((first.at, first.sent, first.enqueued, first.packet.id), (ms(26), ms(1), ms(0), 0));
    assert_eq!((link.flying(), link.transmitter().queue().packets()), (2, 0));
    link.set_delay(ms(26), Duration::from_millis(50), &mut log);
    link.offer(ms(30), pkt(9, 1000), &mut log);
    let rest: Vec<_> =
        std::iter::from_fn(|| link.poll(ms(1000), &mut log)).map(|a| (a.packet.id, a.at)).collect();
    assert_eq!(rest, [(1, ms(27)), (2, ms(28)), (9, ms(81))]);
}

#[test]
fn models_as_text() {
    for text in ["random:p=0.02", "gilbert_elliott:r=0.25,h=0.1"] {
        assert_eq!(text.parse::<LossSpec>().unwrap().to_string(), text);
    }
    assert_eq!("random:p=1%".parse::<LossSpec>().unwrap().to_string(), "random");
    for text in ["uniform:range=5ms,reorder=true", "normal", "exponential:mean=2ms"] {
        assert_eq!(text.parse::<JitterSpec>().unwrap().to_string(), text);
    }
    assert_eq!(arq("tries=4, delay=20ms").to_string(), "arq:tries=4,delay=20ms");
    assert_eq!(arq("arq:tries=4,delay=20ms"), arq("tries=4,delay=20ms"));
    assert_eq!((arq("").tries, arq("arq").delay), (8, Duration::from_millis(10)));
    let error = |text: &str| text.parse::<LossSpec>().unwrap_err().to_string();
    assert_eq!(error("burst"), "there is no loss model `burst`; there are: random, gilbert_elliott");
    assert_eq!(error("random:p=2"), "random: p: `2` is out of bounds: 0 to 1");
    assert_eq!(
        "tries=0".parse::<Arq>().unwrap_err().to_string(),
        "arq: tries: `0` is out of bounds: 1 to 1000"
    );
}

#[test]
fn an_aggregate_comes_out_together() {
    let spec: JitterSpec = "aggregate:wait=4ms".parse().unwrap();
    let mut line = Delay::jittered(Duration::from_millis(10), spec, 1);
    let entered: Vec<_> = (0..20_000u64).map(|id| us(id * 100)).collect();
    for (id, &at) in entered.iter().enumerate() {
        line.push(at, id);
    }
    let (mut bursts, mut last) = (Vec::new(), None);
    while let Some((at, id)) = line.poll(ms(10_000)) {
        let added = at - (entered[id] + Duration::from_millis(10));
        assert!(added <= Duration::from_millis(6), "at most one and a half waits: {added}");
        if last != Some(at) {
            assert!(added >= Duration::from_millis(2), "the first one waits half of it at least: {added}");
            bursts.push(0);
            last = Some(at);
        }
        *bursts.last_mut().unwrap() += 1;
    }
    // The mean wait of 4 ms, and the gap until the next packet.
    let mean = 20_000.0 / bursts.len() as f64;
    assert!((mean - 40.5).abs() < 1.5, "{mean} packets a burst");
    assert!(bursts.iter().max() > Some(&55) && bursts.iter().min() < Some(&25), "waits differ");
}

#[cfg(feature = "serde")]
#[test]
fn files_hold_the_text() {
    use leeway_link::Rates;
    let loss: LossSpec = serde_json::from_str("\"random:p=2%\"").unwrap();
    assert_eq!(serde_json::to_string(&loss).unwrap(), "\"random:p=0.02\"");
    let rates: Rates = serde_json::from_str("\"1 Mbit/s, 2 Mbit/s at 3 s\"").unwrap();
    assert_eq!(serde_json::to_string(&rates).unwrap(), "\"1 Mbit/s, 2 Mbit/s at 3 s\"");
    let arq: Arq = serde_json::from_str("\"tries=2\"").unwrap();
    assert_eq!(serde_json::to_string(&arq).unwrap(), "\"arq:tries=2\"");
    assert!(serde_json::from_str::<JitterSpec>("\"uniform:range=3\"").is_err());
    let schema = serde_json::to_value(schemars::schema_for!(JitterSpec)).unwrap();
    assert_eq!(schema["pattern"], "^ *(uniform|normal|exponential|aggregate) *(:.*)?$");
}
