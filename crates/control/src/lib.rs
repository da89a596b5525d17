//! Congestion-control laws, built by name.
//!
//! The laws are C headers (`control/` at the top of the repository), because the kernel runs them
//! too. This crate compiles them and gives them a safe interface. A [`LawSpec`] is a law with
//! parameters, written the same way in scenarios, on the command line and in configuration files.
//! It builds a [`Law`], which every stack drives in the same way:
//!
//! ```
//! use leeway_control::{Ack, LawSpec, Path};
//!
//! let spec: LawSpec = "ledbat:target=5ms,gain_down=10".parse()?;
//! let path = Path { mss_bytes: 1500, initial_window_bytes: 15_000, ..Path::default() };
//! let mut law = spec.build(&path);
//! let ack = Ack { now_us: 50_000, acked_bytes: 1500, prior_inflight_bytes: 15_000, rtt_us: 50_000, ..Ack::default() };
//! law.on_ack(&ack, &path);
//! assert_eq!(law.window_bytes(), 15_150); // a tenth of a packet: an empty queue, one packet of ten
//! # Ok::<(), leeway_control::LawError>(())
//! ```
//!
//! [`Ack`], [`Loss`], [`Path`], [`Output`] and [`Rate`] are exhaustive on purpose: they have the
//! layout of the C structs, which a new field would change.
//!
//! Units are in the names. Times are in microseconds, on any clock that does not go back.

mod abi;
mod error;
mod ffi;
pub mod flower;
mod info;
mod law;
pub mod sender;
mod spec;
mod value;

pub use abi::{Ack, Loss, Output, Path, Phase, Rate};
pub use error::LawError;
pub use info::{LawInfo, ParamInfo, ParamKind, ProbeInfo, laws};
pub use law::Law;
pub use spec::LawSpec;
