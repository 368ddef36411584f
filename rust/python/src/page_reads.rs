//! Rows of pages: which bytes to read for them, and what these bytes hold.

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pilum_kernels::chunk_picks::{Picked, pick};
use pilum_kernels::chunk_table;
use pilum_kernels::chunks::{self, Chunk, Stored};
use pilum_kernels::error::{Corrupt, out_of_range, part, size};
use pilum_kernels::full_zip;
use pilum_kernels::kept;
use pilum_kernels::levels::Layers;
use pilum_kernels::mask::pages;
use pilum_kernels::mini_block::{self, Decoded, Rows};
use pilum_kernels::narrow_indices;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{Bytes, corrupt, first_that_fits, slice as contiguous};
use crate::conditions::Condition;
use crate::decoding::{Selected, out};
use crate::picking::{Made, places_out};
use crate::plans::{Block, Plan};
use crate::zipped_rows::{ZippedArg, ZippedRows};

/// The layout of the chunks of mini-block pages, which may differ in place and length.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct MiniBlock(mini_block::Page);

#[pymethods]
impl MiniBlock {
    #[new]
    #[pyo3(signature = (
        values, layers, num_buffers, *, rep=None, def_=None, large=false, num_indexed=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        values: &Plan,
        layers: &[u8],
        num_buffers: usize,
        rep: Option<&Block>,
        def_: Option<&Block>,
        large: bool,
        num_indexed: Option<usize>,
    ) -> PyResult<Self> {
        Ok(Self(mini_block::Page {
            index_bits: num_indexed.and_then(|count| narrow_indices::bits(&values.0, count)),
            rep: rep.map(|block| block.0.clone()),
            def: def_.map(|block| block.0.clone()),
            values: values.0.clone(),
            num_buffers,
            large,
            layers: Layers::new(layers).map_err(|error| corrupt(py, &error))?,
        }))
    }
}

impl MiniBlock {
    fn has_lists(&self) -> bool {
        self.0.layers.max_rep > 0
    }
}

/// The table of all chunks of a page.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct ChunkTable(chunk_table::ChunkTable);

#[pymethods]
impl ChunkTable {
    /// Reads the words of the chunks, and the repetition index of a page with lists.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        page: &MiniBlock,
        words: Bytes<'_>,
        index: Option<Bytes<'_>>,
        num_items: usize,
        num_rows: usize,
        body_bytes: usize,
    ) -> PyResult<Self> {
        let stored = Stored {
            words: contiguous(&words)?,
            index: index.as_ref().map(contiguous).transpose()?,
            large: page.0.large,
            num_items,
            num_rows,
            body_bytes,
        };
        let parsed = chunk_table::ChunkTable::read(&stored);
        Ok(Self(parsed.map_err(|error| corrupt(py, &error))?))
    }

    /// Bytes in memory.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Position, bytes, values, first row and rows of each chunk, and whether it begins in the
    /// middle of a row.
    fn chunks(&self) -> Vec<(usize, usize, usize, usize, usize, bool)> {
        let line = |chunk: Chunk| {
            (
                chunk.start,
                chunk.size,
                chunk.num_values,
                chunk.first_row,
                chunk.num_rows,
                chunk.continues,
            )
        };
        self.0.range(0..self.0.len()).map(line).collect()
    }
}

/// Bytes of ranges of one file, and where each begins in them.
type FetchedArg<'py> = (Bytes<'py>, PyReadonlyArray1<'py, i64>);

/// Position and bytes.
type Place = (usize, usize);

/// Layout, place of each buffer, items and rows of a page; then its chunk table, to read only some
/// chunks; the selected rows, unless all are; those of them to return, unless all are, as a bitmap
/// and the number of its first bit; its file, if that is in memory; and the number of inner-most
/// layers to return, unless all are.
type ChunkedArg<'py> = (
    Py<MiniBlock>,
    Vec<Place>,
    usize,
    usize,
    Option<PyRef<'py, ChunkTable>>,
    Option<Selected<'py>>,
    Option<(Bytes<'py>, usize)>,
    Option<Py<PyArray1<u8>>>,
    Option<usize>,
);

