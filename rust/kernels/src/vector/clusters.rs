//! Sums of the vectors of each cluster: a step of k-means.

use super::element::Element;
use crate::error::{Result, ensure, out_of_range};

/// The sum of the vectors of each cluster, and how many they are.
pub fn sums<T: Element>(
    vectors: &[T],
    dimension: usize,
    clusters: &[u32],
    num_clusters: usize,
) -> Result<(Vec<f64>, Vec<i64>)> {
    let expected = clusters.len().checked_mul(dimension);
    let is_whole = expected == Some(vectors.len());
    ensure(is_whole, "components", vectors.len(), "those of the rows")?;
    let len = num_clusters.checked_mul(dimension);
    let mut sums = vec![0.0; len.ok_or_else(|| out_of_range("clusters"))?];
    let mut counts = vec![0; num_clusters];
    for (&cluster, row) in clusters.iter().zip(vectors.chunks(dimension.max(1))) {
        let cluster = cluster as usize;
        let count = counts.get_mut(cluster);
        *count.ok_or_else(|| out_of_range("cluster"))? += 1;
        let sum = sums.iter_mut().skip(cluster * dimension);
        for (sum, value) in sum.zip(row) {
            *sum += value.widen().into();
        }
    }
    Ok((sums, counts))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sums_need_known_clusters() {
        let found = sums(&[1f32, 2.0, 3.0, 4.0], 2, &[1, 1], 2).unwrap();
        assert_eq!(found, (vec![0.0, 0.0, 4.0, 6.0], vec![0, 2]));
        assert!(sums(&[1f32, 2.0], 2, &[2], 2).is_err());
        assert!(sums(&[1f32, 2.0], 2, &[0, 0], 2).is_err());
    }
}
