//! Vectors that are stored as they are.

use std::ops::Range;

use super::distance::{self, Metric};
use super::element::Element;
use super::search::Store;
use crate::error::{Result, ensure, out_of_range, part};

/// The bytes of a tile: half of a first-level cache.
const TILE: usize = 16 << 10;

/// Vectors of numbers, and the prepared queries.
pub struct Flat<'a, T: Element> {
    metric: Metric,
    vectors: &'a [T],
    queries: &'a [Vec<T::Wide>],
    dimension: usize,
    query: usize,
}

impl<'a, T: Element> Flat<'a, T> {
    pub fn new(
        metric: Metric,
        vectors: &'a [T],
        dimension: usize,
        queries: &'a [Vec<T::Wide>],
    ) -> Result<Self> {
        ensure(
            metric != Metric::Hamming,
            "metric of numbers",
            "hamming",
            "another one",
        )?;
        ensure(dimension > 0, "dimension", dimension, "at least 1")?;
        for query in queries {
            ensure(
                query.len() == dimension,
                "dimension of the query",
                query.len(),
                dimension,
            )?;
        }
        Ok(Self {
            metric,
            vectors,
            queries,
            dimension,
            query: 0,
        })
    }
}

impl<T: Element> Store for Flat<'_, T> {
    fn rows_per_tile(&self) -> usize {
        TILE / size_of::<T>() / self.dimension
    }

    fn gap(&self) -> usize {
        1
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        Ok(())
    }

    fn measure(&self, rows: Range<usize>, _: f32, out: &mut [f32]) -> Result<()> {
        let query = self.queries.get(self.query);
        let query = query.ok_or_else(|| out_of_range("query"))?;
        let (start, count) = (rows.start * self.dimension, rows.len() * self.dimension);
        let vectors = part(self.vectors, start, count, "vectors")?;
        distance::measure(self.metric, query, vectors, out);
        Ok(())
    }
}

/// Rows of bytes of which the differing bits count.
pub struct Bits<'a> {
    rows: &'a [u8],
    queries: &'a [u8],
    width: usize,
    query: usize,
}

impl<'a> Bits<'a> {
    /// Rows and queries of `width` bytes.
    pub fn new(rows: &'a [u8], width: usize, queries: &'a [u8]) -> Result<Self> {
        ensure(width > 0, "dimension", width, "at least 1")?;
        Ok(Self {
            rows,
            queries,
            width,
            query: 0,
        })
    }
}

impl Store for Bits<'_> {
    fn rows_per_tile(&self) -> usize {
        TILE / self.width
    }

    fn gap(&self) -> usize {
        1
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        Ok(())
    }

    fn measure(&self, rows: Range<usize>, _: f32, out: &mut [f32]) -> Result<()> {
        let query = part(self.queries, self.query * self.width, self.width, "query")?;
        let bytes = part(
            self.rows,
            rows.start * self.width,
            rows.len() * self.width,
            "rows",
        )?;
        distance::hamming(query, bytes, out);
        Ok(())
    }
}
