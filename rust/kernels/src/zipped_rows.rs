//! Where the rows of a full-zip page are: at multiples of their width, or where the index says.
//!
//!     index       0    7    7    31        of 1, 2, 4 or 8 bytes each, one more than rows
//!     entries     |row 0|row 2      |      row 1 has no bytes

use std::ops::Range;

use crate::error::{Result, ensure, out_of_range, part, size};

const WIDEST: usize = 8;

/// The index of a page, as it is stored.
#[derive(Debug)]
pub struct RowIndex {
    numbers: Vec<u8>,
    width: usize,
}

impl RowIndex {
    /// The index of so many rows.
    pub fn new(numbers: Vec<u8>, num_rows: usize) -> Result<Self> {
        let count = num_rows
            .checked_add(1)
            .ok_or_else(|| out_of_range("full-zip index, rows"))?;
        let width = numbers.len() / count;
        ensure(
            matches!(width, 1 | 2 | 4 | WIDEST) && width * count == numbers.len(),
            "full-zip index, bytes",
            numbers.len(),
            format_args!("1, 2, 4 or 8 times {count}"),
        )?;
        Ok(Self { numbers, width })
    }

    /// Bytes in memory.
    pub fn size_bytes(&self) -> usize {
        self.numbers.len()
    }

    fn get(&self, row: usize) -> Result<usize> {
        let start = row.saturating_mul(self.width);
        let stored = part(&self.numbers, start, self.width, "full-zip index, bytes")?;
        let mut number = [0; WIDEST];
        for (byte, from) in number.iter_mut().zip(stored) {
            *byte = *from;
        }
        size(u64::from_le_bytes(number), "full-zip index")
    }
}

/// How the rows of a page are found.
#[derive(Debug, Clone, Copy)]
pub enum Places<'a> {
    Index(&'a RowIndex),
    Stride(usize),
}

impl Places<'_> {
    fn start(self, row: usize) -> Result<usize> {
        match self {
            Self::Index(index) => index.get(row),
            Self::Stride(stride) => row
                .checked_mul(stride)
                .ok_or_else(|| out_of_range("full-zip rows, bytes")),
        }
    }

    /// Position and bytes of adjacent rows within entries of `num_bytes`.
    pub fn range(self, rows: &Range<usize>, num_bytes: usize) -> Result<(usize, usize)> {
        let (start, end) = (self.start(rows.start)?, self.start(rows.end)?);
        ensure(
            start <= end && end <= num_bytes,
            "full-zip rows, bytes",
            format_args!("{start} to {end}"),
            format_args!("ascending ones up to {num_bytes}"),
        )?;
        Ok((start, end - start))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_index_of_any_width_says_where_rows_are() {
        let starts = [0u64, 7, 7, 31];
        for width in [1, 2, 4, 8] {
            let bytes = starts.map(|start| start.to_le_bytes());
            let numbers = bytes.iter().flat_map(|number| number.iter().take(width));
            let index = RowIndex::new(numbers.copied().collect(), 3).unwrap();
            assert_eq!(index.size_bytes(), 4 * width);
            let places = Places::Index(&index);
            for (rows, expected) in [(0..1, (0, 7)), (1..2, (7, 0)), (0..3, (0, 31))] {
                assert_eq!(places.range(&rows, 31).unwrap(), expected);
            }
            assert!(places.range(&(2..3), 30).is_err());
            assert!(places.range(&(2..4), 99).is_err());
            assert!(places.range(&(0..usize::MAX), 99).is_err());
        }
    }

    #[test]
    fn rows_of_one_width_need_no_index() {
        assert_eq!(Places::Stride(5).range(&(2..4), 20).unwrap(), (10, 10));
        assert!(Places::Stride(5).range(&(2..4), 19).is_err());
        assert!(Places::Stride(5).range(&(2..usize::MAX), 99).is_err());
    }

    #[test]
    fn damaged_indices_are_refused() {
        let falling = RowIndex::new(vec![3, 2], 1).unwrap();
        assert!(Places::Index(&falling).range(&(0..1), 9).is_err());
        for (numbers, num_rows) in [(0, 3), (3, 3), (12, 3), (5, 3), (8, usize::MAX)] {
            assert!(RowIndex::new(vec![0; numbers], num_rows).is_err());
        }
    }
}
