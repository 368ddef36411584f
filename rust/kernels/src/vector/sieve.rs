//! Bytes in place of vectors, which show that most vectors are too far from a query.
//!
//!     mean      of all vectors
//!     rest      r = vector - mean
//!     codes     r / step, rounded to -127 … 127, a byte each; step = max |r| / 127 of the vector
//!     error     |r - step * codes|
//!
//! A query is rounded to integers of 16 bits in the same way; for l2 after the mean was subtracted
//! (p), for the other metrics as it is. The product p . r is known up to |p| error, and so is a lower
//! bound of the distance:
//!
//!     l2        |p|^2 + |r|^2 - 2 p r
//!     dot       1 - q mean - q r
//!     cosine    1 - (q mean + q r) / |v|, where |q| is 1
//!
//! Bounds are a little less than that, by more than the rounding of sums of float32: the distance
//! of a vector as `distance` measures it is never less than its bound.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::byte_sums::{BYTES, products};
use super::distance::Metric;
use super::element::{Element, Wide};
use crate::error::{Corrupt, Result, ensure, part};

/// The greatest code.
const MOST: f32 = 127.0;

/// The greatest number of a query.
const MOST_OF_QUERY: f32 = 32_767.0;

/// The sum with it is rounded to an integer, for numbers of less than 2^22.
const EVEN: f32 = 12_582_912.0;

/// Squared lengths between which bounds for cosine are sound.
const SQUARES: Range<f32> = 1e-20..1e20;

/// How many products are computed at once.
const BLOCK: usize = 256;

/// The bytes of the vectors of a part.
pub struct Sieve {
    metric: Metric,
    dimension: usize,
    /// More than the relative rounding of a sum.
    rounding: f32,
    mean: Vec<f32>,
    mean_length: f32,
    /// For each vector, as many blocks as hold its codes.
    codes: Vec<[i8; BYTES]>,
    /// The step of each vector, and the lengths of its rest and of its error. NaN: it has no bound.
    steps: Vec<f32>,
    lengths: Vec<f32>,
    errors: Vec<f32>,
    /// For cosine: 1 / the length of each vector.
    inverses: Vec<f32>,
}

/// A query as it is compared with codes.
#[derive(Default)]
pub struct Target {
    codes: Vec<[i16; BYTES]>,
    step: f32,
    length: f32,
    error: f32,
    /// The product with the mean.
    of_mean: f32,
}

impl Sieve {
    /// Makes the bytes of vectors.
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
        let count = size / dimension;
        let mut sieve = Self {
            metric,
            dimension,
            rounding: (dimension as f32 + 16.0) * f32::EPSILON,
            mean_length: squares(&mean).sqrt(),
            mean,
            codes: vec![[0; BYTES]; count * dimension.div_ceil(BYTES)],
            steps: Vec::with_capacity(count),
            lengths: Vec::with_capacity(count),
            errors: Vec::with_capacity(count),
            inverses: Vec::new(),
        };
        let mut codes = std::mem::take(&mut sieve.codes);
        let mut rest = Vec::with_capacity(dimension);
        let blocks = codes.chunks_exact_mut(dimension.div_ceil(BYTES));
        for (row, codes) in rows.chunks_exact(dimension).zip(blocks) {
            sieve.add(row, &mut rest, codes.as_flattened_mut());
        }
        sieve.codes = codes;
        Ok(sieve)
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub fn num_rows(&self) -> usize {
        self.steps.len()
    }

    pub fn size_bytes(&self) -> usize {
        let floats = self.mean.len() + 3 * self.steps.len() + self.inverses.len();
        self.codes.len() * BYTES + 4 * floats
    }

    fn add<T: Element>(&mut self, row: &[T], rest: &mut Vec<f32>, codes: &mut [i8]) {
        rest.clear();
        rest.extend(row.iter().map(|value| value.widen().narrow()));
        let (step, length, error) = Arch::new().dispatch(Rounded {
            values: rest,
            mean: &self.mean,
            most: MOST,
            codes,
            rounding: self.rounding,
        });
        let is_known = length.is_finite() && error.is_finite();
        self.steps.push(step);
        self.lengths.push(length);
        self.errors.push(if is_known { error } else { f32::NAN });
        if self.metric == Metric::Cosine {
            let narrow = row.iter().map(|value| value.widen().narrow());
            let squares: f32 = narrow.map(|value| value * value).sum();
            let inverse = 1.0 / squares.sqrt();
            let is_sound = SQUARES.contains(&squares);
            self.inverses
                .push(if is_sound { inverse } else { f32::NAN });
        }
    }

