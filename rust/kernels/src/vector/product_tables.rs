//! Tables of product codes, made four at a time.
//!
//!     one query           its differences to the centroids of four parts
//!     several queries     the differences of four of them to the centroid of a part
//!
//! The codewords of many dimensions fill a cache of the second level. So a pass over them costs
//! much more than what is computed of them for one table.

use std::sync::{Arc, Mutex, PoisonError};

use super::distance::Metric;
use super::product::{Codebook, Table};
use crate::error::{Result, ensure, out_of_range, part};

/// How many tables are made in a pass over the codewords.
const TOGETHER: usize = 4;

/// A query, and what is subtracted from it.
type Target<'a> = (&'a [f32], Option<&'a [f32]>);

/// The tables of some targets, each of which is taken once. One of a single target may be taken
/// more often.
pub struct Tables<'a> {
    book: &'a Codebook,
    metric: Metric,
    targets: Vec<Target<'a>>,
    /// For each four targets, the tables that were made and not taken; none before.
    made: Vec<Mutex<Vec<Option<Arc<Table>>>>>,
}

impl<'a> Tables<'a> {
    pub fn new(book: &'a Codebook, metric: Metric, targets: Vec<Target<'a>>) -> Result<Self> {
        for centroid in targets.iter().filter_map(|target| target.1) {
            let (found, expected) = (centroid.len(), book.dimension());
            ensure(
                found == expected,
                "dimension of the centroid",
                found,
                expected,
            )?;
        }
        let made = targets.chunks(TOGETHER).map(|_| Mutex::default());
        Ok(Self {
            book,
            metric,
            made: made.collect(),
            targets,
        })
    }

    /// The tables of several queries, each minus the same centroid.
    pub fn of_queries(
        book: &'a Codebook,
        metric: Metric,
        queries: &'a [f32],
        numbers: &[u32],
        centroid: Option<&'a [f32]>,
    ) -> Result<Self> {
        let dimension = book.dimension();
        let targets = numbers.iter().map(|&number| {
            let query = part(queries, number as usize * dimension, dimension, "query")?;
            Ok((query, centroid))
        });
        Self::new(book, metric, targets.collect::<Result<_>>()?)
    }

    /// Takes the table of a target.
    pub fn take(&self, number: usize) -> Result<Arc<Table>> {
        let group = self.made.get(number / TOGETHER);
        let group = group.ok_or_else(|| out_of_range("table"))?;
        let mut group = group.lock().unwrap_or_else(PoisonError::into_inner);
        if group.is_empty() {
            *group = self.make(number / TOGETHER * TOGETHER)?;
        }
        let made = group.get_mut(number % TOGETHER);
        let table = match made {
            Some(table) if self.targets.len() == 1 => table.clone(),
            Some(table) => table.take(),
            None => None,
        };
        table.ok_or_else(|| out_of_range("table"))
    }

    /// Makes the tables of the targets from `first` on.
    fn make(&self, first: usize) -> Result<Vec<Option<Arc<Table>>>> {
        let targets = self.targets.iter().skip(first).take(TOGETHER);
        let vectors: Vec<Vec<f32>> = targets.map(difference).collect();
        let mut made = Vec::with_capacity(TOGETHER);
        let (all, rest) = vectors.as_chunks::<TOGETHER>();
        for vectors in all {
            made.extend(self.book.tables(vectors.each_ref(), self.metric)?);
        }
        let (pairs, single) = rest.as_chunks::<2>();
        for vectors in pairs {
            made.extend(self.book.tables(vectors.each_ref(), self.metric)?);
        }
        for vector in single {
            made.extend(self.book.tables([vector], self.metric)?);
        }
        Ok(made
            .into_iter()
            .map(|table| Some(Arc::new(table)))
            .collect())
    }
}

fn difference(target: &Target<'_>) -> Vec<f32> {
    match *target {
        (query, None) => query.to_vec(),
        (query, Some(centroid)) => query.iter().zip(centroid).map(|(q, c)| q - c).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    use super::*;

    #[test]
    fn tables_are_those_of_each_target() {
        let words: Vec<f32> = (0..128).map(|i| (i * 37 % 101) as f32 / 8.0).collect();
        let book = Codebook::new(&words, [2, 16, 4]).unwrap();
        let queries: Vec<f32> = (0..80).map(|i| (i * 53 % 97) as f32 / 4.0).collect();
        let centroid: Vec<f32> = (0..8).map(|i| i as f32 / 2.0).collect();
        for metric in [Metric::L2, Metric::Dot] {
            for count in [1, 2, 3, 4, 5, 7, 10] {
                let numbers: Vec<u32> = (0..10).rev().take(count).collect();
                let tables = Tables::of_queries(&book, metric, &queries, &numbers, Some(&centroid));
                let tables = tables.unwrap();
                for (place, number) in numbers.iter().enumerate() {
                    let query = queries.chunks(8).nth(*number as usize).unwrap();
                    let own: Vec<f32> = query.iter().zip(&centroid).map(|(q, c)| q - c).collect();
                    let [expected] = book.tables([&own], metric).unwrap();
                    assert_eq!(tables.take(place).unwrap().entries(), expected.entries());
                }
                assert_eq!(tables.take(0).is_ok(), count == 1);
                assert!(tables.take(count).is_err());
            }
        }
        assert!(Tables::of_queries(&book, Metric::L2, &queries, &[10], None).is_err());
        assert!(Tables::of_queries(&book, Metric::L2, &queries, &[0], Some(&[0.0; 7])).is_err());
    }
}
