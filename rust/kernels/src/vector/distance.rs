//! Distances of vectors from a query.
//!
//!     l2        sum of (q - v)^2
//!     dot       1 - sum of q v
//!     cosine    1 - sum of q v / |v|, where |q| is 1
//!     hamming   number of differing bits
//!
//! Each lane adds every 16th term, in order; then the lanes are added in pairs. Walks over graphs
//! compare vectors one by one: their sums of float32 name the registers (`l2_of`, `product_of`), as
//! the compiler does not find them in larger functions, and fuse products with sums.

use pulp::{Arch, Simd};

use super::LANES;
use super::element::{Element, Wide};
use crate::error::{Corrupt, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    L2,
    Dot,
    Cosine,
    Hamming,
}

impl Metric {
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "l2" => Ok(Self::L2),
            "dot" => Ok(Self::Dot),
            "cosine" => Ok(Self::Cosine),
            "hamming" => Ok(Self::Hamming),
            _ => Err(Corrupt(format!(
                "metric: expected l2, dot, cosine or hamming, found {name}"
            ))),
        }
    }
}

/// So many squared differences of bytes always fit into 32 bits.
const MOST_SQUARES: usize = 1 << 16;

/// The query as `measure` expects it: of length 1 for cosine, unchanged otherwise.
pub fn prepared<W: Wide>(metric: Metric, query: impl Iterator<Item = f64> + Clone) -> Vec<W> {
    let mut length = 1.0;
    if metric == Metric::Cosine {
        length = query.clone().map(|x| x * x).sum::<f64>().sqrt();
    }
    query.map(|x| W::of(x / length)).collect()
}

/// Writes the distance of each row of `rows` from a query, which determines the dimension.
///
/// Hamming is not one of the metrics; see [`hamming`].
pub fn measure<T: Element>(metric: Metric, query: &[T::Wide], rows: &[T], out: &mut [f32]) {
    let each = rows.chunks_exact(query.len().max(1)).zip(out);
    Arch::new().dispatch(
        #[inline(always)]
        || match metric {
            Metric::L2 => {
                for (row, out) in each {
                    *out = l2(row, query).narrow();
                }
            }
            Metric::Cosine => {
                for (row, out) in each {
                    *out = cosine(row, query);
                }
            }
            Metric::Dot | Metric::Hamming => {
                for (row, out) in each {
                    *out = (T::Wide::of(1.0) - product(row, query)).narrow();
                }
            }
        },
    );
}

/// Writes the number of bits in which each row differs from a query.
#[allow(clippy::cast_precision_loss)]
pub fn hamming(query: &[u8], rows: &[u8], out: &mut [f32]) {
    let each = rows.chunks_exact(query.len().max(1)).zip(out);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (row, out) in each {
                *out = differing_bits(row, query) as f32;
            }
        },
    );
}

#[inline(always)]
pub fn l2<T: Element>(row: &[T], query: &[T::Wide]) -> T::Wide {
    sum(row, query, |v, q| {
        let difference = q - v;
        difference * difference
    })
}

#[inline(always)]
pub fn product<T: Element>(row: &[T], query: &[T::Wide]) -> T::Wide {
    sum(row, query, |v, q| q * v)
}

#[inline(always)]
fn cosine<T: Element>(row: &[T], query: &[T::Wide]) -> f32 {
    let squares: f64 = sum(row, query, |v, _| v * v).into();
    if !(1e-30..1e30).contains(&squares) {
        return cosine_of_extremes(row, query);
    }
    let product: f64 = product(row, query).into();
    f32::of(1.0 - product / squares.sqrt())
}

/// The distance where squares of float32 are zero, infinite or inexact.
#[cold]
fn cosine_of_extremes<T: Element>(row: &[T], query: &[T::Wide]) -> f32 {
    let (mut product, mut squares) = (0.0, 0.0);
    for (v, &q) in row.iter().zip(query) {
        let (v, q): (f64, f64) = (v.widen().into(), q.into());
        product += v * q;
        squares += v * v;
    }
    f32::of(1.0 - product / squares.sqrt())
}

