//! Dictionaries of Python as TOML, and back.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};

/// How deep tables and lists may be nested; a scenario needs five levels.
const DEPTH: u32 = 32;

/// A TOML document with what `fields` holds; what is `None` is left out.
///
/// # Errors
/// `TypeError` for what TOML does not have, `ValueError` for nesting without an end.
pub fn document(fields: &Bound<'_, PyDict>) -> PyResult<DocumentMut> {
    let mut root = DocumentMut::new();
    for (key, value) in fields {
        let key = text(&key)?;
        if let Some(value) = to_toml(&value, DEPTH)? {
            root.insert(&key, item(value));
        }
    }
    Ok(root)
}

/// A field of the document as people write it: `[dumbbell.bottleneck]`, `[[flow]]`, and what is in them on
/// one line.
fn item(value: Value) -> Item {
    match value {
        Value::InlineTable(table) => {
            let mut table = table.into_table();
            // A table that holds nothing but tables needs no line of its own.
            table.set_implicit(!table.is_empty());
            for (_, inner) in table.iter_mut() {
                if let Item::Value(Value::InlineTable(inline)) = inner {
                    *inner = Item::Table(std::mem::take(inline).into_table());
                }
            }
            Item::Table(table)
        }
        Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_inline_table) => {
            let tables = list.into_iter().filter_map(|value| match value {
                Value::InlineTable(table) => Some(table.into_table()),
                _ => None,
            });
            Item::ArrayOfTables(tables.collect())
        }
        value => Item::Value(value),
    }
}

/// One value as TOML on one line.
///
/// # Errors
/// As [`document`], and `TypeError` for `None`.
pub fn inline(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    to_toml(value, DEPTH)?.ok_or_else(|| PyTypeError::new_err("a field is left out, not set to None"))
}

fn to_toml(value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Option<Value>> {
    let deeper =
        depth.checked_sub(1).ok_or_else(|| PyValueError::new_err("a scenario is not nested that deep"))?;
    if value.is_none() {
        return Ok(None);
    }
    Ok(Some(if let Ok(value) = value.cast::<PyString>() {
        Value::from(text(value)?)
    } else if let Ok(value) = value.cast::<PyBool>() {
        Value::from(value.is_true())
    } else if let Ok(value) = value.cast::<PyInt>() {
        // What is too large for TOML is said to be no whole number where it is read.
        match value.extract::<i64>() {
            Ok(value) => Value::from(value),
            Err(_) => Value::from(value.extract::<f64>().unwrap_or(f64::INFINITY)),
        }
    } else if let Ok(value) = value.cast::<PyFloat>() {
        Value::from(value.extract::<f64>()?)
    } else if let Ok(fields) = value.cast::<PyDict>() {
        let mut table = InlineTable::new();
        for (key, value) in fields {
            let key = text(&key)?;
            if let Some(value) = to_toml(&value, deeper)? {
                table.insert(key, value);
            }
        }
        Value::InlineTable(table)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut list = Array::new();
        for entry in value.try_iter()? {
            let missing = || PyTypeError::new_err("a list of a scenario holds no None");
            list.push(to_toml(&entry?, deeper)?.ok_or_else(missing)?);
        }
        Value::Array(list)
    } else {
        return other(value, deeper);
    }))
}

/// Paths, and the numbers of numpy.
fn other(value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Option<Value>> {
    let py = value.py();
    for method in [intern!(py, "__fspath__"), intern!(py, "item")] {
        if value.hasattr(method)? {
            return to_toml(&value.call_method0(method)?, depth);
        }
    }
    Err(PyTypeError::new_err(format!(
        "a scenario cannot hold {} ({})",
        value.repr()?,
        value.get_type().name()?
    )))
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err(format!("names of fields are text, not {}", value.get_type())))?;
    text.extract()
        .map_err(|_| PyValueError::new_err(format!("{} is not text that a file can hold", text.as_any())))
}

/// The document as it is written, as a dictionary.
pub fn fields<'py>(py: Python<'py>, table: &dyn TableLike) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    for (key, item) in table.iter() {
        let value = match item {
            Item::None => continue,
            Item::Value(value) => to_python(py, value)?,
            Item::Table(table) => self::fields(py, table)?.into_any(),
            Item::ArrayOfTables(tables) => {
                let tables =
                    tables.iter().map(|table| self::fields(py, table)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, tables)?.into_any()
            }
        };
        fields.set_item(key, value)?;
    }
    Ok(fields)
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(value) => value.value().into_pyobject(py)?.into_any(),
        Value::Integer(value) => value.value().into_pyobject(py)?.into_any(),
        Value::Float(value) => value.value().into_pyobject(py)?.into_any(),
        Value::Boolean(value) => PyBool::new(py, *value.value()).to_owned().into_any(),
        Value::Datetime(value) => value.value().to_string().into_pyobject(py)?.into_any(),
        Value::Array(list) => {
            let list = list.iter().map(|value| to_python(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, list)?.into_any()
        }
        Value::InlineTable(table) => fields(py, table)?.into_any(),
    })
}
