//! Codes in place of vectors, which show that most vectors are too far from a query.
//!
//!     vectors ──▶ lower bounds by 4 bits of each component ──▶ bounds by 8 bits ──▶ distances
//!
//! Each step compares what the earlier one left. Components of one byte have no codes of 8 bits,
//! which would be as long as they are.

use std::ops::Range;

use super::allowed::Allowed;
use super::bounds::{Frame, Target};
use super::distance::Metric;
use super::element::{Element, Wide};
use super::halves::Codes;
use super::nibble_sums::SEVERAL;
use super::top::ordered;
use crate::error::{Corrupt, Result, ensure, out_of_range};

/// So few vectors of some are measured at once, as bounds are computed for eight of them together.
const FEW: usize = 6;

/// The codes of the vectors of a part.
pub struct Sieve {
    frame: Frame,
    num_rows: usize,
    codes: Codes,
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
        let frame = Frame {
            metric,
            dimension,
            rounding: (dimension as f32 + 16.0) * f32::EPSILON,
            mean_length: squares(&mean).sqrt(),
            mean,
        };
        let num_rows = size / dimension;
        let each = rows.chunks_exact(dimension);
        let each = each.map(|row| narrow(row).collect());
        let codes = Codes::new(&frame, num_rows, size_of::<T>() > 1, each);
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
        self.codes.size_bytes() + 4 * self.frame.mean.len()
    }

    /// Makes a query comparable.
    pub fn target<W: Wide>(&self, query: &[W]) -> Target {
        let frame = &self.frame;
        let of_mean = match frame.metric {
            Metric::L2 => 0.0,
            _ => {
                let pairs = query.iter().zip(&frame.mean);
                let products = pairs.map(|(&value, &mean)| value.into() * f64::from(mean));
                f32::of(products.sum())
            }
        };
        let values = query.iter().map(|value| value.narrow());
        Target::new(frame, values.collect(), of_mean)
    }

    /// Returns the numbers of the `count` vectors of some that have the least bounds.
    pub fn promising(
        &self,
        target: &Target,
        rows: Range<usize>,
        count: usize,
    ) -> Result<Vec<usize>> {
        let mut bounds = vec![0.0; rows.len()];
        self.codes
            .bounds(&self.frame, target, rows.clone(), &mut bounds)?;
        let mut found: Vec<(u32, usize)> = bounds.into_iter().map(ordered).zip(rows).collect();
        if count < found.len() {
            found.select_nth_unstable(count);
            found.truncate(count);
        }
        Ok(found.into_iter().map(|(_, row)| row).collect())
    }

    /// Writes the distances of some vectors by `measure`, which gets the allowed rows that may be
    /// within a limit; NaN for the others.
    pub fn measure_some(
        &self,
        target: &Target,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
        measure: impl FnOnce(&[usize], &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let (first, mut found) = (rows.start, Vec::new());
        if allowed.count(rows.clone()) <= FEW {
            found.extend(rows.filter(|&row| allowed.contains(row)));
        } else {
            self.codes
                .within(&self.frame, target, rows, allowed, limit, &mut found)?;
        }
        let mut distances = vec![0.0; found.len()];
        measure(&found, &mut distances)?;
        out.fill(f32::NAN);
        for (row, distance) in found.iter().zip(distances) {
            if let Some(out) = out.get_mut(row - first) {
                *out = distance;
            }
        }
        Ok(())
    }
}

/// A sieve and the queries that are compared with it, each of which is made comparable once.
pub struct Sieved<'a> {
    sieve: &'a Sieve,
    targets: Vec<Option<Target>>,
    query: usize,
    /// The rows of a tile that may be near to each of several queries; none without a limit.
    near: Vec<Option<Vec<usize>>>,
}

impl<'a> Sieved<'a> {
    pub fn new(sieve: &'a Sieve) -> Self {
        Self {
            sieve,
            targets: Vec::new(),
            query: 0,
            near: Vec::new(),
        }
    }

    /// Selects a query, of which `make` returns what is compared.
    pub fn begin<W: Wide>(
        &mut self,
        query: usize,
        make: impl FnOnce() -> Result<Vec<W>>,
    ) -> Result<()> {
        self.query = query;
        self.prepare(query, make)
    }

    fn prepare<W: Wide>(
        &mut self,
        query: usize,
        make: impl FnOnce() -> Result<Vec<W>>,
    ) -> Result<()> {
        if self.targets.len() <= query {
            self.targets.resize_with(query + 1, || None);
        }
        if let Some(target @ None) = self.targets.get_mut(query) {
            *target = Some(self.sieve.target(&make()?));
        }
        Ok(())
    }

