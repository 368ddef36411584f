//! Positions of the occurrences of a token, as many in each document as its frequency.
//!
//! Format versions 2 and 3: one stream per token, cut by its posting blocks.
//!
//!     deltas of a block    each document begins with its first position, then differences
//!     packed               full groups of 128 deltas: u8 bits, packed in 4 lanes; the rest varints
//!     varints              varints only (older indices)
//!
//! Format version 1: a list of pieces for each document.
//!
//!     u32 count | full groups: u32 first, u8 bits, packed differences (the first is 0) | u32 rest
//!     (one piece each)

use super::blocks::{push_packed, unpack};
use super::varint;
use crate::error::{Result, ensure, out_of_range, part, rest, u32_at};

/// Deltas of a group.
const GROUP: usize = 128;

/// How streams are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Packed,
    Varint,
}

/// Decodes the positions of the documents of a block with the given frequencies; replaces `out`.
pub fn decode(codec: Codec, data: &[u8], frequencies: &[u32], out: &mut Vec<u32>) -> Result<()> {
    differences(codec, data, frequencies, out)?;
    let mut left = out.as_mut_slice();
    for &frequency in frequencies {
        let (own, others) = left
            .split_at_mut_checked(frequency as usize)
            .ok_or_else(|| out_of_range("positions"))?;
        add_up(own)?;
        left = others;
    }
    Ok(())
}

/// Decodes the same block without adding up the differences within each document.
///
/// A search adds up those of the documents that contain all tokens: see `add_up`.
pub fn differences(
    codec: Codec,
    data: &[u8],
    frequencies: &[u32],
    out: &mut Vec<u32>,
) -> Result<()> {
    let total: u64 = frequencies.iter().copied().map(u64::from).sum();
    let total = usize::try_from(total).map_err(|_| out_of_range("positions"))?;
    let most = data.len().saturating_mul(GROUP);
    ensure(
        total <= most,
        "positions",
        total,
        format_args!("at most {most}"),
    )?;
    out.clear();
    out.resize(total, 0);
    let mut at = 0;
    let mut left = out.as_mut_slice();
    if codec == Codec::Packed {
        let (groups, tail) = left.as_chunks_mut::<GROUP>();
        for group in groups {
            let bits = data.get(at).ok_or_else(|| out_of_range("positions"))?;
            at = unpack::<4>(data, at + 1, usize::from(*bits), group)?;
        }
        left = tail;
    }
    for slot in left {
        *slot = varint::take(data, &mut at)?;
    }
    ensure(at == data.len(), "positions, bytes", data.len(), at)
}

/// Appends the positions of the documents of a block to a stream.
pub fn encode(frequencies: &[u32], positions: &[u32], out: &mut Vec<u8>) -> Result<()> {
    let mut deltas = Vec::with_capacity(positions.len());
    let mut at = 0;
    for &frequency in frequencies {
        let own = part(positions, at, frequency as usize, "positions")?;
        push_differences(own, 0, &mut deltas);
        at += own.len();
    }
    ensure(at == positions.len(), "positions", positions.len(), at)?;
    let (groups, tail) = deltas.as_chunks::<GROUP>();
    for group in groups {
        push_packed::<4>(group, out)?;
    }
    for &delta in tail {
        varint::push(out, delta);
    }
    Ok(())
}

