//! The output of `leeway sim`: tables, JSON, Parquet and the report page. Also the standard output
//! of all commands.

pub mod atomic;
mod charts;
mod collect;
mod columns;
mod format;
mod lines;
mod report;
mod series;
mod standard;
mod story;
mod summary;
mod table;
mod terms;

pub use collect::Collector;
pub use standard::{stdout, unwritten};
pub use table::print;
