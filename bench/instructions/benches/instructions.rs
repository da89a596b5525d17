//! Counts the instructions of the hot paths: a law's acknowledgement, a queue, grants of sharing,
//! uTP packets, one scenario.
//!
//! `make instructions` runs these under Callgrind and compares the counts with
//! bench/instructions/baseline.json. Inputs are fixed, so that the same program gives the same
//! count on a busy machine too.

// The macros of gungraun make modules and functions without documentation.
#![allow(missing_docs)]

use gungraun::{library_benchmark, library_benchmark_group, main};
use leeway_control::{Ack, Law, LawSpec, Path};
use leeway_queue::{AnyQueue, BuildContext, Dequeued, Packet, Queue, QueueSpec};
use leeway_share::{FlowId, LAW, Line, Next, Policy, Sample, UserId};
use leeway_sim::scenario::Scenario;
use leeway_units::{Duration, Rate, Size, Time};
use std::collections::VecDeque;
use std::hint::black_box;

const ACKS: u64 = 2000;
const PACKETS: u64 = 2000;
const GRANTS: u64 = 1000;

fn law(spec: &str) -> Law {
    spec.parse::<LawSpec>().unwrap().build(&path())
}

fn path() -> Path {
    Path {
        mss_bytes: 1500,
        initial_window_bytes: 15_000,
        srtt_us: 50_000,
        min_rtt_us: 50_000,
        inflight_bytes: 0,
    }
}

// Acknowledgements whose delay sweeps over every target.
#[library_benchmark]
#[bench::newreno(law("newreno"))]
#[bench::cubic(law("cubic"))]
#[bench::ledbat(law("ledbat"))]
#[bench::ebb(law("ebb"))]
fn acknowledgements(mut law: Law) -> u64 {
    let path = path();
    for i in 0..ACKS {
        let delay_us = (i / 7 % 120) as u32 * 1000;
        let ack = Ack {
            now_us: i * 500,
            acked_bytes: 1500,
            prior_inflight_bytes: 1_500_000,
            rtt_us: 50_000 + delay_us,
            owd_us: 25_000 + delay_us,
            owd_resolution_us: 1,
            round_start: u8::from(i % 100 == 0),
            ..Ack::default()
        };
        law.on_ack(black_box(&ack), &path);
    }
    law.output().cwnd_q16
}

/// A full packet of one of twenty flows.
struct Full(u32);

impl Packet for Full {
    fn bytes(&self) -> u32 {
        1500
    }
    fn flow(&self) -> u32 {
        self.0
    }
}

fn queue(spec: &str) -> AnyQueue<Full> {
    let context = BuildContext::new(Size::Packets(100), "10 Mbit/s".parse::<Rate>().unwrap());
    spec.parse::<QueueSpec>().unwrap().build(&context)
}

// Three packets arrive for two that leave, so the queue is full most of the time.
#[library_benchmark]
#[bench::droptail(queue("droptail"))]
#[bench::codel(queue("codel"))]
#[bench::fq_codel(queue("fq_codel"))]
#[bench::pie(queue("pie"))]
fn packets_through(mut queue: AnyQueue<Full>) -> u64 {
    let mut left = 0;
    for i in 0..PACKETS {
        let now = Time::ZERO + Duration::from_micros(i * 800);
        queue.enqueue(now, Full((i % 20) as u32), &mut ());
        if i % 3 != 0 {
            left += u64::from(matches!(black_box(queue.dequeue(now, &mut ())), Dequeued::Packet { .. }));
        }
    }
    left
}

fn line() -> (Line, Vec<FlowId>) {
    let mut line = Line::new(&LAW.parse().unwrap(), &Policy::default());
    let flows: Vec<FlowId> = (0..20).map(|user| line.open(UserId(user % 5)).unwrap()).collect();
    for &flow in &flows {
        line.ask(flow, u64::MAX).unwrap();
    }
    (line, flows)
}

// Grants to twenty flows of five users; each arrives after 20 ms and the time on a line of 10
// Mbit/s.
#[library_benchmark]
#[bench::line(line())]
fn grants((mut line, flows): (Line, Vec<FlowId>)) -> u64 {
    let mut underway: VecDeque<(u64, u64, FlowId, u64)> = VecDeque::new();
    let (mut now_us, mut busy_us, mut granted) = (0, 0, 0);
    while granted < GRANTS {
        match line.next(now_us) {
            Next::Grant { flow, bytes } => {
                granted += 1;
                busy_us = now_us.max(busy_us) + bytes * 8 / 10;
                underway.push_back((busy_us + 20_000, now_us, flow, bytes));
                line.ask(flow, u64::MAX).unwrap();
                continue;
            }
            Next::Wait(at_us) => {
                now_us = at_us.min(underway.front().map_or(at_us, |first| first.0)).max(now_us + 1)
            }
            Next::Blocked => now_us = underway.front().map_or(now_us + 1000, |first| first.0).max(now_us + 1),
        }
        while underway.front().is_some_and(|first| first.0 <= now_us) {
            let Some((at_us, sent_us, flow, bytes)) = underway.pop_front() else { break };
            let sample = Sample::exact(1, (at_us - sent_us) as u32);
            line.arrived(now_us, flow, bytes, Some(sample));
            line.ask(flow, u64::MAX).unwrap();
        }
    }
    black_box(flows);
    now_us
}

// The headers of data packets, written and read again.
#[library_benchmark]
fn utp_headers() -> u64 {
    let mut bytes = Vec::with_capacity(64);
    let mut sum = 0;
    for i in 0..PACKETS {
        let header = leeway_utp::Header {
            kind: leeway_utp::Kind::Data,
            connection_id: 7,
            timestamp_us: i as u32 * 800,
            timestamp_difference_us: 25_000,
            window_bytes: 1 << 20,
            seq: i as u16,
            ack: (i / 2) as u16,
        };
        bytes.clear();
        header.write((i % 4 == 0).then_some(&[3, 0, 0, 0]), &mut bytes);
        let packet = leeway_utp::Packet::parse(black_box(&bytes)).unwrap();
        sum += u64::from(packet.header.seq) + packet.sack.map_or(0, |sack| sack.len() as u64);
    }
    sum
}

fn scenario() -> Scenario {
    Scenario::parse(
        r#"
        duration = "3 s"

        [dumbbell.bottleneck]
        rate = "10 Mbit/s"
        delay = "10 ms"
        buffer = "50 pkt"

        [[flow]]
        name = "download"
        law = "cubic"

        [[flow]]
        name = "backup"
        role = "background"
        law = "ledbat:target=25ms"
        "#,
        "instructions.toml",
    )
    .unwrap()
}

// Two flows over a link of 10 Mbit/s for three seconds.
#[library_benchmark]
#[bench::two_flows(scenario())]
fn simulate(scenario: Scenario) -> leeway_sim::results::Run {
    leeway_sim::run(black_box(&scenario), 1).unwrap()
}

library_benchmark_group!(name = laws, benchmarks = [acknowledgements]);
library_benchmark_group!(name = queues, benchmarks = [packets_through]);
library_benchmark_group!(name = sharing, benchmarks = [grants]);
library_benchmark_group!(name = utp, benchmarks = [utp_headers]);
library_benchmark_group!(name = simulator, benchmarks = [simulate]);

main!(library_benchmark_groups = laws, queues, sharing, utp, simulator);
