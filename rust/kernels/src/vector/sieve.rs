//! Codes in place of vectors, which show that most vectors are too far from a query.
//!
//!     vectors ──▶ lower bounds of their distances by codes ──▶ distances of those that are left
//!
//! Codes have 8 bits for each component, or 4 bits for components of one byte: a search of many
//! vectors waits for memory, so codes are useful if they are much shorter than vectors. Bounds by 4
//! bits would be too low for too many vectors of floats.

use std::ops::Range;

use super::bounds::{Bytes, Frame, Level, Nibbles, Target};
use super::distance::Metric;
use super::element::{Element, Wide};
use super::top::ordered;
use crate::error::{Corrupt, Result, ensure};

/// Squared lengths between which bounds for cosine are sound.
const SQUARES: Range<f32> = 1e-20..1e20;

/// So many bounds are looked at together.
const GROUP: usize = 16;

/// The codes of the vectors of a part.
pub struct Sieve {
    frame: Frame,
    num_rows: usize,
    codes: Codes,
}

enum Codes {
    Nibbles(Level<Nibbles>),
    Bytes(Level<Bytes>),
}

/// A query as it is compared with codes.
#[derive(Default)]
pub struct Targets {
    nibbles: Target<Nibbles>,
    bytes: Target<Bytes>,
}

impl Sieve {
    /// Makes the codes of vectors.
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn new<T: Element>(metric: Metric, rows: &[T], dimension: usize) -> Result<Self> {
        if metric == Metric::Hamming {
            return Err(Corrupt("metric of bounds: expected another one".into()));
        }
        ensure(dimension > 0, "dimension", dimension, "at least 1")?;
        let size = rows.len();
        let is_whole = size.is_multiple_of(dimension);
        ensure(is_whole, "components of vectors", size, dimension)?;
        let mean = mean_of(rows, dimension);
        let inverses = match metric {
            Metric::Cosine => rows.chunks_exact(dimension).map(inverse_of).collect(),
            _ => Vec::new(),
        };
        let frame = Frame {
            metric,
            dimension,
            rounding: (dimension as f32 + 16.0) * f32::EPSILON,
            mean_length: squares(&mean).sqrt(),
            mean,
            inverses,
        };
        let num_rows = size / dimension;
        let each = rows.chunks_exact(dimension);
        let each = each.map(|row| narrow(row).collect());
        let codes = if size_of::<T>() == 1 {
            Codes::Nibbles(Level::new(&frame, num_rows, each))
        } else {
            Codes::Bytes(Level::new(&frame, num_rows, each))
        };
        Ok(Self {
            frame,
            num_rows,
            codes,
        })
    }

    pub fn metric(&self) -> Metric {
        self.frame.metric
    }

    pub fn dimension(&self) -> usize {
        self.frame.dimension
    }

    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub fn size_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Nibbles(level) => level.size_bytes(),
            Codes::Bytes(level) => level.size_bytes(),
        };
        codes + 4 * (self.frame.mean.len() + self.frame.inverses.len())
    }

    /// Makes a query comparable.
    pub fn prepare<W: Wide>(&self, query: &[W], targets: &mut Targets) {
        let frame = &self.frame;
        let of_mean = match frame.metric {
            Metric::L2 => 0.0,
            _ => {
                let pairs = query.iter().zip(&frame.mean);
                let products = pairs.map(|(&value, &mean)| value.into() * f64::from(mean));
                f32::of(products.sum())
            }
        };
        let values: Vec<f32> = query.iter().map(|value| value.narrow()).collect();
        match &self.codes {
            Codes::Nibbles(_) => Level::prepare(frame, &values, of_mean, &mut targets.nibbles),
            Codes::Bytes(_) => Level::prepare(frame, &values, of_mean, &mut targets.bytes),
        }
    }

    /// Returns the numbers of the `count` vectors of some that have the least bounds.
    pub fn promising(
        &self,
        targets: &Targets,
        rows: Range<usize>,
        count: usize,
    ) -> Result<Vec<usize>> {
        let mut bounds = vec![0.0; rows.len()];
        self.bounds(targets, rows.clone(), &mut bounds)?;
        let mut found: Vec<(u32, usize)> = bounds.into_iter().map(ordered).zip(rows).collect();
        if count < found.len() {
            found.select_nth_unstable(count);
            found.truncate(count);
        }
        Ok(found.into_iter().map(|(_, row)| row).collect())
    }

    /// Writes a lower bound of the distance of each of some vectors; NaN if there is none.
    pub fn bounds(&self, targets: &Targets, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        match &self.codes {
            Codes::Nibbles(level) => level.bounds(&self.frame, &targets.nibbles, rows, out),
            Codes::Bytes(level) => level.bounds(&self.frame, &targets.bytes, rows, out),
        }
    }
}

