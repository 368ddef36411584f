//! Inverted indices: entries of tokens, posting lists and searches.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pilum_kernels::inverted::blocks::{Layout, Tail};
use pilum_kernels::inverted::lists::{self, Lists};
use pilum_kernels::inverted::own_positions::OwnPositions;
use pilum_kernels::inverted::positions::Codec;
use pilum_kernels::inverted::{
    bm25, clause, documents, entries, growing, norms, posting, top, writing,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{corrupt, impossible, slice};

type Array<'py, T> = PyReadonlyArray1<'py, T>;
type Made<'py, T> = Bound<'py, PyArray1<T>>;

/// Positions of rows: codec, offsets and bytes of streams, lists and starts of blocks; or
/// documents, and lists, offsets and bytes of pieces.
#[derive(FromPyObject)]
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

impl PositionsArg<'_> {
    fn view(&self) -> PyResult<lists::Positions<'_>> {
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
pub struct PostingLayout(Layout);

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

/// What the lengths of the documents of a partition mean for their scores.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Norms(norms::Norms);

#[pymethods]
impl Norms {
    /// Computes them from lengths and totals; `rounds` if lengths are rounded to codes.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        lengths: Array<'_, u32>,
        num_documents: u64,
        num_tokens: u64,
        rounds: bool,
    ) -> PyResult<Self> {
        let lengths = slice(&lengths)?;
        let average = bm25::average(num_tokens, num_documents);
        Ok(Self(
            py.detach(|| norms::Norms::new(lengths, average, rounds)),
        ))
    }

    /// The memory that they take.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }
}

/// A posting list that is open for searches.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Posting(Arc<posting::Posting>);

#[pymethods]
impl Posting {
    /// Opens row `row` of some rows and checks its entries.
    #[new]
    #[pyo3(signature = (layout, count, row, postings, norms, positions=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        layout: &PostingLayout,
        count: usize,
        row: usize,
        postings: (Array<'_, i32>, Array<'_, i64>, Array<'_, u8>),
        norms: &Norms,
        positions: Option<PositionsArg<'_>>,
    ) -> PyResult<Self> {
        let blocks = Lists {
            lists: slice(&postings.0)?,
            offsets: slice(&postings.1)?,
            data: slice(&postings.2)?,
        };
        let stored = positions.as_ref().map(PositionsArg::view).transpose()?;
        py.detach(|| {
            let positions = stored
                .map(|stored| OwnPositions::of(stored, row))
                .transpose()?;
            let offsets = blocks.offsets_of(row)?;
            let data = (offsets, blocks.data);
            posting::Posting::open(layout.0, count, data, &norms.0, positions)
        })
        .map(|list| Self(Arc::new(list)))
        .map_err(|error| corrupt(py, &error))
    }

    /// Number of entries.
    #[getter]
    fn count(&self) -> usize {
        self.0.count
    }

    /// Whether it has positions.
    #[getter]
    fn has_positions(&self) -> bool {
        self.0.has_positions()
    }

    /// The memory that it takes.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }
}

/// A query of one partition.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct Clause(Arc<clause::Clause>);

type PhraseWord<'py> = (u32, Vec<(PyRef<'py, Posting>, f32)>);

