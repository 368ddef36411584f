//! Documents of a window that may be among the best, with the scores of their tokens.
//!
//!     drivers    12 17 90 | 17 40    documents of some tokens that alone may be of use
//!     documents  12 17 40 90         each once, ascending
//!     scores     one line for each document, with a score for each token; `ABSENT` if unknown
//!     sums       of these scores

use super::documents::DocumentSet;
use super::top::Best;
use super::tree::{ABSENT, Leaf};
use crate::error::{Result, out_of_range};

/// The most documents of a window.
pub const MOST_DOCUMENTS: u32 = 1 << 16;

/// Documents of a word that are listed without a condition.
const BITS_AT_ONCE: usize = 4;

/// Documents with scores.
#[derive(Default)]
pub struct Candidates {
    pub documents: Vec<u32>,
    /// Number of tokens.
    width: usize,
    scores: Vec<f32>,
    sums: Vec<f64>,
    /// The places of those that are left.
    left: Vec<u32>,
    /// Entries of each driver.
    entries: Vec<Vec<(u32, f32)>>,
    /// Which documents of the window there are, one bit for each, and how many are before a word.
    words: Vec<u64>,
    ranks: Vec<u32>,
}

/// A token whose documents are collected. A document belongs to the first driver that it has.
#[derive(Clone, Copy)]
pub struct Driver {
    pub leaf: usize,
    /// What all other tokens can add to its scores.
    pub rest: f64,
    /// The same in documents that belong to it, where those before it add nothing.
    pub below: f64,
}

/// A range of documents, and which of them count.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    pub low: u32,
    pub high: u32,
    pub allowed: Option<&'a DocumentSet>,
}

impl Window<'_> {
    /// The documents of a set that are in the window.
    pub fn documents_of(&self, set: &DocumentSet) -> Vec<u32> {
        let next = |document: u32| {
            let found = set.next(document);
            (found <= self.high).then_some(found)
        };
        std::iter::successors(next(self.low), |last| next(last + 1)).collect()
    }
}

impl Candidates {
    /// Collects the documents of drivers.
    pub fn collect(
        &mut self,
        drivers: &[Driver],
        leaves: &mut [Leaf<'_>],
        window: Window<'_>,
        best: &Best,
    ) -> Result<()> {
        self.width = leaves.len();
        self.entries.resize_with(drivers.len(), Vec::new);
        for (entries, driver) in self.entries.iter_mut().zip(drivers) {
            let leaf = leaves.get_mut(driver.leaf).ok_or_else(missing)?;
            entries.clear();
            collect(leaf, driver.rest, window, best, entries)?;
        }
        self.documents.clear();
        if let [entries] = self.entries.as_slice() {
            let documents = entries.iter().map(|(document, _)| *document);
            self.documents.extend(documents);
        } else {
            self.words.clear();
            let count = (window.high - window.low) / 64 + 1;
            self.words.resize(count as usize, 0);
            for (place, driver) in drivers.iter().enumerate() {
                let factor = leaves.get(driver.leaf).ok_or_else(missing)?.factor;
                self.mark(place, best.cutoff(driver.below, factor), window)?;
            }
            self.list(window)?;
        }
        self.begin();
        for (place, driver) in drivers.iter().enumerate() {
            let factor = leaves.get(driver.leaf).ok_or_else(missing)?.factor;
            self.put(place, driver.leaf, factor, window)?;
        }
        Ok(())
    }

    /// Selects documents, which are sorted; their scores are all unknown.
    pub fn select(&mut self, width: usize, documents: Vec<u32>) {
        self.width = width;
        self.documents = documents;
        self.begin();
    }

    /// Begins without any scores; there is a line more than documents.
    fn begin(&mut self) {
        let count = self.documents.len();
        self.scores.clear();
        self.scores.resize((count + 1) * self.width, ABSENT);
        self.sums.clear();
        self.sums.resize(count + 1, 0.0);
        self.left.clear();
        self.left.extend((0u32..).take(count));
    }

    /// Adds the scores of another token; `left` is what it and those after it can add.
    pub fn look_up(
        &mut self,
        token: usize,
        leaf: &mut Leaf<'_>,
        left: f64,
        best: &Best,
    ) -> Result<()> {
        let mut kept = 0;
        for at in 0..self.left.len() {
            let candidate = *self.left.get(at).ok_or_else(missing)?;
            let place = candidate as usize;
            let sum = self.sums.get_mut(place).ok_or_else(missing)?;
            if best.is_too_low(*sum + left) {
                continue;
            }
            let document = *self.documents.get(place).ok_or_else(missing)?;
            if leaf.cursor.advance(document)? == document {
                let score = leaf.cursor.score()?;
                *sum += leaf.factor * f64::from(score);
                let slot = self.scores.get_mut(place * self.width + token);
                *slot.ok_or_else(missing)? = score;
            } else if leaf.is_required {
                continue;
            }
            *self.left.get_mut(kept).ok_or_else(missing)? = candidate;
            kept += 1;
        }
        self.left.truncate(kept);
        Ok(())
    }

    /// The documents that are left, the scores of their tokens and their sums.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[f32], f64)> {
        self.left.iter().filter_map(|&candidate| {
            let place = candidate as usize;
            let start = place * self.width;
            let scores = self.scores.get(start..start + self.width)?;
            Some((*self.documents.get(place)?, scores, *self.sums.get(place)?))
        })
    }

