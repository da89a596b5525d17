//! Laws by hand, and what laws and queue disciplines there are.

use leeway_control::{Ack, LawSpec, Loss, Path, flower};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A law with its state: one flow's controller. `leeway.Law` is its face.
#[pyclass(module = "leeway._core")]
pub struct Law {
    spec: LawSpec,
    law: leeway_control::Law,
}

#[pymethods]
impl Law {
    #[new]
    fn new(spec: &str, mss_bytes: u32, initial_window_bytes: u32) -> PyResult<Law> {
        let spec: LawSpec = spec.parse().map_err(wrong)?;
        let law = spec.build(&Path { mss_bytes, initial_window_bytes, ..Path::default() });
        Ok(Law { spec, law })
    }

    #[allow(clippy::too_many_arguments)] // by keyword, from `leeway.Law` alone
    #[pyo3(signature = (*, path, now_us, acked_bytes, prior_inflight_bytes, ce_bytes, rtt_us, owd_us, owd_resolution_us, app_limited, round_start, recovering))]
    fn on_ack(
        &mut self,
        path: (u64, u32, u32, u32, u32),
        now_us: u64,
        acked_bytes: u64,
        prior_inflight_bytes: u64,
        ce_bytes: u64,
        rtt_us: u32,
        owd_us: u32,
        owd_resolution_us: u32,
        app_limited: bool,
        round_start: bool,
        recovering: bool,
    ) {
        let ack = Ack {
            now_us,
            acked_bytes,
            prior_inflight_bytes,
            ce_bytes,
            rtt_us,
            owd_us,
            owd_resolution_us,
            app_limited: app_limited.into(),
            round_start: round_start.into(),
            recovering: recovering.into(),
            ..Ack::default()
        };
        self.law.on_ack(&ack, &of(path));
    }

    #[pyo3(signature = (*, path, now_us, lost_bytes, sent_us, timeouts))]
    fn on_loss(
        &mut self,
        path: (u64, u32, u32, u32, u32),
        now_us: u64,
        lost_bytes: u64,
        sent_us: u64,
        timeouts: u32,
    ) {
        let kind = if timeouts > 0 { Loss::TIMEOUT } else { Loss::DUPACK };
        self.law.on_loss(&Loss { now_us, lost_bytes, sent_us, kind, timeouts }, &of(path));
    }

    /// The specification as it is written, defaults left out.
    #[getter]
    fn spec(&self) -> String {
        self.spec.to_string()
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.spec.name()
    }

    /// A parameter's value as it is written.
    fn param(&self, name: &str) -> PyResult<String> {
        self.spec.get(name).map_err(wrong)
    }

    #[getter]
    fn window_bytes(&self) -> f64 {
        self.law.output().window_bytes_f64()
    }

    /// In bytes; infinite where it is not set.
    #[getter]
    fn ssthresh_bytes(&self) -> f64 {
        match self.law.output().ssthresh_bytes {
            leeway_control::Output::UNLIMITED => f64::INFINITY,
            bytes => bytes as f64,
        }
    }

    #[getter]
    fn pacing_bytes_per_s(&self) -> u64 {
        self.law.output().pacing_bytes_per_s
    }

    #[getter]
    fn queuing_delay_us(&self) -> u32 {
        self.law.output().queuing_delay_us
    }

    #[getter]
    fn phase(&self) -> &'static str {
        self.law.output().phase().as_str()
    }

    /// Every number of the state worth plotting.
    fn probe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        let mut outcome = Ok(());
        self.law.probe(&mut |probe, value| {
            if outcome.is_ok() {
                outcome = values.set_item(probe.name, value);
            }
        });
        outcome.map(|()| values)
    }

    /// FLOWER's rule for two linguistic values.
    #[staticmethod]
    fn flower_rule(error: i32, change: i32) -> PyResult<i32> {
        match error.abs() <= 5 && change.abs() <= 5 {
            true => Ok(flower::rule(error, change)),
            false => Err(PyValueError::new_err("FLOWER has linguistic values from -5 to 5")),
        }
    }

    /// Another law in the same state.
    fn copy(&self) -> Law {
        Law { spec: self.spec.clone(), law: self.law.clone() }
    }
}

fn wrong(error: leeway_control::LawError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn of(
    (inflight_bytes, mss_bytes, initial_window_bytes, srtt_us, min_rtt_us): (u64, u32, u32, u32, u32),
) -> Path {
    Path { inflight_bytes, mss_bytes, initial_window_bytes, srtt_us, min_rtt_us }
}

/// Name, default, bounds, meaning and source of a parameter.
type Param = (&'static str, String, String, String, &'static str);
/// Name, summary, source, parameters, and name and unit of what a series can hold.
type Listed = (&'static str, &'static str, &'static str, Vec<Param>, Vec<(&'static str, &'static str)>);

/// Every law there is.
#[pyfunction]
pub fn laws() -> Vec<Listed> {
    let params = |law: &leeway_control::LawInfo| {
        let param = |p: &leeway_control::ParamInfo| {
            (p.name, p.show(p.default), p.range(), p.doc.to_owned(), p.source)
        };
        law.params.iter().map(param).collect()
    };
    let probes =
        |law: &leeway_control::LawInfo| law.probes.iter().map(|probe| (probe.name, probe.unit)).collect();
    leeway_control::laws()
        .iter()
        .map(|law| (law.name, law.summary, law.source, params(law), probes(law)))
        .collect()
}

/// Every queue discipline there is.
#[pyfunction]
pub fn queues() -> Vec<Listed> {
    let params = |queue: &leeway_queue::QueueInfo| {
        let param = |p: &leeway_queue::spec::ParamInfo| {
            (p.name, p.default.clone(), p.bounds.clone(), p.about.clone(), "")
        };
        queue.params.iter().map(param).collect()
    };
    leeway_queue::disciplines().iter().map(|q| (q.name, q.summary, q.source, params(q), Vec::new())).collect()
}