fn clauses(list: &[PyRef<'_, Clause>]) -> Vec<Arc<clause::Clause>> {
    list.iter().map(|clause| Arc::clone(&clause.0)).collect()
}

#[pymethods]
#[allow(clippy::needless_pass_by_value)]
impl Clause {
    /// Returns the documents of a list.
    #[staticmethod]
    fn token(list: &Posting, idf: f32) -> Self {
        Self(Arc::new(clause::Clause::Token(Arc::clone(&list.0), idf)))
    }

    /// Returns the documents of any clause; scores are added.
    #[staticmethod]
    fn any(of: Vec<PyRef<'_, Self>>) -> Self {
        Self(Arc::new(clause::Clause::Any(clauses(&of))))
    }

    /// Returns the documents of all clauses; scores are added.
    #[staticmethod]
    fn all(of: Vec<PyRef<'_, Self>>) -> Self {
        Self(Arc::new(clause::Clause::All(clauses(&of))))
    }

    /// Returns the documents with a phrase: for each word its position in the query, and the
    /// lists and idf of its tokens, of which any matches.
    #[staticmethod]
    fn phrase(words: Vec<PhraseWord<'_>>, slop: u32) -> Self {
        let words = words.iter().map(|(position, tokens)| {
            let tokens = tokens.iter();
            clause::Alternatives {
                tokens: tokens
                    .map(|(list, idf)| (Arc::clone(&list.0), *idf))
                    .collect(),
                position: *position,
            }
        });
        Self(Arc::new(clause::Clause::Phrase(words.collect(), slop)))
    }

    /// Returns the documents of all of `must`, or any of `should`, without those of `must_not`.
    #[staticmethod]
    fn boolean(
        must: Vec<PyRef<'_, Self>>,
        should: Vec<PyRef<'_, Self>>,
        must_not: Vec<PyRef<'_, Self>>,
    ) -> Self {
        Self(Arc::new(clause::Clause::Boolean {
            must: clauses(&must),
            should: clauses(&should),
            must_not: clauses(&must_not),
        }))
    }

    /// Returns the same documents with scaled scores.
    fn scaled(&self, factor: f32) -> Self {
        Self(Arc::new(clause::Clause::Scaled(
            Arc::clone(&self.0),
            factor,
        )))
    }

    /// Returns the same documents, with lower scores for those of another clause.
    fn less(&self, negative: &Self, factor: f32) -> Self {
        Self(Arc::new(clause::Clause::Less {
            positive: Arc::clone(&self.0),
            negative: Arc::clone(&negative.0),
            factor,
        }))
    }

    /// Returns the `k` best documents above a score and their scores; without `k`, all.
    #[pyo3(signature = (norms, k=None, allowed=None, floor=f32::NEG_INFINITY))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        norms: &Norms,
        k: Option<usize>,
        allowed: Option<&DocumentSet>,
        floor: f32,
    ) -> PyResult<(Made<'py, u32>, Made<'py, f32>)> {
        let found = self.found(py, norms, k, allowed, floor)?;
        Ok((
            found.documents.into_pyarray(py),
            found.scores.into_pyarray(py),
        ))
    }

    /// Searches, and returns how many blocks of documents and of positions were decoded.
    #[pyo3(signature = (norms, k=None, allowed=None, floor=f32::NEG_INFINITY))]
    fn decoded(
        &self,
        py: Python<'_>,
        norms: &Norms,
        k: Option<usize>,
        allowed: Option<&DocumentSet>,
        floor: f32,
    ) -> PyResult<(usize, usize)> {
        let decoded = self.found(py, norms, k, allowed, floor)?.decoded;
        Ok((decoded.documents, decoded.positions))
    }
}

impl Clause {
    fn found(
        &self,
        py: Python<'_>,
        norms: &Norms,
        k: Option<usize>,
        allowed: Option<&DocumentSet>,
        floor: f32,
    ) -> PyResult<top::Found> {
        let allowed = allowed.map(|set| &set.0);
        py.detach(|| top::search(&self.0, &norms.0, k, allowed, floor))
            .map_err(|error| corrupt(py, &error))
    }
}

/// A set of documents of a partition.
#[pyclass(frozen, module = "pilum._kernels")]
pub struct DocumentSet(documents::DocumentSet);

#[pymethods]
impl DocumentSet {
    /// Selects documents by their row references, which are sorted, as the listed ones are.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        references: Array<'_, u64>,
        order: Option<Array<'_, u32>>,
        listed: Array<'_, u64>,
        is_complement: bool,
    ) -> PyResult<Self> {
        let (references, listed) = (slice(&references)?, slice(&listed)?);
        let order = order.as_ref().map(slice).transpose()?;
        py.detach(|| documents::DocumentSet::new(references, order, listed, is_complement))
            .map(Self)
            .map_err(impossible)
    }

    /// Number of documents.
    #[getter]
    fn count(&self) -> usize {
        self.0.count
    }
}

/// The idf of tokens that some documents contain.
#[pyfunction]
pub fn bm25_idf(num_documents: u64, documents_with_it: u64) -> f32 {
    bm25::idf(bm25::float(num_documents), bm25::float(documents_with_it))
}

/// The norms of documents with these lengths; `rounds` if lengths are rounded to codes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bm25_norms<'py>(
    py: Python<'py>,
    lengths: Array<'py, u32>,
    num_documents: u64,
    num_tokens: u64,
    rounds: bool,
) -> PyResult<Made<'py, f32>> {
    let lengths = slice(&lengths)?;
    let average = bm25::average(num_tokens, num_documents);
    let norms: Vec<f32> = py.detach(|| {
        let norm = |length: &u32| norms::norm(*length, average, rounds);
        lengths.iter().map(norm).collect()
    });
    Ok(norms.into_pyarray(py))
}
