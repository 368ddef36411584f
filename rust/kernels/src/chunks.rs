//! The chunks of a mini-block page: where they lie, what they hold, and which ones to read for rows.
//!
//! Chunk words (u16, or u32 with large chunks), one per chunk:
//!
//!     bits 4..    bytes of the chunk / 8 - 1      bits 0..3    log2 of its number of values
//! The last chunk holds the remaining values of the page; its logarithm is not read. With lists, the
//! repetition index has two u64 per chunk: rows that end in it, and entries of the row that
//! continues. From them, for each chunk:
//!
//!     trailer      its last row continues in the next chunk
//!     continues    it begins in the middle of a row (the chunk before has a trailer)
//!     rows         that start in it = ends + trailer - continues
//! Chunks between those of some rows are read too if rows are dense, or if these chunks are small.

use std::ops::Range;

use crate::chunk_table::ChunkTable;
use crate::error::{Corrupt, Result, ensure, size, u16_at, u32_at, u64_at};

/// One chunk within the bytes of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub start: usize,
    pub size: usize,
    pub num_values: usize,
    /// The first row that starts here (or would, if none does).
    pub first_row: usize,
    /// Number of rows that start here.
    pub num_rows: usize,
    /// Whether it begins in the middle of the row before the first one.
    pub continues: bool,
}

impl Chunk {
    /// The row after the last one of which it holds a part.
    fn end_row(&self) -> usize {
        self.first_row + self.num_rows
    }

    /// The first row of which it holds a part.
    fn begin_row(&self) -> usize {
        self.first_row.saturating_sub(usize::from(self.continues))
    }
}

/// What a file stores about the chunks of a page.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    pub words: &'a [u8],
    /// The repetition index, if the page has lists.
    pub index: Option<&'a [u8]>,
    /// Whether words are u32.
    pub large: bool,
    pub num_items: usize,
    pub num_rows: usize,
    /// Bytes of all chunks.
    pub body_bytes: usize,
}

const MAX_CHUNK_VALUES: usize = 32_768;
const INDEX_BYTES: usize = 16;

/// Up to this many chunks per range of rows count as dense.
const DENSE: usize = 2;

/// Reads the table of all chunks.
pub fn parse(stored: &Stored<'_>) -> Result<Vec<Chunk>> {
    let width = if stored.large { 4 } else { 2 };
    let count = stored.words.len() / width;
    let whole = count > 0 && stored.words.len().is_multiple_of(width);
    ensure(
        whole,
        "chunk words, bytes",
        stored.words.len(),
        format_args!("a multiple of {width}"),
    )?;
    let mut chunks = Vec::with_capacity(count);
    let (mut start, mut values) = (0, 0);
    for index in 0..count {
        let word = if stored.large {
            let word = u32_at(stored.words, width * index, "chunk words")?;
            size(word, "chunk word")?
        } else {
            usize::from(u16_at(stored.words, width * index, "chunk words")?)
        };
        let is_last = index + 1 == count;
        let num_values = if is_last {
            stored.num_items.saturating_sub(values)
        } else {
            1 << (word & 15)
        };
        let bytes = ((word >> 4) + 1) * 8;
        chunks.push(Chunk {
            start,
            size: bytes,
            num_values,
            first_row: values,
            num_rows: num_values,
            continues: false,
        });
        start += bytes;
        values += num_values;
    }
    ensure(
        start <= stored.body_bytes,
        "chunks, bytes",
        start,
        format_args!("at most {}", stored.body_bytes),
    )?;
    let last = chunks.last().map_or(0, |chunk| chunk.num_values);
    ensure(
        (1..=MAX_CHUNK_VALUES).contains(&last),
        "values of the last chunk",
        last,
        format_args!("1 to {MAX_CHUNK_VALUES}"),
    )?;
    if let Some(index) = stored.index {
        set_rows(&mut chunks, index, stored.num_rows)?;
    }
    let rows = chunks.last().map_or(0, Chunk::end_row);
    ensure(rows == stored.num_rows, "rows", rows, stored.num_rows)?;
    Ok(chunks)
}

/// Sets the rows of each chunk by the repetition index.
fn set_rows(chunks: &mut [Chunk], index: &[u8], num_rows: usize) -> Result<()> {
    let expected = INDEX_BYTES * chunks.len();
    ensure(
        index.len() == expected,
        "repetition index, bytes",
        index.len(),
        expected,
    )?;
    let (mut first_row, mut continues) = (0, false);
    for (number, chunk) in chunks.iter_mut().enumerate() {
        let ends = size(
            u64_at(index, INDEX_BYTES * number, "repetition index")?,
            "repetition index, rows",
        )?;
        let trailer = u64_at(index, INDEX_BYTES * number + 8, "repetition index")? > 0;
        ensure(
            ends <= num_rows,
            "repetition index, rows of a chunk",
            ends,
            format_args!("at most {num_rows}"),
        )?;
        let starts = (ends + usize::from(trailer)).checked_sub(usize::from(continues));
        chunk.num_rows = starts.ok_or_else(without_end)?;
        chunk.first_row = first_row;
        chunk.continues = continues;
        first_row += chunk.num_rows;
        continues = trailer;
    }
    if continues {
        Err(without_end())
    } else {
        Ok(())
    }
}

fn without_end() -> Corrupt {
    Corrupt("repetition index: rows without an end".into())
}

