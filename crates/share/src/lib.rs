//! Decides how much of a line its owner's neighbours may use.
//!
//! One question: may this byte be requested, or sent, now? The gateway asks it for the bytes that
//! servers send (receive windows) and for the bytes that it sends itself. The simulator's gateway
//! does the same. The crate has no clock and no sockets: times are microseconds on any monotonic
//! clock, observations go in, grants come out. `docs/sharing.md` has the equations.
//!
//! A [`Line`] is one direction. Its [`Scheduler`] chooses the next flow, its [`Ledger`] counts
//! the bytes in flight, its [`Foreground`] those that the owner expects. Its [`Estimator`] has
//! the delay, the base delay and the rate, and a law of `leeway-control` sets the window. A
//! [`Policy`] holds every constant. A [`Downlink`] turns a line's grants into receive windows of
//! sockets, and an [`Uplink`] into bytes that may be sent.
//!
//! ```
//! use leeway_share::{LAW, Line, Next, Policy, UserId};
//!
//! let mut line = Line::new(&LAW.parse()?, &Policy::default());
//! let flow = line.open(UserId(1))?;
//! line.ask(flow, 100_000)?;
//! assert_eq!(line.next(0), Next::Grant { flow, bytes: 2920 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod downlink;
mod early;
mod error;
mod estimator;
mod foreground;
mod id;
mod ledger;
mod line;
mod observed;
mod oneway;
mod pacer;
mod policy;
mod reach;
mod receiver;
mod recent;
mod report;
mod roundtrips;
mod scheduler;
mod uplink;

pub use downlink::{Downlink, MSS_BYTES, Segment, small_path};
pub use error::ShareError;
pub use estimator::{Certainty, Estimator, Heard, Sample};
pub use foreground::{Foreground, Observation};
pub use id::{FlowId, UserId};
pub use ledger::Ledger;
pub use line::{LAW, Line, Next, State};
pub use oneway::{ClockReading, OneWay};
pub use pacer::{Pacer, Starvation};
pub use policy::{Constant, Policy};
pub use receiver::{Received, Receiver};
pub use report::{ForegroundReport, Reporter};
pub use roundtrips::RoundTrips;
pub use scheduler::Scheduler;
pub use uplink::{Acknowledged, Uplink};
