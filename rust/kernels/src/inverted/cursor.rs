//! A place in a posting list that only moves forward.
//!
//! The first document of each block is known, so a cursor that lands there decodes nothing; a
//! block is decoded when it is entered, and all of its scores are computed when one is needed.

use super::blocks::MOST;
use super::bm25;
use super::choice::Choice;
use super::documents::{DocumentSet, END};
use super::grades;
use super::marks::Marks;
use super::norms::Norms;
use super::positions;
use super::posting::Posting;
use crate::error::{Result, out_of_range, part};

const NONE: usize = usize::MAX;

/// All scores of a block are computed if more than one entry in so many is chosen.
const FEW_ENTRIES: usize = 2;

/// Entries that are looked at at once.
const NEAR_ENTRIES: usize = 8;

/// Blocks that are looked at one by one for the bound of a range.
const NEAR_BLOCKS: usize = 64;

/// A cursor of the entries of one token.
pub struct Cursor<'a> {
    list: &'a Posting,
    norms: &'a Norms,
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
    decoded: Decoded,
}

/// How many blocks were decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Blocks of documents.
    pub documents: usize,
    /// Blocks of positions.
    pub positions: usize,
}

impl std::ops::AddAssign for Decoded {
    fn add_assign(&mut self, other: Self) {
        self.documents += other.documents;
        self.positions += other.positions;
    }
}

/// Adds up what was decoded.
pub fn total(parts: impl Iterator<Item = Decoded>) -> Decoded {
    let mut sum = Decoded::default();
    parts.for_each(|part| sum += part);
    sum
}

