//! A place in a posting list that only moves forward.
//!
//! The first document of each block is known, so a cursor that lands there decodes nothing; a
//! block is decoded when it is entered, and all of its scores are computed when one is needed.

use super::blocks::MOST;
use super::bm25;
use super::documents::END;
use super::positions;
use super::posting::Posting;
use crate::error::{Result, out_of_range};

const NONE: usize = usize::MAX;

/// Blocks that are looked at one by one for the bound of a range.
const NEAR_BLOCKS: usize = 64;

/// A cursor of the entries of one token.
pub struct Cursor<'a> {
    list: &'a Posting,
    norms: &'a [f32],
    idf: f32,
    /// The block of the document, and the entry in it.
    block: usize,
    at: usize,
    document: u32,
    /// A block from which bounds are computed; not before `block`.
    ahead: usize,
    with_documents: usize,
    with_frequencies: usize,
    with_scores: usize,
    with_positions: usize,
    frequencies_at: usize,
    documents: [u32; MOST],
    frequencies: [u32; MOST],
    scores: [f32; MOST],
    /// Positions of the block as differences, unless they are stored in pieces.
    differences: Vec<u32>,
    position_ends: Vec<usize>,
    has_pieces: bool,
    /// Positions of the document.
    positions: Vec<u32>,
}

impl<'a> Cursor<'a> {
    /// Begins at the first entry.
    pub fn new(list: &'a Posting, idf: f32, norms: &'a [f32]) -> Self {
        Self {
            list,
            norms,
            idf,
            block: 0,
            at: 0,
            document: list.firsts.first().copied().unwrap_or(END),
            ahead: 0,
            with_documents: NONE,
            with_frequencies: NONE,
            with_scores: NONE,
            with_positions: NONE,
            frequencies_at: 0,
            documents: [0; MOST],
            frequencies: [0; MOST],
            scores: [0.0; MOST],
            differences: Vec::new(),
            position_ends: Vec::new(),
            has_pieces: false,
            positions: Vec::new(),
        }
    }

    /// Entries of the list.
    pub fn cost(&self) -> usize {
        self.list.count
    }

    /// Entries for each document of the partition.
    #[allow(clippy::cast_precision_loss)]
    pub fn density(&self) -> f64 {
        self.list.count as f64 / self.norms.len().max(1) as f64
    }

    /// The document; `END` after the last one.
    #[inline]
    pub fn document(&self) -> u32 {
        self.document
    }

    /// Moves to the first document that is not before `target`.
    #[inline]
    pub fn advance(&mut self, target: u32) -> Result<u32> {
        if self.document >= target {
            return Ok(self.document);
        }
        if target > self.list.last {
            self.document = END;
            return Ok(END);
        }
        let block = self.block_of(target, self.block);
        if block != self.block {
            self.block = block;
            self.ahead = self.ahead.max(block);
            self.at = 0;
            let first = self.first_of(block)?;
            if first >= target {
                self.document = first;
                return Ok(first);
            }
        }
        self.decode_documents()?;
        let count = self.list.count_of(self.block);
        let missing = || out_of_range("entry");
        let left = self.documents.get(self.at..count).ok_or_else(missing)?;
        let next = self.at + seek(left, target);
        if let Some(document) = self.documents.get(next).filter(|_| next < count) {
            self.at = next;
            self.document = *document;
        } else {
            self.block += 1;
            self.ahead = self.ahead.max(self.block);
            self.at = 0;
            self.document = self.first_of(self.block)?;
        }
        Ok(self.document)
    }

    /// The score of the document.
    #[inline]
    pub fn score(&mut self) -> Result<f32> {
        let missing = || out_of_range("entry");
        if self.with_scores == self.block {
            return self.scores.get(self.at).copied().ok_or_else(missing);
        }
        self.decode_frequencies()?;
        let frequency = *self.frequencies.get(self.at).ok_or_else(missing)?;
        let norm = self.norms.get(self.document as usize).ok_or_else(missing)?;
        Ok(self.idf * bm25::weight(bm25::float32(frequency), *norm))
    }

    /// The greatest score of the block of the document.
    #[inline]
    pub fn block_bound(&self) -> f32 {
        self.idf
            * self
                .list
                .weights
                .get(self.block)
                .copied()
                .unwrap_or(f32::INFINITY)
    }

    /// The documents of the block from the current one on, and their scores.
    pub fn rest_of_block(&mut self) -> Result<(&[u32], &[f32])> {
        self.compute_scores()?;
        let own = self.at..self.list.count_of(self.block);
        match (self.documents.get(own.clone()), self.scores.get(own)) {
            (Some(documents), Some(scores)) => Ok((documents, scores)),
            _ => Err(out_of_range("entry")),
        }
    }

    /// Moves to the first document of the next block.
    #[inline]
    pub fn skip_block(&mut self) {
        self.block += 1;
        self.ahead = self.ahead.max(self.block);
        self.at = 0;
        self.document = self.list.firsts.get(self.block).copied().unwrap_or(END);
    }

    /// The last document of the block that contains `low`, or the next one after it.
    #[inline]
    pub fn until(&mut self, low: u32) -> u32 {
        self.look_ahead(low);
        match self.list.firsts.get(self.ahead + 1) {
            Some(first) => first - 1,
            None => END - 1,
        }
    }

