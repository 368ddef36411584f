//! Documents of a window that may be among the best, with the scores of their tokens.
//!
//!     drivers    12 17 90 | 17 40    documents of some tokens that alone may be of use
//!     documents  12 17 40 90         each once, ascending
//!     scores     one line for each document, with a score for each token; `ABSENT` if unknown
//!     sums       of these scores

use super::best::Best;
use super::choice::Choice;
use super::cursor::Cursor;
use super::documents::DocumentSet;
use super::marks::Marks;
use super::tree::{ABSENT, Leaf};
use crate::error::{Result, out_of_range};

/// The most documents of a window.
pub const MOST_DOCUMENTS: u32 = 1 << 16;

/// As many entries are tested in the time that it takes to look up a document.
const ENTRIES_PER_LOOK_UP: usize = 6;

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
    /// The documents, if they are marked.
    marks: Marks,
    has_marks: bool,
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
        let is_alone = drivers.len() == 1;
        if !is_alone {
            self.marks.begin(window.low, window.high);
        }
        for (place, (entries, driver)) in self.entries.iter_mut().zip(drivers).enumerate() {
            let leaf = leaves.get_mut(driver.leaf).ok_or_else(missing)?;
            let cutoff = best.cutoff(driver.below, leaf.factor);
            // Entries of documents that belong to the drivers before are needed, too.
            let marks = (place > 0).then_some(&self.marks);
            let choice = leaf.cursor.choice(cutoff, marks);
            collect(&mut leaf.cursor, choice, window, entries)?;
            if !is_alone {
                for (document, _) in &*entries {
                    self.marks.mark(*document)?;
                }
            }
        }
        if is_alone {
            self.documents.clear();
            let alone = self.entries.iter().flatten();
            self.documents.extend(alone.map(|(document, _)| *document));
        } else {
            let most = self.entries.iter().map(Vec::len).sum();
            self.marks.list(most, &mut self.documents)?;
        }
        self.has_marks = !is_alone;
        self.begin();
        for (place, driver) in drivers.iter().enumerate() {
            let factor = leaves.get(driver.leaf).ok_or_else(missing)?.factor;
            self.put(place, driver.leaf, factor)?;
        }
        Ok(())
    }

    /// Selects documents, which are sorted; their scores are all unknown.
    pub fn select(&mut self, width: usize, documents: Vec<u32>) {
        self.width = width;
        self.documents = documents;
        self.has_marks = false;
        self.begin();
    }

    /// Begins without any scores.
    fn begin(&mut self) {
        let count = self.documents.len();
        self.scores.clear();
        self.scores.resize(count * self.width, ABSENT);
        self.sums.clear();
        self.sums.resize(count, 0.0);
        self.left.clear();
        self.left.extend((0u32..).take(count));
    }

    /// Adds the scores of another token; `left` is what it and those after it can add, `own` what
    /// it can add.
    pub fn add(
        &mut self,
        token: usize,
        leaf: &mut Leaf<'_>,
        (left, own): (f64, f64),
        best: &Best,
    ) -> Result<()> {
        if self.are_dense(&mut leaf.cursor) {
            self.join(token, leaf)
        } else {
            self.look_up(token, leaf, left - own, best)
        }
    }

    /// Whether to test all entries of a token takes less time than to look up what is left.
    fn are_dense(&self, cursor: &mut Cursor<'_>) -> bool {
        let (Some(&low), Some(&high)) = (self.documents.first(), self.documents.last()) else {
            return false;
        };
        high - low < MOST_DOCUMENTS
            && cursor.num_entries_within(low, high) < ENTRIES_PER_LOOK_UP * self.left.len()
    }

    /// Adds the scores of another token, of all of whose entries the marked ones are chosen.
    fn join(&mut self, token: usize, leaf: &mut Leaf<'_>) -> Result<()> {
        let (Some(&low), Some(&high)) = (self.documents.first(), self.documents.last()) else {
            return Ok(());
        };
        if !self.has_marks {
            self.marks.begin(low, high);
            for &document in &self.documents {
                self.marks.mark(document)?;
            }
            self.marks.count();
            self.has_marks = true;
        }
        let window = Window {
            low,
            high,
            allowed: None,
        };
        let mut entries = self.entries.pop().unwrap_or_default();
        let choice = leaf.cursor.choice(f32::INFINITY, Some(&self.marks));
        collect(&mut leaf.cursor, choice, window, &mut entries)?;
        for &(document, score) in &entries {
            let line = self.marks.rank(document)?;
            self.put_score(line, token, leaf.factor, score)?;
        }
        self.entries.push(entries);
        if leaf.is_required {
            let (scores, width) = (&self.scores, self.width);
            self.left.retain(|place| {
                let score = scores.get(*place as usize * width + token);
                score.is_some_and(|score| *score >= 0.0)
            });
        }
        Ok(())
    }

    /// Looks up the documents that are left; `others` is what the tokens after it can add.
    fn look_up(
        &mut self,
        token: usize,
        leaf: &mut Leaf<'_>,
        others: f64,
        best: &Best,
    ) -> Result<()> {
        let mut kept = 0;
        for at in 0..self.left.len() {
            let candidate = *self.left.get(at).ok_or_else(missing)?;
            let place = candidate as usize;
            let sum = *self.sums.get(place).ok_or_else(missing)?;
            let document = *self.documents.get(place).ok_or_else(missing)?;
            // Most blocks are passed without decoding them.
            if best.is_too_low(sum + others + leaf.factor * leaf.cursor.bound_at(document)) {
                continue;
            }
            if leaf.cursor.advance(document)? == document {
                let score = leaf.cursor.score()?;
                self.put_score(place, token, leaf.factor, score)?;
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

    /// Puts the scores of a driver into the lines of its documents.
    fn put(&mut self, place: usize, token: usize, factor: f64) -> Result<()> {
        let entries = std::mem::take(self.entries.get_mut(place).ok_or_else(missing)?);
        for (index, &(document, score)) in entries.iter().enumerate() {
            let line = if self.has_marks {
                self.marks.rank(document)?
            } else {
                index
            };
            self.put_score(line, token, factor, score)?;
        }
        *self.entries.get_mut(place).ok_or_else(missing)? = entries;
        Ok(())
    }

    /// Puts the score of a token into the line of a document.
    #[inline]
    fn put_score(&mut self, line: usize, token: usize, factor: f64, score: f32) -> Result<()> {
        let slot = self.scores.get_mut(line * self.width + token);
        *slot.ok_or_else(missing)? = score;
        *self.sums.get_mut(line).ok_or_else(missing)? += factor * f64::from(score);
        Ok(())
    }
}

/// Replaces `entries` by those of a window that are chosen.
fn collect(
    cursor: &mut Cursor<'_>,
    choice: Choice<'_>,
    window: Window<'_>,
    entries: &mut Vec<(u32, f32)>,
) -> Result<()> {
    entries.clear();
    while cursor.advance(window.low)? <= window.high {
        if choice.marks.is_none() && cursor.block_bound() <= choice.cutoff {
            if cursor.block_end() > window.high {
                // Beside the tokens of the next window, the rest of the block may be of use.
                break;
            }
            cursor.skip_block();
            continue;
        }
        let first = entries.len();
        let is_end = cursor.append_chosen(choice, window.high, entries)?;
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
