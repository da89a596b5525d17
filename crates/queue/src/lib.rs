//! Queue disciplines and shapers.
//!
//! A discipline is a [`Queue`]: packets go in with the time of their arrival and come out when a link asks for the
//! next one. Nothing here reads a clock or a random device: time is an argument and chance comes from a seed. Every
//! drop and mark is told to a [`Report`] with its [`Reason`].

mod any;
mod chance;
mod droptail;
mod fifo;
mod packet;
mod queue;
mod report;
pub mod spec;

pub use any::AnyQueue;
pub use chance::Chance;
pub use droptail::{DropTail, DropTailParams};
pub use packet::{Ecn, Packet};
pub use queue::{Dequeued, Queue};
pub use report::{Log, Reason, Report};
pub use spec::{BuildContext, QueueInfo, QueueSpec, SpecError, disciplines};
