//! A sorted set of tokens with a number each, as a finite-state transducer (version 3 of the crate
//! `fst`): a graph whose paths spell the tokens; the number is the sum of the outputs on the path.
//!
//!     u64 3 | u64 type | nodes … | u64 number of tokens | u64 address of the root | u32 checksum
//!
//! The nodes are read by our own code, which checks every address. A node refers only to nodes that
//! lie before it, so no path is endless.

mod fuzzy;
mod nodes;

use crate::error::{Corrupt, Result, ensure, signed, size, u64_at};
use crate::offsets::OffsetsIn;
use nodes::Node;

pub use fuzzy::Similar;

const HEADER: usize = 16;
const FOOTER: usize = 20;
/// How many times larger than the graph the tokens may be before they count as damage.
const MAX_EXPANSION: usize = 4096;
/// Bytes of tokens that any set may have: consecutive numbers take some hundred as a graph.
const SMALL: usize = 1 << 28;

/// Tokens as text, with their numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    pub offsets: Vec<i64>,
    pub data: Vec<u8>,
    pub numbers: Vec<u32>,
}

impl Default for Listed {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            data: Vec::new(),
            numbers: Vec::new(),
        }
    }
}

impl Listed {
    fn push(&mut self, token: &[u8], number: u32) -> Result<()> {
        self.data.extend_from_slice(token);
        self.offsets.push(signed(self.data.len(), "tokens")?);
        self.numbers.push(number);
        Ok(())
    }
}

/// A set of tokens.
#[derive(Debug)]
pub struct TokenSet {
    data: Vec<u8>,
    root: usize,
    len: usize,
}

impl TokenSet {
    /// Reads a stored graph.
    pub fn read(data: Vec<u8>) -> Result<Self> {
        let least = HEADER + FOOTER;
        let bounds = format_args!("at least {least}");
        ensure(data.len() >= least, "token set, bytes", data.len(), bounds)?;
        let version = u64_at(&data, 0, "version of the token set")?;
        ensure(version == 3, "version of the token set", version, 3)?;
        let graph = fst::raw::Fst::new(data.as_slice()).and_then(|graph| graph.verify());
        graph.map_err(|error| Corrupt(format!("token set: {error}")))?;
        let footer = data.len() - FOOTER;
        let len = size(
            u64_at(&data, footer, "number of tokens")?,
            "number of tokens",
        )?;
        let root = size(u64_at(&data, footer + 8, "root")?, "address of the root")?;
        ensure(
            root < footer,
            "address of the root",
            root,
            format_args!("less than {footer}"),
        )?;
        Ok(Self { data, root, len })
    }

    /// Makes the graph of tokens in the order of their bytes.
    pub fn of(offsets: OffsetsIn<'_>, data: &[u8], numbers: &[u32]) -> Result<Self> {
        ensure(
            offsets.count() == numbers.len(),
            "numbers of tokens",
            numbers.len(),
            offsets.count(),
        )?;
        let wrong = |error: fst::Error| Corrupt(format!("token set: {error}"));
        let mut builder = fst::MapBuilder::memory();
        for (row, &number) in numbers.iter().enumerate() {
            let token = token_at(offsets, data, row)?;
            builder.insert(token, u64::from(number)).map_err(wrong)?;
        }
        Self::read(builder.into_inner().map_err(wrong)?)
    }

    /// The stored form.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of a token.
    pub fn find(&self, token: &[u8]) -> Result<Option<u32>> {
        let mut node = self.node(self.root)?;
        let mut output = 0;
        for &byte in token {
            let Some(step) = node.find(byte)? else {
                return Ok(None);
            };
            output = add(output, step.output)?;
            node = self.node(step.target)?;
        }
        node.is_final
            .then(|| self.number(add(output, node.final_output)?))
            .transpose()
    }

    /// The numbers of many tokens, -1 for those that are not there.
    pub fn find_all(&self, offsets: OffsetsIn<'_>, data: &[u8]) -> Result<Vec<i64>> {
        (0..offsets.count())
            .map(|row| {
                let found = self.find(token_at(offsets, data, row)?)?;
                Ok(found.map_or(-1, i64::from))
            })
            .collect()
    }

