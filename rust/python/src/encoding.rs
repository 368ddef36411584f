//! Arrow buffers to pages.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::block;
use pilum_kernels::compression::Compressor;
use pilum_kernels::error::Corrupt;
use pilum_kernels::full_zip::Control;
use pilum_kernels::full_zip_writer::{self, Levels as ZippedLevels, Zipped as ZippedPage};
use pilum_kernels::ravel::{self as levels, List, Step};
use pilum_kernels::{distinct, fsst_writer, list_offsets, null_slots, statistics};
use pyo3::prelude::*;

use crate::arrays::{Bytes, Made, OffsetsArg, impossible, slice};
use crate::plans::{Block, scheme};

type Levels<'py> = PyReadonlyArray1<'py, u16>;

/// Validity bitmap and first bit, definition level of a null, and for lists their offsets,
/// repetition level and definition level of an empty one.
type StepArg<'py> = (
    Option<(Bytes<'py>, usize)>,
    u16,
    Option<(PyReadonlyArray1<'py, i64>, u16, u16)>,
);

/// Serialises the layers of a leaf column, outer-most first; returns the levels and the number of
/// entries that own a value.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn ravel<'py>(
    py: Python<'py>,
    steps: Vec<StepArg<'py>>,
    num_rows: usize,
) -> PyResult<(Made<'py, u16>, Made<'py, u16>, usize)> {
    let mut views = Vec::with_capacity(steps.len());
    for (validity, null, list) in &steps {
        let validity = validity
            .as_ref()
            .map(|(bitmap, first)| Ok::<_, PyErr>((slice(bitmap)?, *first)));
        let list = list.as_ref().map(|(offsets, rep, empty)| {
            Ok::<_, PyErr>(List {
                offsets: slice(offsets)?,
                rep: *rep,
                empty: *empty,
            })
        });
        views.push(Step {
            validity: validity.transpose()?,
            null: *null,
            list: list.transpose()?,
        });
    }
    let made = py
        .detach(|| levels::ravel(&views, num_rows))
        .map_err(impossible)?;
    Ok((
        made.rep.into_pyarray(py),
        made.def.into_pyarray(py),
        made.num_visible,
    ))
}

/// Offsets of lists from 0 on, without items below lists that are not alive (one byte per list);
/// whether a list that is alive is empty, and which items are left if there were others.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn shown_offsets<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    alive: Option<Bytes<'py>>,
) -> PyResult<(Made<'py, i64>, bool, Option<Made<'py, u8>>)> {
    let (offsets, alive) = (offsets.view()?, alive.as_ref().map(slice).transpose()?);
    let made = py
        .detach(|| list_offsets::shown(offsets, alive))
        .map_err(impossible)?;
    let wanted = made.wanted.map(|bits| bits.into_pyarray(py));
    Ok((made.offsets.into_pyarray(py), made.has_empty, wanted))
}

/// The most entries of any `values` adjacent values.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn most_entries(
    py: Python<'_>,
    def_: Levels<'_>,
    max_visible: u16,
    values: usize,
) -> PyResult<usize> {
    let def = slice(&def_)?;
    Ok(py.detach(|| levels::most_entries(def, max_visible, values)))
}

/// Encodes levels as a block of their own.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_levels<'py>(
    py: Python<'py>,
    levels: Levels<'py>,
    plan: &Block,
) -> PyResult<Made<'py, u8>> {
    let (levels, plan) = (slice(&levels)?, &plan.0);
    let made = py.detach(|| {
        let mut out = Vec::new();
        block::encode_levels(plan, levels, &mut out).map(|()| out)
    });
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Packs values to a block with the width of the largest; returns this width and the block.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pack_block<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bits: usize,
) -> PyResult<(usize, Made<'py, u8>)> {
    let data = slice(&data)?;
    let (width, made) = py.detach(|| block::pack(data, bits)).map_err(impossible)?;
    Ok((width, made.into_pyarray(py)))
}

/// Zips levels and values to the entries of a full-zip page.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct FullZipWriter {
    control: Control,
    max_rep: u16,
    max_visible: u16,
    num_entries: usize,
}

impl FullZipWriter {
    fn levels<'a>(&self, rep: &'a [u16], def: &'a [u16]) -> ZippedLevels<'a> {
        ZippedLevels {
            control: self.control,
            rep,
            def,
            max_rep: self.max_rep,
            max_visible: self.max_visible,
            num_entries: self.num_entries,
        }
    }
}

