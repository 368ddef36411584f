//! The kernel of records that repeat in a message.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::record_description::Description;
use pilum_kernels::tagged_records::tabulate;
use pyo3::prelude::*;

use crate::arrays::{corrupt, impossible, rows, slice};

type Made<'py, T> = Bound<'py, PyArray1<T>>;
type Records<'py> = (
    Made<'py, i64>,
    Made<'py, i64>,
    Vec<Made<'py, u64>>,
    Made<'py, u8>,
    Made<'py, i64>,
);

/// Tabulates the records of a number in a message: places, columns, flags and samples.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn tabulate_records<'py>(
    py: Python<'py>,
    message: PyReadonlyArray1<'py, u8>,
    number: u64,
    members: PyReadonlyArray2<'py, i64>,
    banned: Vec<String>,
) -> PyResult<Records<'py>> {
    let message = slice(&message)?;
    let members = rows(&members)?;
    let described = Description::of(number, &members, banned).map_err(impossible)?;
    let made = py.detach(|| tabulate(message, &described));
    let found = made.map_err(|error| corrupt(py, &error))?;
    let columns = found.columns.into_iter();
    Ok((
        found.starts.into_pyarray(py),
        found.ends.into_pyarray(py),
        columns.map(|column| column.into_pyarray(py)).collect(),
        found.flags.into_pyarray(py),
        found.samples.into_pyarray(py),
    ))
}
