//! What protects a service that strangers talk to: whoever guesses secrets is slowed ([`Attempts`]), files
//! with secrets are read only where nobody else can read them ([`read_secret`]) and replaced whole
//! ([`replace()`]), and rights that are not needed any more are given up ([`give_up_but`]).

mod attempts;
mod name;
mod replace;
mod rights;
mod secret;

pub use attempts::{Attempts, site};
pub use name::{is_name, is_steady, is_user};
pub use replace::replace;
pub use rights::{Rights, give_up_but, give_up_the_last};
pub use secret::{SecretError, check_private, credential, read_in_place, read_secret};
