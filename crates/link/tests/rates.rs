//! Service by rates: exact times, changes within a packet, times that the queue gets, and the text
//! form.

mod common;

use common::{drain, mbit, ms, pkt, played, queue, us};
use leeway_link::{Rates, Transmitter};
use leeway_queue::{Log, Queue, Reason};
use leeway_units::{Rate, Time};

fn plain(rate: Rate, packets: u32) -> Transmitter<common::Pkt> {
    Transmitter::new(queue("droptail", packets), rate)
}

#[test]
fn a_constant_rate_is_exact() {
    // 1500 bytes at 10 Mbit/s are 1.2 ms.
    let arrivals: Vec<_> = (0..5).map(|id| (ms(3), pkt(id, 1500))).collect();
    let times = played(&mut plain(mbit(10), 10), &arrivals);
    assert_eq!(times, [(0, 4200), (1, 5400), (2, 6600), (3, 7800), (4, 9000)]);
    // Different sizes, and an idle gap.
    let arrivals =
        [(us(0), pkt(0, 1250)), (us(0), pkt(1, 40)), (us(5000), pkt(2, 1250)), (us(5999), pkt(3, 40))];
    let times = played(&mut plain(mbit(10), 10), &arrivals);
    assert_eq!(times, [(0, 1000), (1, 1032), (2, 6000), (3, 6032)]);
    // To the nearest nanosecond: 1000 bits at 3 bit/s.
    let mut link = plain(Rate::from_bits_per_sec(3), 10);
    link.offer(ms(0), pkt(0, 125), &mut ());
    assert_eq!(link.next(), Some(Time::from_nanos(333_333_333_333)));
}

#[test]
fn the_packet_in_service_is_not_in_the_queue() {
    let (mut link, mut log) = (plain(mbit(8), 2), Log::default());
    assert_eq!((link.next(), link.is_busy()), (None, false));
    for id in 0..4 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    // One in service, two waiting, the fourth dropped.
    assert_eq!((link.queue().packets(), link.queue().bytes()), (2, 2000));
    assert!(link.is_busy());
    assert_eq!(link.in_service().map(|packet| packet.id), Some(0));
    assert_eq!(log.dropped, [(ms(0), pkt(3, 1000), Reason::Tail)]);
    // At 1 ms the first packet departs before the arrival at that time, which fits then.
    link.offer(ms(1), pkt(4, 1000), &mut log);
    assert_eq!((link.queue().packets(), log.dropped.len()), (2, 1));
    assert_eq!(link.next(), Some(ms(1)));
    assert_eq!(link.poll(us(999), &mut log), None);
    let first = link.poll(ms(1), &mut log).unwrap();
    assert_eq!((first.at, first.packet.id, first.enqueued), (ms(1), 0, ms(0)));
    let rest: Vec<_> = drain(&mut link, &mut log).iter().map(|d| (d.packet.id, d.at, d.enqueued)).collect();
    assert_eq!(rest, [(1, ms(2), ms(0)), (2, ms(3), ms(0)), (4, ms(4), ms(1))]);
    assert_eq!((link.next(), link.is_busy()), (None, false));
}

#[test]
fn a_late_poll_plays_every_event_at_its_time() {
    let (mut link, mut log) =
        (Transmitter::new(queue("codel:target=1ms,interval=5ms", 100), mbit(8)), Log::default());
    for id in 0..50 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    let mut times = Vec::new();
    while let Some(departure) = link.poll(ms(1000), &mut log) {
        times.push(departure.at);
    }
    assert_eq!(times, (1..=times.len() as u64).map(ms).collect::<Vec<_>>());
    // The first packet that may be dropped is taken 5 ms after the delay exceeded 1 ms.
    assert_eq!(log.dropped[0].0, ms(6));
}

#[test]
fn a_change_of_rate_splits_a_packet() {
    // 1000 bytes: 0.5 ms at 8 Mbit/s are half of it; the rest takes 2 ms at 2 Mbit/s.
    let rates: Rates = "8 Mbit/s, 2 Mbit/s at 500 us".parse().unwrap();
    let arrivals: Vec<_> = (0..3).map(|id| (ms(0), pkt(id, 1000))).collect();
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    assert_eq!(played(&mut link, &arrivals), [(0, 2500), (1, 6500), (2, 10_500)]);
    assert_eq!(link.rate(), mbit(2));
    // Several changes within one packet, one of them a pause.
    let rates: Rates =
        "8 Mbit/s, 4 Mbit/s at 250 us, 0 at 750 us, 1 Mbit/s at 5 ms, 8 Mbit/s at 6 ms".parse().unwrap();
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    // 250 bytes, 250 bytes, none, 125 bytes, and 375 bytes in 375 us.
    assert_eq!(played(&mut link, &arrivals), [(0, 6375), (1, 7375), (2, 8375)]);
    // To the nearest nanosecond: 4000 bits are left for 6 Mbit/s.
    let rates: Rates = "8 Mbit/s, 6 Mbit/s at 500 us".parse().unwrap();
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    link.offer(ms(0), pkt(0, 1000), &mut ());
    assert_eq!(link.next(), Some(Time::from_nanos(500_000 + 666_667)));
    // A packet that ends exactly at a change, and one that starts there.
    let rates: Rates = "8 Mbit/s, 4 Mbit/s at 1 ms".parse().unwrap();
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    assert_eq!(played(&mut link, &arrivals), [(0, 1000), (1, 3000), (2, 5000)]);
    // A change while idle.
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    assert_eq!(played(&mut link, &[(ms(9), pkt(0, 1000))]), [(0, 11_000)]);
    // A rate of zero without an end.
    let mut link = plain(Rate::ZERO, 10);
    link.offer(ms(0), pkt(0, 1000), &mut ());
    assert_eq!((link.next(), link.is_busy()), (None, true));
}

