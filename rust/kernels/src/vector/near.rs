//! The vectors of a tile that may be within the limits of several queries.
//!
//! A vector is left out if a lower bound of its distance is above the limit:
//!
//!     l2        (|q|^2 + |v|^2) (1 - e) - 2 q v        e: more than the rounding of a sum
//!     dot       1 - q v - e (1 + |q|^2 + |v|^2)
//!     cosine    1 - q v / |v| - 2 e, where |q| is 1
//!
//! Queries are arranged in blocks as wide as a register, component by component. Eight vectors at a
//! time go through a block, so that each of its components is loaded once for them. Products are
//! fused with sums where the processor can do so: bounds differ from one machine to another, but the
//! distances of what is not left out do not depend on them.

use std::iter::repeat_n;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::distance::{self, Metric, product_of};
use super::element::{Element, Wide};

/// How many vectors are compared together.
const TOGETHER: usize = 8;

/// As many lanes as a register may have.
const MOST_LANES: usize = 16;

/// Squared lengths between which the bounds for cosine are sound.
const SQUARES: Range<f32> = 1e-20..1e20;

/// Queries, and the vectors of a tile that may be near to them.
pub struct Near {
    metric: Metric,
    dimension: usize,
    /// More than the relative rounding of a sum.
    rounding: f32,
    /// The queries, in blocks.
    arranged: Vec<f32>,
    /// What each query adds to its bounds.
    shifts: Vec<f32>,
    /// The limit of each query minus its shift; less than any bound for those without a limit and
    /// for lanes without a query.
    cuts: Vec<f32>,
    lanes: usize,
    /// The vectors of the tile.
    rows: Vec<f32>,
    found: Vec<Vec<usize>>,
}

impl Near {
    #[allow(clippy::cast_precision_loss)] // small numbers
    pub fn new<'a, W: Wide + 'a>(
        metric: Metric,
        dimension: usize,
        queries: impl Iterator<Item = &'a [W]>,
    ) -> Self {
        let narrow = |query: &[W]| query.iter().map(|x| x.narrow()).collect();
        let queries: Vec<Vec<f32>> = queries.map(narrow).collect();
        let rounding = (dimension as f32 + 16.0) * f32::EPSILON;
        let shift = |query: &Vec<f32>| {
            let squares = distance::product(query.as_slice(), query);
            match metric {
                Metric::L2 => squares * (1.0 - rounding),
                Metric::Dot => 1.0 - rounding * (1.0 + squares),
                Metric::Cosine | Metric::Hamming => 1.0 - 2.0 * rounding,
            }
        };
        let lanes = Arch::new().dispatch(Lanes);
        let mut arranged = Vec::new();
        for block in queries.chunks(lanes) {
            for place in 0..dimension {
                let components = block.iter().map(|query| query.get(place).copied());
                arranged.extend(components.map(|component| component.unwrap_or(0.0)));
                arranged.extend(repeat_n(0.0, lanes - block.len()));
            }
        }
        Self {
            metric,
            dimension: dimension.max(1),
            rounding,
            arranged,
            shifts: queries.iter().map(shift).collect(),
            cuts: Vec::new(),
            lanes,
            rows: Vec::new(),
            found: vec![Vec::new(); queries.len()],
        }
    }

    /// Looks for the vectors of a tile that may be within the limits, one for each query.
    pub fn search<T: Element>(&mut self, first: usize, rows: &[T], limits: &[f32]) {
        self.rows.clear();
        self.rows
            .extend(rows.iter().map(|value| value.widen().narrow()));
        self.cuts.clear();
        let each = limits.iter().zip(&self.shifts);
        self.cuts.extend(each.map(|(&limit, shift)| {
            if limit < f32::INFINITY {
                limit - shift
            } else {
                f32::NEG_INFINITY
            }
        }));
        let lanes = self.cuts.len().next_multiple_of(self.lanes);
        self.cuts.resize(lanes, f32::NEG_INFINITY);
        self.found.iter_mut().for_each(Vec::clear);
        Arch::new().dispatch(Search { near: self, first });
    }

