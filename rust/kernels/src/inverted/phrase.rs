//! Documents in which some tokens occur one after another.
//!
//!     query       quick fox          at positions 0 2: a stop word between them was removed
//!     document    quick brown fox    at positions 0 2
//!
//! For each pair of adjacent words, the distance in the document may exceed the one in the query
//! by 0 to `slop` positions. All ways are tried: a word may occur several times.

use super::common::first_common;
use super::cursor::{Decoded, total};
use super::documents::END;
use super::phrase_word::Word;
use crate::error::Result;

/// The test whether words occur one after another.
pub struct Matcher {
    /// Positions of the words in the query.
    positions: Vec<u32>,
    slop: u32,
    reached: Vec<u32>,
    next: Vec<u32>,
}

impl Matcher {
    /// A test of words at these positions of the query.
    pub fn new(positions: Vec<u32>, slop: u32) -> Self {
        Self {
            positions,
            slop,
            reached: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Tests a document, at which all words are.
    pub fn matches(&mut self, words: &mut [Word<'_>]) -> Result<bool> {
        let mut before = None;
        for (word, &position) in words.iter_mut().zip(&self.positions) {
            let positions = word.positions()?;
            let Some(last) = before.replace(position) else {
                self.reached.clear();
                self.reached.extend_from_slice(positions);
                continue;
            };
            let gap = position.saturating_sub(last);
            follow(&self.reached, positions, gap, self.slop, &mut self.next);
            std::mem::swap(&mut self.reached, &mut self.next);
            if self.reached.is_empty() {
                return Ok(false);
            }
        }
        Ok(before.is_some())
    }
}

/// The test whether documents contain a phrase, which are tested in ascending order.
pub struct Test<'a> {
    words: Vec<Word<'a>>,
    matcher: Matcher,
}

impl<'a> Test<'a> {
    /// A test of words, with their positions in the query.
    pub fn new(words: Vec<Word<'a>>, positions: Vec<u32>, slop: u32) -> Self {
        let matcher = Matcher::new(positions, slop);
        Self { words, matcher }
    }

    /// Tests a document.
    pub fn is_in(&mut self, document: u32) -> Result<bool> {
        for word in &mut self.words {
            if word.advance(document)? != document {
                return Ok(false);
            }
        }
        self.matcher.matches(&mut self.words)
    }

    /// The blocks that were decoded so far.
    pub fn decoded(&self) -> Decoded {
        total(self.words.iter().map(Word::decoded))
    }
}

/// A phrase, at a document that contains it.
pub struct Phrase<'a> {
    words: Vec<Word<'a>>,
    /// Words by the number of their documents: the rarest first.
    order: Vec<usize>,
    matcher: Matcher,
    document: u32,
}

impl<'a> Phrase<'a> {
    /// Begins at the first document that contains words with these positions in the query.
    pub fn new(words: Vec<Word<'a>>, positions: Vec<u32>, slop: u32) -> Result<Self> {
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|&i| words.get(i).map(Word::cost));
        let mut phrase = Self {
            words,
            order,
            matcher: Matcher::new(positions, slop),
            document: 0,
        };
        phrase.find(0)?;
        Ok(phrase)
    }

    /// The most documents that there can be.
    pub fn cost(&self) -> usize {
        self.words.iter().map(Word::cost).min().unwrap_or(0)
    }

    /// Number of tokens.
    pub fn terms(&self) -> usize {
        self.words.iter().map(Word::terms).sum()
    }

    /// The blocks that were decoded so far.
    pub fn decoded(&self) -> Decoded {
        total(self.words.iter().map(Word::decoded))
    }

    /// The document; `END` after the last one.
    pub fn document(&self) -> u32 {
        self.document
    }

    /// Moves to the first document that contains the phrase and is not before `target`.
    pub fn advance(&mut self, target: u32) -> Result<u32> {
        if self.document < target {
            self.find(target)?;
        }
        Ok(self.document)
    }

    /// The score of the document: the sum of those of the words.
    pub fn score(&mut self) -> Result<f32> {
        let mut sum = 0f32;
        for word in &mut self.words {
            sum += word.score()?;
        }
        Ok(sum)
    }

    /// The last document of the block of the rarest word.
    pub fn until(&mut self, low: u32) -> u32 {
        let rarest = self.order.first().and_then(|&i| self.words.get_mut(i));
        rarest.map_or(END - 1, |word| word.until(low))
    }

    /// The greatest score of documents from `low` to `high`.
    pub fn bound(&mut self, low: u32, high: u32) -> f64 {
        let bounds = self.words.iter_mut().map(|word| word.bound(low, high));
        bounds.sum()
    }

    fn find(&mut self, mut target: u32) -> Result<()> {
        while target != END {
            target = first_common(&mut self.words, &self.order, target, Word::advance)?;
            if target == END || self.matches()? {
                break;
            }
            target += 1;
        }
        self.document = target;
        Ok(())
    }

    fn matches(&mut self) -> Result<bool> {
        self.matcher.matches(&mut self.words)
    }
}

/// The positions that are `gap` to `gap + slop` after one of the reached positions.
fn follow(reached: &[u32], positions: &[u32], gap: u32, slop: u32, out: &mut Vec<u32>) {
    out.clear();
    let (gap, slop) = (u64::from(gap), u64::from(slop));
    let mut left = reached.iter().map(|&at| u64::from(at) + gap).peekable();
    for &position in positions {
        let here = u64::from(position);
        while left.next_if(|&nearest| nearest + slop < here).is_some() {}
        if left.peek().is_some_and(|&nearest| nearest <= here) {
            out.push(position);
        }
    }
}
