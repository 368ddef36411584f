//! The tokens of many documents, each with a number from 0 in the order of their first appearance.
//!
//! A piece of text is analysed once: `pieces` keeps what became of it, and starts over when it has
//! grown too large.

use std::sync::Arc;

use super::interner::Interner;
use super::{Analyzer, Documents, Piece};
use crate::error::{Result, signed};

/// Memory for pieces whose token is known.
const MAX_PIECES_BYTES: usize = 16 << 20;
/// Marks a piece that a filter drops.
const DROPPED: u32 = u32::MAX;

/// A growing set of tokens.
pub struct Dictionary {
    analyzer: Arc<Analyzer>,
    tokens: Interner,
    pieces: Interner,
    /// The token of each piece.
    becomes: Vec<u32>,
    scratch: Vec<u8>,
}

/// Tokens of documents, as numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbered {
    pub tokens: Vec<u32>,
    pub positions: Vec<u32>,
    /// The number of tokens at the end of each document.
    pub ends: Vec<i64>,
}

impl Dictionary {
    /// An empty set.
    pub fn new(analyzer: Arc<Analyzer>) -> Self {
        Self {
            analyzer,
            tokens: Interner::default(),
            pieces: Interner::default(),
            becomes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory in use.
    pub fn size_bytes(&self) -> usize {
        let becomes = self.becomes.capacity() * size_of::<u32>();
        self.tokens.size_bytes() + self.pieces.size_bytes() + becomes
    }

    /// The tokens of each document; those of a null document are none.
    pub fn analyze(&mut self, documents: &Documents<'_>) -> Result<Numbered> {
        let analyzer = Arc::clone(&self.analyzer);
        let mut made = Numbered::default();
        documents.each(|document| {
            if let Some(text) = document {
                analyzer.pieces(text, &mut |piece: Piece<'_>, position| {
                    let token = self.token(piece)?;
                    if token != DROPPED {
                        made.tokens.push(token);
                        made.positions.push(position);
                    }
                    Ok(token != DROPPED)
                })?;
            }
            made.ends.push(signed(made.tokens.len(), "tokens")?);
            Ok(())
        })?;
        Ok(made)
    }

    /// The number of each token; new ones are added.
    pub fn add<'a>(&mut self, tokens: impl Iterator<Item = Result<&'a [u8]>>) -> Result<Vec<u32>> {
        tokens.map(|token| Ok(self.tokens.add(token?)?.0)).collect()
    }

    /// All tokens in the order of their bytes: offsets, bytes and numbers.
    pub fn sorted(&self) -> Result<(Vec<i64>, Vec<u8>, Vec<u32>)> {
        let numbers = self.tokens.sorted()?;
        let mut offsets = vec![0];
        let mut data = Vec::new();
        for &number in &numbers {
            data.extend_from_slice(self.tokens.get(number));
            offsets.push(signed(data.len(), "tokens")?);
        }
        Ok((offsets, data, numbers))
    }

    fn token(&mut self, piece: Piece<'_>) -> Result<u32> {
        self.scratch.clear();
        self.scratch.extend_from_slice(piece.prefix.as_bytes());
        let prefix = self.scratch.len();
        self.scratch.extend_from_slice(piece.text.as_bytes());
        if let Some(known) = self.known(&self.scratch) {
            return Ok(known);
        }
        let number = match self.analyzer.token(piece) {
            None => DROPPED,
            Some(token) => {
                let whole = std::mem::take(&mut self.scratch);
                let made = [whole.get(..prefix).unwrap_or_default(), token.as_bytes()].concat();
                self.scratch = whole;
                self.tokens.add(&made)?.0
            }
        };
        if self.pieces.used_bytes() > MAX_PIECES_BYTES {
            self.pieces.clear();
            self.becomes.clear();
        }
        self.pieces.add(&self.scratch)?;
        self.becomes.push(number);
        Ok(number)
    }

    fn known(&self, piece: &[u8]) -> Option<u32> {
        let number = usize::try_from(self.pieces.find(piece)?).ok()?;
        self.becomes.get(number).copied()
    }
}
