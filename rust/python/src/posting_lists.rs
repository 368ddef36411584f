//! Posting lists of inverted indices: collected, joined, read and written.

use std::sync::{Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::inverted::blocks::{Layout, Tail};
use pilum_kernels::inverted::lists::{self, Lists};
use pilum_kernels::inverted::positions::Codec;
use pilum_kernels::inverted::{entries, growing, writing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Made, corrupt, first_that_fits, impossible, slice};

type Array<'py, T> = PyReadonlyArray1<'py, T>;

/// Positions of rows: codec, offsets and bytes of streams, lists and starts of blocks; or
/// documents, and lists, offsets and bytes of pieces.
pub enum PositionsArg<'py> {
    Stream(
        bool,
        Array<'py, i64>,
        Array<'py, u8>,
        Array<'py, i32>,
        Array<'py, u32>,
    ),
    Pieces(
        Array<'py, i32>,
        Array<'py, i32>,
        Array<'py, i64>,
        Array<'py, u8>,
    ),
}

first_that_fits!(PositionsArg<'py>: Stream(packed, offsets, data, lists, starts), Pieces(documents, lists, offsets, data));

impl PositionsArg<'_> {
    pub fn view(&self) -> PyResult<lists::Positions<'_>> {
        Ok(match self {
            Self::Stream(packed, offsets, data, lists, starts) => lists::Positions::Stream {
                codec: codec(*packed),
                offsets: slice(offsets)?,
                data: slice(data)?,
                lists: slice(lists)?,
                starts: slice(starts)?,
            },
            Self::Pieces(documents, lists, offsets, data) => lists::Positions::Pieces {
                documents: slice(documents)?,
                pieces: Lists {
                    lists: slice(lists)?,
                    offsets: slice(offsets)?,
                    data: slice(data)?,
                },
            },
        })
    }
}

fn codec(packed: bool) -> Codec {
    if packed { Codec::Packed } else { Codec::Varint }
}

/// How posting lists are stored.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct PostingLayout(pub Layout);

#[pymethods]
impl PostingLayout {
    /// Describes blocks of 128 or 256 entries, and how the last block of a list is stored.
    #[new]
    fn new(block_size: usize, fixed_tail: bool) -> PyResult<Self> {
        let tail = if fixed_tail {
            Tail::Fixed
        } else {
            Tail::Varint
        };
        Layout::new(block_size, tail).map(Self).map_err(impossible)
    }
}

/// Posting lists that grow while documents are analysed, compressed in memory.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct GrowingLists(Mutex<growing::Growing>);

#[pymethods]
impl GrowingLists {
    #[new]
    fn new(with_positions: bool) -> Self {
        Self(Mutex::new(growing::Growing::new(with_positions)))
    }

    /// Adds documents: their tokens, the positions of these, and where each document ends.
    #[allow(clippy::needless_pass_by_value)]
    fn add(
        &self,
        py: Python<'_>,
        tokens: Array<'_, u32>,
        positions: Option<Array<'_, u32>>,
        ends: Array<'_, i64>,
    ) -> PyResult<()> {
        let batch = growing::Batch {
            tokens: slice(&tokens)?,
            positions: positions.as_ref().map(slice).transpose()?,
            ends: slice(&ends)?,
        };
        py.detach(|| self.locked(|lists| lists.add(&batch)))
            .map_err(impossible)
    }

    /// Bytes of memory in use.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.locked(|lists| lists.size_bytes())
    }

    /// The number of documents of each token.
    #[allow(clippy::needless_pass_by_value)]
    fn counts<'py>(&self, py: Python<'py>, tokens: Array<'py, u32>) -> PyResult<Made<'py, i64>> {
        let tokens = slice(&tokens)?;
        Ok(self.locked(|lists| lists.counts(tokens)).into_pyarray(py))
    }

    /// Decodes the entries of tokens.
    #[allow(clippy::needless_pass_by_value)]
    fn entries(&self, py: Python<'_>, tokens: Array<'_, u32>) -> PyResult<Entries> {
        let tokens = slice(&tokens)?;
        py.detach(|| self.locked(|lists| lists.entries(tokens)))
            .map(Entries)
            .map_err(impossible)
    }
}

