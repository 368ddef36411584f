//! What the lengths of documents mean for their scores.
//!
//! A search needs the norm of single documents anywhere in a partition. So one or two bytes are
//! kept for each, which fit into the caches of a processor, and a table of the norms of these:
//!
//!     lengths below 256      1 byte     the length
//!     rounded lengths        1 byte     its code (`impacts`)
//!     lengths below 65536    2 bytes    the length
//!     others                 4 bytes    the norm itself

use super::{bm25, impacts};
use crate::error::{Result, out_of_range};

/// The norms of the documents of a partition.
pub struct Norms(Table);

enum Table {
    Bytes(Box<[f32; 256]>, Vec<u8>),
    Shorts(Vec<f32>, Vec<u16>),
    Floats(Vec<f32>),
}

impl Norms {
    /// The norms of documents with these lengths, which `rounds` says to round.
    pub fn new(lengths: &[u32], average: f32, rounds: bool) -> Self {
        Self(Table::new(lengths, average, rounds))
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        match &self.0 {
            Table::Bytes(_, classes) => classes.len(),
            Table::Shorts(_, classes) => classes.len(),
            Table::Floats(norms) => norms.len(),
        }
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory in use.
    pub fn size_bytes(&self) -> usize {
        match &self.0 {
            Table::Bytes(_, classes) => 1024 + classes.len(),
            Table::Shorts(table, classes) => 4 * table.len() + 2 * classes.len(),
            Table::Floats(norms) => 4 * norms.len(),
        }
    }

    /// The norm of a document.
    #[inline]
    pub fn get(&self, document: u32) -> Result<f32> {
        let place = document as usize;
        let norm = match &self.0 {
            Table::Bytes(table, classes) => classes
                .get(place)
                .and_then(|class| table.get(usize::from(*class))),
            Table::Shorts(table, classes) => classes
                .get(place)
                .and_then(|class| table.get(usize::from(*class))),
            Table::Floats(norms) => norms.get(place),
        };
        norm.copied().ok_or_else(missing)
    }

    /// Reads the norms of documents, as many as `out` has.
    #[inline]
    pub fn read(&self, documents: &[u32], out: &mut [f32]) -> Result<()> {
        let pairs = out.iter_mut().zip(documents);
        match &self.0 {
            Table::Bytes(table, classes) => {
                for (norm, &document) in pairs {
                    let class = *classes.get(document as usize).ok_or_else(missing)?;
                    *norm = *table.get(usize::from(class)).ok_or_else(missing)?;
                }
            }
            Table::Shorts(table, classes) => {
                for (norm, &document) in pairs {
                    let class = *classes.get(document as usize).ok_or_else(missing)?;
                    *norm = *table.get(usize::from(class)).ok_or_else(missing)?;
                }
            }
            Table::Floats(norms) => {
                for (norm, &document) in pairs {
                    *norm = *norms.get(document as usize).ok_or_else(missing)?;
                }
            }
        }
        Ok(())
    }
}

/// The norm of a document of some length, which `rounds` says to round.
pub fn norm(length: u32, average: f32, rounds: bool) -> f32 {
    let length = if rounds {
        impacts::length(impacts::code(length))
    } else {
        length
    };
    bm25::norm(bm25::float32(length), average)
}

impl Table {
    fn new(lengths: &[u32], average: f32, rounds: bool) -> Self {
        let norm = |length: u32| norm(length, average, false);
        if rounds {
            let mut table = Box::new([0f32; 256]);
            for (norm_of, code) in table.iter_mut().zip(0u8..=255) {
                *norm_of = norm(impacts::length(code));
            }
            return Self::Bytes(table, lengths.iter().map(|l| impacts::code(*l)).collect());
        }
        let bytes: Option<Vec<u8>> = lengths.iter().map(|l| u8::try_from(*l).ok()).collect();
        if let Some(classes) = bytes {
            let mut table = Box::new([0f32; 256]);
            for (norm_of, length) in table.iter_mut().zip(0u32..) {
                *norm_of = norm(length);
            }
            return Self::Bytes(table, classes);
        }
        let shorts: Option<Vec<u16>> = lengths.iter().map(|l| u16::try_from(*l).ok()).collect();
        if let Some(classes) = shorts {
            let most = lengths.iter().copied().max().unwrap_or(0);
            return Self::Shorts((0..=most).map(norm).collect(), classes);
        }
        Self::Floats(lengths.iter().map(|length| norm(*length)).collect())
    }
}

#[cold]
fn missing() -> crate::error::Corrupt {
    out_of_range("document")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn norms_are_those_of_the_lengths() {
        for most in [0u32, 255, 256, 65_535, 65_536, 1 << 20] {
            for rounds in [false, true] {
                let lengths = [1, most, most / 3, 7.min(most)];
                let norms = Norms::new(&lengths, 3.5, rounds);
                let mut all = [0.0; 4];
                norms.read(&[0, 1, 2, 3], &mut all).unwrap();
                for (i, &length) in lengths.iter().enumerate() {
                    let length = if rounds {
                        impacts::length(impacts::code(length))
                    } else {
                        length
                    };
                    let expected = bm25::norm(bm25::float32(length), 3.5);
                    assert_eq!(all[i].to_bits(), expected.to_bits());
                    let document = u32::try_from(i).unwrap();
                    assert_eq!(norms.get(document).unwrap().to_bits(), expected.to_bits());
                }
                assert_eq!(norms.len(), 4);
                assert!(norms.get(4).is_err());
                assert!(norms.read(&[4], &mut all[..1]).is_err());
            }
        }
    }
}
