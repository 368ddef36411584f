//! Kernels of indices: Bloom filters, sets of rows and trigrams.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::{bloom, order, row_maps, trigrams};
use pyo3::prelude::*;

use crate::arrays::{OffsetsArg, corrupt, impossible, sizes, slice};

type Bytes<'py> = PyReadonlyArray1<'py, u8>;
type Made<'py, T> = Bound<'py, PyArray1<T>>;

/// The hash of each value of `width` bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn hash_fixed<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
) -> PyResult<Made<'py, u64>> {
    let data = slice(&data)?;
    let made = py.detach(|| bloom::hash_fixed(data, width));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The hash of each string.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn hash_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
) -> PyResult<Made<'py, u64>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let made = py.detach(|| bloom::hash_strings(offsets, data));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// One Bloom filter of `size` bytes for each range of hashes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bloom_filters<'py>(
    py: Python<'py>,
    hashes: PyReadonlyArray1<'py, u64>,
    bounds: PyReadonlyArray1<'py, i64>,
    size: usize,
) -> PyResult<Made<'py, u8>> {
    let (hashes, bounds) = (slice(&hashes)?, sizes(&bounds)?);
    let made = py.detach(|| bloom::build(hashes, &bounds, size));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Whether each Bloom filter may contain one of some hashes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bloom_matches<'py>(
    py: Python<'py>,
    filters: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
    hashes: PyReadonlyArray1<'py, u64>,
) -> PyResult<Made<'py, bool>> {
    let (filters, bounds, hashes) = (slice(&filters)?, sizes(&bounds)?, slice(&hashes)?);
    let made = py.detach(|| bloom::may_contain(filters, &bounds, hashes));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// The rows that all of some serialized sets contain.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn intersect_rows<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bounds: PyReadonlyArray1<'py, i64>,
) -> PyResult<Made<'py, u64>> {
    let (data, bounds) = (slice(&data)?, sizes(&bounds)?);
    let made = py.detach(|| row_maps::intersection(data, &bounds));
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
    let made = py.detach(|| row_maps::pack(rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// The distinct trigrams of a text, in ascending order.
#[pyfunction]
pub fn trigrams_of<'py>(py: Python<'py>, text: &str) -> Made<'py, u32> {
    trigrams::of(text).into_pyarray(py)
}

/// Collects the rows of each trigram of texts.
#[pyclass(module = "pilum._kernels")]
#[derive(Default)]
pub struct TrigramPostings(trigrams::Postings);

#[pymethods]
impl TrigramPostings {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds texts, each with its row.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &mut self,
        py: Python<'_>,
        offsets: OffsetsArg<'_>,
        data: Bytes<'_>,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let (offsets, data, rows) = (offsets.view()?, slice(&data)?, slice(&rows)?);
        py.detach(|| self.0.add(offsets, data, rows))
            .map_err(impossible)
    }

    /// Returns the trigrams, their serialized sets of rows and the ends of these; then it is empty.
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Made<'py, u32>, Made<'py, u8>, Made<'py, i64>)> {
        let (keys, data, ends) = py.detach(|| self.0.finish()).map_err(impossible)?;
        Ok((
            keys.into_pyarray(py),
            data.into_pyarray(py),
            ends.into_pyarray(py),
        ))
    }
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
    let made = py.detach(|| row_maps::pack_maps(rows, &bounds));
    let (data, ends) = made.map_err(impossible)?;
    Ok((data.into_pyarray(py), ends.into_pyarray(py)))
}

/// The places of keys in ascending order; equal keys keep theirs.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn stable_order<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'py, u64>,
) -> PyResult<Made<'py, i64>> {
    let keys = slice(&keys)?;
    let made = py.detach(|| order::stable_order(keys));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// How many of some ascending strings are less than each wanted one; or equal, too, if `after`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn places_of_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    wanted_offsets: OffsetsArg<'py>,
    wanted: Bytes<'py>,
    after: bool,
) -> PyResult<Made<'py, i64>> {
    let strings = order::Strings {
        offsets: offsets.view()?,
        data: slice(&data)?,
    };
    let wanted = order::Strings {
        offsets: wanted_offsets.view()?,
        data: slice(&wanted)?,
    };
    let made = py.detach(|| order::places(strings, wanted, after));
    Ok(made.map_err(impossible)?.into_pyarray(py))
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
