//! The links of [`leeway_link`] in real time: packets of real programs pass them between TUN
//! devices.
//!
//! An [`Engine`] moves packets between two devices, each way through a link of its own. [`run`]
//! puts a command into a network namespace whose only way out is such a link; a [`testnet`] is
//! several namespaces with links between them. What the engine saw and did can be written to a
//! [`record`], and [`replay`] holds it against the same link in simulated time.

mod device;
mod engine;
mod error;
mod frame;
mod host;
mod lateness;
mod namespace;
mod options;
pub mod record;
pub mod replay;
mod supervise;
mod tally;
pub mod testnet;

pub use device::Device;
pub use engine::{Ended, Engine, Stop, Stopper};
pub use error::Error;
pub use frame::Frame;
pub use lateness::Lateness;
pub use options::{DirectionOptions, LinkOptions};
pub use supervise::{Command, ENTER, Outcome, enter, run};
pub use tally::Tally;

/// One of the two directions of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the command to the network.
    Up,
    /// From the network to the command.
    Down,
}

impl Direction {
    /// Both, in the order of reports.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The name in records and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }

    /// The seed of this direction, when that of the link is `seed`.
    pub const fn seed(self, seed: u64) -> u64 {
        match self {
            Direction::Up => seed,
            Direction::Down => seed ^ (1 << 63),
        }
    }
}
