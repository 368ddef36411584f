//! Vectors that are stored as they are.
//!
//! Most vectors are left out: by the bounds of a sieve, where there is one, of several queries at once;
//! otherwise, if several queries are compared with a tile, by products of all of them (`near`).

use std::ops::Range;

use super::allowed::Allowed;
use super::distance::{self, Metric};
use super::element::Element;
use super::near::Near;
use super::search::Store;
use super::sieve::{Sieve, Sieved};
use crate::error::{Result, ensure, out_of_range, part};

/// The bytes of a tile: a part of a second-level cache.
const TILE: usize = 64 << 10;

/// The bytes of the codes of a tile, which every query needs.
const TILE_OF_CODES: usize = 256 << 10;

/// Tiles have a multiple of so many rows.
const TOGETHER: usize = 8;

/// So many queries are worth being compared together.
const SEVERAL: usize = 6;

/// Vectors of numbers, and the prepared queries.
pub struct Flat<'a, T: Element> {
    metric: Metric,
    vectors: &'a [T],
    queries: &'a [Vec<T::Wide>],
    dimension: usize,
    query: usize,
    near: Option<Near>,
    sieve: Option<Sieved<'a>>,
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
            near: None,
            sieve: None,
        })
    }

    /// Leaves out vectors by the bounds of a sieve that was made of them.
    pub fn sieved(mut self, sieve: &'a Sieve) -> Result<Self> {
        let (found, rows) = (sieve.num_rows(), self.vectors.len() / self.dimension);
        ensure(found == rows, "vectors with bounds", found, rows)?;
        let (found, dimension) = (sieve.dimension(), self.dimension);
        ensure(
            found == dimension,
            "dimension of the bounds",
            found,
            dimension,
        )?;
        let is_same = sieve.metric() == self.metric;
        ensure(is_same, "metric of the bounds", "another", "the same")?;
        self.sieve = Some(Sieved::new(sieve));
        Ok(self)
    }

    /// Writes the distances of rows whose bound is not above the limit; NaN for the others.
    fn measure_some(
        &self,
        sieve: &Sieved<'_>,
        query: &[T::Wide],
        rows: &Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()> {
        sieve.measure_some(rows.clone(), allowed, limit, out, |rows, out| {
            for (&row, out) in rows.iter().zip(out) {
                let (vector, out) = (self.rows(&(row..row + 1))?, std::slice::from_mut(out));
                distance::measure(self.metric, query, vector, out);
            }
            Ok(())
        })
    }

    fn rows(&self, rows: &Range<usize>) -> Result<&'a [T]> {
        let (start, count) = (rows.start * self.dimension, rows.len() * self.dimension);
        part(self.vectors, start, count, "vectors")
    }
}

impl<T: Element> Store for Flat<'_, T> {
    fn rows_per_tile(&self) -> usize {
        match self.sieve {
            None => (TILE / size_of::<T>() / self.dimension).next_multiple_of(TOGETHER),
            Some(_) => TILE_OF_CODES / self.dimension,
        }
    }

    fn gap(&self) -> Option<usize> {
        self.sieve.is_none().then_some(1)
    }

    fn begin_tile(&mut self, rows: Range<usize>, queries: &[u32], limits: &[f32]) -> Result<()> {
        let (metric, dimension, all) = (self.metric, self.dimension, self.queries);
        if let Some(sieve) = &mut self.sieve {
            let query = |number: usize| {
                all.get(number)
                    .cloned()
                    .ok_or_else(|| out_of_range("query"))
            };
            return sieve.search(&rows, queries, limits, query);
        }
        if queries.len() < SEVERAL {
            return Ok(());
        }
        let tile = self.rows(&rows)?;
        let near = self.near.get_or_insert_with(|| {
            let own = queries.iter().map(|&query| all.get(query as usize));
            Near::new(metric, dimension, own.flatten().map(Vec::as_slice))
        });
        near.search(rows.start, tile, limits);
        Ok(())
    }

    fn near(&self, place: usize) -> Option<&[usize]> {
        match &self.sieve {
            Some(sieve) => sieve.near(place),
            None => self.near.as_ref().and_then(|near| near.of(place)),
        }
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        let queries = self.queries;
        match &mut self.sieve {
            None => Ok(()),
            Some(sieve) => sieve.begin(query, || {
                queries
                    .get(query)
                    .cloned()
                    .ok_or_else(|| out_of_range("query"))
            }),
        }
    }

    fn promising(&mut self, rows: Range<usize>, count: usize) -> Result<Vec<usize>> {
        match &self.sieve {
            None => Ok(Vec::new()),
            Some(sieve) => sieve.promising(rows, count),
        }
    }

    fn measure(
        &mut self,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()> {
        let query = self.queries.get(self.query);
        let query = query.ok_or_else(|| out_of_range("query"))?;
        if let Some(sieve) = &self.sieve
            && (limit < f32::INFINITY || !allowed.are_all())
        {
            return self.measure_some(sieve, query, &rows, allowed, limit, out);
        }
        distance::measure(self.metric, query, self.rows(&rows)?, out);
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

    fn gap(&self) -> Option<usize> {
        Some(1)
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        Ok(())
    }

    fn measure(
        &mut self,
        rows: Range<usize>,
        _: Allowed<'_>,
        _: f32,
        out: &mut [f32],
    ) -> Result<()> {
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
