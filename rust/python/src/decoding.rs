//! Pages to Arrow buffers.

use std::ops::Range;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::Corrupt;
use pilum_kernels::levels::Layers;
use pilum_kernels::mini_block::Decoded;
use pilum_kernels::unravel::Unraveler;
use pilum_kernels::{block, compression, dictionary, full_zip, views, word_dictionary};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{
    OffsetsArg, corrupt, first_that_fits, layers_out, rows, sizes, slice, values_out,
};
use crate::plans::{Block, Plan, scheme};

pub type Columns<'py> = (Bound<'py, PyList>, usize, Bound<'py, PyList>);

/// A decoded page as Python has it.
pub fn out<'py>(py: Python<'py>, decoded: Result<Decoded, Corrupt>) -> PyResult<Columns<'py>> {
    let decoded = decoded.map_err(|error| corrupt(py, &error))?;
    Ok((
        values_out(py, decoded.values)?,
        decoded.num_values,
        layers_out(py, decoded.layers)?,
    ))
}

/// Start and stop row of each range.
pub fn ranges_of(bounds: &PyReadonlyArray2<'_, i64>) -> PyResult<Vec<Range<usize>>> {
    let bounds = rows::<2>(bounds)?;
    Ok(bounds.into_iter().map(|[start, end]| start..end).collect())
}

/// The selected rows of a page: each of them, ascending, or ranges.
pub enum Selected<'py> {
    Rows(PyReadonlyArray1<'py, i64>),
    Ranges(PyReadonlyArray2<'py, i64>),
}

first_that_fits!(Selected<'py>: Rows, Ranges);

impl Selected<'_> {
    /// The array object, which pages that are cut at the same rows share.
    pub fn address(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.as_ptr() as usize,
            Self::Ranges(bounds) => bounds.as_ptr() as usize,
        }
    }

    /// Start and stop row of each range; adjacent rows become one.
    pub fn ranges(&self) -> PyResult<Vec<Range<usize>>> {
        match self {
            Self::Rows(rows) => Ok(adjacent(&sizes(rows)?)),
            Self::Ranges(bounds) => ranges_of(bounds),
        }
    }
}

fn adjacent(rows: &[usize]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::with_capacity(rows.len());
    for &row in rows {
        match found.last_mut() {
            Some(last) if last.end == row => last.end = row.saturating_add(1),
            _ => found.push(row..row.saturating_add(1)),
        }
    }
    found
}

/// How the rows of full-zip pages are stored.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct FullZip(pub full_zip::Page);

#[pymethods]
impl FullZip {
    #[new]
    fn new(
        py: Python<'_>,
        values: &Plan,
        layers: &[u8],
        bits_rep: u32,
        bits_def: u32,
    ) -> PyResult<Self> {
        Ok(Self(full_zip::Page {
            control: full_zip::Control { bits_rep, bits_def },
            values: values.0.clone(),
            layers: Layers::new(layers).map_err(|error| corrupt(py, &error))?,
        }))
    }

    /// Decodes whole rows.
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        body: PyReadonlyArray1<'py, u8>,
        ranges: PyReadonlyArray2<'py, i64>,
    ) -> PyResult<Columns<'py>> {
        let ranges: Vec<_> = rows::<2>(&ranges)?
            .into_iter()
            .map(|[start, size]| (start, size))
            .collect();
        let body = slice(&body)?;
        let decoded = py.detach(|| full_zip::decode(&self.0, body, &ranges));
        out(py, decoded)
    }
}

/// The raw bytes of one compressed buffer.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decompress<'py>(
    py: Python<'py>,
    name: &str,
    data: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (scheme, data) = (scheme(name)?, slice(&data)?);
    let raw = py.detach(|| compression::decompress(scheme, data));
    Ok(raw.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Decodes a block of `count` values.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decode_block<'py>(
    py: Python<'py>,
    plan: &Block,
    data: PyReadonlyArray1<'py, u8>,
    count: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let data = slice(&data)?;
    let decoded = py.detach(|| {
        let mut values = Vec::new();
        block::decode(&plan.0, data, count, &mut values).map(|()| values)
    });
    Ok(decoded
        .map_err(|error| corrupt(py, &error))?
        .into_pyarray(py))
}

/// Looks up strings in a dictionary; returns their offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn look_up_strings<'py>(
    py: Python<'py>,
    indices: PyReadonlyArray1<'py, u8>,
    width: usize,
    validity: Option<PyReadonlyArray1<'py, u8>>,
    offsets: OffsetsArg<'py>,
    data: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyList>> {
    let (indices, offsets, data) = (slice(&indices)?, offsets.view()?, slice(&data)?);
    let validity = validity.as_ref().map(slice).transpose()?;
    let made = py.detach(|| dictionary::strings(indices, width, validity, offsets, data));
    values_out(py, made.map_err(|error| corrupt(py, &error))?)
}

/// Looks up values of `size` bytes in a dictionary; returns their bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn look_up_words<'py>(
    py: Python<'py>,
    indices: PyReadonlyArray1<'py, u8>,
    width: usize,
    data: PyReadonlyArray1<'py, u8>,
    size: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (indices, data) = (slice(&indices)?, slice(&data)?);
    let made = py.detach(|| word_dictionary::words(indices, width, data, size));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Looks up strings in a dictionary; returns views of them.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn look_up_views<'py>(
    py: Python<'py>,
    indices: PyReadonlyArray1<'py, u8>,
    width: usize,
    validity: Option<PyReadonlyArray1<'py, u8>>,
    offsets: OffsetsArg<'py>,
    data: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (indices, offsets, data) = (slice(&indices)?, offsets.view()?, slice(&data)?);
    let validity = validity.as_ref().map(slice).transpose()?;
    let made = py.detach(|| dictionary::views(indices, width, validity, offsets, data));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Views of adjacent strings.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn views_of_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let made = py.detach(|| views::of_strings(offsets, data));
    Ok(made.map_err(|error| corrupt(py, &error))?.into_pyarray(py))
}

/// Turns levels without values into layers.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn unravel<'py>(
    py: Python<'py>,
    layers: &[u8],
    rep: PyReadonlyArray1<'py, u16>,
    def_: PyReadonlyArray1<'py, u16>,
    count: usize,
) -> PyResult<Bound<'py, PyList>> {
    let layers = Layers::new(layers).map_err(|error| corrupt(py, &error))?;
    let (rep, def) = (slice(&rep)?, slice(&def_)?);
    let made = py.detach(|| {
        let mut unraveler = Unraveler::new(&layers, usize::MAX);
        unraveler.push(rep, def, count).map(|()| unraveler.finish())
    });
    layers_out(py, made.map_err(|error| corrupt(py, &error))?)
}