impl<'a> Cursor<'a> {
    /// Begins at the first entry.
    pub fn new(list: &'a Posting, idf: f32, norms: &'a Norms) -> Self {
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
            decoded: Decoded::default(),
        }
    }

    /// Entries of the list.
    pub fn cost(&self) -> usize {
        self.list.count
    }

    /// The documents with the greatest scores, in their order; none of a short list.
    pub fn heavy(&self) -> impl Iterator<Item = (u32, f32)> {
        let heavy = self.list.heavy.iter();
        heavy.map(|(document, weight)| (*document, self.idf * weight))
    }

    /// The blocks that were decoded so far.
    pub fn decoded(&self) -> Decoded {
        self.decoded
    }

    /// The last document of the list.
    #[inline]
    pub fn last(&self) -> u32 {
        self.list.last
    }

    /// The greatest score of all.
    pub fn most(&self) -> f32 {
        self.idf * self.list.most
    }

    /// A score that `k` documents of a set reach, as far as it is known.
    pub fn reached_by(&self, k: usize, allowed: Option<&DocumentSet>) -> Option<f32> {
        let best = self.list.best.iter();
        let mut found =
            best.filter(|(_, document)| allowed.is_none_or(|set| set.contains(*document)));
        found
            .nth(k.checked_sub(1)?)
            .map(|(weight, _)| self.idf * weight)
    }

    /// The first document, from `low` on, of a block with scores above a cutoff; `low` itself if
    /// it may be within the block; `END` if there is none.
    #[inline]
    pub fn next_above(&mut self, low: u32, cutoff: f32) -> u32 {
        self.look_ahead(low);
        let left = self.list.weights.get(self.ahead..).unwrap_or_default();
        let Some(skipped) = left.iter().position(|weight| self.idf * *weight > cutoff) else {
            return END;
        };
        match self.list.firsts.get(self.ahead + skipped) {
            Some(first) => low.max(*first),
            None => END,
        }
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
        if self.with_scores != self.block {
            self.decode_frequencies()?;
        }
        self.score_at(self.at, self.document)
    }

    /// The score of an entry of the block, whose frequencies or scores are known.
    #[inline]
    fn score_at(&self, at: usize, document: u32) -> Result<f32> {
        let missing = || out_of_range("entry");
        if self.with_scores == self.block {
            return self.scores.get(at).copied().ok_or_else(missing);
        }
        let frequency = *self.frequencies.get(at).ok_or_else(missing)?;
        let norm = self.norms.get(document)?;
        Ok(self.idf * bm25::weight(bm25::float32(frequency), norm))
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

    /// A document that none of the block is after.
    #[inline]
    pub fn block_end(&self) -> u32 {
        match self.list.firsts.get(self.block + 1) {
            Some(next) => next - 1,
            None => self.list.last,
        }
    }

    /// Appends the entries of the block, from the current one to document `high`, that a choice
    /// selects; returns whether the block ends there.
    pub fn append_chosen(
        &mut self,
        choice: Choice<'_>,
        high: u32,
        out: &mut Vec<(u32, f32)>,
    ) -> Result<bool> {
        let missing = || out_of_range("entry");
        self.decode_documents()?;
        let total = self.list.count_of(self.block);
        let mut places = [0; MOST];
        let (count, is_end) = {
            let documents = self.documents.get(self.at..total).ok_or_else(missing)?;
            let count = documents.partition_point(|document| *document <= high);
            let documents = documents.get(..count).ok_or_else(missing)?;
            let grades = self.list.grades(self.block)?;
            let grades = part(grades, self.at, count, "grades")?;
            let is_end = self.at + count == total;
            (choice.places(documents, grades, &mut places), is_end)
        };
        if count == 0 {
            return Ok(is_end);
        }
        if count * FEW_ENTRIES > total {
            self.compute_scores()?;
        } else {
            self.decode_frequencies()?;
        }
        let begin = self.at;
        for &place in places.get(..count).ok_or_else(missing)? {
            let at = begin + usize::from(place);
            let document = *self.documents.get(at).ok_or_else(missing)?;
            let score = self.score_at(at, document)?;
            if choice.keeps(document, score) {
                out.push((document, score));
            }
        }
        Ok(is_end)
    }

    /// The choice of the entries with scores above a cutoff, or of marked documents.
    #[inline]
    pub fn choice<'m>(&self, cutoff: f32, marks: Option<&'m Marks>) -> Choice<'m> {
        Choice {
            cutoff,
            least: grades::least_above(cutoff, self.idf),
            marks,
        }
    }

    /// The most entries that the blocks with documents from `low` to `high` may have.
    #[inline]
    pub fn num_entries_within(&mut self, low: u32, high: u32) -> usize {
        self.look_ahead(low);
        let num_blocks = 1 + self.block_of(high, self.ahead) - self.ahead;
        num_blocks * self.list.block_size()
    }

    /// The greatest score of the block that a document may be in; documents are asked for in
    /// ascending order.
    #[inline]
    pub fn bound_at(&mut self, document: u32) -> f64 {
        self.look_ahead(document);
        let weight = self.list.weights.get(self.ahead).copied();
        f64::from(self.idf * weight.unwrap_or(f32::INFINITY))
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

    /// The greatest score of documents from `low` to `high`; 0 if there are none.
    #[inline]
    pub fn bound(&mut self, low: u32, high: u32) -> f64 {
        self.greatest(low, high).unwrap_or(0.0)
    }

    /// The greatest score of the blocks with documents from `low` to `high`; none if no document
    /// can be there.
    #[inline]
    pub fn greatest(&mut self, low: u32, high: u32) -> Option<f64> {
        if self.document > high || low > self.list.last {
            return None;
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
                return Some(f64::from(self.idf * most));
            }
            most = most.max(self.list.weights.get(block).copied().unwrap_or(0.0));
        }
        Some(f64::from(self.idf * self.list.most))
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
            self.decoded.positions += 1;
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
        self.norms.read(documents, scores)?;
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
            self.decoded.documents += 1;
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
    let Some((near, rest)) = sorted.split_first_chunk::<NEAR_ENTRIES>() else {
        return sorted.partition_point(|item| *item < value);
    };
    // Counted without a branch: most steps are short, but of no certain length.
    let count: u32 = near.iter().map(|item| u32::from(*item < value)).sum();
    let count = count as usize;
    if count < NEAR_ENTRIES {
        return count;
    }
    NEAR_ENTRIES + rest.partition_point(|item| *item < value)
}
