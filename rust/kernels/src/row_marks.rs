//! Sets of rows as a bit for each row, by fragment.
//!
//!     row references   fragment << 32 | row
//!     bits             of each fragment: that of its first row, and the one after its last marked
//!                      row, which is of all rows after them
//!     table            all bits, in words
//!
//! The last fragment has one bit, and stands for all that follow. Look-ups of rows that are far from
//! each other take longer in a table that does not fit into a cache.

use crate::bitmap::word_at;
use crate::error::{Result, ensure, out_of_range};

const WORD: usize = u64::BITS as usize;

/// Adjacent rows of a fragment, with a bit for each, from `start` on.
#[derive(Clone, Copy)]
pub struct RowBits<'a> {
    pub first: u64,
    pub bitmap: &'a [u8],
    pub start: usize,
    pub count: usize,
}

/// A set of rows.
pub struct RowMarks {
    bits: Vec<(usize, usize)>,
    table: Vec<u64>,
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
        let mut left = rows;
        let sizes = (0..num_fragments).map(|fragment| {
            let count = left.partition_point(|&row| fragment_of(row) <= fragment);
            let (own, others) = left.split_at(count);
            left = others;
            own.last().map_or(0, |&row| row_of(row) + 1)
        });
        let Some(mut marks) = Self::unmarked(sizes, !value, most_bytes) else {
            return Ok(None);
        };
        for &row in rows {
            let place = marks.place(row);
            let word = marks.table.get_mut(place / WORD);
            let bit = 1 << (place % WORD);
            let word = word.ok_or_else(|| out_of_range("row"))?;
            *word = if value { *word | bit } else { *word & !bit };
        }
        Ok(Some(marks))
    }

    /// Marks the rows whose bits are set; none if that takes more fragments or bytes.
    pub fn of_bits(
        parts: &[RowBits<'_>],
        most_fragments: usize,
        most_bytes: usize,
    ) -> Result<Option<Self>> {
        let numbers = parts.iter().map(|part| fragment_of(part.first));
        let num_fragments = numbers.max().map_or(0, |last| last + 1);
        if num_fragments > most_fragments {
            return Ok(None);
        }
        let mut sizes = vec![0; num_fragments];
        for part in parts {
            let end = part.start.checked_add(part.count);
            let is_inside = end.is_some_and(|end| end.div_ceil(8) <= part.bitmap.len());
            ensure(is_inside, "bits of rows", part.count, "those of the bitmap")?;
            if let Some(size) = sizes.get_mut(fragment_of(part.first)) {
                *size = row_of(part.first).saturating_add(part.count).max(*size);
            }
        }
        let Some(mut marks) = Self::unmarked(sizes.into_iter(), false, most_bytes) else {
            return Ok(None);
        };
        for part in parts {
            let place = marks.place(part.first);
            for done in (0..part.count).step_by(WORD) {
                let word = word_at(part.bitmap, part.start + done);
                let left = part.count - done;
                let word = if left < WORD {
                    word & !(!0 << left)
                } else {
                    word
                };
                marks.add(place + done, word);
            }
        }
        Ok(Some(marks))
    }

    /// The table of fragments of some numbers of rows; none if it has more bytes.
    fn unmarked(
        sizes: impl Iterator<Item = usize>,
        value: bool,
        most_bytes: usize,
    ) -> Option<Self> {
        let (mut bits, mut start) = (Vec::new(), 0usize);
        for size in sizes {
            let stop = start.saturating_add(size);
            bits.push((start, stop));
            start = stop.saturating_add(1);
        }
        bits.push((start, start));
        let num_words = start / WORD + 1;
        (num_words <= most_bytes / size_of::<u64>()).then(|| Self {
            bits,
            table: vec![if value { !0 } else { 0 }; num_words],
        })
    }

    /// Sets those of adjacent bits from a place on that are set in a word.
    fn add(&mut self, place: usize, word: u64) {
        let shift = place % WORD;
        if let Some(low) = self.table.get_mut(place / WORD) {
            *low |= word << shift;
        }
        if shift > 0
            && let Some(high) = self.table.get_mut(place / WORD + 1)
        {
            *high |= word >> (WORD - shift);
        }
    }

    /// The bytes of the table.
    pub fn size_bytes(&self) -> usize {
        self.table.len() * size_of::<u64>()
    }

    /// The place of the bit of a row.
    #[inline]
    fn place(&self, row: u64) -> usize {
        let last = self.bits.len() - 1;
        let bits = self.bits.get(fragment_of(row).min(last)).copied();
        let (start, stop) = bits.map_or((0, 0), |bits| bits);
        stop.min(start.saturating_add(row_of(row)))
    }

    /// Whether the bit of each row is set.
    pub fn of(&self, rows: &[u64]) -> Vec<bool> {
        let marks = rows.iter().map(|&row| {
            let place = self.place(row);
            let word = self.table.get(place / WORD).copied();
            word.is_some_and(|word| word >> (place % WORD) & 1 == 1)
        });
        marks.collect()
    }

    /// The same of some parts; none for parts without any bit that is set.
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
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
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
    fn bits_mark_the_rows_that_they_stand_for() {
        let bitmap: Vec<u8> = (0u8..40).map(|byte| byte.wrapping_mul(37)).collect();
        let part = |first, start, count| RowBits {
            first,
            bitmap: &bitmap,
            start,
            count,
        };
        let parts = [
            part(row(0, 5), 3, 130),
            part(row(0, 200), 0, 1),
            part(row(2, 0), 70, 64),
        ];
        let marks = RowMarks::of_bits(&parts, 3, 1000).unwrap().unwrap();
        let mut asked = Vec::new();
        let mut expected = Vec::new();
        for fragment in 0..4 {
            for number in 0..300 {
                asked.push(row(fragment, number));
                expected.push(parts.iter().any(|part| {
                    let place = row(fragment, number).wrapping_sub(part.first) as usize;
                    place < part.count && crate::bitmap::bit(&bitmap, part.start + place)
                }));
            }
        }
        assert_eq!(marks.of(&asked), expected);
        assert!(RowMarks::of_bits(&parts, 2, 1000).unwrap().is_none());
        assert!(RowMarks::of_bits(&parts, 3, 39).unwrap().is_none());
        assert!(RowMarks::of_bits(&[part(0, 300, 21)], 3, 1000).is_err());
        assert!(RowMarks::of_bits(&[part(0, usize::MAX, 2)], 3, 1000).is_err());
        let nothing = RowMarks::of_bits(&[], 0, 8).unwrap().unwrap();
        assert_eq!(nothing.of(&asked[..1]), [false]);
    }

    #[test]
    fn tables_that_would_be_large_are_not_made() {
        let listed = [row(0, 2), row(2, 9)];
        let marks = RowMarks::new(&listed, true, 3, 8).unwrap().unwrap();
        assert_eq!(marks.size_bytes(), 8);
        assert!(RowMarks::new(&listed, true, 2, 8).unwrap().is_none());
        assert!(RowMarks::new(&listed, true, 3, 7).unwrap().is_none());
        assert!(RowMarks::new(&[u64::MAX], true, 3, 15).unwrap().is_none());
        assert!(RowMarks::new(&[2, 1], true, 3, 15).is_err());
    }
}
