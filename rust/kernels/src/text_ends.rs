//! The smallest and the largest string of ranges of rows.

use crate::bitmap::bit;
use crate::error::{Corrupt, Result};
use crate::offsets::OffsetsIn;

/// A string and its number.
type Row<'a> = (&'a [u8], usize);

/// For each range, given as (first row, count), the rows of its smallest and its largest string, by
/// their bytes; -1 twice if all are null.
pub fn text_ends(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    validity: Option<&[u8]>,
    ranges: &[(usize, usize)],
) -> Result<Vec<i64>> {
    let mut found = Vec::with_capacity(2 * ranges.len());
    for &(first, count) in ranges {
        let end = first
            .checked_add(count)
            .filter(|end| *end <= offsets.count());
        let end = end.ok_or_else(|| Corrupt(format!("no {count} strings from {first} on")))?;
        let mut ends: Option<[Row<'_>; 2]> = None;
        for row in first..end {
            if !validity.is_none_or(|bitmap| bit(bitmap, row)) {
                continue;
            }
            let value = offsets.value(data, row, "string")?;
            let [least, most] = ends.get_or_insert([(value, row); 2]);
            if value < least.0 {
                *least = (value, row);
            } else if value > most.0 {
                *most = (value, row);
            }
        }
        let rows = ends.map(|[least, most]| [least.1, most.1]);
        for row in rows.map_or([None; 2], |rows| rows.map(Some)) {
            found.push(
                row.map_or(Ok(-1), i64::try_from)
                    .map_err(|_| Corrupt(format!("more than {} strings", i64::MAX)))?,
            );
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ends_of_ranges() {
        let offsets = OffsetsIn::Small(&[0, 1, 3, 3, 4]);
        let ends = |validity, ranges: &[_]| text_ends(offsets, b"babc", validity, ranges);
        assert_eq!(
            ends(None, &[(0, 2), (0, 4), (1, 0)]).unwrap(),
            [1, 0, 2, 3, -1, -1]
        );
        assert_eq!(
            ends(Some(&[0b1011]), &[(2, 1), (2, 2)]).unwrap(),
            [-1, -1, 3, 3]
        );
        assert!(ends(None, &[(3, 2)]).is_err());
        assert!(text_ends(OffsetsIn::Small(&[1, 0]), b"a", None, &[(0, 1)]).is_err());
        assert!(text_ends(OffsetsIn::Small(&[0, 2]), b"a", None, &[(0, 1)]).is_err());
    }
}
