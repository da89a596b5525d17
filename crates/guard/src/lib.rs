//! What protects a service that strangers talk to: whoever guesses secrets is slowed ([`Attempts`]), and files with secrets
//! are read only where nobody else can read them ([`read_secret`]).

mod attempts;
mod secret;

pub use attempts::{Attempts, site};
pub use secret::{SecretError, read_secret};
