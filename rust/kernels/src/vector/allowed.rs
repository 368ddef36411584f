//! Which rows of a part a search may find.

use std::iter;
use std::ops::Range;

use crate::error::{Result, ensure};

/// A flag for each row of a part; none if it may find all of them.
#[derive(Clone, Copy)]
pub struct Allowed<'a>(Option<&'a [bool]>);

impl<'a> Allowed<'a> {
    /// All rows of any part.
    pub const ALL: Allowed<'static> = Allowed(None);

    pub fn new(flags: Option<&'a [bool]>, num_rows: usize) -> Result<Self> {
        let found = flags.map_or(num_rows, <[bool]>::len);
        ensure(found == num_rows, "allowed rows", found, num_rows)?;
        Ok(Self(flags))
    }

    pub fn are_all(self) -> bool {
        self.0.is_none()
    }

    pub fn contains(self, row: usize) -> bool {
        self.0.is_none_or(|flags| flags.get(row) == Some(&true))
    }

    /// How many of some rows are allowed.
    pub fn count(self, rows: Range<usize>) -> usize {
        let size = rows.len();
        self.0.map_or(size, |flags| {
            let own = flags.get(rows).unwrap_or_default().iter();
            own.filter(|&&is| is).count()
        })
    }

    /// The first run of allowed rows, until `gap` rows in a row are not allowed; none without any.
    pub fn run(self, rows: Range<usize>, gap: usize) -> Option<Range<usize>> {
        let Some(flags) = self.0 else {
            return Some(rows).filter(|rows| !rows.is_empty());
        };
        let own = flags.get(rows.clone())?;
        let first = own.iter().position(|&is| is)?;
        let mut last = first;
        for (row, &is) in own.iter().enumerate().skip(first + 1) {
            if is {
                last = row;
            } else if row - last >= gap {
                break;
            }
        }
        Some(rows.start + first..rows.start + last + 1)
    }

    /// Runs of groups of eight rows in which some are allowed, of at most 32 groups from `first` on.
    pub fn runs_of_groups(self, first: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
        let mut left = self.groups(first, count);
        iter::from_fn(move || {
            let start = left.trailing_zeros();
            let run = left.checked_shr(start)?.trailing_ones();
            left &= u32::MAX.checked_shl(start + run).unwrap_or(0);
            Some(start as usize..(start + run) as usize)
        })
    }

    /// A bit for each of these groups.
    fn groups(self, first: usize, count: usize) -> u32 {
        let all = u32::MAX >> (32 - count.clamp(1, 32));
        let Some(flags) = self.0 else {
            return all;
        };
        let (groups, rest) = flags.get(first..).unwrap_or_default().as_chunks::<8>();
        let mut bits = 0;
        for (place, group) in groups.iter().take(count).enumerate() {
            bits |= u32::from(bytes_of(*group) != 0) << place;
        }
        if groups.len() < count {
            bits |= u32::from(rest.contains(&true)) << groups.len();
        }
        bits
    }

    /// A bit for each of 32 rows from `first` on that is allowed.
    pub fn rows(self, first: usize) -> u32 {
        let Some(flags) = self.0 else {
            return u32::MAX;
        };
        let own = flags.get(first..).unwrap_or_default();
        let Some(block) = own.first_chunk::<32>() else {
            let own = own.iter().zip(0..32u32);
            return own.fold(0, |bits, (&is, place)| bits | u32::from(is) << place);
        };
        let (groups, _) = block.as_chunks::<8>();
        let bytes = groups.iter().rev().map(|group| bits_of(bytes_of(*group)));
        bytes.fold(0, |bits, byte| bits << 8 | byte)
    }
}

/// Eight flags as bytes of a number, the first one lowest.
fn bytes_of(flags: [bool; 8]) -> u64 {
    u64::from_le_bytes(flags.map(u8::from))
}

/// Eight bytes that are 0 or 1 as bits: the product moves byte i to bit 56 + i, and nothing else there.
fn bits_of(bytes: u64) -> u32 {
    let [.., bits] = bytes.wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
    bits.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn some(count: usize, step: usize) -> Vec<bool> {
        (0..count).map(|row| row * row % step == 1).collect()
    }

    #[test]
    fn bits_are_those_of_rows_and_groups() {
        for (count, step) in [(0, 2), (5, 2), (40, 3), (300, 23), (301, 97)] {
            let flags = some(count, step);
            let allowed = Allowed::new(Some(&flags), count).unwrap();
            for first in [0, 1, 8, 37, 290, 400] {
                let is = |row: usize| flags.get(row) == Some(&true);
                let bits = allowed.rows(first);
                let groups = allowed.groups(first, 32);
                for place in 0..32 {
                    assert_eq!(bits >> place & 1 == 1, is(first + place));
                    let mut own = first + 8 * place..first + 8 * (place + 1);
                    assert_eq!(groups >> place & 1 == 1, own.any(is));
                }
                assert_eq!(allowed.groups(first, 3), groups & 7);
                let runs: Vec<_> = allowed.runs_of_groups(first, 32).collect();
                let each = runs.iter().cloned().flatten();
                assert_eq!(each.fold(0, |bits, place| bits | 1 << place), groups);
                assert!(runs.is_sorted_by(|a, b| a.end < b.start));
                let own = (first..first + 50).filter(|&row| is(row)).count();
                if first + 50 <= count {
                    assert_eq!(allowed.count(first..first + 50), own);
                }
            }
        }
        assert_eq!(Allowed::ALL.rows(7), u32::MAX);
        assert_eq!(Allowed::ALL.groups(7, 32), u32::MAX);
        assert_eq!(Allowed::ALL.groups(7, 5), 31);
        assert_eq!(Allowed::ALL.count(3..8), 5);
        assert!(Allowed::new(Some(&[true]), 2).is_err());
    }

    #[test]
    fn runs_of_allowed_rows() {
        let flags = [0, 1, 0, 1, 0, 0, 1].map(|flag| flag == 1);
        let allowed = Allowed::new(Some(&flags), 7).unwrap();
        assert_eq!(allowed.run(0..7, 1), Some(1..2));
        assert_eq!(allowed.run(0..7, 2), Some(1..4));
        assert_eq!(allowed.run(2..7, 3), Some(3..7));
        assert_eq!(allowed.run(4..6, 3), None);
        assert_eq!(Allowed::ALL.run(4..6, 3), Some(4..6));
        assert_eq!(Allowed::ALL.run(4..4, 3), None);
    }
}