/// Replaces bounds above a limit by NaN, and the others by the distances that `measure` writes.
pub fn measure_some(
    first: usize,
    limit: f32,
    out: &mut [f32],
    measure: impl FnOnce(&[usize], &mut [f32]) -> Result<()>,
) -> Result<()> {
    let mut rows = Vec::new();
    for (start, out) in (first..).step_by(GROUP).zip(out.chunks_mut(GROUP)) {
        if are_above(out, limit) {
            out.fill(f32::NAN);
            continue;
        }
        for (row, out) in (start..).zip(out) {
            if is_above(*out, limit) {
                *out = f32::NAN;
            } else {
                rows.push(row);
            }
        }
    }
    let mut distances = vec![0.0; rows.len()];
    measure(&rows, &mut distances)?;
    for (row, distance) in rows.iter().zip(distances) {
        if let Some(out) = out.get_mut(row - first) {
            *out = distance;
        }
    }
    Ok(())
}

#[inline(always)]
fn is_above(bound: f32, limit: f32) -> bool {
    bound > limit
}

#[inline(always)]
fn are_above(bounds: &[f32], limit: f32) -> bool {
    bounds
        .iter()
        .fold(true, |all, &bound| all & is_above(bound, limit))
}

fn narrow<T: Element>(row: &[T]) -> impl Iterator<Item = f32> {
    row.iter().map(|value| value.widen().narrow())
}

/// 1 / the length of a vector; NaN if bounds by it would not be sound.
fn inverse_of<T: Element>(row: &[T]) -> f32 {
    let squares: f32 = narrow(row).map(|value| value * value).sum();
    if SQUARES.contains(&squares) {
        1.0 / squares.sqrt()
    } else {
        f32::NAN
    }
}

/// The mean of vectors; zeros where it is not finite.
#[allow(clippy::cast_precision_loss)] // any vector serves as the mean
fn mean_of<T: Element>(rows: &[T], dimension: usize) -> Vec<f32> {
    let mut sums = vec![0f32; dimension];
    for row in rows.chunks_exact(dimension) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value.widen().narrow();
        }
    }
    let count = (rows.len() / dimension) as f32;
    for sum in &mut sums {
        let mean = *sum / count;
        *sum = if mean.is_finite() { mean } else { 0.0 };
    }
    sums
}

