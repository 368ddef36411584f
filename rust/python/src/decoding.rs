//! Pages to Arrow buffers.

use std::ops::Range;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::{Corrupt, part, size};
use pilum_kernels::levels::Layers;
use pilum_kernels::mini_block::{self, Chunk, Decoded};
use pilum_kernels::unravel::Unraveler;
use pilum_kernels::{block, compression, dictionary, full_zip};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{OffsetsArg, corrupt, layers_out, rows, slice, values_out};
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

/// The lines of a table of chunks.
pub fn chunks_of(lines: Vec<[usize; 5]>) -> Vec<Chunk> {
    let chunk = |[start, size, num_values, first_row, num_rows]: [usize; 5]| Chunk {
        start,
        size,
        num_values,
        first_row,
        num_rows,
    };
    lines.into_iter().map(chunk).collect()
}

/// Start and stop row of each range.
pub fn ranges_of(bounds: &PyReadonlyArray2<'_, i64>) -> PyResult<Vec<Range<usize>>> {
    let bounds = rows::<2>(bounds)?;
    Ok(bounds.into_iter().map(|[start, end]| start..end).collect())
}

/// Decodes the selected rows of a mini-block page.
#[pyfunction]
#[pyo3(signature = (values, rep, def_, layers, num_buffers, large, body, chunks, wanted))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn decode_mini_block<'py>(
    py: Python<'py>,
    values: &Plan,
    rep: Option<&Block>,
    def_: Option<&Block>,
    layers: &[u8],
    num_buffers: usize,
    large: bool,
    body: PyReadonlyArray1<'py, u8>,
    chunks: PyReadonlyArray2<'py, i64>,
    wanted: PyReadonlyArray2<'py, i64>,
) -> PyResult<Columns<'py>> {
    let page = mini_block::Page {
        rep: rep.map(|block| block.0.clone()),
        def: def_.map(|block| block.0.clone()),
        values: values.0.clone(),
        num_buffers,
        large,
        layers: Layers::new(layers).map_err(|error| corrupt(py, &error))?,
    };
    let chunks = chunks_of(rows::<5>(&chunks)?);
    let wanted = ranges_of(&wanted)?;
    let body = slice(&body)?;
    let decoded = py.detach(|| mini_block::decode(&page, body, &chunks, &wanted));
    out(py, decoded)
}

/// The layout of the chunks of mini-block pages without lists, from their description.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct MiniBlock(pub mini_block::Page);

#[pymethods]
impl MiniBlock {
    #[new]
    #[pyo3(signature = (values, def_, layers, num_buffers, large))]
    fn new(
        py: Python<'_>,
        values: &Plan,
        def_: Option<&Block>,
        layers: &[u8],
        num_buffers: usize,
        large: bool,
    ) -> PyResult<Self> {
        Ok(Self(mini_block::Page {
            rep: None,
            def: def_.map(|block| block.0.clone()),
            values: values.0.clone(),
            num_buffers,
            large,
            layers: Layers::new(layers).map_err(|error| corrupt(py, &error))?,
        }))
    }
}

/// Decodes whole mini-block pages without lists: of page `i`, with its numbers of items and of
/// rows, the words of the chunks are range `2 i` of the bytes, and the chunks are range `2 i + 1`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decode_mini_blocks<'py>(
    py: Python<'py>,
    pages: Vec<(PyRef<'py, MiniBlock>, usize, usize)>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    sizes: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyList>> {
    let (data, starts, sizes) = (slice(&data)?, slice(&starts)?, slice(&sizes)?);
    let part = |start: i64, length: i64| {
        size(start, "position of a page")
            .and_then(|start| part(data, start, size(length, "page, bytes")?, "page, bytes"))
            .map_err(|error| corrupt(py, &error))
    };
    let places = starts
        .as_chunks::<2>()
        .0
        .iter()
        .zip(sizes.as_chunks::<2>().0);
    let mut wanted = Vec::with_capacity(pages.len());
    for ((page, num_items, num_rows), (start, length)) in pages.iter().zip(places) {
        wanted.push((
            &page.0,
            mini_block::Whole {
                words: part(start[0], length[0])?,
                body: part(start[1], length[1])?,
                num_items: *num_items,
                num_rows: *num_rows,
            },
        ));
    }
    let decoded = py.detach(|| {
        wanted
            .iter()
            .map(|(page, whole)| mini_block::decode_whole(page, whole))
            .collect::<Result<Vec<_>, _>>()
    });
    let columns = PyList::empty(py);
    for decoded in decoded.map_err(|error| corrupt(py, &error))? {
        columns.append(out(py, Ok(decoded))?)?;
    }
    Ok(columns)
}

type Place = (usize, usize);

/// Decodes whole mini-block pages of one description, one after the other, as if they were one.
/// Each comes as the bytes of its file, positions and sizes of the words of its chunks and of the
/// chunks in these, and its numbers of items and of rows.
#[pyfunction]
pub fn decode_mini_blocks_as_one<'py>(
    py: Python<'py>,
    page: &MiniBlock,
    pages: Vec<(PyReadonlyArray1<'py, u8>, Place, Place, usize, usize)>,
) -> PyResult<Columns<'py>> {
    let mut wholes = Vec::with_capacity(pages.len());
    for (data, words, body, num_items, num_rows) in &pages {
        let data = slice(data)?;
        let place = |(start, length)| {
            part(data, start, length, "page, bytes").map_err(|error| corrupt(py, &error))
        };
        wholes.push(mini_block::Whole {
            words: place(*words)?,
            body: place(*body)?,
            num_items: *num_items,
            num_rows: *num_rows,
        });
    }
    let decoded = py.detach(|| mini_block::decode_joined(&page.0, &wholes));
    out(py, decoded)
}

/// Decodes whole rows of a full-zip page.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn decode_full_zip<'py>(
    py: Python<'py>,
    values: &Plan,
    bits_rep: u32,
    bits_def: u32,
    layers: &[u8],
    body: PyReadonlyArray1<'py, u8>,
    ranges: PyReadonlyArray2<'py, i64>,
) -> PyResult<Columns<'py>> {
    let page = full_zip::Page {
        control: full_zip::Control { bits_rep, bits_def },
        values: values.0.clone(),
        layers: Layers::new(layers).map_err(|error| corrupt(py, &error))?,
    };
    let ranges: Vec<_> = rows::<2>(&ranges)?
        .into_iter()
        .map(|[start, size]| (start, size))
        .collect();
    let body = slice(&body)?;
    let decoded = py.detach(|| full_zip::decode(&page, body, &ranges));
    out(py, decoded)
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
        let mut unraveler = Unraveler::new(&layers);
        unraveler.push(rep, def, count).map(|()| unraveler.finish())
    });
    layers_out(py, made.map_err(|error| corrupt(py, &error))?)
}
