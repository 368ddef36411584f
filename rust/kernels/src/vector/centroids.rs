//! The nearest centroid of each vector.
//!
//!     value of a centroid    its offset - factor * (vector . centroid); the least one counts
//!
//! With squared lengths as offsets and the factor 2, that is the nearest centroid by l2; with zeros
//! and 1, it is the one with the greatest product.
//!
//! Centroids are arranged in blocks as wide as two registers: offsets, then component by component.
//! A tile of vectors goes through as many blocks as stay in a cache, four vectors at a time, so that
//! each component of a block is loaded once for four vectors. Products are fused with sums where the
//! processor can do so.

use std::iter::repeat_n;

use pulp::{Arch, Simd, WithSimd};

use crate::error::{Result, ensure};

/// How many vectors are compared together.
const TOGETHER: usize = 4;

/// How many vectors go through the same blocks.
const TILE: usize = 16 * TOGETHER;

/// The number of float32 of the blocks that stay in a cache.
const CACHED: usize = 6 << 10;

/// As many lanes as two registers may have.
const MOST_LANES: usize = 32;

#[derive(Clone, Copy)]
pub struct Centroids<'a> {
    pub components: &'a [f32],
    /// One for each centroid.
    pub offsets: &'a [f32],
    pub factor: f32,
}

/// The number of the centroid with the least value, and that value, for each vector.
///
/// The first one of equal values counts. NaN is never the least; if there is nothing else, the
/// first centroid has the value infinity.
pub fn nearest(
    vectors: &[f32],
    dimension: usize,
    centroids: Centroids<'_>,
) -> Result<(Vec<u32>, Vec<f32>)> {
    ensure(dimension > 0, "dimension", dimension, "at least 1")?;
    let count = centroids.offsets.len();
    ensure(count > 0, "centroids", count, "at least 1")?;
    ensure(
        i32::try_from(count).is_ok(),
        "centroids",
        count,
        "fewer than 2^31",
    )?;
    let (found, expected) = (centroids.components.len(), count.checked_mul(dimension));
    let is_whole = expected == Some(found);
    ensure(is_whole, "components of centroids", found, "those of all")?;
    let size = vectors.len();
    ensure(
        size.is_multiple_of(dimension),
        "components of vectors",
        size,
        dimension,
    )?;
    let (mut numbers, mut values) = (vec![0; size / dimension], vec![0.0; size / dimension]);
    Arch::new().dispatch(Nearest {
        vectors,
        dimension,
        centroids,
        numbers: &mut numbers,
        values: &mut values,
    });
    Ok((numbers, values))
}

struct Nearest<'a> {
    vectors: &'a [f32],
    dimension: usize,
    centroids: Centroids<'a>,
    numbers: &'a mut [u32],
    values: &'a mut [f32],
}

impl WithSimd for Nearest<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { dimension, .. } = self;
        let lanes = 2 * S::F32_LANES;
        let arranged = arranged(self.centroids, dimension, lanes);
        let blocks = S::as_simd_f32s(&arranged).0.as_chunks::<2>().0;
        let block = dimension + 1;
        let cached = (CACHED / (block * lanes)).max(1);
        let mut groups = Vec::new();
        let tiles = self.vectors.chunks(TILE * dimension);
        let found = self
            .numbers
            .chunks_mut(TILE)
            .zip(self.values.chunks_mut(TILE));
        for (vectors, (numbers, values)) in tiles.zip(found) {
            interleave(vectors, dimension, &mut groups);
            let mut least = [Least::<S>::none(simd); TILE / TOGETHER];
            let firsts = (0u32..).step_by(cached * lanes);
            for (blocks, first) in blocks.chunks(cached * block).zip(firsts) {
                for (least, group) in least.iter_mut().zip(groups.chunks_exact(dimension)) {
                    let numbers = (first..).step_by(lanes);
                    least.compare(simd, blocks.chunks_exact(block).zip(numbers), group);
                }
            }
            let found = numbers
                .chunks_mut(TOGETHER)
                .zip(values.chunks_mut(TOGETHER));
            for (least, (numbers, values)) in least.iter().zip(found) {
                least.write(numbers, values);
            }
        }
    }
}

/// Centroids in blocks: `lanes` offsets, then the components times the negative factor.
fn arranged(centroids: Centroids<'_>, dimension: usize, lanes: usize) -> Vec<f32> {
    let blocks = centroids.components.chunks(lanes * dimension);
    let mut out = Vec::with_capacity(blocks.len() * lanes * (dimension + 1));
    for (components, offsets) in blocks.zip(centroids.offsets.chunks(lanes)) {
        let missing = lanes - offsets.len();
        out.extend(offsets);
        out.extend(repeat_n(f32::INFINITY, missing));
        for component in 0..dimension {
            let of_all = components.iter().skip(component).step_by(dimension);
            out.extend(of_all.map(|value| -centroids.factor * value));
            out.extend(repeat_n(0.0, missing));
        }
    }
    out
}

/// Writes the components of each group of vectors; zeros for those that are missing.
#[inline(always)]
fn interleave(vectors: &[f32], dimension: usize, out: &mut Vec<[f32; TOGETHER]>) {
    out.clear();
    let (groups, rest) = vectors.split_at(vectors.len() - vectors.len() % (TOGETHER * dimension));
    for group in groups.chunks_exact(TOGETHER * dimension) {
        add_group(group, dimension, out);
    }
    if !rest.is_empty() {
        let mut last = vec![0.0; TOGETHER * dimension];
        last.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        add_group(&last, dimension, out);
    }
}

