//! Errors of measurements.

use std::io;

/// What was wrong, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The test network cannot be built.
    #[error(transparent)]
    Network(#[from] leeway_emulator::Error),
    /// The request cannot be met.
    #[error("{0}")]
    Usage(String),
    /// A program that sets up a host failed.
    #[error("`{program}` on the host {host} failed: {why}")]
    Program {
        /// The program.
        program: &'static str,
        /// The host.
        host: String,
        /// Its output.
        why: String,
    },
    /// A part of the measurement failed.
    #[error("{what}: {error}")]
    Measure {
        /// Name of the part.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}
