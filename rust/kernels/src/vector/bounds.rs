//! Lower bounds of distances from codes of few bits.
//!
//!     rest      r = vector - mean
//!     codes     r / step, rounded to -127 … 127 (8 bits) or -7 … 7 (4 bits)
//!     step      max |r| / 127 of the vector, or max |r| / 7
//!     error     |r - step * codes|
//!
//! A query is rounded in the same way, to integers of 16 bits for codes of 8 bits and of 8 bits for
//! codes of 4; for l2 after the mean was subtracted (p), for the other metrics as it is. The product
//! p . r is known up to |p| error, and so is a lower bound of the distance:
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
use super::rounded::{Code, Lengths, Rounded};
use super::{byte_sums, nibble_sums};
use crate::error::{Result, part};

/// How many products are computed at once.
const BLOCK: usize = 256;

/// More rows are not packed together.
const MOST_ROWS: usize = 8;

/// The squares of lengths of this are far from infinite.
const MOST_LENGTH: f32 = 1e18;

/// A form of codes.
pub trait Packing: Send + Sync {
    /// The greatest code.
    const MOST: f32;
    /// The greatest number of a query.
    const MOST_OF_QUERY: f32;
    /// How many rows are packed together.
    const ROWS: usize;
    /// How many codes of a row are in a block.
    const CODES: usize;
    /// How many bytes a block of all rows has.
    const BYTES: usize;
    type Byte: Copy + Default + Send + Sync;
    type Number: Code + Default;

    /// Writes the codes of a vector to its place in a group.
    fn pack(codes: &[i8], place: usize, group: &mut [Self::Byte]);

    /// Writes the sum of the products of each row of some groups with the numbers of a query.
    fn products(groups: &[Self::Byte], query: &[Self::Number], out: &mut [i32]);
}

/// Codes of 8 bits.
pub struct Bytes;

impl Packing for Bytes {
    const MOST: f32 = 127.0;
    const MOST_OF_QUERY: f32 = 32_767.0;
    const ROWS: usize = 1;
    const CODES: usize = byte_sums::BYTES;
    const BYTES: usize = byte_sums::BYTES;
    type Byte = i8;
    type Number = i16;

    fn pack(codes: &[i8], _: usize, group: &mut [i8]) {
        for (to, code) in group.iter_mut().zip(codes) {
            *to = *code;
        }
    }

    fn products(rows: &[i8], query: &[i16], out: &mut [i32]) {
        byte_sums::products(rows.as_chunks().0, query.as_chunks().0, out);
    }
}

/// Codes of 4 bits.
pub struct Nibbles;

impl Packing for Nibbles {
    const MOST: f32 = 7.0;
    const MOST_OF_QUERY: f32 = 127.0;
    const ROWS: usize = nibble_sums::ROWS;
    const CODES: usize = nibble_sums::CODES;
    const BYTES: usize = size_of::<nibble_sums::Block>();
    type Byte = u8;
    type Number = i8;

    fn pack(codes: &[i8], place: usize, group: &mut [u8]) {
        nibble_sums::pack(codes, place, group.as_chunks_mut().0);
    }

    fn products(groups: &[u8], query: &[i8], out: &mut [i32]) {
        nibble_sums::products(groups.as_chunks().0, query.as_chunks().0, out);
    }
}

/// Properties of the vectors of a part that all codes share.
pub struct Frame {
    pub metric: Metric,
    pub dimension: usize,
    /// More than the relative rounding of a sum.
    pub rounding: f32,
    pub mean: Vec<f32>,
    pub mean_length: f32,
    /// For cosine: 1 / the length of each vector.
    pub inverses: Vec<f32>,
}

/// The codes of the vectors of a part.
pub struct Level<P: Packing> {
    codes: Vec<P::Byte>,
    /// See `Lengths`, of each vector. An error of NaN: it has no bound.
    steps: Vec<f32>,
    lengths: Vec<f32>,
    errors: Vec<f32>,
    squares: Vec<f32>,
}

/// A query as it is compared with codes.
pub struct Target<P: Packing> {
    numbers: Vec<P::Number>,
    lengths: Lengths,
    /// The product with the mean.
    of_mean: f32,
}

impl<P: Packing> Default for Target<P> {
    fn default() -> Self {
        Self {
            numbers: Vec::new(),
            lengths: Lengths::default(),
            of_mean: 0.0,
        }
    }
}

impl<P: Packing> Level<P> {
    /// Makes the codes of `count` vectors.
    pub fn new(frame: &Frame, count: usize, vectors: impl Iterator<Item = Vec<f32>>) -> Self {
        let width = Self::width(frame);
        let floats = || Vec::with_capacity(count);
        let mut level = Self {
            codes: vec![P::Byte::default(); count.div_ceil(P::ROWS) * width],
            steps: floats(),
            lengths: floats(),
            errors: floats(),
            squares: floats(),
        };
        let mut codes = vec![0i8; frame.dimension];
        for (row, mut vector) in vectors.enumerate() {
            let found = Arch::new().dispatch(Rounded {
                values: &mut vector,
                mean: &frame.mean,
                most: P::MOST,
                codes: &mut codes,
                rounding: frame.rounding,
            });
            if let Some(group) = level.codes.chunks_exact_mut(width).nth(row / P::ROWS) {
                P::pack(&codes, row % P::ROWS, group);
            }
            level.steps.push(found.step);
            level.lengths.push(found.length);
            level.errors.push(known_error(found));
            level.squares.push(found.squares);
        }
        level
    }

