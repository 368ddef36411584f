//! Rows of many pages, read together.

use std::ops::Range;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pilum_kernels::error::{Corrupt, out_of_range, size};
use pilum_kernels::mini_block::{self, Chunk, Decoded};
use pilum_kernels::picked::{Picked, pick};
use pilum_kernels::slots::{Slots, slots_of};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{corrupt, rows, slice};
use crate::decoding::{MiniBlock, chunks_of, out, ranges_of};

type Pairs<'py> = PyReadonlyArray2<'py, i64>;
type Made<'py> = Bound<'py, PyArray1<i64>>;

/// The selected chunks of one page.
struct Part {
    picked: Picked,
    /// Position in the file where the chunks of the page begin.
    body: usize,
    /// Number of its first range among those of all pages.
    first_range: usize,
    /// Index of the list of selected rows.
    wanted: usize,
}

/// The chunks of several pages that hold selected rows.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PickedChunks {
    parts: Vec<Part>,
    wanted: Vec<Vec<Range<usize>>>,
}

impl PickedChunks {
    fn decode_part(
        &self,
        page: &mini_block::Page,
        part: &Part,
        data: &[u8],
        starts: &[i64],
    ) -> Result<Decoded, Corrupt> {
        let mut chunks = Vec::with_capacity(part.picked.chunks.len());
        for &(range, chunk) in &part.picked.chunks {
            let start = starts
                .get(part.first_range + range)
                .ok_or_else(|| out_of_range("ranges"))?;
            let start = size(*start, "position of a range")?;
            chunks.push(Chunk {
                start: start.saturating_add(chunk.start),
                ..chunk
            });
        }
        let wanted = self.wanted.get(part.wanted);
        let wanted = wanted.ok_or_else(|| out_of_range("wanted rows"))?;
        mini_block::decode(page, data, &chunks, wanted)
    }
}

#[pymethods]
impl PickedChunks {
    /// Selects chunks: for each page its table of chunks, where these begin in the file, and rows.
    #[new]
    fn new(py: Python<'_>, pages: Vec<(Pairs<'_>, usize, Pairs<'_>)>) -> PyResult<Self> {
        let mut parts = Vec::with_capacity(pages.len());
        let mut lists: Vec<Vec<Range<usize>>> = Vec::new();
        let (mut last, mut first_range) = (None, 0);
        for (table, body, wanted) in &pages {
            // Pages that are cut at the same rows share the list of selected rows.
            if last != Some(wanted.as_ptr()) {
                last = Some(wanted.as_ptr());
                lists.push(ranges_of(wanted)?);
            }
            let chunks = chunks_of(rows::<5>(table)?);
            let rows = lists.last().map_or(&[][..], Vec::as_slice);
            let picked = pick(&chunks, rows).map_err(|error| corrupt(py, &error))?;
            let part = Part {
                picked,
                body: *body,
                first_range,
                wanted: lists.len() - 1,
            };
            first_range += part.picked.ranges.len();
            parts.push(part);
        }
        Ok(Self {
            parts,
            wanted: lists,
        })
    }

    /// Positions in the file and sizes of what is to be read, page by page.
    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<(Made<'py>, Made<'py>)> {
        let ranges = self.parts.iter().flat_map(|part| {
            let place = |&(start, length): &_| (part.body.saturating_add(start), length);
            part.picked.ranges.iter().map(place)
        });
        places_out(py, ranges)
    }

    /// Decodes the selected rows of all pages, or only those of page number `only`.
    #[pyo3(signature = (pages, data, starts, only=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        pages: Vec<PyRef<'py, MiniBlock>>,
        data: PyReadonlyArray1<'py, u8>,
        starts: PyReadonlyArray1<'py, i64>,
        only: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (data, starts) = (slice(&data)?, slice(&starts)?);
        let pages: Vec<_> = pages.iter().map(|page| &page.0).collect();
        let decoded = py.detach(|| {
            pages
                .iter()
                .zip(&self.parts)
                .enumerate()
                .filter(|(number, _)| only.is_none_or(|only| only == *number))
                .map(|(_, (page, part))| self.decode_part(page, part, data, starts))
                .collect::<Result<Vec<_>, _>>()
        });
        let columns = PyList::empty(py);
        for decoded in decoded.map_err(|error| corrupt(py, &error))? {
            columns.append(out(py, Ok(decoded))?)?;
        }
        Ok(columns)
    }
}

/// Values of one width of several buffers.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PickedSlots(Vec<(usize, Slots)>);

#[pymethods]
impl PickedSlots {
    /// Selects slots: for each buffer where it begins in the file, bits of a slot, and rows.
    #[new]
    fn new(buffers: Vec<(usize, usize, Pairs<'_>)>) -> PyResult<Self> {
        let mut picked = Vec::with_capacity(buffers.len());
        let (mut last, mut list) = (None, Vec::new());
        for (offset, bits, wanted) in &buffers {
            if last != Some(wanted.as_ptr()) {
                last = Some(wanted.as_ptr());
                list = ranges_of(wanted)?;
            }
            picked.push((*offset, slots_of(*bits, &list)));
        }
        Ok(Self(picked))
    }

    /// Positions in the file and sizes of what is to be read, buffer by buffer.
    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<(Made<'py>, Made<'py>)> {
        let ranges = self.0.iter().flat_map(|(offset, slots)| {
            let place = |&(start, length): &_| (offset.saturating_add(start), length);
            slots.ranges.iter().map(place)
        });
        places_out(py, ranges)
    }

    /// The bytes of the selected values of each buffer.
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        starts: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (data, starts) = (slice(&data)?, slice(&starts)?);
        let decoded = py.detach(|| {
            let mut left = starts;
            let decode = |(_, slots): &(usize, Slots)| {
                let (own, others) = left
                    .split_at_checked(slots.ranges.len())
                    .ok_or_else(|| out_of_range("ranges"))?;
                left = others;
                slots.decode(data, own)
            };
            self.0.iter().map(decode).collect::<Result<Vec<_>, _>>()
        });
        let decoded = decoded.map_err(|error| corrupt(py, &error))?;
        PyList::new(py, decoded.into_iter().map(|bytes| bytes.into_pyarray(py)))
    }
}

/// Places in the file as arrays of positions and of sizes.
fn places_out<'py>(
    py: Python<'py>,
    places: impl Iterator<Item = (usize, usize)>,
) -> PyResult<(Made<'py>, Made<'py>)> {
    let (mut offsets, mut sizes) = (Vec::new(), Vec::new());
    for (offset, length) in places {
        offsets.push(i64::try_from(offset)?);
        sizes.push(i64::try_from(length)?);
    }
    Ok((offsets.into_pyarray(py), sizes.into_pyarray(py)))
}
