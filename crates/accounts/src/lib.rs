//! Who used how much of a shared line, and the caps that protect its owner's bill.
//!
//! Bytes are counted by user, direction, class (the home, its neighbours) and five minutes
//! ([`ledger`]). One transaction in nine seconds moves the counts into an SQLite file or a
//! PostgreSQL database ([`store`]). Everything that decides takes the time as an argument;
//! [`Accounts`] reads the clocks.

mod books;
pub mod caps;
pub mod export;
pub mod ledger;
pub mod store;
pub mod time;
pub mod vouchers;

pub use books::{Accounts, Books, write};
pub use store::{Store, StoreError};