    /// The vectors of the last tile that may be near to a query; none if it has no limit.
    pub fn of(&self, query: usize) -> Option<&[usize]> {
        let has_limit = *self.cuts.get(query)? > f32::NEG_INFINITY;
        self.found
            .get(query)
            .filter(|_| has_limit)
            .map(Vec::as_slice)
    }

    /// What a vector adds to its bounds, and the factor of its products.
    #[inline(always)]
    fn of_row(&self, squares: f32) -> (f32, f32) {
        match self.metric {
            Metric::L2 => (squares * (1.0 - self.rounding), -2.0),
            Metric::Dot => (-self.rounding * squares, -1.0),
            Metric::Cosine | Metric::Hamming if SQUARES.contains(&squares) => {
                (0.0, -1.0 / squares.sqrt())
            }
            Metric::Cosine | Metric::Hamming => (f32::NAN, -1.0),
        }
    }
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES.min(MOST_LANES)
    }
}

struct Search<'a> {
    near: &'a mut Near,
    first: usize,
}

impl WithSimd for Search<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { near, first } = self;
        let lanes = S::F32_LANES.min(MOST_LANES);
        let mut found = std::mem::take(&mut near.found);
        let blocks = S::as_simd_f32s(&near.arranged).0;
        let zeros = vec![0.0; near.dimension];
        let groups = near.rows.chunks(TOGETHER * near.dimension);
        for (first, group) in (first..).step_by(TOGETHER).zip(groups) {
            let mut each = group.chunks_exact(near.dimension);
            let rows: [&[f32]; TOGETHER] =
                std::array::from_fn(|_| each.next().unwrap_or(zeros.as_slice()));
            let of_rows = rows.map(|row| near.of_row(product_of(simd, row, row)));
            let num_rows = group.len() / near.dimension;
            let blocks = blocks.chunks_exact(near.dimension);
            let queries = near.cuts.chunks_exact(lanes).zip(found.chunks_mut(lanes));
            for (block, (cuts, found)) in blocks.zip(queries) {
                let Some(&cut) = S::as_simd_f32s(cuts).0.first() else {
                    continue;
                };
                let mut bounds = products(simd, block, rows);
                let mut is_far = simd.less_than_f32s(cut, simd.splat_f32s(f32::INFINITY));
                for (bound, (added, factor)) in bounds.iter_mut().zip(of_rows) {
                    let factor = simd.splat_f32s(factor);
                    *bound = simd.mul_add_e_f32s(factor, *bound, simd.splat_f32s(added));
                    is_far = simd.and_m32s(is_far, simd.less_than_f32s(cut, *bound));
                }
                if all::<S>(simd, is_far) {
                    continue;
                }
                for (row, bounds) in (first..).zip(bounds).take(num_rows) {
                    let bounds = values::<S>(bounds);
                    for ((bound, cut), found) in bounds.iter().zip(cuts).zip(&mut *found) {
                        if bound <= cut || bound.is_nan() {
                            found.push(row);
                        }
                    }
                }
            }
        }
        near.found = found;
    }
}

