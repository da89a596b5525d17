//! Tables of numbers for a reviewer: the results of each discipline and each link under the same
//! loads.

mod common;

use common::{Pkt, mbit, us};
use leeway_link::{LinkSpec, Service, Trace};
use leeway_queue::{Chance, Ecn, Log};
use leeway_units::{Duration, Size, Time};
use std::fmt::Write;
use std::sync::Arc;

/// Packets of 1000 bytes with exponential gaps, at `load` times 8 Mbit/s for 20 s. Flow 0 sends
/// half of them, and flows 1 to 5 a tenth each. The class is the flow's number, at most 2.
fn arrivals(load: f64) -> Vec<(Time, Pkt)> {
    let mut chance = Chance::new(42);
    let (mut now, mut list) = (0.0, Vec::new());
    loop {
        now -= (1.0 - chance.uniform()).ln() * 1000.0 / load;
        if now >= 20e6 {
            return list;
        }
        let flow = (chance.uniform() * 10.0) as u32;
        let flow = flow.saturating_sub(4);
        let packet =
            Pkt { id: list.len() as u64, bytes: 1000, flow, class: flow.min(2) as u8, ecn: Ecn::NotEct };
        list.push((us(now as u64), packet));
    }
}

struct Row {
    /// Shares of the link.
    carried: f64,
    lost: f64,
    mean: f64,
    p95: f64,
    /// Mean sojourn of flow 0 and of flow 5, in milliseconds.
    heavy: f64,
    light: f64,
}

fn run(spec: &LinkSpec, load: f64) -> Row {
    let (mut link, mut log, mut out) = (spec.build::<Pkt>(1), Log::default(), Vec::new());
    let arrivals = arrivals(load);
    for (now, packet) in &arrivals {
        link.offer(*now, packet.clone(), &mut log);
        out.extend(std::iter::from_fn(|| link.poll(*now, &mut log)));
    }
    let last = Time::from_secs(20);
    out.extend(std::iter::from_fn(|| link.poll(last, &mut log)));
    let sojourn = |of: &dyn Fn(u32) -> bool| {
        let own = out.iter().filter(|arrival| of(arrival.packet.flow));
        let mut list: Vec<f64> = own.map(|arrival| (arrival.at - arrival.enqueued).millis_f64()).collect();
        list.sort_by(f64::total_cmp);
        list
    };
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    let all = sojourn(&|_| true);
    Row {
        carried: out.len() as f64 / 20_000.0,
        lost: log.dropped.len() as f64 / arrivals.len() as f64,
        mean: mean(&all),
        p95: all.get(all.len() * 95 / 100).copied().unwrap_or(0.0),
        heavy: mean(&sojourn(&|flow| flow == 0)),
        light: mean(&sojourn(&|flow| flow == 5)),
    }
}

fn table(rows: &[(&str, LinkSpec)], loads: &[f64]) -> String {
    let mut text = String::new();
    let head = ["link", "load", "carried %", "lost %", "mean ms", "p95 ms", "flow 0 ms", "flow 5 ms"];
    let [link, load, rest @ ..] = head;
    write!(text, "{link:<44}{load:>5}").unwrap();
    for name in rest {
        write!(text, "{name:>11}").unwrap();
    }
    for (name, spec) in rows {
        for &load in loads {
            let row = run(spec, load);
            write!(text, "\n{name:<44}{load:>5.1}").unwrap();
            for value in [row.carried * 100.0, row.lost * 100.0, row.mean, row.p95, row.heavy, row.light] {
                let value = if value.is_nan() { "-".into() } else { format!("{value:.2}") };
                write!(text, "{value:>11}").unwrap();
            }
        }
    }
    text
}

#[test]
fn disciplines() {
    let link = |queue: &str| {
        let mut link = LinkSpec::new(mbit(8), Size::Packets(100));
        link.queue = queue.parse().unwrap();
        link.mean_packet = 1000;
        link
    };
    let names = [
        "droptail",
        "red",
        "red:max=50%",
        "codel",
        "codel:variant=2012",
        "pie",
        "pie:variant=early",
        "sfq",
        "sfq:variant=ns2",
        "fq_codel",
        "drr",
        "drr:by=class,class0=3000B",
        "priority",
        "borrowing:class0=2Mbit/s@1,class1=2Mbit/s@0",
    ];
    let rows: Vec<_> = names.map(|name| (name, link(name))).into();
    insta::assert_snapshot!(table(&rows, &[0.5, 0.9, 1.1, 2.0]));
}

#[test]
fn links() {
    let with = |set: &dyn Fn(&mut LinkSpec)| {
        let mut link = LinkSpec::new(mbit(8), Size::Packets(50));
        link.delay = Duration::from_millis(10);
        set(&mut link);
        link
    };
    let with_loss = |loss: &str, arq: Option<&str>| {
        with(&|link| {
            link.loss = Some(loss.parse().unwrap());
            link.arq = arq.map(|arq| arq.parse().unwrap());
        })
    };
    let jitter = |jitter: &str| with(&|link| link.jitter = Some(jitter.parse().unwrap()));
    let service = |service: Service| with(&|link| link.service = service.clone());
    // Two opportunities every three milliseconds: 8.02 Mbit/s.
    let trace = Trace::parse("1\n3\n").unwrap();
    let rows = [
        ("8 Mbit/s, 10 ms", with(&|_| {})),
        (
            "16 and 4 Mbit/s in turn of a second",
            service(Service::Rates(leeway_link::Rates {
                first: mbit(16),
                changes: (1..20)
                    .map(|n| (Time::from_secs(n), mbit(if n % 2 == 0 { 16 } else { 4 })))
                    .collect(),
            })),
        ),
        ("trace 1, 3", service(Service::Trace(Arc::new(trace)))),
        ("random loss 5 %", with_loss("random:p=5%", None)),
        ("gilbert_elliott p 1 % r 19 %", with_loss("gilbert_elliott:p=1%,r=19%", None)),
        ("random loss 5 %, arq 20 ms", with_loss("random:p=5%", Some("tries=8,delay=20ms"))),
        ("gilbert_elliott, arq 20 ms", with_loss("gilbert_elliott:p=1%,r=19%", Some("tries=8,delay=20ms"))),
        ("jitter uniform 10 ms", jitter("uniform:range=10ms")),
        ("jitter uniform 10 ms, reordering", jitter("uniform:range=10ms,reorder=true")),
    ];
    insta::assert_snapshot!(table(&rows, &[0.5, 0.9, 1.1]));
}
