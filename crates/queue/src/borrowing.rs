//! Borrowing: classes with a guaranteed rate, a ceiling and a priority. What a class leaves unused
//! is lent to the others.
//!
//! The idea of the hierarchical token bucket (M. Devera, HTB, 2002), with one level of classes
//! under the link. When the link is free, the next packet comes from
//! 1. a class within its guaranteed rate, by priority; otherwise
//! 2. a class within its ceiling, by priority. This class borrows.
//!
//! Classes of the same priority share by deficit round robin, in proportion to their guarantees.
//! If no class with packets is within its ceiling, the link waits until one is.
//!
//! # Scope and limitations
//! - No nested classes, and no discipline inside a class except drop-tail.
//! - Each class has a buffer of its own, of the given size.
//! - A class may send while its tokens are not negative. So it exceeds its rate by at most its
//!   burst and one packet.
//! - If the guarantees add up to more than the link's rate, higher priorities get theirs first.
//! - A packet of a class that is not listed goes to the last class.
//! - A class with guarantee 0 only borrows.

use crate::fifo::{Fifo, Limit};
use crate::spec::{BuildContext, Classes, Value};
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Bytes, Rate, Size, Time};
use std::collections::BTreeMap;

/// The share of one class, spelled `1Mbit/s..2Mbit/s@0`: guarantee, ceiling, priority.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassShare {
    /// Rate that the class always has.
    pub guaranteed: Rate,
    /// Rate that the class never exceeds; `None` for the link's rate.
    pub ceiling: Option<Rate>,
    /// Order in which unused rate is lent. 0 comes first.
    pub priority: u8,
}

impl Value for ClassShare {
    fn read(text: &str) -> Result<Self, String> {
        let (rates, priority) = match text.split_once('@') {
            Some((rates, priority)) => {
                let priority = priority.trim().parse();
                (rates, priority.map_err(|_| format!("`{text}`: the priority is a number from 0 to 255"))?)
            }
            None => (text, 0),
        };
        let (guaranteed, ceiling) = match rates.split_once("..") {
            Some((guaranteed, ceiling)) => (guaranteed, Some(ceiling)),
            None => (rates, None),
        };
        let share = ClassShare {
            guaranteed: Value::read(guaranteed)?,
            ceiling: ceiling.map(Value::read).transpose()?,
            priority,
        };
        match share.ceiling {
            Some(Rate::ZERO) => Err(format!("`{text}`: a ceiling of zero lets nothing pass")),
            Some(ceiling) if ceiling < share.guaranteed => {
                Err(format!("`{text}`: the ceiling is below the guaranteed rate"))
            }
            _ => Ok(share),
        }
    }

    fn show(&self) -> String {
        let ceiling = self.ceiling.map_or(String::new(), |rate| format!("..{}", rate.show()));
        format!("{}{ceiling}@{}", self.guaranteed.show(), self.priority)
    }

    fn kind() -> String {
        "guaranteed..ceiling@priority, such as 1Mbit/s..2Mbit/s@0 (ceiling and priority may be left out)"
            .into()
    }
}

crate::params! {
    /// Parameters of [`Borrowing`].
    pub struct BorrowingParams: "borrowing", "Classes with guaranteed rate, ceiling and priority; unused rate is lent", "Devera 2002 (HTB)" {
        /// The buffer of each class; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// A rate that all classes together never exceed; auto: only the link's.
        rate: Option<Rate> = None, Rate::from_bits_per_sec(1)..=Rate::from_bits_per_sec(u64::MAX);
        /// How far a class may run ahead of a rate, and how much of it an idle class keeps.
        burst: Bytes = Bytes::new(3000), Bytes::new(0)..=Bytes::new(1 << 30);
        /// What class N gets, such as class0=1Mbit/s..2Mbit/s@0.
        class: Classes<ClassShare> = Classes(BTreeMap::new()), ..;
    }
}

impl BorrowingParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Borrowing(Box::new(Borrowing::new(self, context)))
    }
}

/// A token bucket, stored as the time at which it is full again.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    /// Time that an empty bucket takes to fill.
    depth: leeway_units::Duration,
    full: Time,
}

impl Bucket {
    fn new(rate: Rate, burst: Bytes) -> Self {
        Bucket { rate, depth: rate.time_for(burst), full: Time::ZERO }
    }

    /// Time from which on the tokens are not negative.
    fn ready(&self) -> Time {
        if self.rate == Rate::ZERO { Time::NEVER } else { self.full - self.depth }
    }

    fn pay(&mut self, now: Time, bytes: u32) {
        self.full = self.full.max(now) + self.rate.time_for(Bytes::new(u64::from(bytes)));
    }
}

#[derive(Debug, Clone)]
struct Class<P> {
    fifo: Fifo<P>,
    guarantee: Bucket,
    ceiling: Option<Bucket>,
    priority: u8,
    quantum: i64,
    deficit: i64,
}

