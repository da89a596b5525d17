//! What can be wrong with a specification of a law; every message says what would be right.

/// Why a law could not be named or set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// No law has this name.
    #[error("there is no law {name:?}; there are: {known}")]
    UnknownLaw {
        /// As written.
        name: String,
        /// All names.
        known: String,
    },
    /// The law has no such parameter.
    #[error("{law} has no parameter {param:?}; it has: {known}")]
    UnknownParam {
        /// The law.
        law: &'static str,
        /// As written.
        param: String,
        /// All parameters of the law.
        known: String,
    },
    /// The value does not read as what the parameter takes.
    #[error("{law}: {param}={value} is not {expected}")]
    BadValue {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: &'static str,
        /// As written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The value is outside the bounds.
    #[error("{law}: {param}={value} is outside {range}")]
    OutOfRange {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: &'static str,
        /// As written.
        value: String,
        /// The bounds with their units.
        range: String,
    },
    /// The same parameter is given twice.
    #[error("{law}: {param} is given twice")]
    Repeated {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: String,
    },
    /// Not of the form `law` or `law:parameter=value,...`.
    #[error(
        "{text:?} is not a law with parameters, such as \"ledbat\" or \"ledbat:target=5ms,gain_down=10\""
    )]
    Malformed {
        /// As written.
        text: String,
    },
}
