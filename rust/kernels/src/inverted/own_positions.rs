//! The positions of one posting list, copied out of a batch of rows.

use super::lists::{Lists, Positions, document_pieces, pair_at, stream_block};
use super::positions::{self, Codec};
use crate::error::{Result, ensure, out_of_range, part, size};

/// Positions of the entries of one row.
pub enum OwnPositions {
    Stream {
        codec: Codec,
        data: Vec<u8>,
        starts: Vec<u32>,
    },
    Pieces {
        lists: Vec<i32>,
        offsets: Vec<i64>,
        data: Vec<u8>,
    },
}

impl OwnPositions {
    /// Copies the positions of one row.
    pub fn of(stored: Positions<'_>, row: usize) -> Result<Self> {
        Ok(match stored {
            Positions::Stream {
                codec,
                offsets,
                data,
                lists,
                starts,
            } => {
                let (start, end) = pair_at(offsets, row)?;
                let data = part(data, start, end - start, "positions")?.to_vec();
                let (start, end) = pair_at(lists, row)?;
                let starts = part(starts, start, end - start, "blocks of positions")?.to_vec();
                Self::Stream {
                    codec,
                    data,
                    starts,
                }
            }
            Positions::Pieces { documents, pieces } => {
                let (start, end) = pair_at(documents, row)?;
                let lists = part(pieces.lists, start, end - start + 1, "positions")?;
                let (first, lists) = from_zero(lists)?;
                let (_, pieces_end) = pair_at(pieces.lists, end.max(1) - 1)?;
                let pieces_end = if end == start { first } else { pieces_end };
                let count = pieces_end
                    .checked_sub(first)
                    .ok_or_else(|| out_of_range("positions"))?;
                let offsets = part(pieces.offsets, first, count + 1, "positions")?;
                let (begin, offsets) = from_zero(offsets)?;
                let len = size(offsets.last().copied().unwrap_or(0), "positions")?;
                let data = part(pieces.data, begin, len, "positions")?.to_vec();
                Self::Pieces {
                    lists,
                    offsets,
                    data,
                }
            }
        })
    }

    /// The memory that they take.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Stream { data, starts, .. } => data.len() + 4 * starts.len(),
            Self::Pieces {
                lists,
                offsets,
                data,
            } => data.len() + 8 * offsets.len() + 4 * lists.len(),
        }
    }

    /// Decodes the positions of a block as differences within each document; `false` if they are
    /// stored in pieces, one document after the other.
    pub fn differences(
        &self,
        block: usize,
        frequencies: &[u32],
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        let Self::Stream {
            codec,
            data,
            starts,
        } = self
        else {
            return Ok(false);
        };
        let bytes = stream_block(data, starts, block)?;
        positions::differences(*codec, bytes, frequencies, out)?;
        Ok(true)
    }

    /// Appends the positions of a document that are stored in pieces.
    pub fn pieces(&self, document: usize, frequency: u32, out: &mut Vec<u32>) -> Result<()> {
        let Self::Pieces {
            lists,
            offsets,
            data,
        } = self
        else {
            return Err(out_of_range("pieces of positions"));
        };
        let pieces = Lists {
            lists,
            offsets,
            data,
        };
        document_pieces(pieces, document, frequency, out)
    }
}

/// The first offset, and all offsets less the first one.
fn from_zero<T>(offsets: &[T]) -> Result<(usize, Vec<T>)>
where
    T: Copy + std::ops::Sub<Output = T> + TryInto<usize> + std::fmt::Display + PartialOrd,
{
    let first = *offsets.first().ok_or_else(|| out_of_range("offsets"))?;
    ensure(offsets.is_sorted(), "offsets", "descending", "ascending")?;
    let start = size(first, "offset")?;
    Ok((
        start,
        offsets.iter().map(|&offset| offset - first).collect(),
    ))
}
