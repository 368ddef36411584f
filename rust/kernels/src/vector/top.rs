//! The nearest rows so far.
//!
//! Rows are kept in a list of somewhat more than k. When it is full, the k nearest ones are selected
//! and the others are dropped; from then on a row has to be as near as the k-th one.

use super::allowed::Allowed;
use crate::error::{Result, ensure};

/// How many rows are collected, at least, before the nearest ones are selected.
const SPARE: usize = 32;

/// References of the rows of a part.
#[derive(Clone, Copy)]
pub enum References<'a> {
    Listed(&'a [u64]),
    /// Consecutive ones from this.
    From(u64),
}

/// Which rows are found.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub k: usize,
    /// Distances less than it are not found.
    pub lower: f32,
    /// Distances that are not less than it are not found.
    pub upper: Option<f32>,
}

/// The k nearest rows.
pub struct Top {
    k: usize,
    lower: f32,
    /// Greater distances are of no use. NaN: none is of use.
    limit: f32,
    /// Distances as ordered numbers, and references.
    rows: Vec<(u32, u64)>,
}

impl Top {
    pub fn new(wanted: Wanted) -> Result<Self> {
        ensure(wanted.k > 0, "k", wanted.k, "at least 1")?;
        let limit = match wanted.upper {
            None => f32::INFINITY,
            Some(f32::NEG_INFINITY) => f32::NAN,
            Some(upper) => upper.next_down(),
        };
        Ok(Self {
            k: wanted.k,
            lower: wanted.lower,
            limit,
            rows: Vec::new(),
        })
    }

    /// A list with the same limits, without rows.
    pub fn emptied(&self) -> Self {
        Self {
            rows: Vec::new(),
            ..*self
        }
    }

    /// So many rows lead to a limit.
    pub fn num_needed(&self) -> usize {
        self.k.saturating_add(self.k.max(SPARE))
    }

    /// Distances greater than it are of no use.
    pub fn limit(&self) -> f32 {
        self.limit
    }

    /// Greater distances than `limit` are of no use either.
    pub fn restrict(&mut self, limit: f32) {
        if limit < self.limit {
            self.limit = limit;
        }
    }

    /// Adds the rows of another list.
    pub fn absorb(&mut self, other: Self) {
        for (number, reference) in other.rows {
            let distance = distance_of(number);
            if distance <= self.limit {
                self.push(distance, reference);
            }
        }
    }

    /// Adds rows of a part from `first`, one for each distance. NaN is never of use.
    pub fn add(
        &mut self,
        distances: &[f32],
        first: usize,
        references: References<'_>,
        allowed: Allowed<'_>,
    ) {
        for (start, some) in (first..).step_by(16).zip(distances.chunks(16)) {
            let limit = self.limit;
            if !some.iter().fold(false, |any, &d| any | (d <= limit)) {
                continue;
            }
            for (row, &distance) in (start..).zip(some) {
                if distance <= self.limit && distance >= self.lower && allowed.contains(row) {
                    let reference = match references {
                        References::From(first) => Some(first.wrapping_add(row as u64)),
                        References::Listed(all) => all.get(row).copied(),
                    };
                    if let Some(reference) = reference {
                        self.push(distance, reference);
                    }
                }
            }
        }
    }

    /// Adds rows of an earlier search.
    pub fn add_found(&mut self, distances: &[f32], references: &[u64]) {
        self.add(distances, 0, References::Listed(references), Allowed::ALL);
    }

    fn push(&mut self, distance: f32, reference: u64) {
        self.rows.push((ordered(distance), reference));
        if self.rows.len() >= self.num_needed() {
            let (_, last, _) = self.rows.select_nth_unstable(self.k - 1);
            let limit = distance_of(last.0);
            self.rows.truncate(self.k);
            self.restrict(limit);
        }
    }

    /// Appends the nearest rows in order.
    pub fn finish(mut self, references: &mut Vec<u64>, distances: &mut Vec<f32>) {
        if self.rows.len() > self.k {
            self.rows.select_nth_unstable(self.k - 1);
            self.rows.truncate(self.k);
        }
        self.rows.sort_unstable();
        references.extend(self.rows.iter().map(|&(_, reference)| reference));
        distances.extend(self.rows.iter().map(|&(number, _)| distance_of(number)));
    }
}

/// A number with the order of the distance; both zeros are equal.
pub fn ordered(distance: f32) -> u32 {
    let bits = (distance + 0.0).to_bits();
    if bits >> 31 == 0 {
        bits | 1 << 31
    } else {
        !bits
    }
}

/// The distance of a number of `ordered`.
pub fn distance_of(number: u32) -> f32 {
    f32::from_bits(if number >> 31 == 1 {
        number & !(1 << 31)
    } else {
        !number
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;

    fn nearest(wanted: Wanted, distances: &[f32]) -> (Vec<u64>, Vec<f32>) {
        let mut top = Top::new(wanted).unwrap();
        for (row, distance) in distances.iter().enumerate() {
            top.add(&[*distance], row, References::From(0), Allowed::ALL);
        }
        let (mut references, mut found) = (Vec::new(), Vec::new());
        top.finish(&mut references, &mut found);
        (references, found)
    }

    #[test]
    fn rows_are_ordered_by_distance_and_reference() {
        let distances: Vec<f32> = (0..500u16).map(|i| f32::from(i * 37 % 50) - 25.0).collect();
        for k in [1, 2, 31, 100, 499, 500, usize::MAX] {
            let wanted = Wanted {
                k,
                lower: -20.0,
                upper: Some(10.0),
            };
            let mut expected: Vec<(i32, u64)> = (0..)
                .zip(&distances)
                .filter(|(_, d)| (-20.0..10.0).contains(*d))
                .map(|(row, d)| (d.round() as i32, row))
                .collect();
            expected.sort_unstable();
            expected.truncate(k);
            let (references, found) = nearest(wanted, &distances);
            let found = found.iter().map(|d| d.round() as i32);
            assert_eq!(found.zip(references).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn special_distances() {
        let inf = f32::INFINITY;
        let all = [f32::NAN, inf, 0.0, -0.0, -inf];
        let wanted = |upper| Wanted {
            k: 9,
            lower: -inf,
            upper,
        };
        let (references, found) = nearest(wanted(None), &all);
        assert_eq!(references, [4, 2, 3, 1]);
        assert_eq!(found, [-inf, 0.0, 0.0, inf]);
        assert_eq!(nearest(wanted(Some(inf)), &all).0, [4, 2, 3]);
        assert_eq!(nearest(wanted(Some(0.0)), &all).0, [4]);
        assert!(nearest(wanted(Some(-inf)), &all).0.is_empty());
        assert!(nearest(wanted(Some(f32::NAN)), &all).0.is_empty());
    }
}
