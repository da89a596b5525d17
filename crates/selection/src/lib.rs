//! Chooses which of several gateways a client uses.
//!
//! A [`Selector`] belongs to one client. The client reports the results of its probes
//! ([`Selector::observe`]) and the data that it gets ([`Selector::used`]). The selector says which
//! gateway new connections use ([`Selector::choose`]) and which gateway to probe next
//! ([`Selector::next_probe`]). It has no clock, no socket and no random device. Times are those of
//! any clock that does not go back, and equal seeds and observations give equal choices.
//! `docs/selection.md` has the equations.
//!
//! ```
//! use leeway_selection::{Gateway, Observation, Policy, Selector, Status};
//! use leeway_units::{Duration, Rate, Time};
//!
//! let (near, far) = (Gateway::named("near.example:3128"), Gateway::named("far.example:3128"));
//! let mut selector = Selector::new(Policy::default(), 7, [near, far]);
//! let status = Status { spare: Some(Rate::from_bits_per_sec(8_000_000)), ..Status::open() };
//! let found = |ms| Observation::Answered { round_trip: Duration::from_millis(ms), status };
//! selector.observe(near, Time::ZERO, found(5));
//! selector.observe(far, Time::ZERO, found(900));
//! assert_eq!(selector.choose(Time::ZERO)?.gateway, near);
//!
//! selector.observe(near, Time::from_secs(60), Observation::Failed);
//! assert_eq!(selector.choose(Time::from_secs(60))?.gateway, far);
//! # Ok::<(), leeway_selection::NoGateway>(())
//! ```

mod cost;
mod gateway;
mod known;
mod policy;
mod selector;

pub use gateway::{Choice, Gateway, NoGateway, Observation, Probe, Reason, Status};
pub use policy::{Constant, Policy};
pub use selector::Selector;
