//! Errors in the specification of a law. Every message says what would be right.

/// Why a specification is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// No law has this name.
    #[error("there is no law {name:?}; there are: {known}")]
    UnknownLaw {
        /// The name as written.
        name: String,
        /// All laws.
        known: String,
    },
    /// The law has no such parameter.
    #[error("{law} has no parameter {param:?}; it has: {known}")]
    UnknownParam {
        /// The law.
        law: &'static str,
        /// The parameter as written.
        param: String,
        /// All parameters of the law.
        known: String,
    },
    /// The value has the wrong form.
    #[error("{law}: {param}={value} is not {expected}")]
    BadValue {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: &'static str,
        /// The value as written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The value is out of bounds.
    #[error("{law}: {param}={value} is outside {range}")]
    OutOfRange {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: &'static str,
        /// The value as written.
        value: String,
        /// The bounds with their units.
        range: String,
    },
    /// A parameter is given twice.
    #[error("{law}: {param} is given twice")]
    Repeated {
        /// The law.
        law: &'static str,
        /// The parameter.
        param: String,
    },
    /// The text is not of the form `law` or `law:parameter=value,...`.
    #[error(
        "{text:?} is not a law with parameters, such as \"ledbat\" or \"ledbat:target=5ms,gain_down=10\""
    )]
    Malformed {
        /// The text as written.
        text: String,
    },
}