    /// The greatest score of documents from `low` to `high`.
    #[inline]
    pub fn bound(&mut self, low: u32, high: u32) -> f64 {
        if self.document > high || low > self.list.last {
            return 0.0;
        }
        self.look_ahead(low);
        let mut most = 0f32;
        for near in 0..NEAR_BLOCKS {
            let block = self.ahead + near;
            let is_past = self
                .list
                .firsts
                .get(block)
                .is_none_or(|first| *first > high);
            if is_past && near > 0 {
                return f64::from(self.idf * most);
            }
            most = most.max(self.list.weights.get(block).copied().unwrap_or(0.0));
        }
        f64::from(self.idf * self.list.most)
    }

    /// The positions of the token in the document.
    pub fn positions(&mut self) -> Result<&[u32]> {
        self.decode_frequencies()?;
        let count = self.list.count_of(self.block);
        let missing = || out_of_range("positions");
        let frequencies = self.frequencies.get(..count).ok_or_else(missing)?;
        if self.with_positions != self.block {
            self.with_positions = NONE;
            self.has_pieces =
                !(self.list).differences(self.block, frequencies, &mut self.differences)?;
            self.position_ends.clear();
            let mut end = 0;
            self.position_ends
                .extend(frequencies.iter().map(|&frequency| {
                    end += frequency as usize;
                    end
                }));
            self.with_positions = self.block;
        }
        self.positions.clear();
        if self.has_pieces {
            let frequency = *frequencies.get(self.at).ok_or_else(missing)?;
            self.list
                .pieces(self.block, self.at, frequency, &mut self.positions)?;
            return Ok(&self.positions);
        }
        let end = *self.position_ends.get(self.at).ok_or_else(missing)?;
        let start = match self.at.checked_sub(1) {
            None => 0,
            Some(before) => *self.position_ends.get(before).ok_or_else(missing)?,
        };
        let own = self.differences.get(start..end).ok_or_else(missing)?;
        self.positions.extend_from_slice(own);
        positions::add_up(&mut self.positions)?;
        Ok(&self.positions)
    }

    /// Computes the scores of the block.
    #[inline]
    fn compute_scores(&mut self) -> Result<()> {
        if self.with_scores == self.block {
            return Ok(());
        }
        self.decode_frequencies()?;
        let count = self.list.count_of(self.block);
        let missing = || out_of_range("entry");
        let frequencies = self.frequencies.get(..count).ok_or_else(missing)?;
        let documents = self.documents.get(..count).ok_or_else(missing)?;
        let scores = self.scores.get_mut(..count).ok_or_else(missing)?;
        for (score, &document) in scores.iter_mut().zip(documents) {
            *score = *self.norms.get(document as usize).ok_or_else(missing)?;
        }
        for (score, &frequency) in scores.iter_mut().zip(frequencies) {
            *score = self.idf * bm25::weight(bm25::float32(frequency), *score);
        }
        self.with_scores = self.block;
        Ok(())
    }

    #[inline]
    fn decode_frequencies(&mut self) -> Result<()> {
        if self.with_frequencies == self.block {
            return Ok(());
        }
        self.decode_documents()?;
        let count = self.list.count_of(self.block);
        let out = self
            .frequencies
            .get_mut(..count)
            .ok_or_else(|| out_of_range("entry"))?;
        self.list
            .frequencies(self.block, self.frequencies_at, out)?;
        self.with_frequencies = self.block;
        Ok(())
    }

    #[inline]
    fn decode_documents(&mut self) -> Result<()> {
        if self.with_documents != self.block {
            let count = self.list.count_of(self.block);
            let out = self
                .documents
                .get_mut(..count)
                .ok_or_else(|| out_of_range("entry"))?;
            self.frequencies_at = self.list.documents(self.block, out)?;
            self.with_documents = self.block;
        }
        Ok(())
    }

    #[inline]
    fn first_of(&self, block: usize) -> Result<u32> {
        self.list
            .firsts
            .get(block)
            .copied()
            .ok_or_else(|| out_of_range("posting block"))
    }

    #[inline]
    fn look_ahead(&mut self, low: u32) {
        self.ahead = self.block_of(low, self.ahead);
    }

    /// The last block, from a block on, that begins at or before a document.
    #[inline]
    fn block_of(&self, target: u32, from: usize) -> usize {
        let firsts = &self.list.firsts;
        if firsts.get(from + 1).is_none_or(|first| *first > target) {
            return from;
        }
        let mut step = 1;
        while firsts
            .get(from + step)
            .is_some_and(|first| *first <= target)
        {
            step *= 2;
        }
        let low = from + step / 2;
        let high = (from + step).min(firsts.len());
        let between = firsts.get(low..high).unwrap_or_default();
        low + between.partition_point(|first| *first <= target) - 1
    }
}

/// How many items of an ascending list are less than a value.
#[inline]
fn seek(sorted: &[u32], value: u32) -> usize {
    let near = sorted
        .iter()
        .take(8)
        .take_while(|item| **item < value)
        .count();
    if near < 8 {
        return near;
    }
    sorted.partition_point(|item| *item < value)
}