impl<P> Class<P> {
    /// Time from which on the class may send, by its guarantee or by borrowing.
    fn ready(&self) -> Time {
        self.ceiling.map_or(Time::ZERO, |ceiling| ceiling.ready())
    }
}

/// Classes that borrow from one another.
#[derive(Debug, Clone)]
pub struct Borrowing<P> {
    /// The classes, in the order of their numbers.
    classes: Vec<Class<P>>,
    /// The class numbers of packets, in the order of `classes`.
    numbers: Vec<u8>,
    all: Option<Bucket>,
    limit: Limit,
    /// Index of the class whose turn is next among equal priorities.
    turn: usize,
    packets: usize,
    bytes: u64,
    deadline: Option<Time>,
}

impl<P: Packet> Borrowing<P> {
    /// An empty queue. Without listed classes there is one, which may use the whole link.
    pub fn new(params: &BorrowingParams, context: &BuildContext) -> Self {
        let mut shares: Vec<(u8, ClassShare)> =
            params.class.0.iter().map(|(n, share)| (*n, *share)).collect();
        if shares.is_empty() {
            shares.push((0, ClassShare { guaranteed: context.rate, ceiling: None, priority: 0 }));
        }
        let rates = shares.iter().map(|(_, share)| share.guaranteed.bits_per_sec());
        let least = rates.filter(|&rate| rate > 0).min().unwrap_or(1);
        let class = |share: &ClassShare| Class {
            fifo: Fifo::default(),
            guarantee: Bucket::new(share.guaranteed, params.burst),
            ceiling: share.ceiling.map(|rate| Bucket::new(rate, params.burst)),
            priority: share.priority,
            // A class sends between one and forty full packets in a round.
            quantum: (1500.0 * share.guaranteed.bits_per_sec() as f64 / least as f64).clamp(1500.0, 60_000.0)
                as i64,
            deficit: 0,
        };
        Borrowing {
            classes: shares.iter().map(|(_, share)| class(share)).collect(),
            numbers: shares.iter().map(|&(number, _)| number).collect(),
            all: params.rate.map(|rate| Bucket::new(rate, params.burst)),
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            turn: 0,
            packets: 0,
            bytes: 0,
            deadline: None,
        }
    }

    /// Packets and bytes that wait in class `number`.
    pub fn backlog(&self, number: u8) -> (usize, u64) {
        let fifo = &self.classes[self.index(number)].fifo;
        (fifo.len(), fifo.bytes())
    }

    fn index(&self, number: u8) -> usize {
        self.numbers.binary_search(&number).unwrap_or(self.classes.len() - 1)
    }

    /// The next class with packets that is `eligible`: by priority, then in turn.
    fn choose(&mut self, eligible: impl Fn(&Class<P>) -> bool) -> Option<usize> {
        let able = |class: &Class<P>| !class.fifo.is_empty() && eligible(class);
        let priority = self.classes.iter().filter(|class| able(class)).map(|class| class.priority).min()?;
        loop {
            let class = &mut self.classes[self.turn];
            if class.priority == priority && able(class) {
                if class.deficit > 0 {
                    return Some(self.turn);
                }
                class.deficit += class.quantum;
            }
            self.turn = (self.turn + 1) % self.classes.len();
        }
    }

    fn send(&mut self, now: Time, index: usize) -> Dequeued<P> {
        let class = &mut self.classes[index];
        let Some((packet, enqueued)) = class.fifo.pop() else { return Dequeued::Empty };
        let bytes = packet.bytes();
        class.deficit -= i64::from(bytes);
        if class.fifo.is_empty() {
            class.deficit = class.deficit.min(0);
        }
        class.guarantee.pay(now, bytes);
        for bucket in class.ceiling.iter_mut().chain(&mut self.all) {
            bucket.pay(now, bytes);
        }
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        Dequeued::Packet { packet, enqueued }
    }
}

impl<P: Packet> Queue<P> for Borrowing<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        let index = self.index(packet.class());
        let fifo = &mut self.classes[index].fifo;
        if self.limit.is_full(fifo.len(), fifo.bytes(), packet.bytes()) {
            return report.dropped(now, packet, Reason::Tail);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        fifo.push(packet, now);
    }

    fn dequeue<R: Report<P>>(&mut self, now: Time, _report: &mut R) -> Dequeued<P> {
        self.deadline = None;
        if self.packets == 0 {
            return Dequeued::Empty;
        }
        let all = self.all.map_or(Time::ZERO, |all| all.ready());
        if all <= now {
            // A class within its guarantee is also within its ceiling, which is not lower and has
            // the same burst.
            let guaranteed = |class: &Class<P>| class.guarantee.ready() <= now;
            if let Some(index) = self.choose(guaranteed).or_else(|| self.choose(|class| class.ready() <= now))
            {
                return self.send(now, index);
            }
        }
        let waiting = self.classes.iter().filter(|class| !class.fifo.is_empty());
        let ready = waiting.map(Class::ready).min().unwrap_or(Time::NEVER).max(all);
        self.deadline = Some(ready);
        Dequeued::NotBefore(ready)
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