/// Some rows of a page with chunks, or of a full-zip page.
enum PageArg<'py> {
    Chunked(ChunkedArg<'py>),
    Zipped(ZippedArg<'py>),
}

first_that_fits!(PageArg<'py>: Chunked, Zipped);

/// The buffers of a page that are read as a whole.
#[derive(Clone, Copy)]
struct Whole {
    words: Place,
    body: Place,
    index: Option<Place>,
}

impl Whole {
    fn of(py: Python<'_>, page: &MiniBlock, buffers: &[Place]) -> PyResult<Self> {
        let missing = |index: usize| {
            let found = buffers.len();
            let text = format!(
                "page buffers: expected at least {}, found {found}",
                index + 1
            );
            corrupt(py, &Corrupt(text))
        };
        let buffer = |index: usize| buffers.get(index).copied().ok_or_else(|| missing(index));
        let last = page.has_lists().then(|| buffer(buffers.len().max(3) - 1));
        Ok(Self {
            words: buffer(0)?,
            body: buffer(1)?,
            index: last.transpose()?,
        })
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        [self.words, self.body].into_iter().chain(self.index)
    }
}

/// Where the bytes of a read are.
enum Source {
    /// The file, in memory.
    Memory(Py<PyArray1<u8>>, Whole),
    /// Ranges to be fetched, from the given number on.
    Fetched(usize, Whole),
    /// Ranges of some chunks to be fetched, from the given number on.
    Picked(usize, Picked),
}

/// Rows to return, as ranges.
type Wanted = Arc<Vec<Range<usize>>>;

/// The list of the rows that were selected last: pages that are cut at the same rows share it.
#[derive(Default)]
struct LastWanted(Option<(usize, Wanted)>);

impl LastWanted {
    fn of(&mut self, selected: &Selected<'_>) -> PyResult<Wanted> {
        let address = selected.address();
        if let Some((_, shared)) = self.0.as_ref().filter(|(known, _)| *known == address) {
            return Ok(shared.clone());
        }
        let made = Arc::new(selected.ranges()?);
        self.0 = Some((address, made.clone()));
        Ok(made)
    }
}

/// The rows of a page that a bitmap keeps, of all or of the given ones.
fn kept_rows(
    py: Python<'_>,
    selected: Option<&Selected<'_>>,
    num_rows: usize,
    bitmap: &[u8],
    first: usize,
) -> PyResult<Wanted> {
    let given = selected.map(Selected::ranges).transpose()?;
    let every = 0..num_rows;
    let given = given.as_deref().unwrap_or(slice::from_ref(&every));
    let found = py.detach(|| kept::ranges(given, bitmap, first));
    Ok(Arc::new(found.map_err(|error| corrupt(py, &error))?))
}

/// Bytes that were fetched, and where each range begins in them; of each file, in the order of the
/// ranges. Those of a page are of one file.
struct Fetched<'a>(Vec<(&'a [u8], &'a [i64])>);

impl<'a> Fetched<'a> {
    /// The bytes with a range, and where it and the following ones begin; nothing if it is missing.
    fn starting_at(&self, range: usize) -> (&'a [u8], &'a [i64]) {
        let mut skipped = 0;
        for &(data, starts) in &self.0 {
            match starts.get(range - skipped..) {
                Some(following) if !following.is_empty() => return (data, following),
                _ => skipped += starts.len(),
            }
        }
        (&[], &[])
    }
}

struct ChunkedRows {
    page: Py<MiniBlock>,
    num_items: usize,
    /// All rows of the page.
    every: Range<usize>,
    /// None for all rows.
    wanted: Option<Wanted>,
    num_layers: usize,
    source: Source,
}

impl ChunkedRows {
    /// Selects rows; adds what is to be fetched to `ranges`.
    fn new(
        py: Python<'_>,
        chunked: ChunkedArg<'_>,
        last: &mut LastWanted,
        ranges: &mut Vec<Place>,
    ) -> PyResult<Self> {
        let (page, buffers, num_items, num_rows, table, selected, kept, data, num_layers) = chunked;
        let wanted = match (&selected, &kept) {
            (None, None) => None,
            (_, Some((bitmap, first))) => Some(kept_rows(
                py,
                selected.as_ref(),
                num_rows,
                contiguous(bitmap)?,
                *first,
            )?),
            (Some(selected), None) => Some(last.of(selected)?),
        };
        let first = ranges.len();
        let source = match (data, table, wanted.as_ref().filter(|_| selected.is_some())) {
            (Some(data), _, _) => Source::Memory(data, Whole::of(py, page.get(), &buffers)?),
            (None, Some(table), Some(wanted)) => {
                let picked = pick(&table.0, wanted).map_err(|error| corrupt(py, &error))?;
                let body = Whole::of(py, page.get(), &buffers)?.body.0;
                let place = |&(start, length): &Place| (body.saturating_add(start), length);
                ranges.extend(picked.ranges.iter().map(place));
                Source::Picked(first, picked)
            }
            (None, _, None) => {
                let whole = Whole::of(py, page.get(), &buffers)?;
                ranges.extend(whole.places());
                Source::Fetched(first, whole)
            }
            (None, None, Some(_)) => {
                return Err(PyValueError::new_err(
                    "some rows, but no table of the chunks",
                ));
            }
        };
        Ok(Self {
            page,
            num_items,
            every: 0..num_rows,
            wanted,
            num_layers: num_layers.unwrap_or(usize::MAX),
            source,
        })
    }

    fn rows<'a>(
        &'a self,
        memory: Option<&'a [u8]>,
        fetched: &Fetched<'a>,
    ) -> Result<Rows<'a>, Corrupt> {
        let start = |starts: &[i64], range: usize| {
            let start = starts.get(range).ok_or_else(|| out_of_range("ranges"))?;
            size(*start, "position of a range")
        };
        let (words, body, index) = match &self.source {
            Source::Memory(_, whole) => {
                let data = memory.ok_or_else(|| out_of_range("files in memory"))?;
                let place = |(start, length)| part(data, start, length, "page, bytes");
                let index = whole.index.map(place).transpose()?;
                (place(whole.words)?, place(whole.body)?, index)
            }
            Source::Fetched(first, whole) => {
                let (data, starts) = fetched.starting_at(*first);
                let place = |range: usize, (_, length): Place| {
                    part(data, start(starts, range)?, length, "page, bytes")
                };
                let index = whole.index.map(|index| place(2, index)).transpose()?;
                (place(0, whole.words)?, place(1, whole.body)?, index)
            }
            Source::Picked(first, picked) => {
                let (data, starts) = fetched.starting_at(*first);
                let mut chunks = Vec::with_capacity(picked.chunks.len());
                for &(range, chunk) in &picked.chunks {
                    let start = start(starts, range)?.saturating_add(chunk.start);
                    chunks.push(Chunk { start, ..chunk });
                }
                return Ok(Rows {
                    body: data,
                    chunks,
                    wanted: self.wanted(),
                });
            }
        };
        let stored = Stored {
            words,
            index,
            large: self.page.get().0.large,
            num_items: self.num_items,
            num_rows: self.every.end,
            body_bytes: body.len(),
        };
        Ok(Rows {
            body,
            chunks: chunks::parse(&stored)?,
            wanted: self.wanted(),
        })
    }

    fn wanted(&self) -> &[Range<usize>] {
        match &self.wanted {
            Some(wanted) => wanted,
            None => slice::from_ref(&self.every),
        }
    }
}

