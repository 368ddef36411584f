//! Scalar codes: a byte for each component, 0 at the start of a range and 255 at its end.
//!
//!     code        trunc(clamp((x - start) * 255 / (end - start), 0, 255)), in float64
//!     l2          sum of (query code - code)^2 * step^2, where step = (end - start) / 255
//!     dot         1 - sum of q (start + code * step), with the query itself
//!
//! For l2, most rows are left out by the bounds of a sieve of their codes, where there is one.

use std::ops::Range;

use super::allowed::Allowed;
use super::byte_sums::l2_of_codes;
use super::distance::{self, Metric};
use super::search::Store;
use super::sieve::{Sieve, Sieved};
use crate::error::{Corrupt, Result, ensure, out_of_range, part};

/// The bytes of a tile: a part of a first-level cache.
const TILE: usize = 16 << 10;

/// The codes of a tile with a sieve, half a byte of each of which every query needs.
const TILE_OF_SIEVE: usize = 512 << 10;

/// So few rows in a row are compared although they are not allowed, without a sieve.
const GAP: usize = 2;

/// More than the rounding of a distance.
const ROUNDING: f64 = 1e-6;

/// The range of values that codes represent.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub start: f64,
    pub end: f64,
}

impl Bounds {
    /// The difference of the values of adjacent codes.
    pub fn step(self) -> f64 {
        (self.end - self.start) / 255.0
    }

    /// Writes the code of each value. NaN has the code 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    pub fn encode(self, values: &[f32], out: &mut [u8]) {
        if self.start == self.end {
            out.fill(0);
            return;
        }
        let extent = self.end - self.start;
        for (code, &value) in out.iter_mut().zip(values) {
            *code = ((f64::from(value) - self.start) * 255.0 / extent) as u8;
        }
    }
}

/// Codes and queries.
pub struct Codes<'a> {
    codes: &'a [u8],
    queries: &'a Queries,
    query: usize,
    sieve: Option<Sieved<'a>>,
}

/// Queries as the search of codes needs them.
pub struct Queries {
    bounds: Bounds,
    dimension: usize,
    /// For l2: the codes of all queries.
    codes: Vec<u8>,
    /// For dot: all queries; and for each one, 1 - its product with a vector of `start`s.
    values: Vec<f32>,
    bases: Vec<f64>,
}

impl Queries {
    pub fn new(metric: Metric, values: &[f32], dimension: usize, bounds: Bounds) -> Result<Self> {
        ensure(dimension > 0, "dimension", dimension, "at least 1")?;
        let mut queries = Self {
            bounds,
            dimension,
            codes: Vec::new(),
            values: Vec::new(),
            bases: Vec::new(),
        };
        match metric {
            Metric::L2 => {
                queries.codes = vec![0; values.len()];
                bounds.encode(values, &mut queries.codes);
            }
            Metric::Dot => {
                let sum = |query: &[f32]| query.iter().copied().map(f64::from).sum::<f64>();
                let each = values.chunks_exact(dimension);
                queries.bases = each.map(|query| 1.0 - bounds.start * sum(query)).collect();
                queries.values = values.to_vec();
            }
            Metric::Cosine | Metric::Hamming => {
                return Err(Corrupt("metric of scalar codes: expected l2 or dot".into()));
            }
        }
        Ok(queries)
    }

    /// The codes of a query, for l2.
    fn codes_of(&self, query: usize) -> Result<&[u8]> {
        part(&self.codes, query * self.dimension, self.dimension, "query")
    }

    /// The same as numbers.
    fn numbers_of(&self, query: usize) -> Result<Vec<f32>> {
        let codes = self.codes_of(query)?.iter();
        Ok(codes.copied().map(f32::from).collect())
    }
}

/// A little more than the squared distance of codes that is a limit.
#[allow(clippy::cast_possible_truncation)] // rounds
fn limit_of_codes(limit: f32, factor: f64) -> f32 {
    (f64::from(limit) / factor * (1.0 + ROUNDING)) as f32
}

impl<'a> Codes<'a> {
    pub fn new(codes: &'a [u8], queries: &'a Queries) -> Self {
        Self {
            codes,
            queries,
            query: 0,
            sieve: None,
        }
    }

