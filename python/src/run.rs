//! Runs: without the interpreter's lock, and given up when somebody does not want them any more.

use crate::columns::Columns;
use crate::{error, scenario};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a run looks for Ctrl-C.
const LISTEN_EVERY: Duration = Duration::from_millis(40);

/// A wish to stop, shared with runs that are under way in any thread.
#[pyclass(frozen, module = "leeway")]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    /// Wishes that count as well.
    others: Vec<Arc<AtomicBool>>,
}

#[pymethods]
impl Cancel {
    /// One that is set by itself, or with `parent`.
    #[new]
    #[pyo3(signature = (parent=None))]
    fn new(parent: Option<&Bound<'_, Cancel>>) -> Self {
        let others = parent.map(|parent| parent.get().flags()).unwrap_or_default();
        Cancel { flag: Arc::default(), others }
    }

    /// Stops the runs that were given this.
    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether runs are to stop.
    fn is_set(&self) -> bool {
        any(&self.flags())
    }

    fn __repr__(&self) -> String {
        format!("<leeway.Cancel: {}>", if self.is_set() { "set" } else { "not set" })
    }
}

impl Cancel {
    fn flags(&self) -> Vec<Arc<AtomicBool>> {
        self.others.iter().chain([&self.flag]).cloned().collect()
    }
}

fn any(flags: &[Arc<AtomicBool>]) -> bool {
    flags.iter().any(|flag| flag.load(Ordering::Relaxed))
}

/// Plays a scenario on at most `threads` threads: the summary as JSON, the series of flows and of links, and the
/// seconds that the simulator took.
#[pyfunction]
#[pyo3(signature = (fields, seed, cancel=None, threads=1))]
pub fn run(
    fields: &Bound<'_, PyDict>,
    seed: u64,
    cancel: Option<&Bound<'_, Cancel>>,
    threads: usize,
) -> PyResult<(String, Columns, Columns, f64)> {
    let py = fields.py();
    if seed > i64::MAX as u64 {
        return Err(PyValueError::new_err("the seed is 2^63 or more"));
    }
    let scenario = scenario::parse(fields)?;
    let begun = Instant::now();
    let outcome = attended(py, cancel, |cancelled| {
        leeway_sim::run_with_baseline_unless(&scenario, seed, threads, cancelled)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut run = outcome.map_err(|wrong| error::simulation(py, &wrong))?;
    let series = std::mem::take(&mut run.series);
    let summary = serde_json::to_string(&run).map_err(|wrong| PyValueError::new_err(wrong.to_string()))?;
    let (flows, links) =
        (Columns::flows(series.flows, &series.flow_names), Columns::links(series.links, &series.link_names));
    Ok((summary, flows?, links?, seconds))
}

/// Does `play` without the interpreter's lock. What `play` is given says whether its result is not wanted any
/// more.
///
/// # Errors
/// The exception of a signal that came meanwhile, or `leeway.SimulationError` where `play` panicked.
pub fn attended<T: Send>(
    py: Python<'_>,
    cancel: Option<&Bound<'_, Cancel>>,
    play: impl FnOnce(&dyn Fn() -> bool) -> T + Send,
) -> PyResult<T> {
    let flags = cancel.map(|cancel| cancel.get().flags()).unwrap_or_default();
    let outcome = py.detach(|| {
        let ears = Ears { flags: &flags, heard: Cell::new(Instant::now()), signal: RefCell::new(None) };
        let outcome = catch_unwind(AssertUnwindSafe(|| play(&|| ears.is_cancelled())));
        match ears.signal.into_inner() {
            Some(signal) => Err(signal),
            None => Ok(outcome.ok()),
        }
    });
    outcome?.ok_or_else(|| error::fault(py, "the simulator stopped at a fault of its own"))
}

/// Who hears that a run is not wanted any more.
struct Ears<'a> {
    flags: &'a [Arc<AtomicBool>],
    heard: Cell<Instant>,
    signal: RefCell<Option<PyErr>>,
}

impl Ears<'_> {
    fn is_cancelled(&self) -> bool {
        if any(self.flags) {
            return true;
        }
        if self.heard.get().elapsed() < LISTEN_EVERY {
            return false;
        }
        // Only the main thread is told of signals; for others this is a glance.
        let signal = Python::attach(|py| py.check_signals().err());
        self.heard.set(Instant::now());
        let stop = signal.is_some();
        *self.signal.borrow_mut() = signal;
        stop
    }
}