    fn target(&self, query: usize) -> Result<&Target> {
        let target = self.targets.get(query).and_then(Option::as_ref);
        target.ok_or_else(|| out_of_range("query"))
    }

    /// Looks for the rows of a tile that may be within the limits of several queries.
    pub fn search<W: Wide>(
        &mut self,
        rows: &Range<usize>,
        queries: &[u32],
        limits: &[f32],
        make: impl Fn(usize) -> Result<Vec<W>>,
    ) -> Result<()> {
        self.near.clear();
        if queries.len() < SEVERAL {
            return Ok(());
        }
        self.near.resize_with(queries.len(), || None);
        let limited = queries.iter().zip(limits).enumerate();
        let limited = limited.filter(|(_, (_, limit))| **limit < f32::INFINITY);
        let limited: Vec<_> = limited
            .map(|(place, (&query, &limit))| (place, query as usize, limit))
            .collect();
        for some in limited.as_chunks::<SEVERAL>().0 {
            for &(_, query, _) in some {
                self.prepare(query, || make(query))?;
            }
            let [a, b, c, d] = *some;
            let target = |(_, query, limit): (usize, usize, f32)| Ok((self.target(query)?, limit));
            let targets = [target(a)?, target(b)?, target(c)?, target(d)?];
            let mut found: [Vec<usize>; SEVERAL] = Default::default();
            let codes = &self.sieve.codes;
            codes.within_each(&self.sieve.frame, targets, rows, found.each_mut())?;
            for ((place, ..), found) in some.iter().zip(found) {
                if let Some(near) = self.near.get_mut(*place) {
                    *near = Some(found);
                }
            }
        }
        Ok(())
    }

    /// The rows that `search` found for a query, by its place there; none if it was left out.
    pub fn near(&self, place: usize) -> Option<&[usize]> {
        self.near.get(place)?.as_deref()
    }

    /// See `Sieve::promising`, for the selected query.
    pub fn promising(&self, rows: Range<usize>, count: usize) -> Result<Vec<usize>> {
        let target = self.target(self.query)?;
        self.sieve.promising(target, rows, count)
    }

    /// See `Sieve::measure_some`, for the selected query.
    pub fn measure_some(
        &self,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
        measure: impl FnOnce(&[usize], &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let target = self.target(self.query)?;
        self.sieve
            .measure_some(target, rows, allowed, limit, out, measure)
    }
}

fn narrow<T: Element>(row: &[T]) -> impl Iterator<Item = f32> {
    row.iter().map(|value| value.widen().narrow())
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

    const ROWS: usize = 300;

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
        let target = sieve.target(&query);
        let all = bounds_of(&sieve, &target, 0..sieve.num_rows());
        let bits = |bounds: &[f32]| bounds.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for first in [1, 8, 11, 260] {
            let rows = first.min(sieve.num_rows() - 1)..sieve.num_rows() - 1;
            let some = bounds_of(&sieve, &target, rows.clone());
            assert_eq!(bits(&some), bits(&all[rows]));
        }
        let mut exact = vec![0.0; sieve.num_rows()];
        distance::measure(metric, &query, rows, &mut exact);
        all.into_iter().zip(exact).collect()
    }

    fn bounds_of(sieve: &Sieve, target: &Target, rows: Range<usize>) -> Vec<f32> {
        let mut bounds = vec![0.0; rows.len()];
        let codes = &sieve.codes;
        codes
            .bounds(&sieve.frame, target, rows, &mut bounds)
            .unwrap();
        bounds
    }

    /// The rows whose bound is not above a limit, by `measure_some`.
    fn within(sieve: &Sieve, target: &Target, rows: Range<usize>, limit: f32) -> Vec<usize> {
        within_allowed(sieve, target, rows, Allowed::ALL, limit)
    }

