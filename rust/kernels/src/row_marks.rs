//! Sets of rows as a byte for each row, by fragment.
//!
//!     row references   fragment << 32 | row
//!     bytes            of each fragment: its first one, and the one after its last marked row, which
//!                      is of all rows after them
//!     table            all bytes
//!
//! The last fragment has one byte, and stands for all that follow.

use crate::error::{Result, ensure, out_of_range};

/// A set of rows.
pub struct RowMarks {
    bytes: Vec<(usize, usize)>,
    table: Vec<bool>,
}

impl RowMarks {
    /// Marks rows in ascending order by `value`, and all others by its opposite; none if that takes
    /// more fragments or bytes.
    pub fn new(
        rows: &[u64],
        value: bool,
        most_fragments: usize,
        most_bytes: usize,
    ) -> Result<Option<Self>> {
        ensure(rows.is_sorted(), "rows", "others", "ascending ones")?;
        let num_fragments = rows.last().map_or(0, |&row| fragment_of(row) + 1);
        if num_fragments > most_fragments {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(num_fragments + 1);
        let (mut start, mut left) = (0, rows);
        for fragment in 0..num_fragments {
            let count = left.partition_point(|&row| fragment_of(row) <= fragment);
            let (own, others) = left.split_at(count);
            let stop = start + own.last().map_or(0, |&row| row_of(row) + 1);
            bytes.push((start, stop));
            (start, left) = (stop + 1, others);
        }
        bytes.push((start, start));
        if start >= most_bytes {
            return Ok(None);
        }
        let table = vec![!value; start + 1];
        let mut marks = Self { bytes, table };
        for &row in rows {
            let place = marks.place(row);
            let byte = marks.table.get_mut(place);
            *byte.ok_or_else(|| out_of_range("row"))? = value;
        }
        Ok(Some(marks))
    }

    /// The bytes of the table.
    pub fn size_bytes(&self) -> usize {
        self.table.len()
    }

    /// The place of the byte of a row.
    #[inline]
    fn place(&self, row: u64) -> usize {
        let last = self.bytes.len() - 1;
        let bytes = self.bytes.get(fragment_of(row).min(last)).copied();
        let (start, stop) = bytes.map_or((0, 0), |bytes| bytes);
        stop.min(start.saturating_add(row_of(row)))
    }

    /// The byte of each row.
    pub fn of(&self, rows: &[u64]) -> Vec<bool> {
        let marks = rows.iter().map(|&row| self.table.get(self.place(row)));
        marks.map(|mark| mark.is_some_and(|&mark| mark)).collect()
    }

    /// The byte of each row of some parts; none for parts without any that is set.
    pub fn of_each(&self, parts: &[&[u64]]) -> Vec<Option<Vec<bool>>> {
        let marks = parts.iter().map(|rows| self.of(rows));
        marks
            .map(|marks| marks.contains(&true).then_some(marks))
            .collect()
    }
}

#[inline]
fn fragment_of(row: u64) -> usize {
    usize::try_from(row >> 32).map_or(usize::MAX - 1, |fragment| fragment)
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // the lower half
fn row_of(row: u64) -> usize {
    row as u32 as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn row(fragment: u64, row: u64) -> u64 {
        fragment << 32 | row
    }

    #[test]
    fn rows_are_found_in_their_fragment_only() {
        let listed = [1, 2, row(1, 0), row(3, 4)];
        let asked = [
            row(0, 0),
            row(0, 1),
            row(0, 2),
            row(0, 3),
            row(1, 0),
            row(1, 1),
            row(2, 0),
            row(3, 3),
            row(3, 4),
            row(3, 5),
            row(4, 4),
            u64::MAX,
        ];
        for value in [true, false] {
            let marks = RowMarks::new(&listed, value, 4, 100).unwrap().unwrap();
            let expected = asked.map(|row| listed.contains(&row) == value);
            assert_eq!(marks.of(&asked), expected);
            let nothing = RowMarks::new(&[], value, 0, 100).unwrap().unwrap();
            assert_eq!(nothing.of(&asked), asked.map(|_| !value));
        }
        let marks = RowMarks::new(&listed, true, 4, 100).unwrap().unwrap();
        let parts = [&asked[5..7], &asked[3..5]];
        assert_eq!(marks.of_each(&parts), [None, Some(vec![false, true])]);
    }

    #[test]
    fn tables_that_would_be_large_are_not_made() {
        let listed = [row(0, 2), row(2, 9)];
        assert!(RowMarks::new(&listed, true, 3, 16).unwrap().is_some());
        assert!(RowMarks::new(&listed, true, 2, 16).unwrap().is_none());
        assert!(RowMarks::new(&listed, true, 3, 15).unwrap().is_none());
        assert!(RowMarks::new(&[u64::MAX], true, 3, 15).unwrap().is_none());
        assert!(RowMarks::new(&[2, 1], true, 3, 15).is_err());
    }
}
