//! Contiguous values of one width: the ranges to read for some of them, and their bytes.
//!
//!     slots of 3 bytes    |000|111|222|333|444|          rows 1..2, 4..5
//!     read                    |111 222 333 444|          close, so it is one range
//!     values                  |111|444|
//! Slots of one bit fill bytes from the least significant bit on.

use std::ops::Range;

use crate::error::{Result, out_of_range, size};
use crate::ranges::{gather_bits, gather_bytes};

/// Ranges with a gap of at most this many bytes are coalesced.
const NEAR_BYTES: usize = 4096;

/// Ranges of bytes, and where the selected values lie in them.
#[derive(Debug, Default)]
pub struct Slots {
    /// Position relative to the first slot, and bytes.
    pub ranges: Vec<(usize, usize)>,
    /// Of each range of rows: the number of its range of bytes, the first bit in it, bits.
    pieces: Vec<(usize, usize, usize)>,
    is_bits: bool,
}

/// Finds the slots of rows, which are sorted and disjoint.
pub fn slots_of(bits: usize, rows: &[Range<usize>]) -> Slots {
    let mut slots = Slots {
        is_bits: !bits.is_multiple_of(8),
        ..Slots::default()
    };
    for range in rows {
        let start = range.start.saturating_mul(bits);
        let end = range.end.saturating_mul(bits);
        let (first, after) = (start / 8, end.div_ceil(8));
        let opened = match slots.ranges.last_mut() {
            Some(last) if first <= last.0 + last.1 + NEAR_BYTES => {
                last.1 = last.1.max(after - last.0);
                last.0
            }
            _ => {
                slots.ranges.push((first, after - first));
                first
            }
        };
        slots
            .pieces
            .push((slots.ranges.len() - 1, start - 8 * opened, end - start));
    }
    slots
}

impl Slots {
    /// The values, given where each range begins in the fetched bytes.
    pub fn decode(&self, data: &[u8], starts: &[i64]) -> Result<Vec<u8>> {
        let unit = if self.is_bits { 1 } else { 8 };
        let mut wanted = Vec::with_capacity(self.pieces.len());
        for &(range, first, bits) in &self.pieces {
            let start = starts.get(range).ok_or_else(|| out_of_range("ranges"))?;
            let start = size(*start, "position of a range")?;
            let first = start.saturating_mul(8 / unit).saturating_add(first / unit);
            wanted.push((first, bits / unit));
        }
        if self.is_bits {
            gather_bits(data, &wanted)
        } else {
            gather_bytes(data, &wanted)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn near_ones_are_one_range() {
        let slots = slots_of(24, &[1..2, 4..5, 9000..9001]);
        assert_eq!(slots.ranges, [(3, 12), (27000, 3)]);
        let data: Vec<u8> = (0..20).collect();
        assert_eq!(
            slots.decode(&data, &[2, 15]).unwrap(),
            [2, 3, 4, 11, 12, 13, 15, 16, 17]
        );
        assert!(slots.decode(&data, &[2, 18]).is_err());
        assert!(slots.decode(&data, &[2]).is_err());
        assert!(slots.decode(&data, &[-1, 0]).is_err());
    }

    #[test]
    fn bits_move_to_the_front() {
        let slots = slots_of(1, &[9..11, 12..13]);
        assert_eq!(slots.ranges, [(1, 1)]);
        assert_eq!(slots.decode(&[0, 0b0001_0010], &[1]).unwrap(), [0b101]);
    }
}