/// Ranges of bytes of a page's chunks, and the chunks that they hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picked {
    /// Position in the chunks of the page, and bytes.
    pub ranges: Vec<(usize, usize)>,
    /// The chunks, each with the number of its range; positions are relative to that range.
    pub chunks: Vec<(usize, Chunk)>,
}

/// Selects the chunks that hold rows, which are sorted and disjoint.
pub fn pick(table: &ChunkTable, rows: &[Range<usize>]) -> Result<Picked> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(Picked::default());
    };
    let end = table.end_row();
    ensure(last.end <= end, "rows of the page", last.end, end)?;
    let begin = table.partition_point(|chunk| chunk.end_row() <= first.start);
    let after = table.partition_point(|chunk| chunk.begin_row() < last.end);
    let count = after.saturating_sub(begin);
    let is_dense = DENSE * rows.len() >= count;
    let mut wanted = Vec::with_capacity(count.min(2 * rows.len()));
    let mut cursor = 0;
    for (number, chunk) in table.range(begin..after).enumerate() {
        while rows
            .get(cursor)
            .is_some_and(|range| range.end <= chunk.begin_row())
        {
            cursor += 1;
        }
        let holds = rows
            .get(cursor)
            .is_some_and(|range| range.start < chunk.end_row());
        if is_dense || holds {
            wanted.push((number, chunk));
        }
    }
    Ok(in_ranges(&wanted))
}

/// Coalesces the chunks into as few ranges as is worthwhile.
fn in_ranges(wanted: &[(usize, Chunk)]) -> Picked {
    let stored: usize = wanted.iter().map(|(_, chunk)| chunk.size).sum();
    let begin = wanted.first().map_or(0, |(_, chunk)| chunk.start);
    let end = wanted
        .last()
        .map_or(0, |(_, chunk)| chunk.start + chunk.size);
    // The gaps are small: one range is cheaper than many.
    let is_one = end - begin <= 2 * stored;
    let mut picked = Picked::default();
    let mut before = None;
    for &(number, chunk) in wanted {
        let goes_on = before.is_some_and(|before| is_one || number == before + 1);
        before = Some(number);
        let start = match picked.ranges.last_mut() {
            Some(range) if goes_on => {
                range.1 = chunk.start + chunk.size - range.0;
                chunk.start - range.0
            }
            _ => {
                picked.ranges.push((chunk.start, chunk.size));
                0
            }
        };
        picked
            .chunks
            .push((picked.ranges.len() - 1, Chunk { start, ..chunk }));
    }
    picked
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn table(count: usize, size: usize) -> ChunkTable {
        let chunks: Vec<_> = (0..count)
            .map(|number| Chunk {
                start: number * size,
                size,
                num_values: 10,
                first_row: 10 * number,
                num_rows: 10,
                continues: false,
            })
            .collect();
        ChunkTable::of(&chunks).unwrap()
    }

    fn ranges(count: usize, rows: &[Range<usize>]) -> Vec<(usize, usize)> {
        pick(&table(count, 8), rows).map_or_else(|_| vec![], |picked| picked.ranges)
    }

    #[test]
    fn single_rows_far_apart_are_ranges_of_their_own() {
        assert_eq!(ranges(100, &[5..6, 512..513]), [(0, 8), (408, 8)]);
    }

    #[test]
    fn what_is_near_is_one_range() {
        assert_eq!(ranges(100, &[5..6, 25..26]), [(0, 24)]);
        assert_eq!(ranges(100, &[10..11, 11..30]), [(8, 16)]);
    }

    #[test]
    fn rows_beyond_the_page_are_refused() {
        assert!(pick(&table(2, 8), std::slice::from_ref(&(5..21))).is_err());
    }

    #[test]
    fn a_row_is_read_with_all_chunks_that_it_spans() {
        // Rows 0 and 1 start in chunk 0; row 1 goes on in chunks 1 and 2, where rows 2 and 3 start.
        let index: Vec<u8> = [1u64, 5, 0, 8, 3, 0]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let stored = Stored {
            words: &[0x03, 0, 0x03, 0, 0x03, 0],
            index: Some(&index),
            large: false,
            num_items: 20,
            num_rows: 4,
            body_bytes: 24,
        };
        let table = parse(&stored).unwrap();
        let rows: Vec<_> = table
            .iter()
            .map(|chunk| (chunk.first_row, chunk.num_rows, chunk.continues))
            .collect();
        assert_eq!(rows, [(0, 2, false), (2, 0, true), (2, 2, true)]);
        let table = ChunkTable::of(&table).unwrap();
        for (wanted, expected) in [(0..1, (0, 8)), (1..2, (0, 24)), (2..3, (16, 8))] {
            let picked = pick(&table, std::slice::from_ref(&wanted)).unwrap();
            assert_eq!(picked.ranges, [expected]);
        }
    }

    #[test]
    fn rows_without_an_end_are_refused() {
        for index in [[0u64, 1], [2, 0], [0, 0]] {
            let index: Vec<u8> = index.iter().flat_map(|part| part.to_le_bytes()).collect();
            let stored = Stored {
                words: &[0, 0],
                index: Some(&index),
                large: false,
                num_items: 1,
                num_rows: 1,
                body_bytes: 8,
            };
            assert!(parse(&stored).is_err());
        }
    }
}
