//! The rows of an inverted index, from the entries of their tokens.
//!
//!     _posting     list of blocks                       _max_score    greatest score of a block
//!     _impacts     list of entries (`impacts`)          _length       number of entries
//!     positions    a stream and where blocks begin in it, or pieces of each document (`positions`)
//!
//! Scores are those of the partition by itself. Readers may use them to order their work, but
//! cannot rely on them: a search has the statistics of all partitions.

use super::blocks::Layout;
use super::entries::Entries;
use super::impacts::{self, Pair};
use super::{bm25, positions};
use crate::error::{Result, ensure, out_of_range, part, signed, size};

/// What is stored about positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    None,
    Stream,
    Pieces,
}

/// The documents of a partition.
pub struct Documents<'a> {
    /// Number of tokens of each document.
    pub lengths: &'a [u32],
    /// Its norm in the partition.
    pub norms: &'a [f32],
}

/// Lists of byte strings as Arrow stores them.
#[derive(Debug)]
pub struct Lists {
    pub lists: Vec<i32>,
    pub offsets: Vec<i64>,
    pub data: Vec<u8>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            lists: vec![0],
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl Lists {
    fn end_item(&mut self) -> Result<()> {
        self.offsets
            .push(signed(self.data.len(), "bytes of a list")?);
        Ok(())
    }

    fn end_list(&mut self) -> Result<()> {
        self.lists.push(offset(self.offsets.len() - 1)?);
        Ok(())
    }
}

/// The rows of some tokens.
#[derive(Debug, Default)]
pub struct Rows {
    pub postings: Lists,
    pub impacts: Lists,
    pub max_scores: Vec<f32>,
    pub lengths: Vec<u32>,
    /// Streams: where each begins, its bytes, and where the blocks of each begin in it.
    pub stream_offsets: Vec<i64>,
    pub streams: Vec<u8>,
    pub block_lists: Vec<i32>,
    pub block_starts: Vec<u32>,
    /// Pieces: the documents of each token, and the pieces of each document.
    pub piece_documents: Vec<i32>,
    pub pieces: Lists,
}

/// Encodes the rows of tokens; those without entries have none.
pub fn write(
    entries: &Entries,
    documents: &Documents<'_>,
    layout: Layout,
    kind: Positions,
) -> Result<Rows> {
    ensure(
        documents.lengths.len() == documents.norms.len(),
        "norms",
        documents.norms.len(),
        documents.lengths.len(),
    )?;
    let mut rows = Rows {
        stream_offsets: vec![0],
        block_lists: vec![0],
        piece_documents: vec![0],
        ..Rows::default()
    };
    let (mut start, mut position) = (0, 0);
    for &end in &entries.ends {
        let end = size(end, "end of a token")?;
        let count = end
            .checked_sub(start)
            .ok_or_else(|| out_of_range("end of a token"))?;
        if count == 0 {
            continue;
        }
        let numbers = part(&entries.documents, start, count, "documents")?;
        let frequencies = part(&entries.frequencies, start, count, "frequencies")?;
        write_list(numbers, frequencies, documents, layout, &mut rows)?;
        if kind != Positions::None {
            let occurrences: usize = frequencies.iter().map(|&n| n as usize).sum();
            let own = part(&entries.positions, position, occurrences, "positions")?;
            position += occurrences;
            if kind == Positions::Stream {
                write_stream(frequencies, own, layout, &mut rows)?;
            } else {
                write_pieces(frequencies, own, &mut rows)?;
            }
        }
        start = end;
    }
    Ok(rows)
}

fn write_list(
    numbers: &[u32],
    frequencies: &[u32],
    documents: &Documents<'_>,
    layout: Layout,
    rows: &mut Rows,
) -> Result<()> {
    let all = bm25::float(documents.lengths.len() as u64);
    let idf = bm25::idf(all, bm25::float(numbers.len() as u64));
    let (mut most, mut last) = (0f32, 0);
    let mut group: Vec<Pair> = Vec::new();
    let mut second = (Vec::new(), Vec::new());
    let blocks = numbers
        .chunks(layout.block_size())
        .zip(frequencies.chunks(layout.block_size()));
    for (index, (numbers, frequencies)) in blocks.enumerate() {
        if index > 0 && index % impacts::BLOCKS == 0 {
            end_group(last, &mut group, &mut second)?;
        }
        let (score, pairs) = best_of(numbers, frequencies, documents)?;
        let score = idf * score;
        layout.encode(numbers, frequencies, score, &mut rows.postings.data)?;
        rows.postings.end_item()?;
        last = numbers
            .last()
            .copied()
            .ok_or_else(|| out_of_range("documents"))?;
        impacts::encode(last, &pairs, &mut rows.impacts.data)?;
        rows.impacts.end_item()?;
        group.extend(pairs);
        most = most.max(score);
    }
    end_group(last, &mut group, &mut second)?;
    let mut start = 0;
    for end in second.1 {
        let entry = part(&second.0, start, end - start, "impacts")?;
        rows.impacts.data.extend_from_slice(entry);
        rows.impacts.end_item()?;
        start = end;
    }
    rows.postings.end_list()?;
    rows.impacts.end_list()?;
    rows.max_scores.push(most);
    let length = u32::try_from(numbers.len()).map_err(|_| out_of_range("entries"))?;
    rows.lengths.push(length);
    Ok(())
}

/// Encodes the best pairs of a group of blocks.
fn end_group(last: u32, group: &mut Vec<Pair>, out: &mut (Vec<u8>, Vec<usize>)) -> Result<()> {
    impacts::keep_best(group);
    impacts::encode(last, group, &mut out.0)?;
    out.1.push(out.0.len());
    group.clear();
    Ok(())
}

/// The greatest weight of a block and its best pairs.
fn best_of(
    numbers: &[u32],
    frequencies: &[u32],
    documents: &Documents<'_>,
) -> Result<(f32, Vec<Pair>)> {
    let mut most = 0f32;
    let mut pairs = Vec::with_capacity(numbers.len());
    for (&number, &frequency) in numbers.iter().zip(frequencies) {
        let missing = || out_of_range("document");
        let norm = *documents.norms.get(number as usize).ok_or_else(missing)?;
        let length = *documents.lengths.get(number as usize).ok_or_else(missing)?;
        most = most.max(bm25::weight(bm25::float32(frequency), norm));
        pairs.push((frequency, length));
    }
    impacts::keep_best(&mut pairs);
    Ok((most, pairs))
}

fn write_stream(
    frequencies: &[u32],
    positions: &[u32],
    layout: Layout,
    rows: &mut Rows,
) -> Result<()> {
    let begin = rows.streams.len();
    let mut at = 0;
    for block in frequencies.chunks(layout.block_size()) {
        let start = u32::try_from(rows.streams.len() - begin);
        rows.block_starts
            .push(start.map_err(|_| out_of_range("positions of a token"))?);
        let occurrences: usize = block.iter().map(|&n| n as usize).sum();
        let own = part(positions, at, occurrences, "positions")?;
        positions::encode(block, own, &mut rows.streams)?;
        at += occurrences;
    }
    rows.stream_offsets
        .push(signed(rows.streams.len(), "positions")?);
    rows.block_lists.push(offset(rows.block_starts.len())?);
    Ok(())
}

fn write_pieces(frequencies: &[u32], positions: &[u32], rows: &mut Rows) -> Result<()> {
    let (mut at, mut ends) = (0, Vec::new());
    for &frequency in frequencies {
        let own = part(positions, at, frequency as usize, "positions")?;
        ends.clear();
        positions::encode_pieces(own, &mut rows.pieces.data, &mut ends)?;
        for &end in &ends {
            rows.pieces.offsets.push(signed(end, "positions")?);
        }
        rows.pieces.end_list()?;
        at += own.len();
    }
    rows.piece_documents
        .push(offset(rows.pieces.lists.len() - 1)?);
    Ok(())
}

fn offset(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| out_of_range("items of a batch of lists"))
}
