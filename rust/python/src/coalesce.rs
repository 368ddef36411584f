//! Ranges of a file that are read together.

use numpy::ndarray::ArrayView1;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::coalesce::{self, Span};
use pyo3::prelude::*;

use crate::arrays::impossible;

/// Offset and size of each region and its place, where each range begins, size of the buffer.
type Layout<'py> = (Vec<(i64, i64, i64)>, Bound<'py, PyArray1<i64>>, i64);

/// A layout, or the number of the first range outside of the file.
#[derive(IntoPyObject)]
pub enum Laid<'py> {
    Outside(usize),
    Layout(Layout<'py>),
}

/// Plans the reads of ranges of a file; those at most `gap` bytes apart are read together.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn lay_out_ranges<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    sizes: PyReadonlyArray1<'py, i64>,
    file_size: i64,
    gap: i64,
) -> PyResult<Laid<'py>> {
    let (offsets, sizes) = (offsets.as_array(), sizes.as_array());
    let spans: Vec<Span> = spans_of(offsets, sizes).collect();
    if let Some(outside) = coalesce::first_outside(&spans, file_size) {
        return Ok(Laid::Outside(outside));
    }
    let made = py.detach(|| coalesce::lay_out(&spans, gap));
    let made = made.map_err(impossible)?;
    let regions = made.regions.iter();
    let regions = regions.map(|region| (region.offset, region.size, region.place));
    let starts = made.starts.into_pyarray(py);
    Ok(Laid::Layout((regions.collect(), starts, made.size)))
}

/// The bytes of all ranges; None if one does not lie within a file.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bytes_within(
    offsets: PyReadonlyArray1<'_, i64>,
    sizes: PyReadonlyArray1<'_, i64>,
    file_size: i64,
) -> Option<i64> {
    coalesce::bytes_within(spans_of(offsets.as_array(), sizes.as_array()), file_size)
}

fn spans_of<'a>(
    offsets: ArrayView1<'a, i64>,
    sizes: ArrayView1<'a, i64>,
) -> impl Iterator<Item = Span> {
    let pairs = offsets.into_iter().zip(sizes);
    pairs.map(|(&offset, &size)| Span { offset, size })
}