    fn within_allowed(
        sieve: &Sieve,
        target: &Target,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        let mut out = vec![0.0; rows.len()];
        let first = rows.start;
        sieve
            .measure_some(target, rows, allowed, limit, &mut out, |rows, out| {
                found = rows.to_vec();
                out.iter_mut()
                    .zip(rows)
                    .for_each(|(out, &row)| *out = row as f32);
                Ok(())
            })
            .unwrap();
        for (row, out) in (first..).zip(out) {
            assert_eq!(out.is_nan(), !found.contains(&row));
            assert!(out.is_nan() || out == row as f32);
        }
        found
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
            assert!(exact - bound <= 0.3 * slack);
        }
        let query: Vec<f32> = prepared(metric, query.iter().map(|&x| f64::from(x)));
        let sieve = Sieve::new(metric, rows, query.len()).unwrap();
        let target = sieve.target(&query);
        let mut exact = vec![0.0; sieve.num_rows()];
        distance::measure(metric, &query, rows, &mut exact);
        for &limit in exact.iter().step_by(37) {
            let found = within(&sieve, &target, 3..exact.len(), limit);
            for (row, &exact) in exact.iter().enumerate().skip(3) {
                let is_found = found.contains(&row);
                assert!(is_found || exact > limit || limit.is_nan());
                assert!(
                    !is_found || exact.is_nan() || limit.is_nan() || exact - limit <= share * slack
                );
            }
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
        let target = sieve.target(&rows[60..80]);
        let all = sieve.promising(&target, 2..ROWS, 1000).unwrap();
        assert_eq!(all.len(), ROWS - 2);
        let mut few = sieve.promising(&target, 2..ROWS, 4).unwrap();
        few.sort_unstable();
        let bounds = bounds_of(&sieve, &target, 0..ROWS);
        let mut order: Vec<usize> = (2..ROWS).collect();
        order.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
        order.truncate(4);
        order.sort_unstable();
        assert_eq!(few, order);
    }

    #[test]
    fn rows_that_are_not_allowed_are_left_out() {
        let rows = some(ROWS * 20, 37);
        let sieve = Sieve::new(Metric::L2, &rows, 20).unwrap();
        let target = sieve.target(&rows[..20]);
        let mut distances = vec![0.0; ROWS];
        distance::measure(Metric::L2, &rows[..20], &rows, &mut distances);
        for step in [2, 9, 40, 70] {
            let flags: Vec<bool> = (0..ROWS).map(|row| row * 7 % step == 1).collect();
            let allowed = Allowed::new(Some(&flags), ROWS).unwrap();
            for range in [0..ROWS, 5..ROWS - 3, 8..16] {
                for limit in [distances[50], distances[170], f32::INFINITY] {
                    let own = |row: &usize| flags[*row];
                    let found = within_allowed(&sieve, &target, range.clone(), allowed, limit);
                    assert!(found.iter().all(own));
                    let near = range.clone().filter(|&row| distances[row] <= limit);
                    assert!(near.filter(own).all(|row| found.contains(&row)));
                    if allowed.count(range.clone()) > FEW {
                        let all = within(&sieve, &target, range.clone(), limit).into_iter();
                        assert_eq!(found, all.filter(own).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    #[test]
    fn several_queries_find_what_each_finds() {
        for metric in [Metric::L2, Metric::Dot, Metric::Cosine] {
            for dimension in [1usize, 20, 40, 65] {
                let rows = some(ROWS * dimension, 37);
                let sieve = Sieve::new(metric, &rows, dimension).unwrap();
                let each = rows.chunks(dimension).step_by(23).take(11);
                let each = each.map(|row| row.iter().map(|&value| f64::from(value) + 0.5));
                let queries: Vec<Vec<f32>> = each.map(|values| prepared(metric, values)).collect();
                let limits: Vec<f32> = (0..11u8)
                    .map(|place| match place {
                        3 => f32::INFINITY,
                        4 => f32::NAN,
                        _ => f32::from(place) * dimension as f32 - 1.0,
                    })
                    .collect();
                let numbers: Vec<u32> = (0..11).rev().collect();
                let mut sieved = Sieved::new(&sieve);
                let make = |query: usize| Ok(queries[query].clone());
                let tile = 3..ROWS - 5;
                sieved.search(&tile, &numbers, &limits, make).unwrap();
                let mut num_found = 0;
                for (place, (&query, &limit)) in numbers.iter().zip(&limits).enumerate() {
                    let target = sieve.target(&queries[query as usize]);
                    if let Some(found) = sieved.near(place) {
                        assert_eq!(found, within(&sieve, &target, tile.clone(), limit));
                        num_found += 1;
                    }
                }
                assert_eq!(num_found, 8); // of nine with a limit, as four are compared together
                sieved
                    .search(&tile, &numbers[..2], &limits[..2], make)
                    .unwrap();
                assert!(sieved.near(0).is_none());
            }
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 2).is_err());
        assert!(Sieve::new(Metric::L2, &[1f32; 3], 0).is_err());
        assert!(Sieve::new(Metric::Hamming, &[1u8; 4], 2).is_err());
        let sieve = Sieve::new(Metric::Dot, &[1f32; 4], 2).unwrap();
        let target = sieve.target(&[1f32, 2.0]);
        assert!(sieve.promising(&target, 1..3, 1).is_err());
    }
}