enum Read {
    Chunked(ChunkedRows),
    Zipped(ZippedRows),
}

/// Rows of several pages, of any files; files that are in memory need no fetching.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PageReads {
    reads: Vec<Read>,
    ranges: Vec<Place>,
    /// How many ranges there are at the end of each page.
    ends: Vec<usize>,
}

#[pymethods]
impl PageReads {
    #[new]
    fn new(py: Python<'_>, pages: Vec<PageArg<'_>>) -> PyResult<Self> {
        let (mut reads, mut ranges) = (Vec::with_capacity(pages.len()), Vec::new());
        let mut ends = Vec::with_capacity(pages.len());
        let mut last = LastWanted::default();
        for page in pages {
            reads.push(match page {
                PageArg::Chunked(page) => {
                    Read::Chunked(ChunkedRows::new(py, page, &mut last, &mut ranges)?)
                }
                PageArg::Zipped((page, entries, index, selected)) => {
                    let wanted = last.of(&selected)?;
                    let made =
                        ZippedRows::new(page, entries, index.as_deref(), &wanted, &mut ranges);
                    Read::Zipped(made.map_err(|error| corrupt(py, &error))?)
                }
            });
            ends.push(ranges.len());
        }
        Ok(Self {
            reads,
            ranges,
            ends,
        })
    }

    /// Positions in the file and sizes of what is to be fetched, page by page.
    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<(Made<'py>, Made<'py>)> {
        places_out(py, self.ranges.iter().copied())
    }

    /// How many of these there are at the end of each page.
    #[getter]
    fn ends(&self) -> Vec<usize> {
        self.ends.clone()
    }