    /// Marks the documents of a driver with scores above a cutoff.
    fn mark(&mut self, place: usize, cutoff: f32, window: Window<'_>) -> Result<()> {
        let entries = self.entries.get(place).ok_or_else(missing)?;
        for &(document, score) in entries {
            let bit = document - window.low;
            let word = self.words.get_mut((bit / 64) as usize);
            *word.ok_or_else(missing)? |= u64::from(score > cutoff) << (bit % 64);
        }
        Ok(())
    }

    /// Makes a sorted list of the documents that are marked.
    fn list(&mut self, window: Window<'_>) -> Result<()> {
        let total: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        self.documents.resize(total as usize + BITS_AT_ONCE, 0);
        self.ranks.clear();
        let (mut rank, mut first) = (0, window.low);
        for &word in &self.words {
            self.ranks.push(rank);
            let (mut rest, mut at) = (word, rank as usize);
            // Most words have few bits, of no certain number: what is written beyond them is
            // overwritten by the next word.
            loop {
                let slots = self.documents.get_mut(at..at + BITS_AT_ONCE);
                for slot in slots.ok_or_else(missing)? {
                    *slot = first.wrapping_add(rest.trailing_zeros());
                    rest &= rest.wrapping_sub(1);
                }
                if rest == 0 {
                    break;
                }
                at += BITS_AT_ONCE;
            }
            rank += word.count_ones();
            first = first.wrapping_add(64);
        }
        self.documents.truncate(total as usize);
        Ok(())
    }

    /// Puts the scores of a driver into the lines of its documents, as far as these are listed.
    fn put(&mut self, place: usize, token: usize, factor: f64, window: Window<'_>) -> Result<()> {
        let is_alone = self.entries.len() == 1;
        let (entries, beyond) = (self.entries.get(place), self.documents.len());
        let entries = entries.ok_or_else(missing)?;
        for (index, &(document, score)) in entries.iter().enumerate() {
            let line = if is_alone {
                index
            } else {
                let bit = document - window.low;
                let word = (bit / 64) as usize;
                let marks = self.words.get(word).ok_or_else(missing)?;
                let before = marks & ((1 << (bit % 64)) - 1);
                let rank = self.ranks.get(word).ok_or_else(missing)? + before.count_ones();
                // Without a branch: the line beyond all others is not read.
                if marks >> (bit % 64) & 1 == 1 {
                    rank as usize
                } else {
                    beyond
                }
            };
            let slot = self.scores.get_mut(line * self.width + token);
            *slot.ok_or_else(missing)? = score;
            *self.sums.get_mut(line).ok_or_else(missing)? += factor * f64::from(score);
        }
        Ok(())
    }
}

/// Appends the entries of a window that may be of use, if others add at most `rest`.
fn collect(
    leaf: &mut Leaf<'_>,
    rest: f64,
    window: Window<'_>,
    best: &Best,
    entries: &mut Vec<(u32, f32)>,
) -> Result<()> {
    let cutoff = best.cutoff(rest, leaf.factor);
    let cursor = leaf.cursor.as_mut();
    let least = cursor.least_frequency(cutoff);
    while cursor.advance(window.low)? <= window.high {
        if cursor.block_bound() <= cutoff {
            if cursor.block_end() > window.high {
                // Beside the tokens of the next window, the rest of the block may be of use.
                break;
            }
            cursor.skip_block();
            continue;
        }
        let first = entries.len();
        let is_end = cursor.entries_above((cutoff, least), window.high, entries)?;
        if let Some(allowed) = window.allowed {
            let mut place = 0;
            entries.retain(|(document, _)| {
                place += 1;
                place <= first || allowed.contains(*document)
            });
        }
        if !is_end {
            break;
        }
        cursor.skip_block();
    }
    Ok(())
}

#[cold]
fn missing() -> crate::error::Corrupt {
    out_of_range("candidate")
}
