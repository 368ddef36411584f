//! Tokens that are similar to a word: at most some characters inserted, removed or replaced.
//!
//! A path from the root carries one row of the table of edit distances per character: entry `i` is
//! the distance of the path to the first `i` characters of the word. No token below a path can be
//! similar if all entries are too large.

use super::{Listed, TokenSet, add};
use crate::error::{Corrupt, Result};

/// A word and what is similar to it.
#[derive(Debug, Clone, Copy)]
pub struct Similar<'a> {
    pub word: &'a str,
    /// The most characters that may differ.
    pub distance: u32,
    /// How many bytes at the start must be the same; the whole word if it is shorter.
    pub prefix: usize,
}

/// A place on the way through the graph.
struct Visit {
    address: usize,
    output: u64,
    /// Bytes of the path, without the last one.
    length: usize,
    last: Option<u8>,
    /// Bytes of the path that are whole characters.
    whole: usize,
    /// Number of rows of the path.
    rows: usize,
}

impl TokenSet {
    /// Appends the tokens that are similar, in the order of their bytes, until there are `most`.
    pub fn similar(&self, to: Similar<'_>, most: usize, found: &mut Listed) -> Result<()> {
        let word: Vec<char> = to.word.chars().collect();
        let bytes = to.word.as_bytes();
        let prefix = bytes.get(..to.prefix).unwrap_or(bytes);
        let mut table = Table::new(&word, to.distance);
        let mut path: Vec<u8> = Vec::new();
        let mut open = vec![Visit {
            address: self.root,
            output: 0,
            length: 0,
            last: None,
            whole: 0,
            rows: 1,
        }];
        while found.numbers.len() < most {
            let Some(mut visit) = open.pop() else {
                break;
            };
            path.truncate(visit.length);
            path.extend(visit.last);
            table.truncate(visit.rows);
            if let Some(c) = character(path.get(visit.whole..).unwrap_or_default())? {
                visit.whole = path.len();
                visit.rows += 1;
                if table.push(&word, c) > to.distance {
                    continue;
                }
            }
            let node = self.node(visit.address)?;
            let is_whole = visit.whole == path.len() && path.len() >= prefix.len();
            if node.is_final && is_whole && table.distance() <= to.distance {
                found.push(&path, self.number(add(visit.output, node.final_output)?)?)?;
            }
            for at in (0..node.len()).rev() {
                let step = node.step(at)?;
                if prefix
                    .get(path.len())
                    .is_none_or(|byte| *byte == step.input)
                {
                    open.push(Visit {
                        address: step.target,
                        output: add(visit.output, step.output)?,
                        length: path.len(),
                        last: Some(step.input),
                        whole: visit.whole,
                        rows: visit.rows,
                    });
                }
            }
        }
        Ok(())
    }
}

/// The character that bytes make; None if they are its beginning, or there are none.
fn character(bytes: &[u8]) -> Result<Option<char>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.chars().next()),
        Err(error) if error.error_len().is_none() => Ok(None),
        Err(error) => Err(Corrupt(format!("token set: {error}"))),
    }
}

/// Rows of edit distances, each with the entries that may be small enough.
///
/// Row `i` begins at entry `i - distance`, or further left near the end of the word, and all rows
/// have the same width. Entries outside are too large.
struct Table {
    width: usize,
    distance: usize,
    /// Entries of a row of the whole word.
    entries: usize,
    cells: Vec<u32>,
}

impl Table {
    /// The row of the empty path.
    fn new(word: &[char], distance: u32) -> Self {
        let entries = word.len() + 1;
        let distance = usize::try_from(distance).unwrap_or(usize::MAX);
        let width = distance.saturating_mul(2).saturating_add(1).min(entries);
        Self {
            width,
            distance,
            entries,
            cells: (0..width).filter_map(|at| u32::try_from(at).ok()).collect(),
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.cells.truncate(rows * self.width);
    }

    /// The first entry of a row.
    fn first(&self, row: usize) -> usize {
        let last = self.entries - self.width;
        row.saturating_sub(self.distance).min(last)
    }

    /// Adds the row of one more character; returns its smallest entry.
    fn push(&mut self, word: &[char], c: char) -> u32 {
        let row = self.cells.len() / self.width;
        let (first, above_first) = (self.first(row), self.first(row.saturating_sub(1)));
        let start = self.cells.len().saturating_sub(self.width);
        let above = |cells: &[u32], at: Option<usize>| {
            let inside = at.and_then(|at| at.checked_sub(above_first));
            let inside = inside.filter(|inside| *inside < self.width);
            let cell = inside.and_then(|inside| cells.get(start + inside));
            cell.copied().unwrap_or(u32::MAX)
        };
        let mut left = u32::MAX;
        let mut least = u32::MAX;
        for at in first..first + self.width {
            let last = at.checked_sub(1);
            let differs = last.and_then(|last| word.get(last)) != Some(&c);
            let replaced = above(&self.cells, last).saturating_add(u32::from(differs));
            let removed = above(&self.cells, Some(at)).saturating_add(1);
            left = replaced.min(removed).min(left.saturating_add(1));
            self.cells.push(left);
            least = least.min(left);
        }
        least
    }

    /// The distance of the path to the whole word.
    fn distance(&self) -> u32 {
        let row = (self.cells.len() / self.width).saturating_sub(1);
        if self.first(row) + self.width < self.entries {
            return u32::MAX;
        }
        self.cells.last().copied().unwrap_or(u32::MAX)
    }
}
