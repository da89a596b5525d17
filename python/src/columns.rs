//! Series as Arrow: the simulator's columns change hands without being copied.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use arrow_schema::ArrowError;
use leeway_control::Phase;
use leeway_sim::results::{FlowSeries, LinkSeries};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A table in the memory of the simulator, for whoever reads Arrow's C stream.
#[pyclass(frozen, module = "leeway._core")]
pub struct Columns(RecordBatch);

#[pymethods]
impl Columns {
    /// The table by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema is a wish that need not be granted.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
}

impl Columns {
    /// Samples of flows.
    pub fn flows(series: FlowSeries, names: &[String]) -> PyResult<Columns> {
        let phases = Phase::ALL.iter().map(|phase| phase.as_str());
        batch([
            ("time_s", floats(series.time_s)),
            ("flow", named::<Int32Type>(Buffer::from_vec(series.flow), names.iter().map(String::as_str))),
            ("cwnd_pkt", floats(series.cwnd_pkt)),
            ("ssthresh_pkt", floats(series.ssthresh_pkt)),
            ("inflight_pkt", floats(series.inflight_pkt)),
            ("queuing_delay_ms", floats(series.queuing_delay_ms)),
            ("srtt_ms", floats(series.srtt_ms)),
            ("phase", named::<Int8Type>(Buffer::from_vec(series.phase), phases)),
            ("rate_bps", floats(series.rate_bps)),
        ])
    }

    /// Samples of links.
    pub fn links(series: LinkSeries, names: &[String]) -> PyResult<Columns> {
        batch([
            ("time_s", floats(series.time_s)),
            ("link", named::<Int32Type>(Buffer::from_vec(series.link), names.iter().map(String::as_str))),
            ("queue_pkt", Ok(Arc::new(UInt32Array::from(series.queue_pkt)))),
            ("queue_bytes", Ok(Arc::new(UInt64Array::from(series.queue_bytes)))),
            ("rate_bps", floats(series.rate_bps)),
            ("dropped", Ok(Arc::new(UInt64Array::from(series.dropped)))),
        ])
    }
}

type Column = Result<ArrayRef, ArrowError>;

fn batch<const N: usize>(columns: [(&str, Column); N]) -> PyResult<Columns> {
    let columns = columns.into_iter().map(|(name, column)| Ok((name, column?, false)));
    let batch =
        columns.collect::<Result<Vec<_>, ArrowError>>().and_then(RecordBatch::try_from_iter_with_nullable);
    batch.map(Columns).map_err(|wrong| PyValueError::new_err(wrong.to_string()))
}

fn floats(values: Vec<f64>) -> Column {
    Ok(Arc::new(Float64Array::from(values)))
}

/// Indices, whose memory is taken for that of the signed type of the same width, and what they stand for. Arrow's
/// readers want indices signed, and ours are far from their ends.
fn named<'a, K: ArrowDictionaryKeyType>(indices: Buffer, names: impl Iterator<Item = &'a str>) -> Column {
    let count = indices.len() / K::Native::get_byte_width();
    let keys = PrimitiveArray::<K>::new(ScalarBuffer::new(indices, 0, count), None);
    let names = StringArray::from_iter_values(names);
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys, Arc::new(names))?))
}
