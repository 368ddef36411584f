//! The table of the chunks of a page, as readers keep it: 12 bytes per chunk instead of 48.
//!
//! Chunks lie one after the other, and so do their rows. What a chunk has thus follows from where
//! it and the next one begin.

use std::ops::Range;

use crate::chunks::Chunk;
use crate::error::{Result, out_of_range};

/// Chunks begin at multiples of so many bytes.
const UNIT: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The position within the page, in units.
    start: u32,
    first_row: u32,
    num_values: u16,
    continues: bool,
}

/// The chunks of a page.
#[derive(Debug)]
pub struct ChunkTable {
    /// One more than there are chunks: the last one has the ends.
    entries: Vec<Entry>,
}

impl ChunkTable {
    /// Keeps chunks that lie one after the other.
    pub fn of(chunks: &[Chunk]) -> Result<Self> {
        let mut entries = Vec::with_capacity(chunks.len() + 1);
        for chunk in chunks {
            entries.push(Entry {
                start: small(chunk.start / UNIT, "chunks, bytes")?,
                first_row: small(chunk.first_row, "rows of the page")?,
                num_values: small(chunk.num_values, "values of a chunk")?,
                continues: chunk.continues,
            });
        }
        let (end, end_row) = chunks.last().map_or((0, 0), |last| {
            (last.start + last.size, last.first_row + last.num_rows)
        });
        entries.push(Entry {
            start: small(end / UNIT, "chunks, bytes")?,
            first_row: small(end_row, "rows of the page")?,
            num_values: 0,
            continues: false,
        });
        Ok(Self { entries })
    }

    /// The chunk with a number.
    pub fn get(&self, number: usize) -> Option<Chunk> {
        let (own, next) = (
            self.entries.get(number)?,
            self.entries.get(number.checked_add(1)?)?,
        );
        Some(Chunk {
            start: UNIT * own.start as usize,
            size: UNIT * next.start.saturating_sub(own.start) as usize,
            num_values: usize::from(own.num_values),
            first_row: own.first_row as usize,
            num_rows: next.first_row.saturating_sub(own.first_row) as usize,
            continues: own.continues,
        })
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.entries.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in memory.
    pub fn size_bytes(&self) -> usize {
        size_of_val(self.entries.as_slice())
    }

    /// The row after the last one.
    pub fn end_row(&self) -> usize {
        self.entries
            .last()
            .map_or(0, |last| last.first_row as usize)
    }

    /// Some chunks in their order.
    pub fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = Chunk> {
        numbers.filter_map(|number| self.get(number))
    }

    /// The number of the first chunk that does not have a property which all chunks before it have.
    pub fn partition_point(&self, has: impl Fn(&Chunk) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(|chunk| has(&chunk)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn small<T: TryFrom<usize>>(number: usize, what: &str) -> Result<T> {
    T::try_from(number).map_err(|_| out_of_range(what))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn chunks_come_back() {
        let chunk = |start, size, num_values, first_row, num_rows, continues| Chunk {
            start,
            size,
            num_values,
            first_row,
            num_rows,
            continues,
        };
        let chunks = [
            chunk(0, 16, 32_768, 0, 5, false),
            chunk(16, 8, 1, 5, 0, true),
            chunk(24, 24, 9, 5, 7, true),
        ];
        let table = ChunkTable::of(&chunks).unwrap();
        assert_eq!(table.range(0..9).collect::<Vec<_>>(), chunks);
        assert_eq!((table.len(), table.get(3)), (3, None));
        assert_eq!(table.partition_point(|chunk| chunk.first_row < 5), 1);
        assert_eq!(table.partition_point(|_| true), 3);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let whole = Chunk {
            start: 0,
            size: 8,
            num_values: 1,
            first_row: 0,
            num_rows: 1 << 32,
            continues: false,
        };
        assert!(ChunkTable::of(&[whole]).is_err());
    }
}
