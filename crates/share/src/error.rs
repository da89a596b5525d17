//! Errors of a caller.

use crate::policy::Policy;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// No flow of this number is open.
    #[error("flow {0} is not open; flows are numbered by the answer to `open`")]
    UnknownFlow(u64),
    /// As many flows are open as the policy allows.
    #[error("{0} flows are open, which is the most; raise `flows_max` of the policy, or close some")]
    TooManyFlows(usize),
    /// The policy has no constant of this name.
    #[error("a policy has no constant `{name}`; it has {known}")]
    UnknownConstant {
        /// The name that was given.
        name: String,
        /// The names of all constants.
        known: String,
    },
    /// The value of a constant is out of bounds.
    #[error("`{name}` of the policy is {value}; it is from {least} to {most} {unit}")]
    OutOfBounds {
        /// Name of the constant.
        name: &'static str,
        /// The value that was given.
        value: u64,
        /// The least allowed value.
        least: u64,
        /// The largest allowed value.
        most: u64,
        /// Unit of the values.
        unit: &'static str,
    },
}

impl ShareError {
    pub(crate) fn unknown_constant(name: &str) -> ShareError {
        let known = Policy::CONSTANTS.iter().map(|constant| constant.name).collect::<Vec<_>>().join(", ");
        ShareError::UnknownConstant { name: name.to_owned(), known }
    }
}
