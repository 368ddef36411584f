//! Offsets of variable-length values, of either width, as Arrow holds them: `n + 1` for `n` values.

use crate::error::{Corrupt, Result, part, size};

/// Offsets of either width.
#[derive(Debug, Clone, Copy)]
pub enum OffsetsIn<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl OffsetsIn<'_> {
    /// Bytes of one stored offset.
    pub fn width(&self) -> usize {
        match self {
            Self::Small(_) => 4,
            Self::Large(_) => 8,
        }
    }

    /// Number of strings.
    pub fn count(&self) -> usize {
        let len = match self {
            Self::Small(offsets) => offsets.len(),
            Self::Large(offsets) => offsets.len(),
        };
        len.saturating_sub(1)
    }

    /// One offset.
    pub fn get(&self, index: usize) -> Result<usize> {
        let offset = match self {
            Self::Small(offsets) => offsets.get(index).copied().map(i64::from),
            Self::Large(offsets) => offsets.get(index).copied(),
        };
        size(
            offset.ok_or_else(|| Corrupt(format!("no offset {index}")))?,
            "string offset",
        )
    }

    /// The bytes of one value; `what` names it in errors.
    pub fn value<'a>(&self, data: &'a [u8], index: usize, what: &str) -> Result<&'a [u8]> {
        let (start, stop) = (self.get(index)?, self.get(index + 1)?);
        let length = stop
            .checked_sub(start)
            .ok_or_else(|| Corrupt(format!("{what} {index}: offsets {start} and {stop}")))?;
        part(data, start, length, what)
    }
}
