//! Queues as plain data: what a scenario, a command line or a gateway's policy says about one.

mod params;
mod value;

pub use params::{Info, ParamInfo, Params, SpecError, read, set_field, short, split, write};
pub use value::{Bounds, Classes, Value};

use crate::{AnyQueue, Packet};
use leeway_units::{Duration, Rate, Size};
use std::sync::LazyLock;

/// What a discipline can be told of the link it is built for.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildContext {
    /// The buffer in packets, in bytes or without limit; a size against the bandwidth-delay product must be
    /// resolved before.
    pub capacity: Size,
    /// The rate at which the queue will be served (an average where it varies).
    pub rate: Rate,
    /// The one-way propagation delay of the link; RED's automatic setting uses it.
    pub delay: Duration,
    /// The seed of everything random in the queue.
    pub seed: u64,
    /// The mean length of a packet in bytes.
    pub mean_packet: u32,
}

impl BuildContext {
    /// A link without delay that carries packets of 1500 bytes; seed 0.
    pub fn new(capacity: Size, rate: Rate) -> Self {
        BuildContext { capacity, rate, delay: Duration::ZERO, seed: 0, mean_packet: 1500 }
    }
}

crate::named! {
    /// A queue discipline with its parameters, as plain data.
    ///
    /// The text form is the name and, after a colon, the parameters that differ from their defaults:
    /// `droptail`, `codel:target=5ms,ecn=true`. The same spelling serves scenario files and command lines.
    pub enum QueueSpec: "Queue", "queue discipline", "droptail or codel:target=5ms,ecn=true" {
        /// First in, first out, arrivals dropped when full.
        DropTail(crate::DropTailParams),
        /// Random early detection.
        Red(crate::RedParams),
        /// Controlled delay.
        CoDel(crate::CoDelParams),
        /// Proportional-integral controller enhanced.
        Pie(crate::PieParams),
        /// Stochastic fairness queueing.
        Sfq(crate::SfqParams),
        /// Flow queueing with CoDel.
        FqCoDel(crate::FqCoDelParams),
        /// Deficit round robin.
        Drr(crate::DrrParams),
        /// Strict priority.
        Priority(crate::PriorityParams),
        /// Classes that borrow from one another.
        Borrowing(crate::BorrowingParams),
    }
}

impl QueueSpec {
    /// An empty queue of this kind for the link that `context` tells of.
    pub fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        match self {
            QueueSpec::DropTail(params) => params.build(context),
            QueueSpec::Red(params) => params.build(context),
            QueueSpec::CoDel(params) => params.build(context),
            QueueSpec::Pie(params) => params.build(context),
            QueueSpec::Sfq(params) => params.build(context),
            QueueSpec::FqCoDel(params) => params.build(context),
            QueueSpec::Drr(params) => params.build(context),
            QueueSpec::Priority(params) => params.build(context),
            QueueSpec::Borrowing(params) => params.build(context),
        }
    }
}

static DISCIPLINES: LazyLock<Vec<Info>> = LazyLock::new(QueueSpec::list);

/// Every discipline with its parameters.
pub fn disciplines() -> &'static [Info] {
    &DISCIPLINES
}

impl Default for QueueSpec {
    /// Drop-tail.
    fn default() -> Self {
        QueueSpec::DropTail(Default::default())
    }
}
