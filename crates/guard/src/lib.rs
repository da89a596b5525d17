//! Protection of services that strangers use. [`Attempts`] slows guessing. [`read_secret`] reads
//! files with secrets only if nobody else can read them, and [`replace()`] replaces files as a
//! whole. [`give_up_but`] gives up rights that are no longer needed.

mod attempts;
mod name;
mod replace;
mod rights;
mod secret;

pub use attempts::{Attempts, site};
pub use name::{is_name, is_steady, is_user, steady, steady_lines};
pub use replace::replace;
pub use rights::{Rights, give_up_but, give_up_the_last};
pub use secret::{SecretError, check_private, credential, read_in_place, read_secret};
