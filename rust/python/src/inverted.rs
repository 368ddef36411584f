//! Searches of inverted indices: posting lists that are open, clauses of them, and scores.

use std::sync::Arc;

use numpy::{IntoPyArray, PyReadonlyArray1};
use pilum_kernels::inverted::lists::Lists;
use pilum_kernels::inverted::own_positions::OwnPositions;
use pilum_kernels::inverted::{bm25, clause, documents, norms, posting, top};
use pyo3::prelude::*;

use crate::arrays::{Made, corrupt, impossible, slice};
use crate::posting_lists::{PositionsArg, PostingLayout};

type Array<'py, T> = PyReadonlyArray1<'py, T>;

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
