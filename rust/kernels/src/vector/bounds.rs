//! Lower bounds of distances from codes of few bits.
//!
//!     rest      r = vector - mean
//!     codes     r / step, rounded to -7 … 7 (4 bits) or -119 … 119 (8 bits)
//!     step      max |r| / 7 of the vector, or max |r| / 119
//!     error     |r - step * codes|
//!
//! A code of 8 bits is 16 times its upper half, a code of 4 bits, and its lower one. The upper halves
//! alone leave out most vectors; only for the others, the lower halves are read.
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
use super::nibble_sums::{self, Block, CODES, Query, ROWS, Sums};
use super::rounded::{Lengths, Measured, Rounded};
use crate::error::{Result, ensure, part};

/// How many groups of rows are compared at once; each has a bit of an integer.
const GROUPS: usize = 32;

/// Squared lengths between which bounds for cosine are sound.
const SQUARES: Range<f32> = 1e-20..1e20;

/// The squares of lengths of this are far from infinite.
const MOST_LENGTH: f32 = 1e18;

/// The greatest codes of 4 and of 8 bits.
const MOST_OF_FOUR: f32 = 7.0;
const MOST_OF_EIGHT: f32 = 119.0;

/// The greatest number of a query.
const MOST_OF_QUERY: f32 = 127.0;

/// What an upper half counts.
const UPPER: i8 = 16;

/// Properties of the vectors of a part that all codes share.
pub struct Frame {
    pub metric: Metric,
    pub dimension: usize,
    /// More than the relative rounding of a sum.
    pub rounding: f32,
    pub mean: Vec<f32>,
    pub mean_length: f32,
}

/// The codes of the vectors of a part.
pub struct Codes {
    num_rows: usize,
    upper: Halves,
    lower: Option<Halves>,
}

/// Halves of codes, and what is known of the vectors by their codes up to these.
struct Halves {
    blocks: Vec<Block>,
    groups: Vec<Group>,
}

/// See `Lengths`, of a group of vectors.
#[derive(Clone, Copy, Default)]
struct Group {
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
    numbers: Query,
    lengths: Lengths,
    /// The product with the mean.
    of_mean: f32,
}

impl Codes {
    /// Makes the codes of `count` vectors, of 8 bits or of 4.
    pub fn new(
        frame: &Frame,
        count: usize,
        has_lower: bool,
        vectors: impl Iterator<Item = Vec<f32>>,
    ) -> Self {
        let mut upper = Halves::new(frame, count);
        let mut lower = has_lower.then(|| Halves::new(frame, count));
        let mut codes = vec![0i8; frame.dimension];
        let mut halves = codes.clone();
        for (row, mut vector) in vectors.enumerate() {
            let inverse = match frame.metric {
                Metric::Cosine => Some(inverse_of(&vector)),
                _ => None,
            };
            let mut found = Arch::new().dispatch(Rounded {
                values: &mut vector,
                mean: &frame.mean,
                most: if has_lower {
                    MOST_OF_EIGHT
                } else {
                    MOST_OF_FOUR
                },
                codes: &mut codes,
                rounding: frame.rounding,
            });
            if let Some(lower) = &mut lower {
                for (half, code) in halves.iter_mut().zip(&mut codes) {
                    *half = lower_half(*code);
                    *code = upper_half(*code);
                }
                lower.put(frame, row, &halves, found, inverse);
                found = Arch::new().dispatch(Measured {
                    values: &vector,
                    step: found.step * f32::from(UPPER),
                    codes: &codes,
                    rounding: frame.rounding,
                });
            }
            upper.put(frame, row, &codes, found, inverse);
        }
        Self {
            num_rows: count,
            upper,
            lower,
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.upper.size_bytes() + self.lower.as_ref().map_or(0, Halves::size_bytes)
    }

    /// Writes a lower bound of the distance of each of some vectors, by the upper halves of their
    /// codes; NaN if there is none.
    pub fn bounds(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        self.each(
            frame,
            target,
            rows.clone(),
            f32::NAN,
            |first, _, bounds, _| {
                let place = first.max(rows.start);
                let bounds = bounds.as_flattened().iter().skip(place - first);
                for (out, bound) in out.iter_mut().skip(place - rows.start).zip(bounds) {
                    *out = *bound;
                }
                Ok(())
            },
        )
    }

    /// Appends the rows whose bound is not above a limit.
    pub fn within(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        limit: f32,
        found: &mut Vec<usize>,
    ) -> Result<()> {
        self.each(
            frame,
            target,
            rows.clone(),
            limit,
            |first, sums, bounds, mut near| {
                while near != 0 {
                    let place = near.trailing_zeros() as usize;
                    near &= near - 1;
                    let first = first + place * ROWS;
                    if let (Some(sums), Some(bounds)) = (sums.get(place), bounds.get_mut(place)) {
                        if let Some(lower) = &self.lower {
                            *bounds = lower.refined(frame, target, first, sums)?;
                        }
                        for (row, &bound) in (first..).zip(&*bounds) {
                            if !is_above(bound, limit) && rows.contains(&row) {
                                found.push(row);
                            }
                        }
                    }
                }
                Ok(())
            },
        )
    }

    /// Calls `visit` for some groups after others: with the number of their first row, the sums and
    /// bounds by the upper halves of codes, and a bit for each group that has a bound not above the
    /// limit.
    fn each(
        &self,
        frame: &Frame,
        target: &Target,
        rows: Range<usize>,
        limit: f32,
        mut visit: impl FnMut(usize, &[Sums], &mut [[f32; ROWS]], u32) -> Result<()>,
    ) -> Result<()> {
        let (found, expected) = (rows.end, self.num_rows);
        ensure(
            found <= expected,
            "end of vectors with bounds",
            found,
            expected,
        )?;
        let (mut sums, mut bounds) = ([[0; ROWS]; GROUPS], [[0.0; ROWS]; GROUPS]);
        let end = rows.end.div_ceil(ROWS);
        for first in (rows.start / ROWS..end).step_by(GROUPS) {
            let count = (end - first).min(GROUPS);
            let (sums, _) = sums.split_at_mut(count);
            let (bounds, _) = bounds.split_at_mut(count);
            let near = self
                .upper
                .compare(frame, target, first, limit, sums, bounds)?;
            visit(first * ROWS, sums, bounds, near)?;
        }
        Ok(())
    }
}

impl Halves {
    fn new(frame: &Frame, count: usize) -> Self {
        let num_groups = count.div_ceil(ROWS);
        Self {
            blocks: vec![Block::default(); num_groups * frame.dimension.div_ceil(CODES)],
            groups: vec![Group::default(); num_groups],
        }
    }

