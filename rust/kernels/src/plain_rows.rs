//! Rows of one width that pages store as they are.
//!
//!     row ──▶ its page ──▶ place of the page + (row - first row of the page) x width

use crate::error::{Result, out_of_range, part, size};

/// Where rows begin in a file, in any order; None if a page of some rows has no place.
///
/// `bounds` are the first row of each page and the end, ascending. `places` says where pages begin,
/// negative for pages without a place.
pub fn offsets(
    rows: impl ExactSizeIterator<Item = i64>,
    bounds: &[i64],
    places: &[i64],
    width: i64,
) -> Result<Option<Vec<i64>>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let next = bounds.partition_point(|&bound| bound <= row);
        let page = next.checked_sub(1);
        let page = page.and_then(|page| Some((*bounds.get(page)?, *places.get(page)?)));
        let (first, place) = page.ok_or_else(|| out_of_range("rows"))?;
        if place < 0 {
            return Ok(None);
        }
        let within = (row - first).checked_mul(width);
        let offset = within.and_then(|within| place.checked_add(within));
        found.push(offset.ok_or_else(|| out_of_range("place of a row"))?);
    }
    Ok(Some(found))
}

/// The bytes of rows that begin at some places, one after the other.
pub fn gather(data: &[u8], starts: &[i64], width: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(starts.len().saturating_mul(width));
    for &start in starts {
        let start = size(start, "place of a row")?;
        out.extend_from_slice(part(data, start, width, "bytes of a row")?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BOUNDS: [i64; 4] = [0, 10, 10, 12];

    #[test]
    fn rows_are_counted_from_their_page() {
        let rows = [11, 0, 9, 10];
        let found = offsets(rows.into_iter(), &BOUNDS, &[100, 500, 7], 4).unwrap();
        assert_eq!(found.unwrap(), [11, 100, 136, 7]);
        assert!(
            offsets([].into_iter(), &[0], &[], 4)
                .unwrap()
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn only_pages_with_rows_need_a_place() {
        assert!(
            offsets([11].into_iter(), &BOUNDS, &[-1, -1, 7], 4)
                .unwrap()
                .is_some()
        );
        assert!(
            offsets([11, 0].into_iter(), &BOUNDS, &[-1, -1, 7], 4)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn rows_beyond_all_pages_are_damage() {
        for row in [-1, 12, i64::MAX] {
            assert!(offsets([row].into_iter(), &BOUNDS, &[100, 500, 7], 4).is_err());
        }
        assert!(offsets([1].into_iter(), &BOUNDS, &[i64::MAX, 0, 0], 4).is_err());
    }

    #[test]
    fn bytes_are_those_of_each_row() {
        let data: Vec<u8> = (0..9).collect();
        assert_eq!(
            gather(&data, &[6, 0, 1], 3).unwrap(),
            [6, 7, 8, 0, 1, 2, 1, 2, 3]
        );
        assert!(gather(&data, &[], 3).unwrap().is_empty());
        assert!(gather(&data, &[7], 3).is_err());
        assert!(gather(&data, &[-1], 3).is_err());
    }
}
