//! The simulator: real protocol endpoints over the links of `leeway-link`, in virtual time.

pub mod results;
pub mod scenario;
