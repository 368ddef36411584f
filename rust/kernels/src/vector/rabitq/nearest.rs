//! The `k` rows of several partitions that are nearest to each of several queries.

use std::collections::BinaryHeap;

use super::search::{Columns, Estimator, Query, Sink, search};
use crate::error::{Result, ensure, out_of_range};
use crate::vector::allowed::Allowed;

/// A partition to search.
pub struct Part<'a> {
    pub columns: Columns<'a>,
    /// The reference of each row.
    pub rows: &'a [u64],
    /// Which rows may be returned.
    pub allowed: Option<&'a [bool]>,
    /// Numbers of the queries that search it.
    pub queries: Option<&'a [u32]>,
    /// The rotated centroid.
    pub centroid: &'a [f32],
}

/// Which rows are returned for each query.
#[derive(Clone, Copy)]
pub struct Limits {
    pub k: usize,
    /// The least distance.
    pub lower: f32,
    /// Distances are less than this.
    pub upper: Option<f32>,
}

/// A row that was found; of equal distances, the one with the greatest reference is the worst.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub distance: f32,
    pub row: u64,
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

/// Returns the nearest rows of each rotated query, ascending by distance, then by reference.
pub fn nearest(
    estimator: Estimator,
    parts: &[Part<'_>],
    queries: &[f32],
    limits: Limits,
    earlier: Vec<Vec<Hit>>,
) -> Result<Vec<Vec<Hit>>> {
    let dimension = estimator.dimension;
    ensure(dimension > 0, "query, dimension", dimension, "1 or more")?;
    let is_whole = queries.len().is_multiple_of(dimension);
    ensure(
        is_whole,
        "query, components",
        queries.len(),
        "whole queries",
    )?;
    let queries: Vec<Query> = queries
        .chunks_exact(dimension)
        .map(|query| Query::new(query, estimator))
        .collect();
    let mut heaps: Vec<BinaryHeap<Hit>> = earlier.into_iter().map(BinaryHeap::from).collect();
    ensure(
        heaps.len() <= queries.len(),
        "earlier queries",
        heaps.len(),
        queries.len(),
    )?;
    heaps.resize_with(queries.len(), BinaryHeap::new);
    for part in parts {
        let num_rows = part.columns.check(estimator)?;
        ensure(
            part.rows.len() == num_rows,
            "rows",
            part.rows.len(),
            num_rows,
        )?;
        let allowed = Allowed::new(part.allowed, num_rows)?;
        let mut run = |number: usize| {
            let (Some(query), Some(heap)) = (queries.get(number), heaps.get_mut(number)) else {
                return Err(out_of_range("query, number"));
            };
            let rows = part.rows;
            let mut best = Best {
                heap,
                limits,
                rows,
                allowed,
            };
            search(estimator, part.columns, part.centroid, query, &mut best)
        };
        match part.queries {
            Some(numbers) => numbers
                .iter()
                .try_for_each(|&number| run(number as usize))?,
            None => (0..queries.len()).try_for_each(&mut run)?,
        }
    }
    Ok(heaps.into_iter().map(BinaryHeap::into_sorted_vec).collect())
}

/// The best rows so far.
struct Best<'a> {
    heap: &'a mut BinaryHeap<Hit>,
    limits: Limits,
    rows: &'a [u64],
    allowed: Allowed<'a>,
}

impl Sink for Best<'_> {
    #[inline]
    fn most(&self) -> f32 {
        match self.heap.peek() {
            Some(worst) if self.heap.len() >= self.limits.k => worst.distance,
            None if self.limits.k == 0 => f32::NEG_INFINITY,
            _ => self.limits.upper.map_or(f32::INFINITY, |upper| upper),
        }
    }

    #[inline]
    fn allowed(&self, first: usize) -> u32 {
        self.allowed.rows(first)
    }

    fn add(&mut self, row: usize, distance: f32) -> Result<()> {
        let is_below = self.limits.upper.is_none_or(|upper| distance < upper);
        if !(self.limits.lower <= distance && is_below) {
            return Ok(());
        }
        let row = *self.rows.get(row).ok_or_else(|| out_of_range("rows"))?;
        let hit = Hit {
            distance: distance + 0.0,
            row,
        };
        if self.heap.len() < self.limits.k {
            self.heap.push(hit);
        } else if self.heap.peek().is_some_and(|worst| hit < *worst) {
            self.heap.pop();
            self.heap.push(hit);
        }
        Ok(())
    }
}
