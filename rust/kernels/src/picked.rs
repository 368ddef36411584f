//! Selects the chunks of a mini-block page without lists that hold some rows, and plans the reads.
//!
//!     chunks      0   1   2   3   4   5
//!     rows            ^   ^       ^          two ranges: chunks 1 and 2, chunk 4
//! Chunks in between are read too if rows are dense, or if these chunks are small.

use std::ops::Range;

use crate::error::{Result, ensure, part};
use crate::mini_block::Chunk;

/// Up to this many chunks per range of rows count as dense.
const DENSE: usize = 2;

/// Ranges of bytes of a page's chunks, and the chunks that they hold.
#[derive(Debug, Default)]
pub struct Picked {
    /// Position in the chunks of the page, and bytes.
    pub ranges: Vec<(usize, usize)>,
    /// The chunks, each with the number of its range; positions are relative to that range.
    pub chunks: Vec<(usize, Chunk)>,
}

/// Selects the chunks that hold rows, which are sorted and disjoint.
pub fn pick(table: &[Chunk], rows: &[Range<usize>]) -> Result<Picked> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(Picked::default());
    };
    let end = table
        .last()
        .map_or(0, |chunk| chunk.first_row + chunk.num_rows);
    ensure(last.end <= end, "rows of the page", last.end, end)?;
    let begin = table.partition_point(|chunk| chunk.first_row + chunk.num_rows <= first.start);
    let behind = table.partition_point(|chunk| chunk.first_row < last.end);
    let span = part(table, begin, behind.saturating_sub(begin), "chunks")?;
    let is_dense = DENSE * rows.len() >= span.len();
    let mut wanted = Vec::with_capacity(span.len().min(2 * rows.len()));
    let mut cursor = 0;
    for (number, chunk) in span.iter().enumerate() {
        while rows
            .get(cursor)
            .is_some_and(|range| range.end <= chunk.first_row)
        {
            cursor += 1;
        }
        let holds = rows
            .get(cursor)
            .is_some_and(|range| range.start < chunk.first_row + chunk.num_rows);
        if is_dense || holds {
            wanted.push((number, *chunk));
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
    use super::*;

    fn table(count: usize, size: usize) -> Vec<Chunk> {
        (0..count)
            .map(|number| Chunk {
                start: number * size,
                size,
                num_values: 10,
                first_row: 10 * number,
                num_rows: 10,
            })
            .collect()
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
}
