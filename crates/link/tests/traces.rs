//! Service by traces in mahimahi's format.

mod common;

use common::{drain, mbit, ms, pkt, played, queue, us};
use leeway_link::{OPPORTUNITY, Trace, Transmitter};
use leeway_queue::{Log, Queue};
use leeway_units::{Duration, Rate, Time};
use std::sync::Arc;

fn traced(text: &str, spec: &str) -> Transmitter<common::Pkt> {
    Transmitter::traced(queue(spec, 100), Arc::new(Trace::parse(text).unwrap()))
}

#[test]
fn a_stamp_delivers_one_mtu() {
    let full = |id| (ms(0), pkt(id, OPPORTUNITY));
    // Two at 3 ms, one at 7 ms, and again from 10 ms.
    let mut link = traced("3\n3\n7\n10\n", "droptail");
    let arrivals: Vec<_> = (0..7).map(full).collect();
    let times = played(&mut link, &arrivals);
    assert_eq!(times, [(0, 3000), (1, 3000), (2, 7000), (3, 10_000), (4, 13_000), (5, 13_000), (6, 17_000)]);
    assert_eq!(link.next(), None);
}

#[test]
fn bytes_carry_over_between_opportunities() {
    // 1504 bytes in each millisecond: small packets share one opportunity, and large ones span
    // several.
    let sizes = [1000, 400, 104, 2000, 1008, 1, 3000];
    let arrivals: Vec<_> =
        sizes.iter().enumerate().map(|(id, &bytes)| (ms(0), pkt(id as u64, bytes))).collect();
    let times = played(&mut traced("1\n", "droptail"), &arrivals);
    assert_eq!(times, [(0, 1000), (1, 1000), (2, 1000), (3, 3000), (4, 3000), (5, 4000), (6, 5000)]);
}

#[test]
fn an_opportunity_that_finds_nothing_is_wasted() {
    // An arrival at the time of an opportunity comes after it.
    let arrivals =
        [(ms(2), pkt(0, 1000)), (us(2001), pkt(1, 504)), (us(9500), pkt(2, 1504)), (ms(10), pkt(3, 100))];
    let mut link = traced("1\n2\n3\n", "droptail");
    assert_eq!(played(&mut link, &arrivals), [(0, 3000), (1, 3000), (2, 10_000), (3, 11_000)]);
    // The rest of an opportunity is wasted as well: after a packet of 1000 bytes, 504 bytes are
    // not saved.
    let arrivals = [(ms(0), pkt(0, 1000)), (us(1500), pkt(1, 1504)), (us(1500), pkt(2, 1))];
    assert_eq!(played(&mut traced("1\n", "droptail"), &arrivals), [(0, 1000), (1, 2000), (2, 3000)]);
}

#[test]
fn a_packet_stays_in_the_queue_until_its_first_byte_is_delivered() {
    let (mut link, mut log) = (traced("5\n", "droptail:limit=2pkt"), Log::default());
    for id in 0..3 {
        link.offer(ms(1), pkt(id, 1504), &mut log);
    }
    assert_eq!((link.queue().packets(), link.is_busy(), log.dropped.len()), (2, false, 1));
    assert_eq!(link.next(), Some(ms(5)));
    let departures = drain(&mut link, &mut log);
    assert_eq!(departures.iter().map(|d| d.at).collect::<Vec<_>>(), [ms(5), ms(10)]);
    assert_eq!(departures[1].enqueued, ms(1));
}

#[test]
fn a_stamp_at_zero_belongs_to_the_end_of_the_round() {
    // No packet can use the very first opportunity. Later ones coincide with the last one of the
    // round before.
    let arrivals: Vec<_> = (0..5).map(|id| (ms(0), pkt(id, 1504))).collect();
    let times = played(&mut traced("0\n2\n4\n", "droptail"), &arrivals);
    assert_eq!(times, [(0, 2000), (1, 4000), (2, 4000), (3, 6000), (4, 8000)]);
}

#[test]
fn the_mean_rate_and_the_period() {
    let trace = Trace::parse("# one a millisecond\n1\n2\n\n3\n4\n").unwrap();
    assert_eq!(trace.period(), Duration::from_millis(4));
    assert_eq!(trace.rate(), Rate::from_bits_per_sec(12_032_000));
    assert_eq!(Trace::from_millis(&[0, 0, 10]).unwrap().rate(), Rate::from_bits_per_sec(3 * 12_032 * 100));
    // The rate of a trace cannot be set.
    let mut link = traced("1\n", "droptail");
    link.set_rate(ms(0), mbit(1));
    assert_eq!(link.rate(), Rate::from_bits_per_sec(12_032_000));
    assert_eq!(played(&mut link, &[(ms(0), pkt(0, 1504))]), [(0, 1000)]);
}

#[test]
fn an_idle_year_costs_nothing() {
    let mut link = traced("1\n4\n6\n", "red");
    link.offer(ms(0), pkt(0, 100), &mut ());
    assert_eq!(link.poll(ms(1), &mut ()).unwrap().at, ms(1));
    // The queue was found empty by the same opportunity, so no wake-up is needed.
    assert_eq!(link.next(), None);
    let later = Time::from_secs(40_000_000);
    link.offer(later, pkt(1, 100), &mut ());
    // 40,000,000,000 ms are 4 ms into a round of 6 ms, so the end of the round is next.
    assert_eq!(link.next(), Some(later + Duration::from_millis(2)));
}

#[test]
fn queues_that_hold_back_or_drop_work_with_traces() {
    let spec = "borrowing:burst=0B,class0=1Mbit/s..2Mbit/s";
    let arrivals: Vec<_> = (0..3).map(|id| (ms(0), pkt(id, 1000))).collect();
    // Each packet delays the next one by 4 ms, until the first opportunity from then on.
    assert_eq!(played(&mut traced("1\n", spec), &arrivals), [(0, 1000), (1, 5000), (2, 9000)]);
    assert_eq!(played(&mut traced("3\n", spec), &arrivals), [(0, 3000), (1, 9000), (2, 15_000)]);
    let (mut link, mut log) = (traced("1\n", "codel:target=1ms,interval=5ms"), Log::default());
    for id in 0..40 {
        link.offer(ms(0), pkt(id, 1504), &mut log);
    }
    let departures = drain(&mut link, &mut log);
    assert!(!log.dropped.is_empty());
    assert_eq!(departures.len() + log.dropped.len(), 40);
}

#[test]
fn errors_name_the_line() {
    let fails = |text: &str| Trace::parse(text).unwrap_err().to_string();
    assert_eq!(fails("1\n\n# x\n2 ms\n"), "line 4: `2 ms` is not a whole number of milliseconds");
    assert_eq!(fails("-1\n"), "line 1: `-1` is not a whole number of milliseconds");
    assert_eq!(
        fails("5\n7\n6\n"),
        "line 3: 6 ms is before 7 ms, the stamp above it; stamps must not go back"
    );
    assert_eq!(fails(""), "the trace is empty; it needs one millisecond stamp per line");
    assert_eq!(fails("0\n0\n"), "the trace lasts no time; its last stamp must be above 0");
    assert_eq!(
        fails("1\n99999999999999\n"),
        "line 2: 99999999999999 ms is too late; a trace lasts a year at most"
    );
    assert!(Trace::from_millis(&[3, 2]).is_err());
}