    /// Makes a query comparable.
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn prepare<W: Wide>(&self, query: &[W], target: &mut Target) {
        let narrow = query.iter().map(|value| value.narrow());
        let mut values: Vec<f32> = narrow.collect();
        target.of_mean = match self.metric {
            Metric::L2 => 0.0,
            _ => {
                let pairs = query.iter().zip(&self.mean);
                let products = pairs.map(|(&value, &mean)| value.into() * f64::from(mean));
                f32::of(products.sum())
            }
        };
        // So that a sum of products of codes fits 32 bits.
        let most = (2f32.powi(31) / (MOST + 1.0) / (self.dimension as f32 + 1.0)).floor();
        let most = most.min(MOST_OF_QUERY);
        target.codes.clear();
        let blocks = self.dimension.div_ceil(BYTES);
        target.codes.resize(blocks, [0; BYTES]);
        let mean = match self.metric {
            Metric::L2 => self.mean.as_slice(),
            _ => &[],
        };
        (target.step, target.length, target.error) = Arch::new().dispatch(Rounded {
            values: &mut values,
            mean,
            most,
            codes: target.codes.as_flattened_mut(),
            rounding: self.rounding,
        });
    }

    /// Writes a lower bound of the distance of each of some vectors; NaN if there is none.
    pub fn bounds(&self, target: &Target, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let width = self.dimension.div_ceil(BYTES);
        let mut start = rows.start;
        let mut sums = [0i32; BLOCK];
        for out in out.chunks_mut(BLOCK) {
            let count = out.len();
            let codes = part(&self.codes, start * width, count * width, "codes")?;
            let sums = sums.split_at_mut(count).0;
            products(codes, &target.codes, sums);
            let each = [&self.steps, &self.lengths, &self.errors];
            let [steps, lengths, errors] =
                each.map(|all| part(all, start, count, "vectors with bounds"));
            let inverses = match self.metric {
                Metric::Cosine => part(&self.inverses, start, count, "lengths")?,
                _ => &[],
            };
            Arch::new().dispatch(Bounds {
                sieve: self,
                target,
                sums,
                steps: steps?,
                lengths: lengths?,
                errors: errors?,
                inverses,
                out,
            });
            start += count;
        }
        Ok(())
    }

    /// More than the product of a query with a vector or, for l2, with its rest.
    #[inline(always)]
    #[allow(clippy::cast_precision_loss)] // covered by the rounding
    fn greatest_product(
        &self,
        target: &Target,
        sum: i32,
        step: f32,
        length: f32,
        error: f32,
    ) -> f32 {
        let all = length + error;
        let mean = if self.metric == Metric::L2 {
            0.0
        } else {
            self.mean_length
        };
        let slack = target.length * error + target.error * all;
        let rounded = self.rounding * target.length * (mean + all);
        target.of_mean + target.step * step * sum as f32 + slack + rounded
    }
}

/// Closures that only borrow would not be inlined, and so not be compiled for each processor.
struct Bounds<'a> {
    sieve: &'a Sieve,
    target: &'a Target,
    sums: &'a [i32],
    steps: &'a [f32],
    lengths: &'a [f32],
    errors: &'a [f32],
    inverses: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Bounds<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { sieve, target, .. } = self;
        let (squares, rounding) = (target.length * target.length, sieve.rounding);
        let rows = self.sums.iter().zip(self.steps);
        let rows = rows.zip(self.lengths.iter().zip(self.errors));
        let products = rows.map(
            #[inline(always)]
            |((&sum, &step), (&length, &error))| {
                let product = sieve.greatest_product(target, sum, step, length, error);
                (product, length)
            },
        );
        match sieve.metric {
            Metric::L2 => {
                for ((product, length), out) in products.zip(self.out) {
                    *out = (squares + length * length) * (1.0 - rounding) - 2.0 * product;
                }
            }
            Metric::Cosine => {
                let rows = products.zip(self.inverses).zip(self.out);
                for (((product, _), inverse), out) in rows {
                    *out = (1.0 - 2.0 * rounding) - inverse * product;
                }
            }
            Metric::Dot | Metric::Hamming => {
                for ((product, _), out) in products.zip(self.out) {
                    *out = (1.0 - rounding) - product;
                }
            }
        }
    }
}

/// Rounds a vector, after a mean was subtracted from it, to codes: its step, length and error.
struct Rounded<'a, C> {
    values: &'a mut [f32],
    mean: &'a [f32],
    most: f32,
    codes: &'a mut [C],
    rounding: f32,
}

