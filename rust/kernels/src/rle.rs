//! Run-length encoding of fixed-width items.
//!
//!     values   n x width bytes    the item of each run
//!     lengths  n x 1 byte         its repeats, 1..255; the last run may overshoot

use std::ops::Range;

use crate::error::{Result, ensure, grow, out_of_range};

/// Appends `num_values` items to `out`.
pub fn expand(
    values: &[u8],
    lengths: &[u8],
    width: usize,
    num_values: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    check(values, lengths, width, num_values)?;
    match width {
        1 => fill::<1>(values, lengths, num_values, out),
        2 => fill::<2>(values, lengths, num_values, out),
        4 => fill::<4>(values, lengths, num_values, out),
        _ => fill::<8>(values, lengths, num_values, out),
    }
    Ok(())
}

/// A run of at most so many items is written as if it had so many, and the next ones replace what
/// is too much: a length that is known needs no loop.
const SHORT: usize = 16;

fn fill<const N: usize>(values: &[u8], lengths: &[u8], num_values: usize, out: &mut Vec<u8>) {
    let (items, _) = values.as_chunks::<N>();
    let (mut slots, _) = grow(out, num_values * N).as_chunks_mut::<N>();
    for (item, &n) in items.iter().zip(lengths) {
        let length = usize::from(n).min(slots.len());
        match slots.first_chunk_mut::<SHORT>() {
            Some(most) if length <= SHORT => most.fill(*item),
            _ => slots.iter_mut().take(length).for_each(|slot| *slot = *item),
        }
        slots = slots.split_at_mut(length).1;
    }
}

/// Appends the items at `ranges` (ascending, disjoint) of `num_values` items to `out`.
pub fn expand_ranges(
    values: &[u8],
    lengths: &[u8],
    width: usize,
    num_values: usize,
    ranges: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<()> {
    check(values, lengths, width, num_values)?;
    let mut runs = values.chunks_exact(width).zip(lengths);
    let (mut item, mut end): (&[u8], usize) = (&[], 0);
    for range in ranges {
        ensure(
            range.end <= num_values,
            "rle index",
            range.end,
            format_args!("at most {num_values}"),
        )?;
        let mut at = range.start;
        while at < range.end {
            while end <= at {
                let Some((value, &n)) = runs.next() else {
                    return Err(out_of_range("rle runs"));
                };
                (item, end) = (value, end + usize::from(n));
            }
            let stop = end.min(range.end);
            for _ in at..stop {
                out.extend_from_slice(item);
            }
            at = stop;
        }
    }
    Ok(())
}

/// All checks of the buffers, in one place.
pub fn check(values: &[u8], lengths: &[u8], width: usize, num_values: usize) -> Result<()> {
    ensure(
        matches!(width, 1 | 2 | 4 | 8),
        "rle item width, bytes",
        width,
        "1, 2, 4 or 8",
    )?;
    let items = lengths.len() * width;
    ensure(
        values.len() == items,
        "rle values, bytes",
        values.len(),
        items,
    )?;
    let covered: usize = lengths.iter().map(|&n| usize::from(n)).sum();
    ensure(
        covered >= num_values,
        "rle run lengths, values",
        covered,
        num_values,
    )
}

/// Encodes items of 1, 2, 4 or 8 bytes; returns the values and lengths of the runs.
pub fn encode(data: &[u8], width: usize) -> Result<(Vec<u8>, Vec<u8>)> {
    match width {
        1 => runs::<1>(data),
        2 => runs::<2>(data),
        4 => runs::<4>(data),
        _ => runs::<8>(data),
    }
}

fn runs<const N: usize>(data: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let (mut values, mut lengths) = (Vec::new(), Vec::new());
    for run in data.as_chunks::<N>().0.chunk_by(|a, b| a == b) {
        for part in run.chunks(usize::from(u8::MAX)) {
            values.extend(part.iter().take(1).flatten());
            lengths.push(u8::try_from(part.len()).map_err(|_| out_of_range("rle run"))?);
        }
    }
    Ok((values, lengths))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use super::*;

    #[test]
    fn long_runs_are_split() {
        let data = 7u32.to_le_bytes().repeat(904);
        let (values, lengths) = encode(&data, 4).unwrap();
        assert_eq!(lengths, [255, 255, 255, 139]);
        let mut back = Vec::new();
        expand(&values, &lengths, 4, 904, &mut back).unwrap();
        assert_eq!(back, data);
        assert!(expand(&values, &lengths, 4, 905, &mut Vec::new()).is_err());
    }

    #[test]
    fn ranges_of_runs() {
        let (values, lengths) = encode(&[1, 1, 1, 2, 2, 3, 3, 3, 3], 1).unwrap();
        let mut out = Vec::new();
        expand_ranges(&values, &lengths, 1, 9, &[0..1, 2..4, 6..9], &mut out).unwrap();
        assert_eq!(out, [1, 1, 2, 3, 3, 3]);
        assert!(expand_ranges(&values, &lengths, 1, 9, &[0..1, 8..10], &mut out).is_err());
    }

    #[test]
    fn the_last_run_may_overshoot() {
        let mut out = Vec::new();
        expand(&[1, 2], &[3, 5], 1, 5, &mut out).unwrap();
        assert_eq!(out, [1, 1, 1, 2, 2]);
    }
}
