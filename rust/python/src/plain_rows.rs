//! Rows of one width that pages store as they are.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pilum_kernels::plain_rows;
use pyo3::prelude::*;

use crate::arrays::{corrupt, slice};

/// Where rows begin in a file; None if a page of some rows has no place.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn plain_offsets<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray1<'py, i64>,
    bounds: PyReadonlyArray1<'py, i64>,
    places: PyReadonlyArray1<'py, i64>,
    width: i64,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (rows, bounds, places) = (rows.as_array(), slice(&bounds)?, slice(&places)?);
    let found = plain_rows::offsets(rows.iter().copied(), bounds, places, width);
    let found = found.map_err(|error| corrupt(py, &error))?;
    Ok(found.map(|offsets| offsets.into_pyarray(py)))
}

/// The bytes of rows that begin at some places, shape (rows, width).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn gather_rows<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    width: usize,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    let (data, starts) = (slice(&data)?, slice(&starts)?);
    let found = py.detach(|| plain_rows::gather(data, starts, width));
    let found = found.map_err(|error| corrupt(py, &error))?;
    found.into_pyarray(py).reshape([starts.len(), width])
}
