//! Which chunks of a mini-block page to read for rows, and in which ranges of bytes.
//!
//! Chunks between those of some rows are read too if rows are dense, or if these chunks are small.

use std::ops::Range;

use crate::chunk_table::ChunkTable;
use crate::chunks::Chunk;
use crate::error::{Result, ensure};

/// Up to this many chunks per range of rows count as dense.
const DENSE: usize = 2;

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
    use crate::chunks::{Stored, parse};

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
}
