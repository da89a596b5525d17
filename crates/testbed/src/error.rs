//! Why a measurement cannot be had.

use std::io;

/// What was wrong, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The test network cannot be built.
    #[error(transparent)]
    Network(#[from] leeway_emulator::Error),
    /// Something was asked for that there cannot be.
    #[error("{0}")]
    Usage(String),
    /// A program that sets up a host failed.
    #[error("`{program}` on the host {host} failed: {why}")]
    Program {
        /// The program.
        program: &'static str,
        /// The host.
        host: String,
        /// What it said.
        why: String,
    },
    /// A measuring program could not work.
    #[error("{what}: {error}")]
    Measure {
        /// Which.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}
