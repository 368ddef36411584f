//! Steps of k-means: sums of the vectors of each cluster, and the nearest centroid by products.

use pulp::Arch;

use super::LANES;
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

/// Where `offsets - factor * products` of each row is least, and that value.
///
/// The first one of equal values counts. NaN is never the least one, unless there is nothing else.
pub fn nearest(products: &[f32], offsets: &[f32], factor: f32) -> Result<(Vec<u32>, Vec<f32>)> {
    let count = offsets.len();
    ensure(count > 0, "centroids", count, "at least 1")?;
    ensure(
        u32::try_from(count).is_ok(),
        "centroids",
        count,
        "fewer than 2^32",
    )?;
    let is_whole = products.len().is_multiple_of(count);
    ensure(is_whole, "products", products.len(), count)?;
    let rows = products.chunks_exact(count);
    let found = Arch::new().dispatch(
        #[inline(always)]
        || rows.map(|row| least(row, offsets, factor)).unzip(),
    );
    Ok(found)
}

#[inline(always)]
fn least(products: &[f32], offsets: &[f32], factor: f32) -> (u32, f32) {
    let mut best = [f32::INFINITY; LANES];
    let mut places = [u32::MAX; LANES];
    let mut first = 0;
    for (products, offsets) in products.chunks(LANES).zip(offsets.chunks(LANES)) {
        let values = (first..).zip(products.iter().zip(offsets));
        for ((best, at), (place, (product, offset))) in best.iter_mut().zip(&mut places).zip(values)
        {
            let value = offset - factor * product;
            *at = if value < *best { place } else { *at };
            *best = if value < *best { value } else { *best };
        }
        first += 16;
    }
    let mut found = (f32::INFINITY, u32::MAX);
    for candidate in best.into_iter().zip(places) {
        if candidate < found {
            found = candidate;
        }
    }
    if found.1 < u32::MAX {
        return (found.1, found.0);
    }
    // Only infinity and NaN.
    let mut values = products
        .iter()
        .zip(offsets)
        .map(|(p, offset)| offset - factor * p);
    let first = values.position(|value| !value.is_nan());
    match first.and_then(|place| u32::try_from(place).ok()) {
        Some(place) => (place, f32::INFINITY),
        None => (0, f32::NAN),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_least_value_is_found() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for (row, place) in [
            ([1.0, 5.0, 5.0], 1),
            ([nan, 1.0, 2.0], 2),
            ([nan, -inf, nan], 1),
            ([nan, nan, nan], 0),
        ] {
            assert_eq!(nearest(&row, &[0.0; 3], 1.0).unwrap().0, [place]);
        }
        let products: Vec<f32> = (0..100u8).map(|i| f32::from(i) * 7.0 % 50.0).collect();
        assert_eq!(
            nearest(&products, &[0.0; 100], 1.0).unwrap(),
            (vec![7], vec![-49.0])
        );
        assert!(nearest(&products, &[0.0; 3], 1.0).is_err());
        assert!(nearest(&[], &[], 1.0).is_err());
    }

    #[test]
    fn sums_need_known_clusters() {
        let found = sums(&[1f32, 2.0, 3.0, 4.0], 2, &[1, 1], 2).unwrap();
        assert_eq!(found, (vec![0.0, 0.0, 4.0, 6.0], vec![0, 2]));
        assert!(sums(&[1f32, 2.0], 2, &[2], 2).is_err());
        assert!(sums(&[1f32, 2.0], 2, &[0, 0], 2).is_err());
    }
}
