//! Lower bounds of distances from codes of few bits.
//!
//!     rest      r = vector - mean
//!     codes     r / step, rounded to integers of a few bits; see `halves`
//!     error     |r - step * codes|
//!
//! A query is rounded in the same way, to -127 … 127; for l2 after the mean was subtracted (p), for
//! the other metrics as it is. The product p . r is known up to |p| error, and so is a lower bound of
//! the distance:
//!
//!     l2        |p|^2 + |r|^2 - 2 p r, or (|rounded p - rounded r| - both errors)^2 if it is greater
//!     dot       1 - q mean - q r
//!     cosine    1 - (q mean + q r) / |v|, where |q| is 1
//!
//! Bounds are a little less than that, by more than the rounding of sums of float32: the distance
//! of a vector as `distance` measures it is never less than its bound.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::distance::Metric;
use super::nibble_sums::{Query, ROWS, Sums};
use super::rounded::{Lengths, Rounded};

/// Squared lengths between which bounds for cosine are sound.
const SQUARES: Range<f32> = 1e-20..1e20;

/// The squares of lengths of this are far from infinite.
const MOST_LENGTH: f32 = 1e18;

/// The greatest code.
pub const MOST_OF_CODE: f32 = 119.0;

/// The greatest number of a query.
const MOST_OF_QUERY: f32 = 127.0;

/// Properties of the vectors of a part that all codes share.
pub struct Frame {
    pub metric: Metric,
    pub dimension: usize,
    /// More than the relative rounding of a sum.
    pub rounding: f32,
    pub mean: Vec<f32>,
    pub mean_length: f32,
}

/// See `Lengths`, of a group of vectors.
#[derive(Clone, Copy, Default)]
pub struct Group {
    steps: [f32; ROWS],
    lengths: [f32; ROWS],
    /// NaN: the vector has no bound.
    errors: [f32; ROWS],
    /// For cosine, 1 / the length of each vector instead.
    squares: [f32; ROWS],
}

/// A query as it is compared with codes.
#[derive(Default)]
pub struct Target {
    pub numbers: Query,
    lengths: Lengths,
    /// The product with the mean.
    of_mean: f32,
}

impl Group {
    /// Sets what is known of a vector; for cosine, 1 / its length, too.
    pub fn set(&mut self, place: usize, lengths: Lengths, inverse: Option<f32>) {
        let all = [
            (&mut self.steps, lengths.step),
            (&mut self.lengths, lengths.length),
            (&mut self.errors, known_error(lengths)),
            (&mut self.squares, inverse.unwrap_or(lengths.squares)),
        ];
        for (each, value) in all {
            if let Some(own) = each.get_mut(place) {
                *own = value;
            }
        }
    }
}

impl Target {
    /// Makes a query comparable.
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn new(frame: &Frame, mut query: Vec<f32>, of_mean: f32) -> Self {
        // So that a sum of products of codes, at most twice as great as the greatest, fits 32 bits.
        let most = 2f32.powi(30) / (MOST_OF_CODE + 1.0) / (frame.dimension as f32 + 1.0);
        let mut numbers = vec![0; query.len()];
        let mut lengths = Arch::new().dispatch(Rounded {
            values: &mut query,
            mean: match frame.metric {
                Metric::L2 => frame.mean.as_slice(),
                _ => &[],
            },
            most: most.floor().min(MOST_OF_QUERY),
            codes: &mut numbers,
            rounding: frame.rounding,
        });
        lengths.error = known_error(lengths);
        Self {
            numbers: Query::new(&numbers),
            lengths,
            of_mean,
        }
    }

    /// Writes the bounds of some groups, at most 32; returns a bit for each that has one not above a
    /// limit.
    pub fn bounds(
        &self,
        frame: &Frame,
        groups: &[Group],
        sums: &[Sums],
        limit: f32,
        out: &mut [[f32; ROWS]],
    ) -> u32 {
        Arch::new().dispatch(Bounds {
            frame,
            lengths: self.lengths,
            of_mean: self.of_mean,
            sums,
            groups,
            limit,
            out,
        })
    }
}

/// False without a bound: the vector has to be measured.
#[inline(always)]
pub fn is_above(bound: f32, limit: f32) -> bool {
    bound > limit
}

#[inline(always)]
fn are_above(bounds: &[f32; ROWS], limit: f32) -> bool {
    let each = bounds.iter();
    each.fold(true, |all, &bound| all & is_above(bound, limit))
}

