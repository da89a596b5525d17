//! The ledger as Apache Parquet, for pandas, DuckDB, Polars and other programs that read columns
//! with types.

use super::{ExportError, pieces};
use crate::store::{Store, Usage};
use crate::time::Slot;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// The columns of the CSV, with types. Names stay unchanged, because no program reads them as
/// formulas.
const SCHEMA: &str = "message usage {
    REQUIRED INT64 time (TIMESTAMP(MILLIS, true)); REQUIRED BYTE_ARRAY gateway (UTF8);
    REQUIRED BYTE_ARRAY user (UTF8); REQUIRED BYTE_ARRAY direction (UTF8);
    REQUIRED BYTE_ARRAY class (UTF8); REQUIRED INT64 bytes;
}";

/// Rows of a group. They take less than 10 MB of memory.
const GROUP: usize = 65_536;

/// Writes what was used from slot `from` until before `to` as Parquet, with the rows of
/// [`super::csv`]. Each group has each name once (a dictionary), so no compression is needed.
/// Returns the number of rows.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub fn parquet(store: &mut Store, from: Slot, to: Slot, out: impl Write + Send) -> Result<u64, ExportError> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("leeway ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let schema = parse_message_type(SCHEMA)?;
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let (mut waiting, mut rows) = (Vec::new(), 0);
    pieces(store, from, to, |usage| {
        waiting.extend_from_slice(usage);
        rows += usage.len() as u64;
        if waiting.len() >= GROUP {
            write(&mut file, &std::mem::take(&mut waiting))?;
        }
        Ok(())
    })?;
    if !waiting.is_empty() {
        write(&mut file, &waiting)?;
    }
    file.close()?;
    Ok(rows)
}

fn write<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &[Usage]) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    let number = |of: fn(&Usage) -> i64| rows.iter().map(of).collect::<Vec<_>>();
    let text = |of: fn(&Usage) -> &str| rows.iter().map(|row| ByteArray::from(of(row))).collect::<Vec<_>>();
    column::<Int64Type, W>(&mut group, &number(|row| row.slot.start().as_millisecond()))?;
    column::<ByteArrayType, W>(&mut group, &text(|row| &row.gateway))?;
    column::<ByteArrayType, W>(&mut group, &text(|row| &row.user))?;
    column::<ByteArrayType, W>(&mut group, &text(|row| row.direction.name()))?;
    column::<ByteArrayType, W>(&mut group, &text(|row| row.class.name()))?;
    column::<Int64Type, W>(&mut group, &number(|row| i64::try_from(row.bytes).unwrap_or(i64::MAX)))?;
    group.close().map(drop)
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}
