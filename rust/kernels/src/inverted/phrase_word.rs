//! A word of a phrase: the token at a position of the query, or several that are alternatives.
//!
//!     query       user_name    cut into   user_name | user   at position 0,   name   at position 1
//!     document    user name    contains               user   at position 0,   name   at position 1

use super::cursor::{Cursor, Decoded, total};
use super::documents::END;
use crate::error::{Result, out_of_range};

/// The tokens of a word, at a document that contains any of them.
pub struct Word<'a> {
    tokens: Vec<Cursor<'a>>,
    document: u32,
    /// Positions of several tokens in the document.
    positions: Vec<u32>,
}

impl<'a> Word<'a> {
    /// Begins at the first document.
    pub fn new(tokens: Vec<Cursor<'a>>) -> Self {
        let document = tokens.iter().map(Cursor::document).min().unwrap_or(END);
        Self {
            tokens,
            document,
            positions: Vec::new(),
        }
    }

    /// The most documents that there can be.
    pub fn cost(&self) -> usize {
        self.tokens.iter().map(Cursor::cost).sum()
    }

    /// Number of tokens.
    pub fn terms(&self) -> usize {
        self.tokens.len()
    }

    /// The blocks that were decoded so far.
    pub fn decoded(&self) -> Decoded {
        total(self.tokens.iter().map(Cursor::decoded))
    }

    /// Moves to the first document that is not before `target`.
    #[inline]
    pub fn advance(&mut self, target: u32) -> Result<u32> {
        if self.document < target {
            let mut next = END;
            for token in &mut self.tokens {
                next = next.min(token.advance(target)?);
            }
            self.document = next;
        }
        Ok(self.document)
    }

    /// The positions in the document, in ascending order.
    pub fn positions(&mut self) -> Result<&[u32]> {
        if self.tokens.len() == 1 {
            let token = self.tokens.first_mut();
            return token.ok_or_else(|| out_of_range("token"))?.positions();
        }
        self.positions.clear();
        for token in &mut self.tokens {
            if token.document() == self.document {
                self.positions.extend_from_slice(token.positions()?);
            }
        }
        self.positions.sort_unstable();
        Ok(&self.positions)
    }

    /// The score of the document: the sum of those of its tokens.
    pub fn score(&mut self) -> Result<f32> {
        let mut sum = 0f32;
        for token in &mut self.tokens {
            if token.document() == self.document {
                sum += token.score()?;
            }
        }
        Ok(sum)
    }

    /// A document up to which a bound from `low` on is worth computing.
    pub fn until(&mut self, low: u32) -> u32 {
        let ends = self.tokens.iter_mut().map(|token| token.until(low));
        ends.min().unwrap_or(END - 1)
    }

    /// A score that no document from `low` to `high` exceeds, up to rounding.
    pub fn bound(&mut self, low: u32, high: u32) -> f64 {
        let bounds = self.tokens.iter_mut().map(|token| token.bound(low, high));
        bounds.sum()
    }
}