/// The entries of a page, and where each row begins.
type Zipped<'py> = (Made<'py, u8>, Made<'py, u64>);

fn zipped(py: Python<'_>, made: Result<ZippedPage, Corrupt>) -> PyResult<Zipped<'_>> {
    let made = made.map_err(impossible)?;
    Ok((made.data.into_pyarray(py), made.row_starts.into_pyarray(py)))
}

#[pymethods]
impl FullZipWriter {
    #[new]
    #[pyo3(signature = (*, bits_rep, bits_def, max_rep, max_visible, num_entries))]
    fn new(
        bits_rep: u32,
        bits_def: u32,
        max_rep: u16,
        max_visible: u16,
        num_entries: usize,
    ) -> Self {
        Self {
            control: Control { bits_rep, bits_def },
            max_rep,
            max_visible,
            num_entries,
        }
    }

    /// Zips values of fixed width; `parts` are the pieces of a value with their widths in bytes.
    #[allow(clippy::needless_pass_by_value)]
    fn encode_fixed<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<(Bytes<'py>, usize)>,
        rep: Levels<'py>,
        def_: Levels<'py>,
    ) -> PyResult<Zipped<'py>> {
        let views: PyResult<Vec<_>> = parts
            .iter()
            .map(|(data, width)| Ok((slice(data)?, *width)))
            .collect();
        let (views, levels) = (views?, self.levels(slice(&rep)?, slice(&def_)?));
        zipped(
            py,
            py.detach(|| full_zip_writer::encode_fixed(&views, &levels)),
        )
    }

    /// Zips strings.
    #[allow(clippy::needless_pass_by_value)]
    fn encode_strings<'py>(
        &self,
        py: Python<'py>,
        offsets: OffsetsArg<'py>,
        data: Bytes<'py>,
        rep: Levels<'py>,
        def_: Levels<'py>,
    ) -> PyResult<Zipped<'py>> {
        let levels = self.levels(slice(&rep)?, slice(&def_)?);
        let (offsets, data) = (offsets.view()?, slice(&data)?);
        zipped(
            py,
            py.detach(|| full_zip_writer::encode_variable(offsets, data, &levels)),
        )
    }
}

/// Trains a symbol table and compresses strings; returns the table, the new offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn compress_fsst<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
) -> PyResult<(Made<'py, u8>, Made<'py, i64>, Made<'py, u8>)> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let made = py
        .detach(|| fsst_writer::compress(offsets, data))
        .map_err(impossible)?;
    Ok((
        made.table.into_pyarray(py),
        made.offsets.into_pyarray(py),
        made.data.into_pyarray(py),
    ))
}

/// Compresses each string on its own; returns the new offsets and bytes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn compress_zstd<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    level: i32,
) -> PyResult<(Made<'py, i64>, Made<'py, u8>)> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let (ends, bytes) = py
        .detach(|| full_zip_writer::compress_values(offsets, data, level))
        .map_err(impossible)?;
    Ok((ends.into_pyarray(py), bytes.into_pyarray(py)))
}

/// Compresses one buffer.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn compress<'py>(
    py: Python<'py>,
    name: &str,
    data: Bytes<'py>,
    level: i32,
) -> PyResult<Made<'py, u8>> {
    let (data, scheme) = (slice(&data)?, scheme(name)?);
    let made = py.detach(|| {
        let mut out = Vec::new();
        Compressor::new(scheme, level)?.append(data, &mut out)?;
        Ok(out)
    });
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// Number of runs of equal values.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn count_runs(py: Python<'_>, data: Bytes<'_>, bits: usize) -> PyResult<usize> {
    let data = slice(&data)?;
    py.detach(|| statistics::count_runs(data, bits))
        .map_err(impossible)
}

/// Values of `width` bytes, with zeros in the slots of nulls.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn zero_nulls<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
    validity: (Bytes<'py>, usize),
) -> PyResult<Made<'py, u8>> {
    let (data, bitmap) = (slice(&data)?, slice(&validity.0)?);
    let made = py.detach(|| null_slots::zero_nulls(data, width, (bitmap, validity.1)));
    Ok(made.map_err(impossible)?.into_pyarray(py))
}

