//! Serialized sets of rows.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::row_maps;
use pilum_kernels::row_set_writer::Form;
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, corrupt, impossible, sizes, slice};

/// A set of rows in memory.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct RowBitmap(row_maps::RowBitmap);

#[pymethods]
impl RowBitmap {
    /// Reads a serialized set.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(py: Python<'_>, data: Bytes<'_>) -> PyResult<Self> {
        let data = slice(&data)?;
        let made = py.detach(|| row_maps::RowBitmap::read(data));
        Ok(Self(made.map_err(|error| corrupt(py, &error))?))
    }

    /// Bytes of its serialized form, which are about those in memory.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }
}

/// The rows that all of some sets contain, in ascending order.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn intersect_rows(py: Python<'_>, sets: Vec<Py<RowBitmap>>) -> PyResult<Made<'_, u64>> {
    let made = py.detach(|| {
        let sets: Vec<_> = sets.iter().map(|set| &set.get().0).collect();
        row_maps::intersection(&sets)
    });
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// The rows of several serialized sets, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_row_sets<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u64>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unpack(data, &bounds));
    let (rows, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((rows.into_pyarray(py), ends.into_pyarray(py)))
}

/// Serialized sets of rows, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_row_sets<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (rows, bounds) = (slice(&rows)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::pack(Form::Set, rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// As `pack_row_sets`, with a length before each bitmap of 32 bits.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_row_maps<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (rows, bounds) = (slice(&rows)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::pack(Form::Map, rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// The rows of several sets of `pack_row_maps`, and the ends of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u64>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unpack_maps(data, &bounds));
    let (rows, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((rows.into_pyarray(py), ends.into_pyarray(py)))
}

/// The rows of all of some sets of `pack_row_maps`, as one set of `pack_row_sets`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unite_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<Made<'py, u8>> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::unite_maps(data, &bounds));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// The sets of `pack_row_maps` of each group united, and the ends of each.
///
/// `order` are places of sets, `groups` the ends of the groups in it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unite_grouped_row_maps<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
    order: PyReadonlyArray1<'py, i64>,
    groups: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>)> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let (order, groups) = (sizes(&order)?, sizes(&groups)?);
    let made = py.detach(|| row_maps::unite_groups(data, &bounds, &order, &groups));
    let (data, ends) = made.map_err(|error| corrupt(py, &error))?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}
