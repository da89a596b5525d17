//! Queue disciplines and shapers.
//!
//! A discipline is a [`Queue`]. Packets enter with the time of their arrival, and leave when a
//! link asks for the next one. A discipline reads no clock and no random device: the caller passes
//! the time, and chance comes from a seed. A [`Report`] hears of each drop and mark with its
//! [`Reason`].
//!
//! The structs of parameters may get further fields. So a program reads them from text
//! ([`QueueSpec`]), or assigns to fields of their defaults.

mod any;
mod borrowing;
mod chance;
mod codel;
mod droptail;
mod drr;
mod fifo;
mod fq_codel;
mod hash;
pub mod ip;
mod packet;
mod pie;
mod priority;
mod queue;
mod red;
mod report;
mod sfq;
pub mod spec;

pub use any::AnyQueue;
pub use borrowing::{Borrowing, BorrowingParams, ClassShare};
pub use chance::Chance;
pub use codel::{CoDel, CoDelParams, CoDelVariant};
pub use droptail::{DropTail, DropTailParams};
pub use drr::{By, Drr, DrrParams};
pub use fq_codel::{FqCoDel, FqCoDelParams};
pub use packet::{Ecn, Packet};
pub use pie::{Pie, PieDelay, PieParams, PieVariant};
pub use priority::{Priority, PriorityParams};
pub use queue::{Dequeued, Queue};
pub use red::{Red, RedParams, RedSetting, Threshold, Unit};
pub use report::{Log, Reason, Report};
pub use sfq::{Sfq, SfqParams, SfqVariant};
pub use spec::{BuildContext, Info as QueueInfo, QueueSpec, SpecError, disciplines};