impl<C: Code> WithSimd for Rounded<'_, C> {
    type Output = (f32, f32, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (f32, f32, f32) {
        for (value, mean) in self.values.iter_mut().zip(self.mean) {
            *value -= mean;
        }
        let step = greatest(self.values) / self.most;
        encode(self.values, step, self.codes);
        let (length, error) = lengths(self.values, step, self.codes, self.rounding);
        (step, length, error)
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

#[inline(always)]
fn greatest(values: &[f32]) -> f32 {
    let (chunks, tail) = values.as_chunks::<BYTES>();
    let mut greatest = [0f32; BYTES];
    for chunk in chunks {
        for (greatest, value) in greatest.iter_mut().zip(chunk) {
            *greatest = if value.abs() > *greatest {
                value.abs()
            } else {
                *greatest
            };
        }
    }
    let all = greatest.iter().copied().chain(tail.iter().map(|x| x.abs()));
    all.fold(0.0, f32::max)
}

fn squares(values: &[f32]) -> f32 {
    values.iter().map(|value| value * value).sum()
}

/// An integer that rounds a number.
trait Code: Copy {
    fn rounded(value: f32) -> Self;
    fn value(self) -> f32;
}

macro_rules! codes {
    ($($code:ty),*) => {
        $(impl Code for $code {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)] // saturates, or 0 for NaN
            fn rounded(value: f32) -> Self {
                ((value + EVEN) - EVEN) as Self
            }

            #[inline(always)]
            fn value(self) -> f32 {
                f32::from(self)
            }
        })*
    };
}

codes!(i8, i16);

#[inline(always)]
fn encode<C: Code>(values: &[f32], step: f32, codes: &mut [C]) {
    let factor = if step > 0.0 { 1.0 / step } else { 0.0 };
    for (code, value) in codes.iter_mut().zip(values) {
        *code = C::rounded(value * factor);
    }
}

/// The length of a vector, and more than that of the difference from its codes.
#[inline(always)]
fn lengths<C: Code>(values: &[f32], step: f32, codes: &[C], rounding: f32) -> (f32, f32) {
    let (mut squares, mut differences) = ([0f32; BYTES], [0f32; BYTES]);
    for (values, codes) in values.chunks(BYTES).zip(codes.chunks(BYTES)) {
        let sums = squares.iter_mut().zip(&mut differences);
        for ((square, difference), (value, code)) in sums.zip(values.iter().zip(codes)) {
            let gap = value - step * code.value();
            *square += value * value;
            *difference += gap * gap;
        }
    }
    let squares: f32 = squares.iter().sum();
    let differences: f32 = differences.iter().sum();
    let length = squares.sqrt();
    let error = differences.sqrt() * (1.0 + rounding) + length * 4.0 * f32::EPSILON;
    (length, error)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_precision_loss,
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

    fn bounds_and_distances(
        metric: Metric,
        rows: &[f32],
        query: &[f32],
    ) -> (Vec<f32>, Vec<f32>, Target) {
        let dimension = query.len();
        let query: Vec<f32> = prepared(metric, query.iter().map(|&x| f64::from(x)));
        let sieve = Sieve::new(metric, rows, dimension).unwrap();
        let mut target = Target::default();
        sieve.prepare(&query, &mut target);
        let mut bounds = vec![0.0; rows.len() / dimension];
        let mut exact = bounds.clone();
        let all = 0..bounds.len();
        sieve.bounds(&target, all, &mut bounds).unwrap();
        distance::measure(metric, &query, rows, &mut exact);
        (bounds, exact, target)
    }

    #[test]
    fn bounds_are_a_little_less_than_distances() {
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            for dimension in [1, 2, 15, 16, 17, 100, 768] {
                for scale in [1e-3, 1.0, 1e4] {
                    let mut rows = some(ROWS * dimension, 37);
                    rows.iter_mut().for_each(|value| *value *= scale);
                    let query: Vec<f32> = rows[..dimension].iter().map(|x| x * 1.01).collect();
                    let (bounds, exact, target) = bounds_and_distances(metric, &rows, &query);
                    let all = target.length + 5.0 * scale * (dimension as f32).sqrt() * 2.0;
                    let slack = match metric {
                        Metric::L2 => all * all,
                        Metric::Dot => 1.0 + all * all,
                        _ => 10.0,
                    };
                    for (bound, exact) in bounds.iter().zip(exact) {
                        if exact.is_nan() {
                            continue; // the cosine of a vector of length 0
                        }
                        assert!(*bound <= exact);
                        assert!(exact - bound <= 0.02 * slack);
                    }
                }
            }
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
                        let (bounds, exact, _) = bounds_and_distances(metric, &rows, &query);
                        for (bound, exact) in bounds.iter().zip(exact) {
                            let is_above = *bound > exact;
                            assert!(!is_above, "{metric:?} {rows:?} {query:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 2).is_err());
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 0).is_err());
        assert!(Sieve::new(Metric::Hamming, &[1u8; 4], 2).is_err());
        let sieve = Sieve::new(Metric::Dot, &[1f32; 4], 2).unwrap();
        let found = sieve.bounds(&Target::default(), 1..3, &mut [0.0; 2]);
        assert!(found.is_err());
    }
}
