//! Scenarios: dictionaries that the same code checks as the program's files.

use crate::{error, value};
use leeway_sim::scenario::{Scenario, ScenarioFile};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use toml_edit::DocumentMut;

/// What errors call a scenario that was written in Python.
const NAME: &str = "scenario";

/// The scenario that `fields` describe.
///
/// # Errors
/// `leeway.ScenarioError` with the line of its TOML that is wrong.
pub fn parse(fields: &Bound<'_, PyDict>) -> PyResult<Scenario> {
    let file = ScenarioFile::new(NAME, value::document(fields)?.to_string());
    file.scenario().map_err(|wrong| error::scenario(fields.py(), &wrong))
}

/// Raises what is wrong with a scenario.
#[pyfunction]
pub fn check(fields: &Bound<'_, PyDict>) -> PyResult<()> {
    parse(fields).map(drop)
}

/// The scenario as TOML, whether it makes sense or not.
#[pyfunction]
pub fn write(fields: &Bound<'_, PyDict>) -> PyResult<String> {
    Ok(value::document(fields)?.to_string())
}

/// The fields of a checked text, or of a file where no text is given, as they are written.
#[pyfunction]
#[pyo3(signature = (name, text=None))]
pub fn read<'py>(py: Python<'py>, name: PathBuf, text: Option<String>) -> PyResult<Bound<'py, PyDict>> {
    let file = match text {
        Some(text) => Ok(ScenarioFile::new(name.display().to_string(), text)),
        None => ScenarioFile::load(&name),
    };
    let file =
        file.and_then(|file| file.scenario().map(|_| file)).map_err(|wrong| error::scenario(py, &wrong))?;
    as_written(py, &file)
}

/// The fields with one of them changed, as the program's `--set` does.
#[pyfunction]
pub fn change<'py>(
    fields: &Bound<'py, PyDict>,
    path: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = fields.py();
    let mut file = ScenarioFile::new(NAME, value::document(fields)?.to_string());
    let value = value::inline(value)?;
    file.set(&format!("{path}={value}")).map_err(|wrong| error::scenario(py, &wrong))?;
    as_written(py, &file)
}

fn as_written<'py>(py: Python<'py>, file: &ScenarioFile) -> PyResult<Bound<'py, PyDict>> {
    let document: DocumentMut = file
        .text()
        .parse()
        .map_err(|wrong: toml_edit::TomlError| PyValueError::new_err(wrong.to_string()))?;
    value::fields(py, document.as_table())
}

/// The checked scenario as JSON with every default that matters, the same for all ways to write it.
#[pyfunction]
pub fn canonical(fields: &Bound<'_, PyDict>) -> PyResult<String> {
    to_json(&parse(fields)?)
}

/// The JSON Schema of scenarios.
#[pyfunction]
pub fn schema() -> PyResult<String> {
    to_json(&Scenario::json_schema())
}

fn to_json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|wrong| PyValueError::new_err(wrong.to_string()))
}
