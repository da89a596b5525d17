//! Queue disciplines as plain data, for scenarios, command lines and configurations.

mod params;
mod value;

pub use params::{Info, ParamInfo, Params, SpecError, read, set_field, short, split, write};
pub use value::{Bounds, Classes, Value};

use crate::{AnyQueue, Packet};
use leeway_units::{Duration, Rate, Size};
use std::sync::LazyLock;

/// Properties of the link for which a discipline is built. [`BuildContext::new`] sets two of them;
/// the others are set by assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BuildContext {
    /// The buffer in packets, in bytes, or unlimited. A size in bandwidth-delay products has to be
    /// resolved before.
    pub capacity: Size,
    /// Rate at which the queue is served; the mean if it varies.
    pub rate: Rate,
    /// One-way propagation delay of the link, for RED's automatic setting.
    pub delay: Duration,
    /// Seed of the queue's random numbers.
    pub seed: u64,
    /// Mean packet length, in bytes.
    pub mean_packet: u32,
}

impl BuildContext {
    /// A link without delay for packets of 1500 bytes, with seed 0.
    pub fn new(capacity: Size, rate: Rate) -> Self {
        BuildContext { capacity, rate, delay: Duration::ZERO, seed: 0, mean_packet: 1500 }
    }
}

crate::named! {
    /// A queue discipline with its parameters, as plain data.
    ///
    /// The text form is the name and, after a colon, the parameters that differ from their
    /// defaults: `droptail`, `codel:target=5ms,ecn=true`. Scenario files and command lines use
    /// this form.
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
    /// An empty queue of this kind for the link of `context`.
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

/// All disciplines with their parameters.
pub fn disciplines() -> &'static [Info] {
    &DISCIPLINES
}

impl Default for QueueSpec {
    /// Drop-tail.
    fn default() -> Self {
        QueueSpec::DropTail(Default::default())
    }
}