    pub fn size_bytes(&self) -> usize {
        self.codes.len() + 16 * self.steps.len()
    }

    /// How many bytes a group has.
    fn width(frame: &Frame) -> usize {
        frame.dimension.div_ceil(P::CODES) * P::BYTES
    }

    /// Makes a query comparable.
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn prepare(frame: &Frame, query: &[f32], of_mean: f32, target: &mut Target<P>) {
        // So that a sum of products of codes, at most twice as great as `MOST`, fits 32 bits.
        let most = 2f32.powi(30) / (P::MOST + 1.0) / (frame.dimension as f32 + 1.0);
        let mean = match frame.metric {
            Metric::L2 => frame.mean.as_slice(),
            _ => &[],
        };
        target.numbers.clear();
        let blocks = frame.dimension.div_ceil(P::CODES);
        target
            .numbers
            .resize(blocks * P::CODES, P::Number::default());
        target.lengths = Arch::new().dispatch(Rounded {
            values: &mut query.to_vec(),
            mean,
            most: most.floor().min(P::MOST_OF_QUERY),
            codes: &mut target.numbers,
            rounding: frame.rounding,
        });
        target.lengths.error = known_error(target.lengths);
        target.of_mean = of_mean;
    }

    /// Writes a lower bound of the distance of each of some vectors; NaN if there is none.
    pub fn bounds(
        &self,
        frame: &Frame,
        target: &Target<P>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let width = Self::width(frame);
        let mut start = rows.start;
        let mut sums = [0i32; BLOCK + 2 * MOST_ROWS];
        for out in out.chunks_mut(BLOCK) {
            let count = out.len();
            let (first, skipped) = (start / P::ROWS, start % P::ROWS);
            let num_groups = (skipped + count).div_ceil(P::ROWS);
            let codes = part(&self.codes, first * width, num_groups * width, "codes")?;
            P::products(codes, &target.numbers, &mut sums);
            let sums = part(&sums, skipped, count, "sums")?;
            let each = [&self.steps, &self.lengths, &self.errors, &self.squares];
            let [steps, lengths, errors, squares] =
                each.map(|all| part(all, start, count, "vectors with bounds"));
            let inverses = match frame.metric {
                Metric::Cosine => part(&frame.inverses, start, count, "lengths")?,
                _ => &[],
            };
            Arch::new().dispatch(Bounds {
                frame,
                lengths: target.lengths,
                of_mean: target.of_mean,
                sums,
                of_rows: [steps?, lengths?, errors?, squares?],
                inverses,
                out,
            });
            start += count;
        }
        Ok(())
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
    sums: &'a [i32],
    /// Steps, lengths, errors and squares.
    of_rows: [&'a [f32]; 4],
    inverses: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Bounds<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)] // covered by the rounding
    fn with_simd<S: Simd>(self, _: S) {
        let Self { frame, lengths, .. } = self;
        let rounding = frame.rounding;
        let [steps, all_lengths, errors, squares] = self.of_rows;
        let rows = self.sums.iter().zip(steps).zip(all_lengths);
        let rows = rows.zip(errors.iter().zip(squares)).map(
            #[inline(always)]
            |(((&sum, &step), &length), (&error, &squares))| {
                let row = Lengths {
                    step,
                    length,
                    error,
                    squares,
                };
                (lengths.step * step * sum as f32, row)
            },
        );
        match frame.metric {
            Metric::L2 => {
                for ((product, row), out) in rows.zip(self.out) {
                    let greatest = product + slack(lengths, row, rounding, 0.0);
                    let all = lengths.length * lengths.length + row.length * row.length;
                    let by_product = all * (1.0 - rounding) - 2.0 * greatest;
                    let by_triangle = triangle(lengths, row, product, rounding);
                    *out = if by_triangle > by_product {
                        by_triangle
                    } else {
                        by_product
                    };
                }
            }
            Metric::Cosine => {
                for (((product, row), inverse), out) in rows.zip(self.inverses).zip(self.out) {
                    let slack = slack(lengths, row, rounding, frame.mean_length);
                    let greatest = self.of_mean + product + slack;
                    *out = (1.0 - 2.0 * rounding) - inverse * greatest;
                }
            }
            Metric::Dot | Metric::Hamming => {
                for ((product, row), out) in rows.zip(self.out) {
                    let slack = slack(lengths, row, rounding, frame.mean_length);
                    *out = (1.0 - rounding) - (self.of_mean + product + slack);
                }
            }
        }
    }
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
