//! The table of the chunks of a page, as readers keep it: 12 bytes per chunk instead of 48.
//!
//! Chunks lie one after the other, and so do their rows. What a chunk has thus follows from where
//! it and the next one begin.

use std::ops::Range;

use crate::chunks::{Chunk, Stored, parse, visit};
use crate::error::{Result, ensure, out_of_range};

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
    /// Reads the table of all chunks.
    pub fn read(stored: &Stored<'_>) -> Result<Self> {
        if stored.index.is_some() {
            return Self::of(&parse(stored)?);
        }
        let mut table = Self::with_capacity(stored.words.len() / stored.width());
        let mut last = None;
        visit(stored, |chunk| {
            last = Some(chunk);
            table.push(chunk)
        })?;
        table.end(last)?;
        let rows = table.end_row();
        ensure(rows == stored.num_rows, "rows", rows, stored.num_rows)?;
        Ok(table)
    }

    /// Keeps chunks that lie one after the other.
    pub fn of(chunks: &[Chunk]) -> Result<Self> {
        let mut table = Self::with_capacity(chunks.len());
        for chunk in chunks {
            table.push(*chunk)?;
        }
        table.end(chunks.last().copied())?;
        Ok(table)
    }

    fn with_capacity(count: usize) -> Self {
        Self {
            entries: Vec::with_capacity(count + 1),
        }
    }

    #[inline]
    fn push(&mut self, chunk: Chunk) -> Result<()> {
        self.entries.push(Entry {
            start: small(chunk.start / UNIT, "chunks, bytes")?,
            first_row: small(chunk.first_row, "rows of the page")?,
            num_values: small(chunk.num_values, "values of a chunk")?,
            continues: chunk.continues,
        });
        Ok(())
    }

    /// Adds the ends, given the last chunk.
    fn end(&mut self, last: Option<Chunk>) -> Result<()> {
        let ends = last.map_or((0, 0), |last| {
            (last.start + last.size, last.first_row + last.num_rows)
        });
        self.push(Chunk {
            start: ends.0,
            size: 0,
            num_values: 0,
            first_row: ends.1,
            num_rows: 0,
            continues: false,
        })
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
        self.partition_point_from(0, has)
    }

    /// The same among the chunks from a number on; all before it have the property.
    pub fn partition_point_from(&self, from: usize, has: impl Fn(&Chunk) -> bool) -> usize {
        let (mut low, mut high) = (from, self.len());
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
    fn a_table_that_is_read_has_the_chunks_of_the_page() {
        let words: Vec<u8> = [0x13u16, 0x02, 0x25, 0x00]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let stored = Stored {
            words: &words,
            index: None,
            large: false,
            num_items: 51,
            num_rows: 51,
            body_bytes: 56,
        };
        let table = ChunkTable::read(&stored).unwrap();
        let chunks = parse(&stored).unwrap();
        assert_eq!(table.range(0..9).collect::<Vec<_>>(), chunks);
        assert_eq!((table.len(), table.end_row()), (4, 51));
        for wrong in [
            Stored {
                num_items: 44,
                ..stored
            },
            Stored {
                num_rows: 50,
                ..stored
            },
            Stored {
                body_bytes: 55,
                ..stored
            },
            Stored {
                large: true,
                num_items: 51,
                ..stored
            },
            Stored {
                words: &words[..3],
                ..stored
            },
            Stored {
                words: &[],
                ..stored
            },
        ] {
            assert_eq!(
                ChunkTable::read(&wrong).unwrap_err().to_string(),
                parse(&wrong).unwrap_err().to_string()
            );
        }
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
