//! Kernels for pages of versions 0.1 and 2.0.

use std::ops::Range;

use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::offsets::Offsets;
use pilum_kernels::text_ends::text_ends as ends_of;
use pilum_kernels::values::Values;
use pilum_kernels::{adjusted, fsst, linear, ranges};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{Bytes, Made, OffsetsArg, corrupt, rows, slice, values_out};

type Pairs<'py> = PyReadonlyArray2<'py, i64>;
type Entries<'py> = (
    Bound<'py, PyAny>,
    Made<'py, i64>,
    Option<Made<'py, u8>>,
    usize,
);

/// Joins ranges of bytes, given as (start, size).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn gather_bytes<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    ranges: Pairs<'py>,
) -> PyResult<Made<'py, u8>> {
    let (data, ranges) = (slice(&data)?, pairs(&ranges)?);
    let made = py.detach(|| ranges::gather_bytes(data, &ranges));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Joins ranges of bits, given as (first bit, count).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn gather_bits<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    ranges: Pairs<'py>,
) -> PyResult<Made<'py, u8>> {
    let (data, ranges) = (slice(&data)?, pairs(&ranges)?);
    let made = py.detach(|| ranges::gather_bits(data, &ranges));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Finds the rows of the smallest and the largest string of ranges, given as (first row, count).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn text_ends<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<Bytes<'py>>,
    ranges: Pairs<'py>,
) -> PyResult<Made<'py, i64>> {
    let (offsets, data, ranges) = (offsets.view()?, slice(&data)?, pairs(&ranges)?);
    let validity = validity.as_ref().map(slice).transpose()?;
    let made = py.detach(|| ends_of(offsets, data, validity, &ranges));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Reads end offsets that encode which entries are null.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn adjusted_entries<'py>(
    py: Python<'py>,
    stored: Bytes<'py>,
    adjustment: u64,
    bounds: Pairs<'py>,
    offset_bits: usize,
) -> PyResult<Entries<'py>> {
    let stored = slice(&stored)?;
    let ranges: Vec<Range<usize>> = rows::<2>(&bounds)?
        .into_iter()
        .map(|[start, stop]| start..stop)
        .collect();
    let made = py
        .detach(|| adjusted::entries(stored, adjustment, &ranges, offset_bits))
        .map_err(|error| corrupt(py, &error))?;
    let offsets = match made.offsets {
        Offsets::Small(offsets) => offsets.into_pyarray(py).into_any(),
        Offsets::Large(offsets) => offsets.into_pyarray(py).into_any(),
    };
    let validity = made.validity.map(|bitmap| bitmap.into_pyarray(py));
    let spans = made.spans.into_flattened().into_pyarray(py);
    Ok((offsets, spans, validity, made.null_count))
}

/// Unpacks values that are packed back to back.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unpack_linear<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    first: usize,
    width: usize,
    bits: usize,
    signed: bool,
    count: usize,
) -> PyResult<Made<'py, u8>> {
    let data = slice(&data)?;
    let made = py.detach(|| linear::unpack(data, first, width, bits, signed, count));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Decompresses adjacent strings; returns their offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decompress_fsst<'py>(
    py: Python<'py>,
    table: &[u8],
    offsets: PyReadonlyArray1<'py, i64>,
    codes: Bytes<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let (offsets, codes) = (slice(&offsets)?, slice(&codes)?);
    let (offsets, data) = py
        .detach(|| fsst::decompress(table, offsets, codes))
        .map_err(|error| corrupt(py, &error))?;
    values_out(
        py,
        Values::Variable {
            offsets: Offsets::Large(offsets),
            data,
        },
    )
}

fn pairs(array: &Pairs<'_>) -> PyResult<Vec<(usize, usize)>> {
    Ok(rows::<2>(array)?
        .into_iter()
        .map(|[start, size]| (start, size))
        .collect())
}
