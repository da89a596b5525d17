//! Communities: runs of `leeway-community`.

use crate::error;
use crate::run::{Cancel, attended};
use leeway_community::Community;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Plays the community that `fields`, a JSON object, describes: its report as JSON.
#[pyfunction]
#[pyo3(signature = (fields, seed, cancel=None))]
pub fn community(
    py: Python<'_>,
    fields: &str,
    seed: u64,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<String> {
    let community = checked(fields)?;
    let report = attended(py, cancel, |cancelled| leeway_community::run(&community, seed, cancelled))?;
    let report = report.map_err(|wrong| PyValueError::new_err(wrong.to_string()))?;
    let report = report.ok_or_else(|| error::simulation(py, &leeway_sim::SimError::Cancelled))?;
    to_json(&report)
}

/// The community with all its defaults, as JSON.
#[pyfunction]
pub fn community_fields(fields: &str) -> PyResult<String> {
    to_json(&checked(fields)?)
}

fn checked(fields: &str) -> PyResult<Community> {
    let community: Community = serde_json::from_str(fields)
        .map_err(|wrong| PyValueError::new_err(format!("a community: {wrong}")))?;
    community.check().map_err(|wrong| PyValueError::new_err(format!("a community: {wrong}")))?;
    Ok(community)
}

fn to_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|wrong| PyValueError::new_err(wrong.to_string()))
}
