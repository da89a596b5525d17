//! RED against its formulas: thresholds, ramp, average, spacing of drops.

mod common;

use common::{MBIT8, Pkt, Served, build, context, ms, pkt, us};
use leeway_queue::{
    BuildContext, Dequeued, Ecn, Log, Queue, QueueSpec, Reason, Red, RedParams, RedSetting, Unit,
};
use leeway_units::{Bytes, Duration, Rate, Size, Time};

fn params(text: &str) -> RedParams {
    match text.parse().unwrap() {
        QueueSpec::Red(params) => params,
        other => panic!("{other}"),
    }
}

fn red(text: &str, context: &BuildContext) -> Red<Pkt> {
    Red::new(&params(text), context)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

#[test]
fn the_automatic_setting_is_that_of_ns2() {
    let mbit10 = Rate::from_bits_per_sec(10_000_000);
    let mut context = BuildContext::new(Size::Packets(250), mbit10);
    context.delay = Duration::from_millis(50);
    let setting = RedSetting::new(&params("red"), &context);
    // 10 Mbit/s is 2500 packets of 500 bytes a second; half of 5 ms is 6.25 packets.
    assert_eq!(setting.packets_per_sec, 2500.0);
    assert_eq!((setting.min, setting.max, setting.unit), (3125.0, 9375.0, Unit::Bytes));
    assert!(close(setting.weight, 1.0 - (-1.0f64 / (10.0 * 3.0 * (0.05 + 0.0004) * 2500.0)).exp()));
    assert!((setting.weight - 2.645e-4).abs() < 1e-7, "{}", setting.weight);

    // The round trip of a short link counts as 100 ms. The lower threshold is at least five
    // packets.
    let setting = RedSetting::new(
        &params("red"),
        &BuildContext::new(Size::Packets(9), Rate::from_bits_per_sec(1_000_000)),
    );
    assert_eq!((setting.min, setting.max), (2500.0, 7500.0));
    assert!(close(setting.weight, 1.0 - (-1.0f64 / (10.0 * 0.1 * 250.0)).exp()));

    let setting = RedSetting::new(&params("red:target=20ms"), &context);
    assert_eq!((setting.min, setting.max), (12_500.0, 37_500.0));
}

#[test]
fn thresholds_are_given_in_packets_bytes_or_shares() {
    let set = |text, context: &BuildContext| {
        let setting = RedSetting::new(&params(text), context);
        (setting.min, setting.max, setting.unit)
    };
    let packets = context(30);
    assert_eq!(set("red:max=50%", &packets), (5.0, 15.0, Unit::Packets));
    assert_eq!(set("red:min=4pkt", &packets), (4.0, 12.0, Unit::Packets));
    assert_eq!(set("red:min=4pkt,max=5.5pkt", &packets), (4.0, 5.5, Unit::Packets));
    assert_eq!(set("red:min=4pkt,max=3pkt", &packets), (4.0, 4.0, Unit::Packets));
    assert_eq!(set("red:min=3kB,max=9kB", &packets), (3000.0, 9000.0, Unit::Bytes));
    assert_eq!(set("red:min=3kB,max=9kB,unit=packets", &packets), (3.0, 9.0, Unit::Packets));
    assert_eq!(set("red:min=4pkt,unit=bytes,mean=500", &packets), (2000.0, 6000.0, Unit::Bytes));
    let mut bytes = context(0);
    bytes.capacity = Size::Bytes(Bytes::new(20_000));
    assert_eq!(set("red:max=60%", &bytes), (4000.0, 12_000.0, Unit::Bytes));
    assert_eq!(set("red:max=60%,limit=10pkt", &bytes), (2.0, 6.0, Unit::Packets));
}

#[test]
fn the_ramp_is_linear_and_gentle_goes_on_to_one() {
    let gentle = red("red:min=5pkt,max=15pkt,max_p=0.1", &context(100));
    for (average, p) in [(0.0, 0.0), (4.99, 0.0), (5.0, 0.0), (10.0, 0.05), (15.0, 0.1)] {
        assert!(close(gentle.ramp(average), p), "{average}: {}", gentle.ramp(average));
    }
    for (average, p) in [(22.5, 0.55), (29.999999, 0.99999994), (30.0, 1.0), (99.0, 1.0)] {
        assert!((gentle.ramp(average) - p).abs() < 1e-9, "{average}: {}", gentle.ramp(average));
    }
    let hard = red("red:min=5pkt,max=15pkt,max_p=0.1,gentle=false", &context(100));
    assert!(close(hard.ramp(14.0), 0.09));
    assert_eq!(hard.ramp(15.0), 1.0);
}

#[test]
fn the_average_moves_at_arrivals_and_decays_while_idle() {
    // 8 Mbit/s is 1000 mean packets a second.
    let mut queue = red("red:min=50pkt,max=90pkt,weight=0.5", &context(100));
    for (id, expected) in [(0, 0.0), (1, 0.5), (2, 1.25), (3, 2.125)] {
        queue.enqueue(ms(0), pkt(id), &mut ());
        assert_eq!(queue.average(), expected);
    }
    for t in 1..=4 {
        assert!(matches!(queue.dequeue(ms(t), &mut ()), Dequeued::Packet { .. }));
    }
    // Idle from here on. A second request of the link does not restart the idle period.
    assert_eq!(queue.dequeue(ms(5), &mut ()), Dequeued::Empty);
    assert_eq!(queue.dequeue(ms(6), &mut ()), Dequeued::Empty);
    // 3.7 ms are three whole packets missed. The arrival itself is a sample of an empty queue.
    queue.enqueue(us(8_700), pkt(4), &mut ());
    assert_eq!(queue.average(), 2.125 * 0.5f64.powi(3) * 0.5);
    queue.enqueue(us(8_700), pkt(5), &mut ());
    assert_eq!(queue.average(), 2.125 * 0.5f64.powi(4) * 0.5 + 0.5);
}

/// The gaps between drops at an average of 10 kB: weight 1, one arrival for each departure.
fn gaps(spec: &str, bytes: u32, arrivals: u64) -> Vec<u64> {
    let level = 10_000 / u64::from(bytes);
    let mut queue = red(&format!("{spec},weight=1"), &context(1000));
    let mut log = Log::default();
    for id in 0..level {
        queue.enqueue(ms(0), Pkt { bytes, ..pkt(id) }, &mut ());
    }
    let (mut gaps, mut last, mut drops) = (Vec::new(), 0, 0);
    for id in 0..arrivals {
        queue.enqueue(ms(id), Pkt { bytes, ..pkt(id) }, &mut log);
        if log.dropped.len() > drops {
            drops = log.dropped.len();
            gaps.push(id - last);
            last = id;
        } else if queue.packets() as u64 > level {
            queue.dequeue(ms(id), &mut ());
        }
    }
    gaps.remove(0);
    gaps
}

fn mean(gaps: &[u64]) -> f64 {
    gaps.iter().sum::<u64>() as f64 / gaps.len() as f64
}

#[test]
fn drops_are_spread_uniformly() {
    // Half of the ramp to 0.1: p = 0.05.
    let free = gaps("red:min=5pkt,max=15pkt,wait=false", 1000, 200_000);
    // Uniform on 1..20 (Floyd and Jacobson 1993, 7). The count is raised before it is used, as in
    // the paper's figure 2.
    assert_eq!((free.iter().min(), free.iter().max()), (Some(&1), Some(&19)));
    assert!((mean(&free) - 10.0).abs() < 0.2, "{}", mean(&free));
    for gap in 1..20 {
        let share = free.iter().filter(|&&g| g == gap).count() as f64 / free.len() as f64;
        assert!((share - 1.0 / 19.0).abs() < 0.01, "{gap}: {share}");
    }
    // With `wait`, uniform on 20..=39.
    let wait = gaps("red:min=5pkt,max=15pkt", 1000, 200_000);
    assert_eq!((wait.iter().min(), wait.iter().max()), (Some(&20), Some(&39)));
    assert!((mean(&wait) - 29.5).abs() < 0.5, "{}", mean(&wait));
}

#[test]
fn in_bytes_a_small_packet_is_dropped_less() {
    let large = gaps("red:min=5pkt,max=15pkt,unit=bytes,wait=false,mean=1000", 1000, 300_000);
    let small = gaps("red:min=5pkt,max=15pkt,unit=bytes,wait=false,mean=1000", 250, 300_000);
    assert!((mean(&large) - 10.0).abs() < 0.3, "{}", mean(&large));
    // A quarter of the size gives a quarter of the probability, and the count of bytes grows a
    // quarter as fast.
    let ratio = mean(&small) / mean(&large);
    assert!((3.8..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn above_the_last_threshold_everything_goes_and_a_full_buffer_is_another_reason() {
    let reasons = |spec: &str| {
        let (mut queue, mut log) = (build(spec, &context(8)), Log::default());
        for id in 0..20 {
            queue.enqueue(ms(0), pkt(id), &mut log);
        }
        let count = |reason| log.dropped.iter().filter(|(_, _, r)| *r == reason).count();
        (count(Reason::Early), count(Reason::Forced), count(Reason::Tail))
    };
    // The third packet finds two and only starts the count. The fourth finds three.
    assert_eq!(reasons("red:min=2pkt,max=3pkt,weight=1,gentle=false"), (0, 17, 0));
    let (early, forced, tail) = reasons("red:min=2pkt,max=3pkt,weight=1,max_p=0");
    assert_eq!((early + forced, tail), (14, 0));
    assert!(forced > 0);
    assert_eq!(reasons("red:min=90pkt,max=95pkt,weight=1"), (0, 0, 12));
}

#[test]
fn a_packet_that_finds_at_most_one_waiting_is_kept() {
    // The average is far above the thresholds, but at most one packet waits.
    let mut queue = red("red:min=0.1pkt,max=0.2pkt,weight=0.5", &context(100));
    let mut log = Log::default();
    for round in 0..50 {
        queue.enqueue(us(round), pkt(2 * round), &mut log);
        queue.enqueue(us(round), pkt(2 * round + 1), &mut log);
        assert!(log.dropped.is_empty());
        while let Dequeued::Packet { .. } = queue.dequeue(us(round), &mut log) {}
    }
}

#[test]
fn marks_replace_random_drops_of_capable_packets() {
    let run = |ecn, spec: &str| {
        let mut served = Served::new(build(spec, &context(100)), MBIT8);
        let mut now = 0;
        for id in 0..20_000 {
            // 1.5 times the rate of the link while few packets wait, and half of it while many do.
            now += if served.queue.packets() < 12 { 666 } else { 2000 };
            served.offer(us(now), Pkt { ecn, ..pkt(id) });
        }
        (
            served.drops(Reason::Early),
            served.log.marked.len(),
            served.left.iter().filter(|l| l.packet.ecn == Ecn::Ce).count(),
        )
    };
    let spec = "red:min=5pkt,max=15pkt,weight=0.05,ecn=true";
    let (early, marked, carried) = run(Ecn::Ect0, spec);
    assert_eq!(early, 0);
    assert!(marked > 100 && marked - carried < 20, "{marked} {carried}");
    let (early, marked, _) = run(Ecn::NotEct, spec);
    assert!(early > 100 && marked == 0, "{early} {marked}");
    let (early, marked, _) = run(Ecn::Ect0, "red:min=5pkt,max=15pkt,weight=0.05");
    assert!(early > 100 && marked == 0, "{early} {marked}");
}

#[test]
fn above_max_capable_packets_are_dropped_too() {
    let (mut queue, mut log) =
        (build("red:min=2pkt,max=5pkt,weight=1,ecn=true", &context(100)), Log::default());
    for id in 0..2000 {
        queue.enqueue(Time::ZERO, Pkt { ecn: Ecn::Ect1, ..pkt(id) }, &mut log);
    }
    let early = log.dropped.iter().filter(|(_, _, r)| *r == Reason::Early).count();
    assert!(early > 0 && queue.packets() <= 11, "{early} {}", queue.packets());
    // Marks only where the average, here the queue itself, is below max.
    assert!(log.marked.iter().all(|(_, packet, _)| packet.id <= 5));
}