    /// Decodes the rows of groups of pages, each group into one array; each page on its own if
    /// there are no groups. All pages of a group have the layout of its first one.
    #[pyo3(signature = (fetched, groups=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        fetched: Vec<FetchedArg<'py>>,
        groups: Option<Vec<Vec<usize>>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let fetched = fetched_of(&fetched)?;
        let files = self.files(py)?;
        let memory = views(&files)?;
        let decoded = py.detach(|| {
            let decode = |group: &[usize]| self.decode_group(group, &memory, &fetched);
            match &groups {
                Some(groups) => groups.iter().map(|group| decode(group)).collect(),
                None => (0..self.reads.len())
                    .map(|page| decode(&[page]))
                    .collect::<Result<Vec<_>, _>>(),
            }
        });
        let columns = PyList::empty(py);
        for decoded in decoded.map_err(|error| corrupt(py, &error))? {
            columns.append(out(py, Ok(decoded))?)?;
        }
        Ok(columns)
    }

    /// Tests the rows of pages without lists: a bitmap per page. The pages have one layout each,
    /// and the condition is on the values that they store.
    #[allow(clippy::needless_pass_by_value)]
    fn mask<'py>(
        &self,
        py: Python<'py>,
        fetched: Vec<FetchedArg<'py>>,
        condition: &Condition,
    ) -> PyResult<Bound<'py, PyList>> {
        let fetched = fetched_of(&fetched)?;
        let files = self.files(py)?;
        let memory = views(&files)?;
        let masks = py.detach(|| {
            let mask = |(read, memory): (&Read, &Option<&[u8]>)| {
                let Read::Chunked(read) = read else {
                    return Err(Corrupt("a test of a full-zip page".into()));
                };
                let rows = read.rows(*memory, &fetched)?;
                pages::mask(&read.page.get().0, &rows, &condition.0)
            };
            let reads = self.reads.iter().zip(&memory);
            reads.map(mask).collect::<Result<Vec<_>, _>>()
        });
        let masks = masks.map_err(|error| corrupt(py, &error))?;
        PyList::new(py, masks.into_iter().map(|bits| bits.into_pyarray(py)))
    }
}

fn fetched_of<'a>(fetched: &'a [FetchedArg<'_>]) -> PyResult<Fetched<'a>> {
    let one = |(data, starts): &'a FetchedArg<'_>| Ok((contiguous(data)?, contiguous(starts)?));
    Ok(Fetched(fetched.iter().map(one).collect::<PyResult<_>>()?))
}

type Files<'py> = Vec<Option<PyReadonlyArray1<'py, u8>>>;

impl PageReads {
    /// The files that are in memory, per page.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Files<'py>> {
        let file = |read: &Read| match read {
            Read::Chunked(ChunkedRows {
                source: Source::Memory(file, _),
                ..
            }) => Ok(Some(file.bind(py).try_readonly()?)),
            _ => Ok(None),
        };
        self.reads.iter().map(file).collect()
    }

    /// Decodes the rows of pages of one layout.
    fn decode_group(
        &self,
        group: &[usize],
        memory: &[Option<&[u8]>],
        fetched: &Fetched<'_>,
    ) -> Result<Decoded, Corrupt> {
        let read = |&number: &usize| self.reads.get(number).ok_or_else(|| out_of_range("pages"));
        let mixed = || Corrupt("pages of two layouts in one group".into());
        let first = group
            .first()
            .ok_or_else(|| out_of_range("pages of a group"))?;
        match read(first)? {
            Read::Chunked(first) => {
                let mut pages = Vec::with_capacity(group.len());
                for number in group {
                    let Read::Chunked(page) = read(number)? else {
                        return Err(mixed());
                    };
                    let memory = memory.get(*number).copied().flatten();
                    pages.push(page.rows(memory, fetched)?);
                }
                mini_block::decode(&first.page.get().0, &pages, first.num_layers)
            }
            Read::Zipped(first) => {
                let mut rows = Vec::new();
                for number in group {
                    let Read::Zipped(page) = read(number)? else {
                        return Err(mixed());
                    };
                    let (data, starts) = fetched.starting_at(page.first);
                    page.add(data, starts, &mut rows)?;
                }
                full_zip::decode_rows(&first.page.get().0, &rows)
            }
        }
    }
}

fn views<'a>(files: &'a Files<'_>) -> PyResult<Vec<Option<&'a [u8]>>> {
    let view = |file: &'a Option<_>| file.as_ref().map(contiguous).transpose();
    files.iter().map(view).collect()
}