#[inline(always)]
fn sum<T: Element>(
    row: &[T],
    query: &[T::Wide],
    term: impl Fn(T::Wide, T::Wide) -> T::Wide,
) -> T::Wide {
    let (rows, row) = row.as_chunks::<LANES>();
    let (queries, query) = query.as_chunks::<LANES>();
    let mut sums = [T::Wide::default(); LANES];
    for (row, query) in rows.iter().zip(queries) {
        for ((sum, v), &q) in sums.iter_mut().zip(row).zip(query) {
            *sum += term(v.widen(), q);
        }
    }
    if !row.is_empty() {
        let (rows, row) = row.as_chunks::<4>();
        let (queries, query) = query.as_chunks::<4>();
        let (fours, _) = sums.as_chunks_mut::<4>();
        for ((four, row), query) in fours.iter_mut().zip(rows).zip(queries) {
            for ((sum, v), &q) in four.iter_mut().zip(row).zip(query) {
                *sum += term(v.widen(), q);
            }
        }
        for ((sum, v), &q) in sums.iter_mut().zip(row).zip(query) {
            *sum += term(v.widen(), q);
        }
    }
    folded(sums)
}

/// The sum of lanes: each of the first half and its twin, until one is left.
#[inline(always)]
fn folded<W: Wide>(mut sums: [W; LANES]) -> W {
    for half in [8, 4, 2, 1] {
        let (low, high) = sums.split_at_mut(half);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low += high;
        }
    }
    let [total, ..] = sums;
    total
}

/// The sum of squared differences.
#[inline(always)]
pub fn l2_of<S: Simd>(simd: S, one: &[f32], other: &[f32]) -> f32 {
    reduced(simd, one, other, |a, b, sum| {
        let difference = simd.sub_f32s(a, b);
        simd.mul_add_e_f32s(difference, difference, sum)
    })
}

/// The sum of products.
#[inline(always)]
pub fn product_of<S: Simd>(simd: S, one: &[f32], other: &[f32]) -> f32 {
    reduced(simd, one, other, |a, b, sum| simd.mul_add_e_f32s(a, b, sum))
}

#[inline(always)]
fn reduced<S: Simd>(
    simd: S,
    one: &[f32],
    other: &[f32],
    step: impl Fn(S::f32s, S::f32s, S::f32s) -> S::f32s,
) -> f32 {
    let (one, one_rest) = S::as_simd_f32s(one);
    let (other, other_rest) = S::as_simd_f32s(other);
    let (one_fours, one_singles) = one.as_chunks::<4>();
    let (other_fours, other_singles) = other.as_chunks::<4>();
    let zero = simd.splat_f32s(0.0);
    let [mut sum0, mut sum1, mut sum2, mut sum3] = [zero; 4];
    for ([a0, a1, a2, a3], [b0, b1, b2, b3]) in one_fours.iter().zip(other_fours) {
        sum0 = step(*a0, *b0, sum0);
        sum1 = step(*a1, *b1, sum1);
        sum2 = step(*a2, *b2, sum2);
        sum3 = step(*a3, *b3, sum3);
    }
    for (a, b) in one_singles.iter().zip(other_singles) {
        sum0 = step(*a, *b, sum0);
    }
    if !one_rest.is_empty() {
        let rests = [one_rest, other_rest].map(|rest| simd.partial_load_f32s(rest));
        let [a, b] = rests;
        sum1 = step(a, b, sum1);
    }
    let sum = simd.add_f32s(simd.add_f32s(sum0, sum1), simd.add_f32s(sum2, sum3));
    simd.reduce_sum_f32s(sum)
}

/// The number of bits that differ.
#[inline(always)]
pub fn differing_bits(row: &[u8], query: &[u8]) -> u32 {
    let (rows, row) = row.as_chunks::<8>();
    let (queries, query) = query.as_chunks::<8>();
    let words = rows.iter().zip(queries);
    let words = words.map(|(&v, &q)| (u64::from_le_bytes(v) ^ u64::from_le_bytes(q)).count_ones());
    let rest = row.iter().zip(query).map(|(v, q)| (v ^ q).count_ones());
    words.sum::<u32>() + rest.sum::<u32>()
}

/// The sum of squared differences of codes.
#[inline(always)]
pub fn squares(row: &[u8], query: &[u8]) -> u64 {
    if row.len() <= MOST_SQUARES {
        return u64::from(some_squares(row, query));
    }
    let parts = row.chunks(MOST_SQUARES).zip(query.chunks(MOST_SQUARES));
    parts.fold(0, |sum, (row, query)| {
        sum + u64::from(some_squares(row, query))
    })
}

