//! Offsets of variable-length values, of either width, as Arrow holds them: `n + 1` for `n` values.

use crate::error::{Corrupt, Result, ensure, part, size};

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

/// A growing output of offsets, of the width of the Arrow type.
#[derive(Debug)]
pub enum Offsets {
    Small(Vec<i32>),
    Large(Vec<i64>),
}

impl Offsets {
    /// An offset of 0.
    pub fn new(bits: usize) -> Result<Self> {
        match bits {
            32 => Ok(Self::Small(vec![0])),
            64 => Ok(Self::Large(vec![0])),
            _ => Err(Corrupt(format!("string offsets of {bits} bits"))),
        }
    }

    /// Appends the end of a string.
    pub fn push(&mut self, offset: usize) -> Result<()> {
        let too_long = |_| Corrupt(format!("{offset} bytes of strings do not fit the offsets"));
        match self {
            Self::Small(offsets) => offsets.push(i32::try_from(offset).map_err(too_long)?),
            Self::Large(offsets) => offsets.push(i64::try_from(offset).map_err(too_long)?),
        }
        Ok(())
    }

    /// An offset of 0, and room for `count` more.
    pub fn with_capacity(bits: usize, count: usize) -> Result<Self> {
        let mut offsets = Self::new(bits)?;
        offsets.reserve(count);
        Ok(offsets)
    }

    /// Appends ends of strings; the caller rejects those after `most`, which has to fit.
    pub fn extend(&mut self, ends: impl Iterator<Item = usize>, most: usize) -> Result<()> {
        match self {
            Self::Small(offsets) => {
                let fits = i32::try_from(most).is_ok();
                let expected = "less than 2^31";
                ensure(fits, "bytes of strings with 32-bit offsets", most, expected)?;
                offsets.extend(ends.map(|end| i32::try_from(end).unwrap_or(i32::MAX)));
            }
            Self::Large(offsets) => {
                offsets.extend(ends.map(|end| i64::try_from(end).unwrap_or(i64::MAX)));
            }
        }
        Ok(())
    }

    /// Appends ends of adjacent strings, of which the first one begins at `base` and the last one
    /// ends `most` bytes later.
    pub fn extend_after(&mut self, base: usize, ends: &[u32], most: usize) -> Result<()> {
        let Self::Small(offsets) = self else {
            let ends = ends.iter().map(|&end| base + end as usize);
            return self.extend(ends, base.saturating_add(most));
        };
        let last = base.checked_add(most).map(i32::try_from);
        let expected = "less than 2^31";
        let fits = matches!(last, Some(Ok(_)));
        ensure(fits, "bytes of strings with 32-bit offsets", base, expected)?;
        let base = u32::try_from(base).unwrap_or_default(); // it is less than the last one
        offsets.extend(ends.iter().map(|&end| base.wrapping_add(end).cast_signed()));
        Ok(())
    }

    /// Makes room for `count` more.
    pub fn reserve(&mut self, count: usize) {
        match self {
            Self::Small(offsets) => offsets.reserve(count),
            Self::Large(offsets) => offsets.reserve(count),
        }
    }
}