#[test]
fn a_rate_can_be_set_at_any_time() {
    let (mut link, mut log) = (plain(mbit(8), 10), Log::default());
    for id in 0..4 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    // Without polling: packet 0 ended at 1 ms, and half of packet 1 is sent when the rate falls to
    // a quarter.
    link.set_rate(us(1500), mbit(2));
    // The rate falls to zero, and rises again.
    link.set_rate(us(2500), Rate::ZERO);
    link.set_rate(us(7500), mbit(8));
    let times: Vec<_> = drain(&mut link, &mut log).iter().map(|d| d.at.micros()).collect();
    // Packet 1: 500 bytes, 250 bytes, a pause, 250 bytes.
    assert_eq!(times, [1000, 7750, 8750, 9750]);
    // Of two settings at one time the later one counts, and scheduled changes are removed.
    let rates: Rates = "8 Mbit/s, 1 Mbit/s at 3 ms".parse().unwrap();
    let mut link = Transmitter::piecewise(queue("droptail", 10), &rates);
    for id in 0..6 {
        link.offer(ms(0), pkt(id, 1000), &mut log);
    }
    link.set_rate(us(1500), mbit(1));
    link.set_rate(us(1500), mbit(4));
    let times: Vec<_> = drain(&mut link, &mut log).iter().map(|d| d.at.micros()).collect();
    assert_eq!(times, [1000, 2500, 4500, 6500, 8500, 10_500]);
    // A packet in service at rate zero continues.
    let mut link = plain(Rate::ZERO, 10);
    link.offer(ms(0), pkt(0, 1000), &mut ());
    link.set_rate(ms(5), mbit(8));
    assert_eq!(link.next(), Some(ms(6)));
    link.set_rate(ms(5), Rate::ZERO);
    assert_eq!(link.next(), None);
}

#[test]
fn a_queue_that_holds_back_wakes_the_link() {
    let mut link = Transmitter::new(queue("borrowing:burst=0B,class0=1Mbit/s..2Mbit/s", 10), mbit(8));
    let arrivals: Vec<_> = (0..4).map(|id| (ms(0), pkt(id, 1000))).collect();
    // 1 ms each on the link, 4 ms each by the class's ceiling.
    assert_eq!(played(&mut link, &arrivals), [(0, 1000), (1, 5000), (2, 9000), (3, 13_000)]);
    // An arrival of another class does not wait for the packet that is held back.
    let mut link =
        Transmitter::new(queue("borrowing:burst=0B,class0=1Mbit/s..2Mbit/s,class1=1Mbit/s", 10), mbit(8));
    let other = common::Pkt { class: 1, ..pkt(2, 1000) };
    let arrivals = [(ms(0), pkt(0, 1000)), (ms(0), pkt(1, 1000)), (ms(2), other)];
    assert_eq!(played(&mut link, &arrivals), [(0, 1000), (2, 3000), (1, 5000)]);
}

#[test]
fn rates_as_text() {
    let text = "10 Mbit/s, 2 Mbit/s at 5 s, 0 bit/s at 8.5 s";
    let rates: Rates = text.parse().unwrap();
    assert_eq!(rates.to_string(), text);
    assert_eq!((rates.first, rates.changes[0]), (mbit(10), (ms(5000), mbit(2))));
    assert_eq!("600kbit/s".parse::<Rates>().unwrap(), Rates::from(Rate::from_bits_per_sec(600_000)));
    let fails = |text: &str| text.parse::<Rates>().unwrap_err().to_string();
    assert!(fails("10").starts_with("`10` is not a rate"), "{}", fails("10"));
    assert!(fails("10 Mbit/s, 2 Mbit/s").starts_with("`2 Mbit/s` lacks its time"));
    assert_eq!(
        fails("10 Mbit/s, 2 Mbit/s at 5 s, 3 Mbit/s at 5 s"),
        "the change at 5 s does not come after the one before it; changes go forward in time"
    );
    fails("");
}