/// Appends the positions of a document from its pieces, of which there are `frequency`.
pub fn decode_pieces<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
    frequency: u32,
    out: &mut Vec<u32>,
) -> Result<()> {
    let missing = || out_of_range("positions, pieces");
    let count = u32_at(pieces.next().ok_or_else(missing)?, 0, "positions")?;
    ensure(
        count == frequency,
        "positions of a document",
        count,
        frequency,
    )?;
    let start = out.len();
    let mut left = count as usize;
    while left >= GROUP {
        let piece = pieces.next().ok_or_else(missing)?;
        let bits = piece.get(4).ok_or_else(missing)?;
        let mut group = [0; GROUP];
        let end = unpack::<4>(piece, 5, usize::from(*bits), &mut group)?;
        ensure(end == piece.len(), "positions, bytes", piece.len(), end)?;
        let mut last = u32_at(piece, 0, "positions")?;
        out.extend(group.iter().map(|delta| {
            last = last.wrapping_add(*delta);
            last
        }));
        left -= GROUP;
    }
    if left > 0 {
        let piece = pieces.next().ok_or_else(missing)?;
        ensure(
            piece.len() == left * 4,
            "positions, bytes",
            piece.len(),
            left * 4,
        )?;
        let (values, _) = piece.as_chunks::<4>();
        out.extend(values.iter().map(|value| u32::from_le_bytes(*value)));
    }
    ensure(pieces.next().is_none(), "positions, pieces", "more", "none")?;
    let own = rest(out, start, "positions")?;
    ensure(own.is_sorted(), "positions", "descending", "ascending")
}

/// Appends the pieces of a document; `ends` receives where each ends in `out`.
pub fn encode_pieces(positions: &[u32], out: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<()> {
    let count = u32::try_from(positions.len()).map_err(|_| out_of_range("positions"))?;
    out.extend_from_slice(&count.to_le_bytes());
    ends.push(out.len());
    let (groups, tail) = positions.as_chunks::<GROUP>();
    let mut deltas = Vec::with_capacity(GROUP);
    for group in groups {
        let [first, ..] = *group;
        deltas.clear();
        push_differences(group, first, &mut deltas);
        out.extend_from_slice(&first.to_le_bytes());
        push_packed::<4>(&deltas, out)?;
        ends.push(out.len());
    }
    if !tail.is_empty() {
        out.extend(tail.iter().flat_map(|value| value.to_le_bytes()));
        ends.push(out.len());
    }
    Ok(())
}

/// Replaces the differences of a document by positions.
pub fn add_up(values: &mut [u32]) -> Result<()> {
    let mut last = 0u32;
    for value in values {
        last = last
            .checked_add(*value)
            .ok_or_else(|| out_of_range("positions"))?;
        *value = last;
    }
    Ok(())
}

fn push_differences(values: &[u32], mut last: u32, out: &mut Vec<u32>) {
    for &value in values {
        out.push(value.wrapping_sub(last));
        last = value;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn example() -> (Vec<u32>, Vec<u32>) {
        let frequencies = vec![1, 300, 2, 128, 1];
        let positions = frequencies
            .iter()
            .flat_map(|&n| (0..n).map(move |i| i * 7 + n))
            .collect();
        (frequencies, positions)
    }

    #[test]
    fn streams_return() {
        let (frequencies, positions) = example();
        let mut data = Vec::new();
        encode(&frequencies, &positions, &mut data).unwrap();
        let mut out = vec![9];
        decode(Codec::Packed, &data, &frequencies, &mut out).unwrap();
        assert_eq!(out, positions);
        for cut in 0..data.len() {
            assert!(decode(Codec::Packed, &data[..cut], &frequencies, &mut out).is_err());
        }
        assert!(decode(Codec::Packed, &data, &[u32::MAX; 256], &mut out).is_err());
    }

    #[test]
    fn pieces_return() {
        let (frequencies, positions) = example();
        let mut at = 0;
        for &frequency in &frequencies {
            let own = &positions[at..at + frequency as usize];
            at += own.len();
            let (mut data, mut ends) = (Vec::new(), Vec::new());
            encode_pieces(own, &mut data, &mut ends).unwrap();
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let pieces = starts.zip(&ends).map(|(start, &end)| &data[start..end]);
            let mut out = Vec::new();
            decode_pieces(pieces.clone(), frequency, &mut out).unwrap();
            assert_eq!(out, own);
            assert!(decode_pieces(pieces.clone(), frequency + 1, &mut out).is_err());
            assert!(decode_pieces(pieces.skip(1), frequency, &mut out).is_err());
        }
    }
}
