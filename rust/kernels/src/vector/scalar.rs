//! Scalar codes: a byte for each component, 0 at the start of a range and 255 at its end.
//!
//!     code        trunc(clamp((x - start) * 255 / (end - start), 0, 255)), in float64
//!     l2          sum of (query code - code)^2 * step^2, where step = (end - start) / 255
//!     dot         1 - sum of q (start + code * step), with the query itself

use std::ops::Range;

use super::distance::{self, Metric};
use super::search::Store;
use crate::error::{Corrupt, Result, ensure, out_of_range, part};

const TILE: usize = 16 << 10;

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
}

impl<'a> Codes<'a> {
    pub fn new(codes: &'a [u8], queries: &'a Queries) -> Self {
        Self {
            codes,
            queries,
            query: 0,
        }
    }
}

impl Store for Codes<'_> {
    fn rows_per_tile(&self) -> usize {
        TILE / self.queries.dimension
    }

    fn gap(&self) -> usize {
        2
    }

    fn begin(&mut self, query: usize) -> Result<()> {
        self.query = query;
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)] // rounds
    fn measure(&mut self, rows: Range<usize>, _: f32, out: &mut [f32]) -> Result<()> {
        let Queries { dimension, .. } = *self.queries;
        let codes = part(
            self.codes,
            rows.start * dimension,
            rows.len() * dimension,
            "codes",
        )?;
        let (first, step) = (self.query * dimension, self.queries.bounds.step());
        if self.queries.bases.is_empty() {
            let query = part(&self.queries.codes, first, dimension, "query")?;
            return distance::l2_of_codes(query, codes, step * step, out);
        }
        let base = self.queries.bases.get(self.query);
        let base = base.ok_or_else(|| out_of_range("query"))? - step;
        let query = part(&self.queries.values, first, dimension, "query")?;
        distance::measure(Metric::Dot, query, codes, out);
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
