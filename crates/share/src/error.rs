//! What a caller can do wrong.

use crate::policy::Policy;

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// No flow of that number is open.
    #[error("flow {0} is not open; flows are numbered by the answer to `open`")]
    UnknownFlow(u64),
    /// As many flows are open as the policy allows.
    #[error("{0} flows are open, which is the most; raise `flows_max` of the policy, or close some")]
    TooManyFlows(usize),
    /// A policy has no constant of that name.
    #[error("a policy has no constant `{name}`; it has {known}")]
    UnknownConstant {
        /// What was asked for.
        name: String,
        /// All there are.
        known: String,
    },
    /// A constant was out of bounds.
    #[error("`{name}` of the policy is {value}; it is from {least} to {most} {unit}")]
    OutOfBounds {
        /// The constant.
        name: &'static str,
        /// What it was to be.
        value: u64,
        /// The least it can be.
        least: u64,
        /// The most it can be.
        most: u64,
        /// In this unit.
        unit: &'static str,
    },
}

impl ShareError {
    pub(crate) fn unknown_constant(name: &str) -> ShareError {
        let known = Policy::CONSTANTS.iter().map(|constant| constant.name).collect::<Vec<_>>().join(", ");
        ShareError::UnknownConstant { name: name.to_owned(), known }
    }
}
