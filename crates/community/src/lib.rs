//! Simulates a community that shares its lines, as fluid flows in virtual time.
//!
//! Homes with gateways use their own lines by day and night. Users who can reach some of the
//! gateways have sessions. Each user's client chooses a gateway by a [`Scheme`], with the results
//! of its probes. [`run`] simulates a [`Community`] with a seed, and compares what the users got
//! with the most that any scheduler could have given them ([`Prices`]). Everything but the choice
//! depends only on community and seed, so all schemes meet the same day. `docs/selection.md`
//! describes the model.

mod bound;
mod client;
mod config;
mod draw;
mod drive;
mod line;
mod report;
mod town;
mod user;

pub use bound::{Bound, Prices};
pub use config::{Community, Scheme, Wrong};
pub use drive::run;
pub use report::{Hour, Report};

/// Version of everything that determines the result of a run: the version of this package, and a
/// hash of the sources of the choice and of this model. Equal versions give equal results.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("LEEWAY_COMMUNITY_HASH"));