impl GrowingLists {
    fn locked<T>(&self, work: impl FnOnce(&mut growing::Growing) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Entries of tokens, sorted by token and document.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Entries(entries::Entries);

#[pymethods]
impl Entries {
    /// Decodes rows of an index: lists, offsets and bytes of blocks, numbers of entries.
    #[staticmethod]
    #[pyo3(signature = (postings, lengths, layout, num_documents, positions=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn read(
        py: Python<'_>,
        postings: (Array<'_, i32>, Array<'_, i64>, Array<'_, u8>),
        lengths: Array<'_, u32>,
        layout: &PostingLayout,
        num_documents: usize,
        positions: Option<PositionsArg<'_>>,
    ) -> PyResult<Self> {
        let blocks = Lists {
            lists: slice(&postings.0)?,
            offsets: slice(&postings.1)?,
            data: slice(&postings.2)?,
        };
        let positions = positions.as_ref().map(PositionsArg::view).transpose()?;
        let lengths = slice(&lengths)?;
        py.detach(|| lists::decode(blocks, lengths, layout.0, num_documents, positions))
            .map(Self)
            .map_err(|error| corrupt(py, &error))
    }

    /// Joins entries: for each source the new tokens, the entries, and the new documents.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn join(
        py: Python<'_>,
        sources: Vec<(Array<'_, u32>, PyRef<'_, Self>, Array<'_, u32>)>,
        num_tokens: usize,
        with_positions: bool,
    ) -> PyResult<Self> {
        let views = sources
            .iter()
            .map(|(tokens, entries, numbers)| {
                let entries = &entries.0;
                Ok(entries::Source {
                    tokens: slice(tokens)?,
                    ends: &entries.ends,
                    documents: &entries.documents,
                    frequencies: &entries.frequencies,
                    positions: with_positions.then_some(entries.positions.as_slice()),
                    numbers: slice(numbers)?,
                })
            })
            .collect::<PyResult<Vec<_>>>()?;
        py.detach(|| entries::join(&views, num_tokens))
            .map(Self)
            .map_err(impossible)
    }

    /// Where the entries of each token end.
    #[getter]
    fn ends<'py>(&self, py: Python<'py>) -> Made<'py, i64> {
        PyArray1::from_slice(py, &self.0.ends)
    }

    /// The document of each entry.
    #[getter]
    fn documents<'py>(&self, py: Python<'py>) -> Made<'py, u32> {
        PyArray1::from_slice(py, &self.0.documents)
    }

    /// How often the token occurs in it.
    #[getter]
    fn frequencies<'py>(&self, py: Python<'py>) -> Made<'py, u32> {
        PyArray1::from_slice(py, &self.0.frequencies)
    }

    /// The positions of all entries.
    #[getter]
    fn positions<'py>(&self, py: Python<'py>) -> Made<'py, u32> {
        PyArray1::from_slice(py, &self.0.positions)
    }

    /// Encodes the rows of all tokens, as buffers by name.
    #[allow(clippy::needless_pass_by_value)]
    fn write<'py>(
        &self,
        py: Python<'py>,
        lengths: Array<'py, u32>,
        norms: Array<'py, f32>,
        layout: &PostingLayout,
        positions: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let kind = match positions {
            "none" => writing::Positions::None,
            "stream" => writing::Positions::Stream,
            "pieces" => writing::Positions::Pieces,
            other => return Err(PyValueError::new_err(format!("positions as {other:?}"))),
        };
        let documents = writing::Documents {
            lengths: slice(&lengths)?,
            norms: slice(&norms)?,
        };
        let rows = py
            .detach(|| writing::write(&self.0, &documents, layout.0, kind))
            .map_err(impossible)?;
        let out = PyDict::new(py);
        let lists = |lists: writing::Lists| {
            let offsets = (lists.lists.into_pyarray(py), lists.offsets.into_pyarray(py));
            (offsets.0, offsets.1, lists.data.into_pyarray(py))
        };
        out.set_item("postings", lists(rows.postings))?;
        out.set_item("impacts", lists(rows.impacts))?;
        out.set_item("max_scores", rows.max_scores.into_pyarray(py))?;
        out.set_item("lengths", rows.lengths.into_pyarray(py))?;
        match kind {
            writing::Positions::None => {}
            writing::Positions::Stream => {
                let streams = (
                    rows.stream_offsets.into_pyarray(py),
                    rows.streams.into_pyarray(py),
                    rows.block_lists.into_pyarray(py),
                    rows.block_starts.into_pyarray(py),
                );
                out.set_item("positions", streams)?;
            }
            writing::Positions::Pieces => {
                let (pieces, offsets, data) = lists(rows.pieces);
                let documents = rows.piece_documents.into_pyarray(py);
                out.set_item("positions", (documents, pieces, offsets, data))?;
            }
        }
        Ok(out)
    }
}