    /// Leaves out rows by the bounds of a sieve that was made of their codes, for l2.
    pub fn sieved(mut self, sieve: &'a Sieve) -> Result<Self> {
        let dimension = self.queries.dimension;
        let (found, rows) = (sieve.num_rows(), self.codes.len() / dimension);
        ensure(found == rows, "rows with bounds", found, rows)?;
        let found = sieve.dimension();
        ensure(
            found == dimension,
            "dimension of the bounds",
            found,
            dimension,
        )?;
        let is_same = sieve.metric() == Metric::L2 && self.queries.bases.is_empty();
        ensure(is_same, "metric of the bounds", "another", "l2")?;
        self.sieve = Some(Sieved::new(sieve));
        Ok(self)
    }

    fn rows(&self, rows: &Range<usize>) -> Result<&'a [u8]> {
        let Queries { dimension, .. } = *self.queries;
        let (start, count) = (rows.start * dimension, rows.len() * dimension);
        part(self.codes, start, count, "codes")
    }

    /// Writes the squared distances of codes, times the square of a step.
    #[allow(clippy::cast_possible_truncation)] // rounds
    fn measure_l2(
        &self,
        rows: &Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()> {
        let step = self.queries.bounds.step();
        let (query, factor) = (self.queries.codes_of(self.query)?, step * step);
        let is_limited = limit < f32::INFINITY || !allowed.are_all();
        let Some(sieve) = self.sieve.as_ref().filter(|_| is_limited && factor > 0.0) else {
            let rows = self.rows(rows)?.chunks_exact(self.queries.dimension);
            return l2_of_codes(query, rows.map(Ok), factor, out);
        };
        sieve.measure_some(
            rows.clone(),
            allowed,
            limit_of_codes(limit, factor),
            out,
            |rows, out| {
                let each = rows.iter().map(|&row| self.rows(&(row..row + 1)));
                l2_of_codes(query, each, factor, out)
            },
        )
    }
}

impl Store for Codes<'_> {
    fn rows_per_tile(&self) -> usize {
        self.sieve.as_ref().map_or(TILE, |_| TILE_OF_SIEVE) / self.queries.dimension
    }

    fn gap(&self) -> Option<usize> {
        self.sieve.is_none().then_some(GAP)
    }

    fn begin_tile(&mut self, rows: Range<usize>, queries: &[u32], limits: &[f32]) -> Result<()> {
        let (all, step) = (self.queries, self.queries.bounds.step());
        let factor = step * step;
        let Some(sieve) = self.sieve.as_mut().filter(|_| factor > 0.0) else {
            return Ok(());
        };
        let limits = limits.iter().map(|&limit| limit_of_codes(limit, factor));
        let limits: Vec<f32> = limits.collect();
        sieve.search(&rows, queries, &limits, |query| all.numbers_of(query))
    }

    fn near(&self, place: usize) -> Option<&[usize]> {
        self.sieve.as_ref().and_then(|sieve| sieve.near(place))
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        let queries = self.queries;
        match &mut self.sieve {
            None => Ok(()),
            Some(sieve) => sieve.begin(query, || queries.numbers_of(query)),
        }
    }

    fn promising(&mut self, rows: Range<usize>, count: usize) -> Result<Vec<usize>> {
        match &self.sieve {
            None => Ok(Vec::new()),
            Some(sieve) => sieve.promising(rows, count),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // rounds
    fn measure(
        &mut self,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()> {
        if self.queries.bases.is_empty() {
            return self.measure_l2(&rows, allowed, limit, out);
        }
        let Queries { dimension, .. } = *self.queries;
        let (first, step) = (self.query * dimension, self.queries.bounds.step());
        let base = self.queries.bases.get(self.query);
        let base = base.ok_or_else(|| out_of_range("query"))? - step;
        let query = part(&self.queries.values, first, dimension, "query")?;
        distance::measure(Metric::Dot, query, self.rows(&rows)?, out);
        for distance in out {
            *distance = (base + f64::from(*distance) * step) as f32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_truncated_and_saturate() {
        let bounds = Bounds {
            start: 0.0,
            end: 255.0,
        };
        let values = [-1.0, 0.99, 1.0, 254.999, 255.0, 300.0, f32::NAN];
        let mut codes = [9; 7];
        bounds.encode(&values, &mut codes);
        assert_eq!(codes, [0, 0, 1, 254, 255, 255, 0]);
        let bounds = Bounds {
            start: 1.0,
            end: 1.0,
        };
        bounds.encode(&values, &mut codes);
        assert_eq!(codes, [0; 7]);
    }
}