/// The index of each word of 4, 8 or 16 bytes among the distinct ones, and the first position of each
/// of these; None if there are more than `most`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn distinct_words<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
    most: usize,
) -> PyResult<Option<(Made<'py, i32>, Made<'py, i64>)>> {
    let data = slice(&data)?;
    let found = py
        .detach(|| distinct::words(data, width, most))
        .map_err(impossible)?;
    Ok(found.map(|found| {
        (
            found.indices.into_pyarray(py),
            found.firsts.into_pyarray(py),
        )
    }))
}

/// The index of each string among the distinct ones, and the first position of each of these; None
/// if there are more than `most`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn distinct_strings<'py>(
    py: Python<'py>,
    offsets: OffsetsArg<'py>,
    data: Bytes<'py>,
    validity: Option<(Bytes<'py>, usize)>,
    most: usize,
) -> PyResult<Option<(Made<'py, i32>, Made<'py, i64>)>> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    let found = py
        .detach(|| distinct::strings(offsets, data, validity, most))
        .map_err(impossible)?;
    Ok(found.map(|found| {
        (
            found.indices.into_pyarray(py),
            found.firsts.into_pyarray(py),
        )
    }))
}

/// The number of values in a sample of words; of distinct ones of each stretch, and of all.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sample_words(
    py: Python<'_>,
    data: Bytes<'_>,
    width: usize,
    validity: Option<(Bytes<'_>, usize)>,
    stretches: usize,
    size: usize,
) -> PyResult<(usize, usize, usize)> {
    let data = slice(&data)?;
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    py.detach(|| distinct::sample_words(data, width, validity, stretches, size))
        .map(|found| (found.drawn, found.per_stretch, found.distinct))
        .map_err(impossible)
}

/// The number of values and of distinct ones in a sample of each of several columns, which lie one
/// after the other.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sample_words_each<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    width: usize,
    validity: Option<(Bytes<'py>, usize)>,
    num_words: usize,
    stretches: usize,
    size: usize,
) -> PyResult<(Sizes<'py>, Sizes<'py>)> {
    let data = slice(&data)?;
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    let samples = py
        .detach(|| distinct::sample_words_each(data, width, validity, num_words, stretches, size))
        .map_err(impossible)?;
    let numbers = |of: fn(&distinct::Sample) -> usize| -> PyResult<Sizes<'py>> {
        let found: Result<Vec<i64>, _> = samples.iter().map(of).map(i64::try_from).collect();
        Ok(found?.into_pyarray(py))
    };
    Ok((
        numbers(|found| found.drawn)?,
        numbers(|found| found.distinct)?,
    ))
}

/// The numbers of `sample_words` in a sample of strings.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sample_strings(
    py: Python<'_>,
    offsets: OffsetsArg<'_>,
    data: Bytes<'_>,
    validity: Option<(Bytes<'_>, usize)>,
    stretches: usize,
    size: usize,
) -> PyResult<(usize, usize, usize)> {
    let (offsets, data) = (offsets.view()?, slice(&data)?);
    let validity = match &validity {
        Some((bitmap, first)) => Some((slice(bitmap)?, *first)),
        None => None,
    };
    py.detach(|| distinct::sample_strings(offsets, data, validity, stretches, size))
        .map(|found| (found.drawn, found.per_stretch, found.distinct))
        .map_err(impossible)
}

type Sizes<'py> = Bound<'py, PyArray1<i64>>;

/// The costs of `fixed_costs` for columns of `column_bytes` that lie one after the other.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn fixed_costs_each<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    bits: usize,
    column_bytes: usize,
) -> PyResult<(Sizes<'py>, Sizes<'py>)> {
    let data = slice(&data)?;
    let (runs, packed) = py
        .detach(|| statistics::fixed_costs_each(data, bits, column_bytes))
        .map_err(impossible)?;
    Ok((runs.into_pyarray(py), packed.into_pyarray(py)))
}

/// Bytes that run-length encoding and inline bit-packing would take.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn fixed_costs(py: Python<'_>, data: Bytes<'_>, bits: usize) -> PyResult<(usize, usize)> {
    let data = slice(&data)?;
    let costs = py
        .detach(|| statistics::fixed_costs(data, bits))
        .map_err(impossible)?;
    Ok((costs.rle_bytes, costs.inline_bitpacking_bytes))
}
