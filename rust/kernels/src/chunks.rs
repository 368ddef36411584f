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
use crate::error::{Corrupt, Result, ensure, out_of_range, size, u64_at};

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

impl Stored<'_> {
    /// Bytes of a chunk word.
    pub fn width(&self) -> usize {
        if self.large { 4 } else { 2 }
    }
}

const MAX_CHUNK_VALUES: usize = 32_768;
const INDEX_BYTES: usize = 16;

/// Up to this many chunks per range of rows count as dense.
const DENSE: usize = 2;

/// Reads the table of all chunks.
pub fn parse(stored: &Stored<'_>) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::with_capacity(stored.words.len() / stored.width());
    visit(stored, |chunk| {
        chunks.push(chunk);
        Ok(())
    })?;
    if let Some(index) = stored.index {
        set_rows(&mut chunks, index, stored.num_rows)?;
    }
    let rows = chunks.last().map_or(0, Chunk::end_row);
    ensure(rows == stored.num_rows, "rows", rows, stored.num_rows)?;
    Ok(chunks)
}

/// Visits all chunks in their order; without lists, a value of a chunk is a row.
pub fn visit(stored: &Stored<'_>, mut found: impl FnMut(Chunk) -> Result<()>) -> Result<()> {
    let width = stored.width();
    let count = stored.words.len() / width;
    let whole = count > 0 && stored.words.len().is_multiple_of(width);
    ensure(
        whole,
        "chunk words, bytes",
        stored.words.len(),
        format_args!("a multiple of {width}"),
    )?;
    let (mut start, mut values, mut last) = (0, 0, 0);
    for (index, word) in stored.words.chunks_exact(width).enumerate() {
        let word = match *word {
            [low, high] => usize::from(u16::from_le_bytes([low, high])),
            [a, b, c, d] => size(u32::from_le_bytes([a, b, c, d]), "chunk word")?,
            _ => return Err(out_of_range("chunk words")),
        };
        last = if index + 1 == count {
            stored.num_items.saturating_sub(values)
        } else {
            1 << (word & 15)
        };
        let bytes = ((word >> 4) + 1) * 8;
        found(Chunk {
            start,
            size: bytes,
            num_values: last,
            first_row: values,
            num_rows: last,
            continues: false,
        })?;
        start += bytes;
        values += last;
    }
    ensure(
        start <= stored.body_bytes,
        "chunks, bytes",
        start,
        format_args!("at most {}", stored.body_bytes),
    )?;
    ensure(
        (1..=MAX_CHUNK_VALUES).contains(&last),
        "values of the last chunk",
        last,
        format_args!("1 to {MAX_CHUNK_VALUES}"),
    )
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
    if DENSE * rows.len() >= count {
        let every: Vec<_> = (begin..after).zip(table.range(begin..after)).collect();
        return Ok(in_ranges(&every));
    }
    let mut wanted: Vec<(usize, Chunk)> = Vec::with_capacity(2 * rows.len());
    let mut from = begin;
    for range in rows {
        // Chunks before those of the last range are looked at no more.
        let first = table.partition_point_from(from, |chunk| chunk.end_row() <= range.start);
        for (number, chunk) in (first..after).zip(table.range(first..after)) {
            if chunk.begin_row() >= range.end {
                break;
            }
            if wanted.last().is_none_or(|&(last, _)| last < number) {
                wanted.push((number, chunk));
            }
            from = number;
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
    fn rows_far_apart_need_the_chunks_that_hold_them() {
        let every = table(1000, 8);
        for step in [7, 60, 333, 2500] {
            let rows: Vec<_> = (3..9_990)
                .step_by(step)
                .map(|row| row..row + 1 + row % 25)
                .take_while(|range| range.end < 9_990)
                .fold(Vec::new(), |mut kept: Vec<Range<usize>>, range| {
                    if kept.last().is_none_or(|last| last.end < range.start) {
                        kept.push(range);
                    }
                    kept
                });
            let picked = pick(&every, &rows).unwrap();
            let starts = picked.chunks.iter().map(|(range, chunk)| {
                let (start, _) = *picked.ranges.get(*range).unwrap();
                (start + chunk.start) / 8
            });
            let found: Vec<_> = starts.collect();
            let holds = |chunk: &usize| {
                let (first, end) = (10 * chunk, 10 * chunk + 10);
                rows.iter()
                    .any(|range| range.start < end && first < range.end)
            };
            let needed: Vec<_> = (0..1000).filter(holds).collect();
            let last = *needed.last().unwrap();
            if DENSE * rows.len() < last {
                assert_eq!(found, needed, "{step}");
            } else {
                assert!(needed.iter().all(|chunk| found.contains(chunk)), "{step}");
            }
        }
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
