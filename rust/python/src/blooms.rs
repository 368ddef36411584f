//! Bloom filters, and the hashes that they are made of.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::bloom;
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, OffsetsArg, corrupt, impossible, sizes, slice};

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
