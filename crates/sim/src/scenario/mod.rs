//! Scenarios: what to simulate, as data.
//!
//! A [`Scenario`] is read from TOML ([`Scenario::parse`]), described by a JSON Schema, or built by
//! other programs. Its structs hold what was written. Methods give the values of what was left out
//! ([`TcpOptions::resolve`], [`Channel::buffer_limit`], [`Link::backward`]).
//!
//! The parts of a scenario are exhaustive on purpose: a program that builds one from structs has to
//! decide about a new field. A program that does not want to decide changes a scenario that it has
//! read. [`TcpOptions`] has a default for everything, so it may get further fields.

mod check;
mod check_flow;
mod dist;
mod error;
mod file;
mod flow;
mod gateway;
pub mod limits;
mod model;
mod parse;
mod path;
mod phase;
mod route;
mod specs;
mod swarm;
mod tcp;
mod topology;
mod traces;
mod words;

pub use dist::{Dist, Pareto, Quantity, Spread};
pub use error::{ErrorKind, Problem, ScenarioError};
pub use file::{ScenarioFile, SweepPoint};
pub use flow::{App, Clock, Codec, FlowGroup, Offset, Role};
pub use gateway::{Gateway, Part};
pub use model::{Direction, Event, Sampling, SamplingError, Scenario, Series, Sweep, SweepValue, Window};
pub use path::FieldPath;
pub use phase::IN_STEP;
pub use route::Hop;
pub use swarm::Swarm;
pub use tcp::{AckPolicy, BackoffUntil, DelayedAck, Profile, RtoFloor, Tcp, TcpOptions};
pub use topology::{BufferLimit, Channel, Dumbbell, Link, RateChange};
