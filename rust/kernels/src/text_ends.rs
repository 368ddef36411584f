//! The smallest and the largest string of ranges of rows.

use std::ops::Range;

use crate::bitmap::bit;
use crate::error::{Corrupt, Result, part, size};
use crate::offsets::OffsetsIn;

/// Bytes of a string in its key.
const KEY_BYTES: usize = 15;

/// A string with its key and its number.
#[derive(Clone, Copy)]
struct Row<'a> {
    key: u128,
    value: &'a [u8],
    number: usize,
}

impl Row<'_> {
    fn is_less(&self, other: &Self) -> bool {
        (self.key, self.value) < (other.key, other.value)
    }
}

/// A number that is ordered as strings are: the first 15 bytes, zeros after a shorter string, then
/// the length, up to 16.
///
/// Strings of up to 15 bytes with one key are equal. Of longer ones, more bytes decide.
fn key_of(data: &[u8], start: usize, length: usize) -> Option<u128> {
    let bytes = data.get(start..).filter(|rest| length <= rest.len())?;
    let word = if let Some(whole) = bytes.first_chunk::<16>() {
        *whole
    } else {
        let mut word = [0; 16];
        for (slot, byte) in word.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        word
    };
    let ignored = 8 * u32::try_from(16 - length.min(KEY_BYTES)).ok()?;
    let kept = u128::MAX.checked_shl(ignored).unwrap_or(0);
    let size = u128::try_from(length.min(KEY_BYTES + 1)).ok()?;
    Some((u128::from_be_bytes(word) & kept) | size)
}

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
        let ends = match offsets {
            OffsetsIn::Small(own) => ends_of(own, data, validity, first..end),
            OffsetsIn::Large(own) => ends_of(own, data, validity, first..end),
        }?;
        let rows = ends.map(|[least, most]| [least.number, most.number]);
        for row in rows.map_or([None; 2], |rows| rows.map(Some)) {
            found.push(
                row.map_or(Ok(-1), i64::try_from)
                    .map_err(|_| Corrupt(format!("more than {} strings", i64::MAX)))?,
            );
        }
    }
    Ok(found)
}

fn ends_of<'a, O: Copy + Into<i64>>(
    offsets: &[O],
    data: &'a [u8],
    validity: Option<&[u8]>,
    rows: Range<usize>,
) -> Result<Option<[Row<'a>; 2]>> {
    let mut ends: Option<[Row<'_>; 2]> = None;
    let bounds = offsets.get(rows.start..).unwrap_or_default().windows(2);
    for (number, pair) in rows.zip(bounds) {
        if !validity.is_none_or(|bitmap| bit(bitmap, number)) {
            continue;
        }
        let &[start, stop] = pair else { continue };
        let (start, stop): (i64, i64) = (start.into(), stop.into());
        let (start, length) = (
            size(start, "string offset")?,
            size(stop.saturating_sub(start), "string")?,
        );
        let key = key_of(data, start, length).ok_or_else(|| {
            Corrupt(format!(
                "string {number}: {length} bytes at {start} of {}",
                data.len()
            ))
        })?;
        if let Some([least, most]) = &ends {
            let is_between = if length <= KEY_BYTES {
                least.key <= key && key <= most.key
            } else {
                least.key < key && key < most.key
            };
            if is_between {
                continue;
            }
        }
        let own = Row {
            key,
            value: part(data, start, length, "string")?,
            number,
        };
        let [least, most] = ends.get_or_insert([own; 2]);
        if own.is_less(least) {
            *least = own;
        } else if most.is_less(&own) {
            *most = own;
        }
    }
    Ok(ends)
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
        let joined = b"same first bytes 1same first bytes 0same first bytesa\0a";
        let long = OffsetsIn::Large(&[0, 18, 36, 52, 54, 55]);
        assert_eq!(
            text_ends(long, joined, None, &[(0, 2), (0, 3), (3, 2)]).unwrap(),
            [1, 0, 2, 0, 4, 3]
        );
        assert!(text_ends(OffsetsIn::Small(&[1, 0]), b"a", None, &[(0, 1)]).is_err());
        assert!(text_ends(OffsetsIn::Small(&[0, 2]), b"a", None, &[(0, 1)]).is_err());
    }
}
