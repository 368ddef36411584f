//! Sets of rows as a byte for each row, by fragment.
//!
//!     row references   fragment << 32 | row
//!     starts, stops    the bytes of each fragment; the byte at its stop is of all rows after them
//!     table            a byte for each row
//!
//! The last fragment stands for all that follow.

use crate::error::{Result, ensure, out_of_range, size};

/// The bytes of the fragments in a table.
pub struct Fragments {
    bytes: Vec<(usize, usize)>,
}

impl Fragments {
    /// Checks that the bytes of all fragments lie in a table of `len` bytes.
    pub fn new(starts: &[i64], stops: &[i64], len: usize) -> Result<Self> {
        let (found, expected) = (stops.len(), starts.len());
        ensure(found == expected, "stops of fragments", found, expected)?;
        ensure(found > 0, "fragments", found, "at least 1")?;
        let mut bytes = Vec::with_capacity(found);
        for (&start, &stop) in starts.iter().zip(stops) {
            let (start, stop) = (size(start, "start")?, size(stop, "stop")?);
            let is_inside = start <= stop && stop < len;
            ensure(is_inside, "stop of a fragment", stop, "in the table")?;
            bytes.push((start, stop));
        }
        Ok(Self { bytes })
    }

    /// The place of the byte of a row.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the lower half
    fn place(&self, row: u64) -> usize {
        let last = self.bytes.len() - 1;
        let fragment = usize::try_from(row >> 32).map_or(last, |fragment| fragment.min(last));
        let (start, stop) = self
            .bytes
            .get(fragment)
            .copied()
            .map_or((0, 0), |bytes| bytes);
        stop.min(start.saturating_add(row as u32 as usize))
    }

    /// Makes the table in which rows have the byte `value`, and all others do not.
    pub fn marked(&self, rows: &[u64], value: bool, len: usize) -> Result<Vec<bool>> {
        let mut table = vec![!value; len];
        for &row in rows {
            let byte = table.get_mut(self.place(row));
            *byte.ok_or_else(|| out_of_range("row"))? = value;
        }
        Ok(table)
    }

    /// The byte of each row.
    pub fn of(&self, rows: &[u64], table: &[bool]) -> Result<Vec<bool>> {
        let mut marks = vec![false; rows.len()];
        let mut is_inside = true;
        for (mark, &row) in marks.iter_mut().zip(rows) {
            match table.get(self.place(row)) {
                Some(&byte) => *mark = byte,
                None => is_inside = false,
            }
        }
        is_inside
            .then_some(marks)
            .ok_or_else(|| out_of_range("row"))
    }

    /// The byte of each row of some parts; none for parts without any that is set.
    pub fn of_each(&self, parts: &[&[u64]], table: &[bool]) -> Result<Vec<Option<Vec<bool>>>> {
        let marks = parts.iter().map(|rows| {
            let found = self.of(rows, table)?;
            Ok(found.contains(&true).then_some(found))
        });
        marks.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn rows_are_found_in_their_fragment_only() {
        // Fragment 0 has 3 rows and fragment 1 one, each with a byte for the rows after them.
        let fragments = Fragments::new(&[0, 4, 6], &[3, 5, 6], 7).unwrap();
        let row = |fragment: u64, row: u64| fragment << 32 | row;
        let table = fragments.marked(&[1, row(1, 0)], true, 7).unwrap();
        assert_eq!(table, [0, 1, 0, 0, 1, 0, 0].map(|byte| byte == 1));
        let rows = [
            row(0, 1),
            row(0, 9),
            row(1, 0),
            row(1, 1),
            row(7, 0),
            u64::MAX,
        ];
        let found = fragments.of(&rows, &table).unwrap();
        assert_eq!(found, [true, false, true, false, false, false]);
        let parts = [&rows[3..], &rows[..2]];
        let each = fragments.of_each(&parts, &table).unwrap();
        assert_eq!(each, [None, Some(vec![true, false])]);
        let table = fragments.marked(&[1], false, 7).unwrap();
        assert_eq!(fragments.of(&rows, &table).unwrap()[..2], [false, true]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Fragments::new(&[], &[], 1).is_err());
        assert!(Fragments::new(&[0], &[0, 1], 2).is_err());
        assert!(Fragments::new(&[0], &[2], 2).is_err());
        assert!(Fragments::new(&[1], &[0], 2).is_err());
        assert!(Fragments::new(&[-1], &[0], 2).is_err());
        let fragments = Fragments::new(&[0], &[1], 2).unwrap();
        assert!(fragments.of(&[5], &[false]).is_err());
        assert!(fragments.of_each(&[&[5]], &[false]).is_err());
    }
}
