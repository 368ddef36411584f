//! The chunks of a mini-block page: where they lie and what they hold.
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
    pub fn end_row(&self) -> usize {
        self.first_row + self.num_rows
    }

    /// The first row of which it holds a part.
    pub fn begin_row(&self) -> usize {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