#[inline(always)]
fn add_group(group: &[f32], dimension: usize, out: &mut Vec<[f32; TOGETHER]>) {
    let (first, last) = group.split_at(2 * dimension);
    let ((a, b), (c, d)) = (first.split_at(dimension), last.split_at(dimension));
    let each = a.iter().zip(b).zip(c.iter().zip(d));
    out.extend(each.map(|((&a, &b), (&c, &d))| [a, b, c, d]));
}

/// The least value of each lane so far, and the first centroid of its block, for a group.
struct Least<S: Simd> {
    values: [[S::f32s; 2]; TOGETHER],
    firsts: [[S::u32s; 2]; TOGETHER],
}

impl<S: Simd> Clone for Least<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd> Copy for Least<S> {}

impl<S: Simd> Least<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        Self {
            values: [[simd.splat_f32s(f32::INFINITY); 2]; TOGETHER],
            firsts: [[simd.splat_u32s(0); 2]; TOGETHER],
        }
    }

    /// Compares the vectors of a group with blocks, each with the number of its first centroid.
    #[inline(always)]
    fn compare<'a>(
        &mut self,
        simd: S,
        blocks: impl Iterator<Item = (&'a [[S::f32s; 2]], u32)>,
        group: &[[f32; TOGETHER]],
    ) where
        S: 'a,
    {
        let mut least = *self;
        for (block, first) in blocks {
            let Some((offsets, components)) = block.split_first() else {
                continue;
            };
            let mut sums = [*offsets; TOGETHER];
            for (&[low, high], factors) in components.iter().zip(group) {
                for ([low_sum, high_sum], &factor) in sums.iter_mut().zip(factors) {
                    let factor = simd.splat_f32s(factor);
                    *low_sum = simd.mul_add_e_f32s(factor, low, *low_sum);
                    *high_sum = simd.mul_add_e_f32s(factor, high, *high_sum);
                }
            }
            let first = simd.splat_u32s(first);
            let each = least.values.iter_mut().zip(&mut least.firsts);
            for (sums, (values, firsts)) in sums.iter().zip(each) {
                for ((&sum, value), own) in sums.iter().zip(values).zip(firsts) {
                    let is_less = simd.less_than_f32s(sum, *value);
                    *value = simd.select_f32s(is_less, sum, *value);
                    *own = simd.select_u32s(is_less, first, *own);
                }
            }
        }
        *self = least;
    }

    /// Writes the number of the nearest centroid of each vector, and its value.
    #[inline(always)]
    fn write(&self, numbers: &mut [u32], values: &mut [f32]) {
        let each = self.values.iter().zip(&self.firsts);
        let out = numbers.iter_mut().zip(values);
        for ((registers, firsts), (number, value)) in each.zip(out) {
            let mut all = [f32::INFINITY; MOST_LANES];
            let lanes = S::as_mut_simd_f32s(&mut all).0.iter_mut();
            for (lane, register) in lanes.zip(registers) {
                *lane = *register;
            }
            let mut places = [u32::MAX; MOST_LANES];
            let lanes = S::as_mut_simd_u32s(&mut places).0.iter_mut();
            for (lane, first) in lanes.zip(firsts) {
                *lane = *first;
            }
            let least = lesser(all, |a, b| if b < a { b } else { a });
            for ((place, lane), value) in places.iter_mut().zip(0u32..).zip(all) {
                *place = if value == least {
                    place.saturating_add(lane)
                } else {
                    u32::MAX
                };
            }
            (*number, *value) = (lesser(places, u32::min), least);
        }
    }
}

/// The least of some values, by halves.
#[inline(always)]
fn lesser<T: Copy>(mut all: [T; MOST_LANES], least: impl Fn(T, T) -> T) -> T {
    for half in [16, 8, 4, 2, 1] {
        let (low, high) = all.split_at_mut(half);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = least(*low, high);
        }
    }
    let [first, ..] = all;
    first
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    use super::*;

    fn nearest_of_line(offsets: &[f32], vectors: &[f32]) -> (Vec<u32>, Vec<f32>) {
        let components = vec![1.0; offsets.len()];
        let centroids = Centroids {
            components: &components,
            offsets,
            factor: 1.0,
        };
        nearest(vectors, 1, centroids).unwrap()
    }

    #[test]
    fn the_first_least_value_is_found_wherever_it_is() {
        for count in [1, 2, 16, 17, 33, 100] {
            for place in (0..count).step_by(3) {
                let mut offsets = vec![5.0; count];
                offsets
                    .iter_mut()
                    .skip(place)
                    .step_by(7)
                    .for_each(|x| *x = 2.0);
                for vectors in [1u8, 5] {
                    let vectors: Vec<f32> = (0..vectors).map(f32::from).collect();
                    let (numbers, values) = nearest_of_line(&offsets, &vectors);
                    assert!(numbers.iter().all(|&number| number as usize == place));
                    let expected: Vec<f32> = vectors.iter().map(|x| 2.0 - x).collect();
                    assert_eq!(values, expected);
                }
            }
        }
    }

    #[test]
    fn special_values() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(nearest_of_line(&[nan, 3.0, 1.0], &[1.0]).0, [2]);
        assert_eq!(nearest_of_line(&[1.0, 2.0], &[nan, -inf, inf]).0, [0; 3]);
        assert_eq!(nearest_of_line(&[1.0], &[nan]).1, [inf]);
        assert!(nearest_of_line(&[1.0], &[]).0.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let all = |components, offsets| Centroids {
            components,
            offsets,
            factor: 1.0,
        };
        assert!(nearest(&[1.0; 3], 2, all(&[1.0; 2], &[1.0])).is_err());
        assert!(nearest(&[1.0; 4], 2, all(&[1.0; 3], &[1.0])).is_err());
        assert!(nearest(&[1.0; 4], 2, all(&[], &[])).is_err());
        assert!(nearest(&[], 0, all(&[], &[1.0])).is_err());
    }
}
