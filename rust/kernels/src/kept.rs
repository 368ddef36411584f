//! The rows that a bitmap keeps of ranges of rows.
//!
//!     ranges    10..14  20..23        bitmap    1 1 0 1   0 1 1
//!     kept      10..12  13..14  21..23
//! Bits are in the order of the rows, least significant first.

use std::ops::Range;

use crate::error::{Result, part};

/// Returns the kept rows of `ranges`; the bit of the first row is number `first` of the bitmap.
pub fn ranges(ranges: &[Range<usize>], bitmap: &[u8], first: usize) -> Result<Vec<Range<usize>>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut bit = first;
    for range in ranges {
        let mut row = range.start;
        while row < range.end {
            let count = (range.end - row).min(WORD_BITS);
            let word = word_at(bitmap, bit, count)?;
            push_runs(word, row, &mut found);
            row += count;
            bit += count;
        }
    }
    Ok(found)
}

/// Bits that are read at once: eight bytes contain them wherever they begin within a byte.
const WORD_BITS: usize = 56;

/// Reads `count` bits from bit `first`; the others are 0.
fn word_at(bitmap: &[u8], first: usize, count: usize) -> Result<u64> {
    let (start, skip) = (first / 8, first % 8);
    let num_bytes = (skip + count).div_ceil(8);
    let bytes = part(bitmap, start, num_bytes, "bitmap of kept rows, bytes")?;
    let mut word = [0; 8];
    for (slot, byte) in word.iter_mut().zip(bytes) {
        *slot = *byte;
    }
    Ok(u64::from_le_bytes(word) >> skip & (u64::MAX >> (64 - count)))
}

/// Appends the runs of set bits, of which bit 0 is `row`; the last range grows if the first run
/// follows it.
fn push_runs(mut word: u64, row: usize, out: &mut Vec<Range<usize>>) {
    let mut at = row;
    while word != 0 {
        let zeros = word.trailing_zeros();
        word >>= zeros;
        let ones = word.trailing_ones();
        word >>= ones; // at most 56 bits are set
        let start = at + zeros as usize;
        at = start + ones as usize;
        match out.last_mut() {
            Some(last) if last.end == start => last.end = at,
            _ => out.push(start..at),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::single_range_in_vec_init
    )]
    use super::*;
    use crate::bitmap::bit;

    fn bits(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        (0..bytes).map(|_| next() | next()).collect()
    }

    #[test]
    fn kept_rows_are_those_of_set_bits() -> Result<()> {
        let given = [3..4, 7..80, 80..81, 200..457];
        for (seed, first) in [(1, 0), (2, 5), (3, 64), (4, 7)] {
            let bitmap = bits(seed, 60);
            let rows: Vec<usize> = given.iter().cloned().flatten().collect();
            let expected = rows.iter().enumerate();
            let expected = expected.filter(|(place, _)| bit(&bitmap, first + place));
            let expected: Vec<usize> = expected.map(|(_, row)| *row).collect();
            let found = ranges(&given, &bitmap, first)?;
            assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected);
        }
        assert!(ranges(&given, &[0; 4], 0).is_err());
        let all = ranges(&given[1..3], &[u8::MAX; 60], 3)?;
        assert_eq!(all, [7..81]);
        Ok(())
    }
}