fn squares(values: &[f32]) -> f32 {
    values.iter().map(|value| value * value).sum()
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )]
    use super::super::distance::{self, prepared};
    use super::*;

    const ROWS: usize = 30;

    fn some(count: usize, factor: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * i * factor % 1009) as f32 / 70.0 - 5.0)
            .collect()
    }

    fn bounds_and_distances<T: Element<Wide = f32>>(
        metric: Metric,
        rows: &[T],
        query: &[f32],
    ) -> Vec<(f32, f32)> {
        let query: Vec<f32> = prepared(metric, query.iter().map(|&x| f64::from(x)));
        let sieve = Sieve::new(metric, rows, query.len()).unwrap();
        let mut targets = Targets::default();
        sieve.prepare(&query, &mut targets);
        let mut bounds = vec![0.0; sieve.num_rows()];
        let mut exact = bounds.clone();
        let all = 0..bounds.len();
        sieve.bounds(&targets, all, &mut bounds).unwrap();
        let mut some = vec![0.0; bounds.len() - 1];
        sieve.bounds(&targets, 1..bounds.len(), &mut some).unwrap();
        let bits = |bounds: &[f32]| bounds.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&some), bits(&bounds[1..]));
        distance::measure(metric, &query, rows, &mut exact);
        bounds.into_iter().zip(exact).collect()
    }

    fn check<T: Element<Wide = f32>>(metric: Metric, rows: &[T], query: &[f32], share: f32) {
        let length = |values: &[f32]| distance::product(values, values).sqrt();
        let wide = |row: &[T]| narrow(row).collect::<Vec<f32>>();
        let rows_of = rows.chunks(query.len());
        let longest = rows_of.map(|row| length(&wide(row))).fold(0.0, f32::max);
        let all = length(query) + longest;
        let slack = match metric {
            Metric::L2 => all * all,
            Metric::Dot => 1.0 + all * all,
            _ => 10.0,
        };
        for (bound, exact) in bounds_and_distances(metric, rows, query) {
            if exact.is_nan() {
                continue; // the cosine of a vector of length 0
            }
            assert!(bound <= exact);
            assert!(exact - bound <= share * slack);
        }
    }

    #[test]
    fn bounds_are_less_than_distances() {
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            for dimension in [1, 2, 15, 16, 17, 100, 768] {
                for scale in [1e-3, 1.0, 1e4] {
                    let mut rows = some(ROWS * dimension, 37);
                    rows.iter_mut().for_each(|value| *value *= scale);
                    let query: Vec<f32> = rows[..dimension].iter().map(|x| x * 1.01).collect();
                    check(metric, &rows, &query, 0.02);
                }
                let rows = some(ROWS * dimension, 37);
                let bytes: Vec<u8> = rows.iter().map(|x| ((x + 5.0) * 14.0) as u8).collect();
                let query: Vec<f32> = bytes[..dimension].iter().map(|&x| f32::from(x)).collect();
                check(metric, &bytes, &query, 0.3);
            }
        }
    }

    #[test]
    fn bounds_of_bytes_are_useful() {
        let rows: Vec<u8> = (0..ROWS * 128).map(|i| (i * i * 37 % 251) as u8).collect();
        let query: Vec<f32> = rows[..128].iter().map(|&x| f32::from(x) + 1.0).collect();
        for (bound, exact) in bounds_and_distances(Metric::L2, &rows, &query) {
            assert!(exact < 1000.0 || bound > 0.7 * exact);
        }
    }

    #[test]
    fn what_is_not_finite_has_no_bound_above_its_distance() {
        let special = [f32::NAN, f32::INFINITY, 0.0, 1e30, 1e19, 1e-30, -1e38];
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            for first in special {
                for second in special {
                    let rows = [first, 2.0, second, 1.0, 0.5, second];
                    for query in [[1.0, 2.0], [first, 2.0], [second, second]] {
                        for (bound, exact) in bounds_and_distances(metric, &rows, &query) {
                            let is_above = bound > exact;
                            assert!(!is_above, "{metric:?} {rows:?} {query:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_least_bounds_are_promising() {
        let rows = some(ROWS * 20, 37);
        let sieve = Sieve::new(Metric::L2, &rows, 20).unwrap();
        let mut targets = Targets::default();
        sieve.prepare(&rows[60..80], &mut targets);
        let all = sieve.promising(&targets, 2..ROWS, 100).unwrap();
        assert_eq!(all.len(), ROWS - 2);
        let mut few = sieve.promising(&targets, 2..ROWS, 4).unwrap();
        few.sort_unstable();
        let mut bounds = vec![0.0; ROWS];
        sieve.bounds(&targets, 0..ROWS, &mut bounds).unwrap();
        let mut order: Vec<usize> = (2..ROWS).collect();
        order.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
        order.truncate(4);
        order.sort_unstable();
        assert_eq!(few, order);
    }

    #[test]
    fn other_shapes_are_refused() {
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 2).is_err());
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 0).is_err());
        assert!(Sieve::new(Metric::Hamming, &[1u8; 4], 2).is_err());
        let sieve = Sieve::new(Metric::Dot, &[1f32; 4], 2).unwrap();
        let found = sieve.bounds(&Targets::default(), 1..3, &mut [0.0; 2]);
        assert!(found.is_err());
    }
}