/// The sum of at most `MOST_SQUARES` squared differences.
#[inline(always)]
fn some_squares(row: &[u8], query: &[u8]) -> u32 {
    let mut sum = 0i32;
    for (&v, &q) in row.iter().zip(query) {
        let difference = i16::from(v) - i16::from(q);
        sum = sum.wrapping_add(i32::from(difference) * i32::from(difference));
    }
    sum.cast_unsigned()
}

/// A sum of squared differences of codes, times a factor.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounds
#[inline(always)]
pub fn scaled(squares: u64, factor: f64) -> f32 {
    (squares as f64 * factor) as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    use super::*;
    use crate::vector::byte_sums::l2_of_codes;

    fn values(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 40) as f64 / f64::from(1 << 24) - 0.5
            })
            .collect()
    }

    fn naive(metric: Metric, row: &[f64], query: &[f64]) -> f64 {
        let pairs = || row.iter().zip(query);
        let product: f64 = pairs().map(|(a, b)| a * b).sum();
        match metric {
            Metric::L2 => pairs().map(|(a, b)| (a - b) * (a - b)).sum(),
            Metric::Cosine => {
                let squares = |x: &[f64]| x.iter().map(|a| a * a).sum::<f64>().sqrt();
                1.0 - product / squares(row) / squares(query)
            }
            _ => 1.0 - product,
        }
    }

    #[test]
    fn distances_are_those_of_the_formulas_in_every_dimension() {
        for dimension in (1..70).chain([768]) {
            let query = values(dimension, 1);
            let rows = values(dimension * 3, 2);
            let narrow: Vec<f32> = rows.iter().map(|&x| f32::of(x)).collect();
            for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
                let mut out = [[0f32; 3]; 2];
                let wide: Vec<f32> = prepared(metric, query.iter().copied());
                measure(metric, &wide, &narrow, &mut out[0]);
                let wide: Vec<f64> = prepared(metric, query.iter().copied());
                measure(metric, &wide, &rows, &mut out[1]);
                for out in out {
                    for (row, found) in rows.chunks(dimension).zip(out) {
                        let expected = naive(metric, row, &query);
                        assert!(
                            (f64::from(found) - expected).abs() < 1e-5 * (1.0 + expected.abs())
                        );
                    }
                }
            }
        }
    }

    struct Pair<'a>(&'a [f32], &'a [f32]);

    impl pulp::WithSimd for Pair<'_> {
        type Output = [f32; 2];

        fn with_simd<S: Simd>(self, simd: S) -> [f32; 2] {
            let Self(one, other) = self;
            [l2_of(simd, one, other), product_of(simd, one, other)]
        }
    }

    #[test]
    fn pairs_have_the_same_distances() {
        for dimension in (1..70).chain([100, 768]) {
            let narrow = |seed| values(dimension, seed).into_iter().map(f32::of);
            let [one, other]: [Vec<f32>; 2] = [narrow(1).collect(), narrow(2).collect()];
            let [l2_found, product_found] = Arch::new().dispatch(Pair(&one, &other));
            assert!((l2_found - l2(&one, &other)).abs() < 1e-5 * l2_found.max(1.0));
            assert!((product_found - product(&one, &other)).abs() < 1e-4);
        }
    }

    #[test]
    fn cosine_of_tiny_and_huge_vectors_is_exact() {
        for scale in [1e-30, 1e-20, 1e18, 1e30] {
            let rows: Vec<f32> = [3.0, 4.0].map(|x| f32::of(x * scale)).to_vec();
            let mut out = [0.0];
            let query: Vec<f32> = prepared(Metric::Cosine, [1e9, 0.0].into_iter());
            measure(Metric::Cosine, &query, &rows, &mut out);
            assert!((out[0] - 0.4).abs() < 1e-6);
        }
        for special in [0.0, f32::INFINITY, f32::NAN] {
            let mut out = [0.0];
            measure(Metric::Cosine, &[1.0, 0.0], &[special, 0.0], &mut out);
            assert!(out[0].is_nan());
        }
    }

    #[test]
    fn codes_and_bits_are_counted_exactly() {
        for dimension in [1usize, 7, 8, 16, 100, 70_000] {
            let query = vec![0u8; dimension];
            let row = vec![255u8; dimension];
            let mut out = [0.0];
            l2_of_codes(&query, std::iter::once(Ok(row.as_slice())), 1.0, &mut out).unwrap();
            assert_eq!(out[0], (65_025 * dimension) as f32);
            hamming(&query, &row, &mut out);
            assert_eq!(out[0], (8 * dimension) as f32);
        }
    }
}
