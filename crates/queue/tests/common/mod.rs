//! A packet and a link for tests of queues.

#![allow(dead_code)]

use leeway_queue::{AnyQueue, BuildContext, Dequeued, Ecn, Log, Packet, Queue, QueueSpec, Reason};
use leeway_units::{Bytes, Duration, Rate, Size, Time};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pkt {
    pub id: u64,
    pub bytes: u32,
    pub flow: u32,
    pub class: u8,
    pub ecn: Ecn,
}

impl Packet for Pkt {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn class(&self) -> u8 {
        self.class
    }
}

/// A packet of 1000 bytes of flow 0.
pub fn pkt(id: u64) -> Pkt {
    Pkt { id, bytes: 1000, flow: 0, class: 0, ecn: Ecn::NotEct }
}

pub fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

pub fn us(us: u64) -> Time {
    Time::from_micros(us)
}

/// One packet of 1000 bytes in a millisecond.
pub const MBIT8: Rate = Rate::from_bits_per_sec(8_000_000);

pub fn context(packets: u32) -> BuildContext {
    let mut context = BuildContext::new(Size::Packets(packets), MBIT8);
    context.mean_packet = 1000;
    context
}

pub fn build(spec: &str, context: &BuildContext) -> AnyQueue<Pkt> {
    spec.parse::<QueueSpec>().unwrap().build(context)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub packet: Pkt,
    pub enqueued: Time,
    /// Time at which the packet left the queue for the link.
    pub at: Time,
}

impl Left {
    pub fn sojourn(&self) -> Duration {
        self.at - self.enqueued
    }
}

/// A queue and a link of constant rate, played event by event.
pub struct Served {
    pub queue: AnyQueue<Pkt>,
    pub rate: Rate,
    pub left: Vec<Left>,
    pub log: Log<Pkt>,
    /// Time at which the link asks next.
    asks: Option<Time>,
    busy: bool,
}

impl Served {
    pub fn new(queue: AnyQueue<Pkt>, rate: Rate) -> Self {
        Served { queue, rate, left: Vec::new(), log: Log::default(), asks: None, busy: false }
    }

    fn ask(&mut self, now: Time) {
        self.busy = false;
        self.asks = match self.queue.dequeue(now, &mut self.log) {
            Dequeued::Packet { packet, enqueued } => {
                let end = now + self.rate.time_for(Bytes::new(u64::from(packet.bytes)));
                self.left.push(Left { packet, enqueued, at: now });
                self.busy = true;
                Some(end)
            }
            Dequeued::NotBefore(time) => {
                assert!(time > now, "held back until {time}, which is not after {now}");
                assert_eq!(self.queue.deadline(), Some(time));
                Some(time)
            }
            Dequeued::Empty => {
                assert_eq!(self.queue.packets(), 0);
                None
            }
        };
    }

    pub fn run_until(&mut self, now: Time) {
        while let Some(time) = self.asks.filter(|&time| time <= now) {
            self.ask(time);
        }
    }

    pub fn offer(&mut self, now: Time, packet: Pkt) {
        self.run_until(now);
        self.queue.enqueue(now, packet, &mut self.log);
        if !self.busy {
            self.ask(now);
        }
    }

    pub fn drops(&self, reason: Reason) -> usize {
        self.log.dropped.iter().filter(|(_, _, r)| *r == reason).count()
    }

    /// Bytes that left in `[from, to)` and are `of` interest.
    pub fn bytes_in(&self, from: Time, to: Time, of: impl Fn(&Pkt) -> bool) -> u64 {
        let within = |left: &&Left| left.at >= from && left.at < to && of(&left.packet);
        self.left.iter().filter(within).map(|left| u64::from(left.packet.bytes)).sum()
    }
}

/// Every discipline in every variant.
pub const ALL: &[&str] = &[
    "droptail",
    "droptail:limit=9000B",
    "red",
    "red:max=50%,ecn=true",
    "red:min=2pkt,max=6pkt,weight=0.5,gentle=false,wait=false",
    "red:min=2kB,max=6kB,weight=0.3,max_p=0.5",
    "codel:target=2ms,interval=10ms",
    "codel:target=2ms,interval=10ms,ecn=true,variant=2012",
    "pie:burst=0s,target=2ms,update=1ms",
    "pie:burst=0s,target=2ms,update=1ms,ecn=true,delay=rate,threshold=2kB",
    "pie:variant=early,burst=5ms,target=3ms,update=2ms,threshold=3kB",
    "sfq",
    "sfq:buckets=3,perturb=7ms,depth=6",
    "sfq:variant=ns2",
    "fq_codel:target=1ms,interval=5ms,flows=3",
    "fq_codel:target=1ms,interval=5ms,limit=8pkt,ecn=false,quantum=300B",
    "drr",
    "drr:by=class,queues=3,quantum=700B,class0=1400B",
    "priority",
    "priority:bands=2,pushout=false",
    "borrowing",
    "borrowing:class0=2Mbit/s@0,class1=1Mbit/s..3Mbit/s@1,class2=0..500kbit/s@1",
    "borrowing:rate=4Mbit/s,burst=0B,class0=2Mbit/s..3Mbit/s@1,class1=1Mbit/s@0",
];