/// The greater bound of each vector; the second one if the first is NaN.
#[inline(always)]
fn greater(first: [f32; ROWS], second: [f32; ROWS]) -> [f32; ROWS] {
    let mut bounds = second;
    for (bound, first) in bounds.iter_mut().zip(first) {
        *bound = if first > *bound { first } else { *bound };
    }
    bounds
}

/// 1 / the length of a vector; NaN if bounds by it would not be sound.
pub fn inverse_of(vector: &[f32]) -> f32 {
    let squares: f32 = vector.iter().map(|value| value * value).sum();
    if SQUARES.contains(&squares) {
        1.0 / squares.sqrt()
    } else {
        f32::NAN
    }
}

/// The error of a vector; NaN if its bounds would not be sound.
fn known_error(of: Lengths) -> f32 {
    if of.length < MOST_LENGTH && of.error.is_finite() {
        of.error
    } else {
        f32::NAN
    }
}

/// Closures that only borrow would not be inlined, and so not be compiled for each processor.
struct Bounds<'a> {
    frame: &'a Frame,
    /// Of the query.
    lengths: Lengths,
    of_mean: f32,
    sums: &'a [Sums],
    groups: &'a [Group],
    limit: f32,
    out: &'a mut [[f32; ROWS]],
}

impl WithSimd for Bounds<'_> {
    type Output = u32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u32 {
        let (frame, query, of_mean) = (self.frame, self.lengths, self.of_mean);
        let rounding = frame.rounding;
        let (limit, mut bit, mut near) = (self.limit, 1u32, 0);
        for ((&sums, &group), out) in self.sums.iter().zip(self.groups).zip(self.out) {
            let bounds = match frame.metric {
                Metric::L2 => {
                    let by_product = each_row(
                        query,
                        group,
                        sums,
                        #[inline(always)]
                        |row, product| {
                            let greatest = product + slack(query, row, rounding, 0.0);
                            let all = query.length * query.length + row.length * row.length;
                            all * (1.0 - rounding) - 2.0 * greatest
                        },
                    );
                    if are_above(&by_product, limit) {
                        by_product
                    } else {
                        let by_triangle = each_row(
                            query,
                            group,
                            sums,
                            #[inline(always)]
                            |row, product| triangle(query, row, product, rounding),
                        );
                        greater(by_triangle, by_product)
                    }
                }
                Metric::Cosine => each_row(
                    query,
                    group,
                    sums,
                    #[inline(always)]
                    |row, product| {
                        let slack = slack(query, row, rounding, frame.mean_length);
                        (1.0 - 2.0 * rounding) - row.squares * (of_mean + product + slack)
                    },
                ),
                Metric::Dot | Metric::Hamming => each_row(
                    query,
                    group,
                    sums,
                    #[inline(always)]
                    |row, product| {
                        let slack = slack(query, row, rounding, frame.mean_length);
                        (1.0 - rounding) - (of_mean + product + slack)
                    },
                ),
            };
            near |= if are_above(&bounds, limit) { 0 } else { bit };
            bit = bit.wrapping_shl(1);
            *out = bounds;
        }
        near
    }
}

/// The bound of each vector of a group, given its lengths and its product with the query.
///
/// Works on copies, which the compiler knows to be apart: the loop becomes vector instructions.
#[inline(always)]
#[allow(clippy::cast_precision_loss)] // covered by the rounding
fn each_row(
    query: Lengths,
    group: Group,
    sums: Sums,
    bound: impl Fn(Lengths, f32) -> f32,
) -> [f32; ROWS] {
    let mut bounds = [0.0; ROWS];
    let rows = group.steps.iter().zip(&group.lengths);
    let rows = rows.zip(group.errors.iter().zip(&group.squares));
    for ((((&step, &length), (&error, &squares)), &sum), out) in rows.zip(&sums).zip(&mut bounds) {
        let row = Lengths {
            step,
            length,
            error,
            squares,
        };
        *out = bound(row, query.step * step * sum as f32);
    }
    bounds
}

/// So much greater may the product of two vectors be than that of their codes.
#[inline(always)]
fn slack(query: Lengths, row: Lengths, rounding: f32, mean: f32) -> f32 {
    let all = row.length + row.error;
    query.length * row.error + query.error * all + rounding * query.length * (mean + all)
}

/// The least squared distance of two vectors by that of their codes.
#[inline(always)]
fn triangle(query: Lengths, row: Lengths, product: f32, rounding: f32) -> f32 {
    let squares = (query.squares + row.squares) * (1.0 - rounding) - 2.0 * product;
    let least = squares.max(0.0).sqrt() - query.error - row.error;
    let least = if least > 0.0 { least } else { 0.0 };
    least * least * (1.0 - 2.0 * rounding)
}
