//! Errors as exceptions of `leeway.errors`.

use leeway_sim::SimError;
use leeway_sim::scenario::{ErrorKind, ScenarioError};
use pyo3::prelude::*;
use pyo3::types::PyAnyMethods;

/// A `leeway.ScenarioError` with the text that the program prints.
pub fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Unreadable => "unreadable",
        ErrorKind::Syntax => "syntax",
        ErrorKind::Field => "field",
        ErrorKind::Meaning => "meaning",
        ErrorKind::Change => "change",
    };
    let (line, column) = error.line_column();
    let text = leeway_explain::render(error, false);
    let arguments = (text, kind, error.file(), line, column, error.message(), error.help());
    raise(py, "ScenarioError", |class| class.call1(arguments))
}

/// A `leeway.SimulationError`, or `leeway.CancelledError`.
pub fn simulation(py: Python<'_>, error: &SimError) -> PyErr {
    match error {
        SimError::Cancelled => raise(py, "CancelledError", |class| class.call1((error.to_string(),))),
        _ => fault(py, &error.to_string()),
    }
}

/// A `leeway.SimulationError`.
pub fn fault(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "SimulationError", |class| class.call1((message,)))
}

fn raise<'py>(
    py: Python<'py>,
    class: &str,
    make: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyErr {
    let error = py.import("leeway.errors").and_then(|module| module.getattr(class)).and_then(|c| make(&c));
    error.map_or_else(|error| error, PyErr::from_value)
}
