//! Who may send how much of a line that belongs to somebody else.
//!
//! One question: may this byte be asked for, or sent, now? The gateway asks it for what servers send (receive
//! windows) and for what it sends itself, the simulator's gateway for both. No clock and no sockets here:
//! times are microseconds on any clock that does not go back, observations go in, grants come out.
//! `docs/sharing.md` has the equations.
//!
//! A [`Line`] is one direction: a [`Scheduler`] says who is next, a [`Ledger`] which bytes are under way, the
//! [`Foreground`] what its owner expects, an [`Estimator`] delay, base and rate, a law of `leeway-control`
//! the window, and a [`Policy`] holds every constant. A [`Downlink`] is what comes through sockets: it makes
//! receive windows of a line's grants.
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
