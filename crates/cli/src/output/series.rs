//! Writes series as Parquet: one file for flows, one for links, with one row group per run.

use super::atomic::AtomicFile;
use crate::Failure;
use crate::plan::Plan;
use leeway_sim::results::{FlowSeries, LinkSeries, Series};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

const FLOWS: &str = "message flows {
    REQUIRED INT32 point; REQUIRED INT64 seed; REQUIRED DOUBLE time_s; REQUIRED BYTE_ARRAY flow (UTF8);
    REQUIRED DOUBLE cwnd_pkt; REQUIRED DOUBLE ssthresh_pkt; REQUIRED DOUBLE inflight_pkt;
    REQUIRED DOUBLE queuing_delay_ms; REQUIRED DOUBLE srtt_ms; REQUIRED INT32 phase; REQUIRED DOUBLE rate_bps;
}";
const LINKS: &str = "message links {
    REQUIRED INT32 point; REQUIRED INT64 seed; REQUIRED DOUBLE time_s; REQUIRED BYTE_ARRAY link (UTF8);
    REQUIRED INT64 queue_pkt; REQUIRED INT64 queue_bytes; REQUIRED DOUBLE rate_bps; REQUIRED INT64 dropped;
}";
const UNITS: &str = "{\"_s\": \"seconds\", \"_ms\": \"milliseconds\", \"_pkt\": \"packets of one full segment\", \
                     \"_bytes\": \"bytes\", \"_bps\": \"bits per second\", \"dropped\": \"packets since the last row\"}";

/// The two files while they are written.
pub struct SeriesFiles {
    flows: SerializedFileWriter<AtomicFile>,
    links: SerializedFileWriter<AtomicFile>,
}

impl SeriesFiles {
    /// Starts `flows.parquet` and `links.parquet` in `folder`.
    pub fn create(folder: &Path, plan: &Plan) -> Result<SeriesFiles, Failure> {
        let points: Vec<_> = plan
            .points
            .iter()
            .map(|point| {
                let values: serde_json::Map<_, _> = point
                    .values
                    .iter()
                    .map(|(path, value)| (path.clone(), serde_json::json!(value)))
                    .collect();
                serde_json::json!({ "file": point.file, "title": point.title(), "values": values })
            })
            .collect();
        let metadata = vec![
            KeyValue::new("leeway.version".into(), env!("CARGO_PKG_VERSION").to_owned()),
            KeyValue::new("leeway.units".into(), UNITS.to_owned()),
            KeyValue::new("leeway.points".into(), serde_json::Value::from(points).to_string()),
        ];
        let open = |name: &str, schema: &str| -> Result<_, Failure> {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_key_value_metadata(Some(metadata.clone()))
                .build();
            let schema = parse_message_type(schema).map_err(failure)?;
            let file = AtomicFile::create(&folder.join(name))?;
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(failure)
        };
        Ok(SeriesFiles { flows: open("flows.parquet", FLOWS)?, links: open("links.parquet", LINKS)? })
    }

    /// Adds the series of one run.
    pub fn add(&mut self, point: usize, seed: u64, series: &Series) -> Result<(), Failure> {
        write_flows(&mut self.flows, point, seed, &series.flows, &series.flow_names)
            .and_then(|()| write_links(&mut self.links, point, seed, &series.links, &series.link_names))
            .map_err(failure)
    }

    /// Completes both files and puts them in place.
    pub fn commit(self) -> Result<(), Failure> {
        for file in [self.flows, self.links] {
            file.into_inner().map_err(failure)?.commit()?;
        }
        Ok(())
    }
}

fn failure(error: ParquetError) -> Failure {
    Failure::Run(format!("cannot write the series: {error}"))
}

type Written = Result<(), ParquetError>;
type Group<'a> = SerializedRowGroupWriter<'a, AtomicFile>;

fn write_flows(
    file: &mut SerializedFileWriter<AtomicFile>,
    point: usize,
    seed: u64,
    series: &FlowSeries,
    names: &[String],
) -> Written {
    let mut group = file.next_row_group()?;
    head(&mut group, point, seed, &series.time_s, &series.flow, names)?;
    for values in [
        &series.cwnd_pkt,
        &series.ssthresh_pkt,
        &series.inflight_pkt,
        &series.queuing_delay_ms,
        &series.srtt_ms,
    ] {
        column::<DoubleType>(&mut group, values)?;
    }
    column::<Int32Type>(&mut group, &series.phase.iter().map(|&phase| i32::from(phase)).collect::<Vec<_>>())?;
    column::<DoubleType>(&mut group, &series.rate_bps)?;
    group.close().map(drop)
}

fn write_links(
    file: &mut SerializedFileWriter<AtomicFile>,
    point: usize,
    seed: u64,
    series: &LinkSeries,
    names: &[String],
) -> Written {
    let mut group = file.next_row_group()?;
    head(&mut group, point, seed, &series.time_s, &series.link, names)?;
    column::<Int64Type>(&mut group, &series.queue_pkt.iter().map(|&n| i64::from(n)).collect::<Vec<_>>())?;
    column::<Int64Type>(&mut group, &series.queue_bytes.iter().map(|&n| n as i64).collect::<Vec<_>>())?;
    column::<DoubleType>(&mut group, &series.rate_bps)?;
    column::<Int64Type>(&mut group, &series.dropped.iter().map(|&n| n as i64).collect::<Vec<_>>())?;
    group.close().map(drop)
}

/// Writes the first columns, which both files have.
fn head(
    group: &mut Group<'_>,
    point: usize,
    seed: u64,
    times: &[f64],
    of: &[u32],
    names: &[String],
) -> Written {
    column::<Int32Type>(group, &vec![i32::try_from(point).unwrap_or(i32::MAX); times.len()])?;
    column::<Int64Type>(group, &vec![seed as i64; times.len()])?;
    column::<DoubleType>(group, times)?;
    let names: Vec<ByteArray> = names.iter().map(|name| ByteArray::from(name.as_str())).collect();
    let unknown = ByteArray::from("");
    let named = of.iter().map(|&i| names.get(i as usize).unwrap_or(&unknown).clone());
    column::<ByteArrayType>(group, &named.collect::<Vec<_>>())
}

fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Written {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}
