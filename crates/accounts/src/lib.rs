//! Accounts of a shared line: how much each user used, and the caps that protect the owner's bill.
//!
//! Bytes are counted by user, direction, class (the home, its neighbours) and five minutes
//! ([`ledger`]). One transaction in nine seconds moves the counts into an SQLite file or a
//! PostgreSQL database ([`store`]). All decisions take the time as an argument; only [`Accounts`]
//! reads the clocks.

mod books;
pub mod caps;
pub mod export;
pub mod ledger;
pub mod limits;
pub mod store;
pub mod time;
pub mod vouchers;

pub use books::{Accounts, Books, write};
pub use store::{Store, StoreError};