    /// All tokens, in the order of their bytes.
    pub fn list(&self) -> Result<Listed> {
        let mut listed = Listed::default();
        let most = self.data.len().saturating_mul(MAX_EXPANSION).max(SMALL);
        let mut path = Vec::new();
        // Nodes to visit: the length of the path to them, the last byte, and the sum of outputs.
        let mut open = vec![(0, None, self.root, 0)];
        while let Some((length, byte, address, output)) = open.pop() {
            path.truncate(length);
            path.extend(byte);
            let node = self.node(address)?;
            if node.is_final {
                ensure(
                    listed.numbers.len() < self.len,
                    "tokens of the set",
                    "more",
                    self.len,
                )?;
                listed.push(&path, self.number(add(output, node.final_output)?)?)?;
            } else if node.len() == 0 && self.len > 0 {
                return Err(Corrupt(format!("token set: node {address} leads nowhere")));
            }
            ensure(listed.data.len() <= most, "bytes of tokens", "more", most)?;
            for at in (0..node.len()).rev() {
                let step = node.step(at)?;
                let output = add(output, step.output)?;
                open.push((path.len(), Some(step.input), step.target, output));
            }
        }
        ensure(
            listed.numbers.len() == self.len,
            "tokens of the set",
            listed.numbers.len(),
            self.len,
        )?;
        Ok(listed)
    }

    fn node(&self, address: usize) -> Result<Node<'_>> {
        Node::at(&self.data, address)
    }

    /// The number that belongs to a sum of outputs.
    fn number(&self, output: u64) -> Result<u32> {
        let number = u32::try_from(output).ok();
        let inside = |number: &u32| usize::try_from(*number).is_ok_and(|at| at < self.len);
        number
            .filter(inside)
            .ok_or_else(|| Corrupt(format!("token number {output} of {} tokens", self.len)))
    }
}

fn add(output: u64, more: u64) -> Result<u64> {
    output
        .checked_add(more)
        .ok_or_else(|| Corrupt("token set: outputs are too large".into()))
}

/// One of several tokens.
pub fn token_at<'a>(offsets: OffsetsIn<'_>, data: &'a [u8], row: usize) -> Result<&'a [u8]> {
    offsets.value(data, row, "token")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn set() -> TokenSet {
        let offsets = OffsetsIn::Small(&[0, 5, 10, 12]);
        TokenSet::of(offsets, "amplezebra\u{e9}".as_bytes(), &[2, 0, 1]).unwrap()
    }

    #[test]
    fn lookups_and_lists() {
        let set = set();
        assert_eq!(set.find("\u{e9}".as_bytes()).unwrap(), Some(1));
        assert_eq!(set.find(b"amp").unwrap(), None);
        assert_eq!(set.find(b"amples").unwrap(), None);
        let listed = set.list().unwrap();
        assert_eq!(listed.data, "amplezebra\u{e9}".as_bytes());
        assert_eq!(listed.numbers, [2, 0, 1]);
        let back = TokenSet::read(set.bytes().to_vec()).unwrap();
        assert_eq!(back.list().unwrap(), listed);
    }

    #[test]
    fn consecutive_numbers_take_few_bytes() {
        let tokens: Vec<String> = (0..300_000).map(|number| format!("{number:06}")).collect();
        let offsets: Vec<i64> = (0..=300_000).map(|row| row * 6).collect();
        let numbers: Vec<u32> = (0..300_000).collect();
        let data = tokens.concat();
        let set = TokenSet::of(OffsetsIn::Large(&offsets), data.as_bytes(), &numbers).unwrap();
        assert!(set.bytes().len() < 1000);
        assert_eq!(set.list().unwrap().data, data.as_bytes());
    }

    #[test]
    fn similar_tokens_differ_in_characters() {
        let mut found = Listed::default();
        let to = Similar {
            word: "e",
            distance: 1,
            prefix: 0,
        };
        set().similar(to, 9, &mut found).unwrap();
        assert_eq!(found.data, "\u{e9}".as_bytes());
        let to = Similar { prefix: 1, ..to };
        set().similar(to, 9, &mut found).unwrap();
        assert_eq!(found.numbers, [1]);
    }

    #[test]
    fn what_is_no_set() {
        let offsets = OffsetsIn::Small(&[0, 1, 2]);
        assert!(TokenSet::of(offsets, b"ba", &[0, 1]).is_err());
        assert!(TokenSet::of(offsets, b"ab", &[0]).is_err());
        let set = set();
        for end in 0..set.bytes().len() {
            assert!(TokenSet::read(set.bytes()[..end].to_vec()).is_err());
        }
    }
}
