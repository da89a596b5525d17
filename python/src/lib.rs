//! `leeway._core`: what the Python package takes from Rust. Plain values go in and out; the classes that
//! people see are written in Python around it.

mod columns;
mod community;
mod error;
mod law;
mod run;
mod scenario;
mod value;

/// The compiled part of the package `leeway`; import from `leeway` instead.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use super::columns::Columns;
    #[pymodule_export]
    use super::community::{community, community_fields};
    #[pymodule_export]
    use super::law::{Law, laws, queues};
    #[pymodule_export]
    use super::run::{Cancel, run};
    #[pymodule_export]
    use super::scenario::{canonical, change, check, read, schema, write};

    /// Version of the engine: equal versions give equal results.
    #[pymodule_export]
    const ENGINE: &str = leeway_sim::ENGINE;

    /// The same for communities.
    #[pymodule_export]
    const COMMUNITY_ENGINE: &str = leeway_community::ENGINE;
}