    /// Stores the halves of the codes of a vector, which has these lengths by them.
    fn put(
        &mut self,
        frame: &Frame,
        row: usize,
        halves: &[i8],
        lengths: Lengths,
        inverse: Option<f32>,
    ) {
        let width = frame.dimension.div_ceil(CODES);
        if let Some(blocks) = self.blocks.chunks_exact_mut(width).nth(row / ROWS) {
            nibble_sums::pack(halves, row % ROWS, blocks);
        }
        if let Some(group) = self.groups.get_mut(row / ROWS) {
            let all = [
                (&mut group.steps, lengths.step),
                (&mut group.lengths, lengths.length),
                (&mut group.errors, known_error(lengths)),
                (&mut group.squares, inverse.unwrap_or(lengths.squares)),
            ];
            for (each, value) in all {
                if let Some(own) = each.get_mut(row % ROWS) {
                    *own = value;
                }
            }
        }
    }

    /// Writes the products of some groups with the query, and their bounds by these; returns a bit
    /// for each group that has a bound not above a limit.
    fn compare(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        limit: f32,
        sums: &mut [Sums],
        out: &mut [[f32; ROWS]],
    ) -> Result<u32> {
        self.products(frame, target, first, sums)?;
        let groups = part(&self.groups, first, sums.len(), "vectors with bounds")?;
        Ok(target.bounds(frame, groups, sums, limit, out))
    }

    /// The bounds of a group by whole codes, of which these are the lower halves.
    fn refined(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        of_upper: &Sums,
    ) -> Result<[f32; ROWS]> {
        let (mut sums, mut bounds) = ([[0; ROWS]], [[0.0; ROWS]]);
        self.products(frame, target, first / ROWS, &mut sums)?;
        for (sum, of_upper) in sums.as_flattened_mut().iter_mut().zip(of_upper) {
            *sum += i32::from(UPPER) * of_upper;
        }
        let groups = part(&self.groups, first / ROWS, 1, "vectors with bounds")?;
        target.bounds(frame, groups, &sums, f32::NAN, &mut bounds);
        let [bounds] = bounds;
        Ok(bounds)
    }

    /// Writes the products of some groups with the query.
    fn products(
        &self,
        frame: &Frame,
        target: &Target,
        first: usize,
        out: &mut [Sums],
    ) -> Result<()> {
        let width = frame.dimension.div_ceil(CODES);
        let blocks = part(&self.blocks, first * width, out.len() * width, "codes")?;
        nibble_sums::products(blocks, &target.numbers, out);
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        size_of_val(self.blocks.as_slice()) + size_of_val(self.groups.as_slice())
    }
}

impl Target {
    /// Makes a query comparable.
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn new(frame: &Frame, mut query: Vec<f32>, of_mean: f32) -> Self {
        // So that a sum of products of codes, at most twice as great as the greatest, fits 32 bits.
        let most = 2f32.powi(30) / (MOST_OF_EIGHT + 1.0) / (frame.dimension as f32 + 1.0);
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

    /// Writes the bounds of some groups; returns a bit for each that has one not above a limit.
    fn bounds(
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

/// The upper half of a code of 8 bits, between -7 and 7.
fn upper_half(code: i8) -> i8 {
    code.wrapping_add(UPPER / 2) >> UPPER.trailing_zeros()
}

/// The lower half, between -8 and 7.
fn lower_half(code: i8) -> i8 {
    code.wrapping_sub(upper_half(code).wrapping_mul(UPPER))
}

#[inline(always)]
fn is_above(bound: f32, limit: f32) -> bool {
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
fn inverse_of(vector: &[f32]) -> f32 {
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