/// The products of eight vectors with the queries of a block.
#[inline(always)]
fn products<S: Simd>(simd: S, block: &[S::f32s], rows: [&[f32]; TOGETHER]) -> [S::f32s; TOGETHER] {
    let [
        mut s0,
        mut s1,
        mut s2,
        mut s3,
        mut s4,
        mut s5,
        mut s6,
        mut s7,
    ] = [simd.splat_f32s(0.0); TOGETHER];
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows.map(<[f32]>::iter);
    let low = r0.zip(r1).zip(r2.zip(r3));
    let high = r4.zip(r5).zip(r6.zip(r7));
    for (&query, (((a, b), (c, d)), ((e, f), (g, h)))) in block.iter().zip(low.zip(high)) {
        s0 = simd.mul_add_e_f32s(query, simd.splat_f32s(*a), s0);
        s1 = simd.mul_add_e_f32s(query, simd.splat_f32s(*b), s1);
        s2 = simd.mul_add_e_f32s(query, simd.splat_f32s(*c), s2);
        s3 = simd.mul_add_e_f32s(query, simd.splat_f32s(*d), s3);
        s4 = simd.mul_add_e_f32s(query, simd.splat_f32s(*e), s4);
        s5 = simd.mul_add_e_f32s(query, simd.splat_f32s(*f), s5);
        s6 = simd.mul_add_e_f32s(query, simd.splat_f32s(*g), s6);
        s7 = simd.mul_add_e_f32s(query, simd.splat_f32s(*h), s7);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}

#[inline(always)]
fn all<S: Simd>(simd: S, mask: S::m32s) -> bool {
    let flags = simd.select_f32s(mask, simd.splat_f32s(0.0), simd.splat_f32s(1.0));
    values::<S>(flags)
        .iter()
        .fold(true, |all, &flag| all & (flag == 0.0))
}

#[inline(always)]
fn values<S: Simd>(register: S::f32s) -> [f32; MOST_LANES] {
    let mut out = [0.0; MOST_LANES];
    if let Some(first) = S::as_mut_simd_f32s(&mut out).0.first_mut() {
        *first = register;
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_precision_loss,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )]
    use super::*;

    const ROWS: usize = 20;

    fn some(count: usize, factor: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * factor % 101) as f32 / 7.0 - 5.0)
            .collect()
    }

    #[test]
    fn all_vectors_within_a_limit_are_found_and_few_others() {
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            for (dimension, num_queries) in [(1usize, 1usize), (3, 5), (16, 8), (100, 19)] {
                let queries: Vec<Vec<f32>> = some(num_queries * dimension, 37)
                    .chunks(dimension)
                    .map(|query| distance::prepared(metric, query.iter().map(|&x| f64::from(x))))
                    .collect();
                let rows = some(ROWS * dimension, 53);
                let mut near = Near::new(metric, dimension, queries.iter().map(Vec::as_slice));
                let measured = |query: &Vec<f32>| {
                    let mut exact = vec![0.0; ROWS];
                    distance::measure(metric, query, &rows, &mut exact);
                    exact
                };
                let exact: Vec<Vec<f32>> = queries.iter().map(measured).collect();
                let limits: Vec<f32> = exact.iter().map(|own| own[ROWS / 2]).collect();
                near.search(7, &rows, &limits);
                for (query, (exact, limit)) in exact.iter().zip(limits).enumerate() {
                    let found = near.of(query);
                    if limit.is_nan() {
                        assert!(found.is_none());
                        continue;
                    }
                    let found = found.unwrap();
                    for (row, distance) in exact.iter().enumerate() {
                        let is_found = found.contains(&(7 + row));
                        assert!(is_found || *distance > limit || distance.is_nan());
                        let row = &rows[row * dimension..][..dimension];
                        let own = &queries[query];
                        let scale = 1.0
                            + distance::product(own.as_slice(), own)
                            + distance::product(row, row);
                        assert!(!is_found || distance - limit < 1e-4 * scale || distance.is_nan());
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_limit_all_have_to_be_measured() {
        let queries = [[1.0f32, 2.0], [3.0, 4.0]];
        let mut near = Near::new(Metric::L2, 2, queries.iter().map(<[f32; 2]>::as_slice));
        near.search(0, &some(2 * ROWS, 7), &[f32::INFINITY, -1.0]);
        assert!(near.of(0).is_none());
        assert!(near.of(1).unwrap().is_empty());
        assert!(near.of(2).is_none());
    }

    #[test]
    fn what_is_not_finite_is_not_left_out() {
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            let query: Vec<f32> = distance::prepared(metric, [1e30, 2.0].into_iter());
            let mut near = Near::new(metric, 2, std::iter::once(query.as_slice()));
            for first in [f32::NAN, f32::INFINITY, 0.0, 1e30, 1e-30] {
                let (row, mut exact) = ([first, 2.0], [0.0]);
                distance::measure(metric, &query, &row, &mut exact);
                near.search(0, &row, &exact);
                assert!(near.of(0).is_none_or(|found| found == [0]));
            }
        }
    }
}
