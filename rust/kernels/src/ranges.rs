//! Gathers ranges of a buffer: the bytes of a random access become one contiguous array.
//!
//! Ranges may come in any order, overlap or be empty.

use std::ops::Range;

use crate::bitmap::BitmapBuilder;
use crate::error::{Corrupt, Result, ensure, grow, part};

/// Whether ranges are one, of all of `count` rows or values.
pub(crate) fn is_all(ranges: &[Range<usize>], count: usize) -> bool {
    matches!(ranges, [all] if *all == (0..count))
}

pub(crate) fn num_rows(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Joins `sizes[i]` bytes from `starts[i]`, for all `i`.
pub fn gather_bytes(data: &[u8], ranges: &[(usize, usize)]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    out.try_reserve_exact(total(ranges)?)
        .map_err(|e| Corrupt(format!("ranges: {e}")))?;
    for &(start, size) in ranges {
        out.extend_from_slice(part(data, start, size, "range, bytes")?);
    }
    Ok(out)
}

/// Joins `sizes[i]` bits from bit `starts[i]`, for all `i`, least significant bit first.
pub fn gather_bits(data: &[u8], ranges: &[(usize, usize)]) -> Result<Vec<u8>> {
    total(ranges)?;
    let mut out = BitmapBuilder::default();
    for &(start, size) in ranges {
        out.extend_from(data, start, size)?;
    }
    Ok(out.finish())
}

/// Runs of values up to this length are copied by one move of fixed size.
const SHORT: usize = 4;

/// Appends values of `width` bytes; the runs may be short and many.
pub fn gather_values(
    data: &[u8],
    width: usize,
    runs: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<()> {
    match width {
        1 => gather_words::<1>(data, runs, out),
        2 => gather_words::<2>(data, runs, out),
        4 => gather_words::<4>(data, runs, out),
        8 => gather_words::<8>(data, runs, out),
        16 => gather_words::<16>(data, runs, out),
        _ => {
            for run in runs {
                let (start, size) = (run.start * width, run.len() * width);
                out.extend_from_slice(part(data, start, size, "values, bytes")?);
            }
            Ok(())
        }
    }
}

fn gather_words<const N: usize>(
    data: &[u8],
    runs: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<()> {
    let (values, _) = data.as_chunks::<N>();
    let total: usize = runs.iter().map(ExactSizeIterator::len).sum();
    ensure(
        total <= values.len(),
        "selected values",
        total,
        values.len(),
    )?;
    let mut at = 0;
    let (slots, _) = grow(out, total * N).as_chunks_mut::<N>();
    for run in runs {
        let from = values
            .get(run.start..)
            .and_then(<[_]>::first_chunk::<SHORT>);
        let to = slots
            .get_mut(at..)
            .and_then(<[_]>::first_chunk_mut::<SHORT>);
        match (from, to) {
            (Some(from), Some(to)) if run.len() <= SHORT => *to = *from,
            _ => {
                let from = part(values, run.start, run.len(), "values")?;
                if let Some(to) = slots.get_mut(at..at + run.len()) {
                    to.copy_from_slice(from);
                }
            }
        }
        ensure(run.end <= values.len(), "value", run.end, values.len())?;
        at += run.len();
    }
    Ok(())
}

fn total(ranges: &[(usize, usize)]) -> Result<usize> {
    ranges
        .iter()
        .try_fold(0usize, |sum, &(_, size)| sum.checked_add(size))
        .ok_or_else(|| Corrupt("ranges: too many bytes".into()))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::single_range_in_vec_init
    )]
    use super::*;

    #[test]
    fn bytes_and_bits() {
        assert_eq!(
            gather_bytes(&[1, 2, 3, 4], &[(2, 2), (0, 0), (0, 3)]).unwrap(),
            [3, 4, 1, 2, 3]
        );
        assert!(gather_bytes(&[1, 2], &[(1, 2)]).is_err());
        assert!(gather_bytes(&[1, 2], &[(0, usize::MAX), (0, 1)]).is_err());
        assert_eq!(
            gather_bits(&[0b1010_0110, 1], &[(1, 2), (7, 2)]).unwrap(),
            [0b1111]
        );
        assert!(gather_bits(&[0], &[(3, 6)]).is_err());
    }

    #[test]
    fn runs_of_values_are_copied() -> Result<()> {
        let data: Vec<u8> = (0..=239).collect();
        let runs = [0..1, 2..4, 5..5, 6..10, 11..12, 13..15];
        for width in [1, 2, 3, 4, 8, 16] {
            let mut out = vec![7];
            gather_values(&data, width, &runs, &mut out)?;
            let expected = runs
                .iter()
                .map(|run| &data[run.start * width..run.end * width]);
            assert_eq!(out[1..], expected.collect::<Vec<_>>().concat());
            let end = data.len() / width;
            assert!(gather_values(&data, width, &[end - 1..end + 1], &mut out).is_err());
            assert!(gather_values(&data, width, &[end + 1..end + 2], &mut out).is_err());
        }
        Ok(())
    }
}
