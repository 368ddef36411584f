//! Blocks of a posting list: documents and frequencies of up to B entries, B = 128 or 256.
//!
//!     B = 128    f32 greatest score | documents | frequencies        B = 256    without the score
//!
//!     full block     documents     u32 first document, u8 bits, packed differences (the first is 0)
//!                    frequencies   128: u8 bits, packed values
//!                                  256: u8 bits, u8 exceptions, packed low bits of all values,
//!                                       then for each exception u8 index, varint value >> bits
//!     the last one   varints       first document, differences, then frequencies
//!     if not full    or fixed      u32 documents, then u32 frequencies (format version 1)
//!
//! Packed values have 4 lanes for 128 and 8 for 256 (`lanes`).

use super::{lanes, varint};
use crate::error::{Corrupt, Result, ensure, out_of_range, part, u32_at};

/// The most entries of a block.
pub const MOST: usize = 256;

/// How the last block of a list is stored if it is not full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    Fixed,
    Varint,
}

/// How lists are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    wide: bool,
    tail: Tail,
}

impl Layout {
    /// The layout of blocks of 128 or 256 entries.
    pub fn new(block_size: usize, tail: Tail) -> Result<Self> {
        ensure(
            matches!(block_size, 128 | 256),
            "posting block size",
            block_size,
            "128 or 256",
        )?;
        let wide = block_size == 256;
        ensure(
            !wide || tail == Tail::Varint,
            "posting tail with blocks of 256",
            "fixed",
            "varint",
        )?;
        Ok(Self { wide, tail })
    }

    /// Entries of a full block.
    #[inline]
    pub fn block_size(self) -> usize {
        if self.wide { 256 } else { 128 }
    }

    /// Whether lengths of documents are rounded in scores.
    pub fn rounds_lengths(self) -> bool {
        self.wide
    }

    /// Bytes before the documents.
    #[inline]
    fn prefix(self) -> usize {
        if self.wide { 0 } else { 4 }
    }

    /// Blocks of a list.
    pub fn num_blocks(self, entries: usize) -> usize {
        entries.div_ceil(self.block_size())
    }

    /// The first document of a block.
    pub fn first(self, block: &[u8], count: usize) -> Result<u32> {
        if count < self.block_size() && self.tail == Tail::Varint {
            return varint::take(block, &mut self.prefix());
        }
        u32_at(block, self.prefix(), "posting block")
    }

    /// Decodes the documents of a block; returns where its frequencies begin.
    #[inline]
    pub fn documents(self, block: &[u8], out: &mut [u32]) -> Result<usize> {
        let at = self.prefix();
        if out.len() == self.block_size() {
            let first = u32_at(block, at, "posting block")?;
            let bits = byte_at(block, at + 4)?;
            let end = if self.wide {
                unpack::<8>(block, at + 5, bits, out)?
            } else {
                unpack::<4>(block, at + 5, bits, out)?
            };
            add_up(first, out);
            return Ok(end);
        }
        match self.tail {
            Tail::Fixed => fixed(block, at, out),
            Tail::Varint => {
                let end = varints(block, at, out)?;
                add_up(0, out);
                Ok(end)
            }
        }
    }

    /// Decodes the frequencies of a block, which begin at `at`; returns where they end.
    #[inline]
    pub fn frequencies(self, block: &[u8], at: usize, out: &mut [u32]) -> Result<usize> {
        if out.len() == self.block_size() {
            let bits = byte_at(block, at)?;
            return if self.wide {
                patched(block, at, bits, out)
            } else {
                unpack::<4>(block, at + 1, bits, out)
            };
        }
        match self.tail {
            Tail::Fixed => fixed(block, at, out),
            Tail::Varint => varints(block, at, out),
        }
    }

    /// Appends a block of entries in the order of their documents.
    pub fn encode(
        self,
        documents: &[u32],
        frequencies: &[u32],
        score: f32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let count = documents.len();
        ensure(
            count == frequencies.len() && (1..=self.block_size()).contains(&count),
            "entries of a posting block",
            count,
            frequencies.len(),
        )?;
        if !self.wide {
            out.extend_from_slice(&score.to_le_bytes());
        }
        let first = *documents.first().ok_or_else(|| out_of_range("documents"))?;
        let mut differences = [0; MOST];
        let (differences, _) = differences.split_at_mut(count);
        let mut last = first;
        for (difference, &document) in differences.iter_mut().zip(documents) {
            *difference = document.wrapping_sub(last);
            last = document;
        }
        if count == self.block_size() {
            out.extend_from_slice(&first.to_le_bytes());
            if self.wide {
                push_packed::<8>(differences, out)?;
                push_patched(frequencies, out)
            } else {
                push_packed::<4>(differences, out)?;
                push_packed::<4>(frequencies, out)
            }
        } else if self.tail == Tail::Fixed {
            let all = documents.iter().chain(frequencies);
            out.extend(all.flat_map(|value| value.to_le_bytes()));
            Ok(())
        } else {
            varint::push(out, first);
            for &value in differences.iter().skip(1).chain(frequencies) {
                varint::push(out, value);
            }
            Ok(())
        }
    }
}

#[inline]
fn byte_at(data: &[u8], at: usize) -> Result<usize> {
    let byte = data.get(at).ok_or_else(|| out_of_range("posting block"))?;
    Ok(usize::from(*byte))
}

/// Unpacks a group at `at`; returns where it ends.
#[inline]
pub fn unpack<const L: usize>(
    data: &[u8],
    at: usize,
    bits: usize,
    out: &mut [u32],
) -> Result<usize> {
    ensure(bits <= 32, "packed values, bits", bits, "at most 32")?;
    let bytes = lanes::packed_bytes::<L>(bits);
    lanes::unpack::<L>(part(data, at, bytes, "packed values, bytes")?, bits, out)?;
    Ok(at + bytes)
}

/// Appends the bits of the largest value and the packed values.
pub fn push_packed<const L: usize>(values: &[u32], out: &mut Vec<u8>) -> Result<()> {
    let bits = lanes::bits_of(values);
    push_byte(bits, out)?;
    lanes::pack::<L>(values, bits, out)
}

fn push_byte(value: usize, out: &mut Vec<u8>) -> Result<()> {
    out.push(u8::try_from(value).map_err(|_| out_of_range("posting block"))?);
    Ok(())
}

/// Replaces differences by sums that begin at `first`.
#[inline]
fn add_up(first: u32, values: &mut [u32]) {
    let mut last = first;
    let (fours, tail) = values.as_chunks_mut::<4>();
    for [a, b, c, d] in fours {
        // Only one addition of four waits for the one before.
        let two = a.wrapping_add(*b);
        let three = two.wrapping_add(*c);
        let four = three.wrapping_add(*d);
        (*a, *b, *c) = (
            last.wrapping_add(*a),
            last.wrapping_add(two),
            last.wrapping_add(three),
        );
        last = last.wrapping_add(four);
        *d = last;
    }
    for value in tail {
        last = last.wrapping_add(*value);
        *value = last;
    }
}

fn fixed(block: &[u8], at: usize, out: &mut [u32]) -> Result<usize> {
    let bytes = part(block, at, out.len() * 4, "posting block, bytes")?;
    let (values, _) = bytes.as_chunks::<4>();
    for (slot, value) in out.iter_mut().zip(values) {
        *slot = u32::from_le_bytes(*value);
    }
    Ok(at + bytes.len())
}

fn varints(block: &[u8], mut at: usize, out: &mut [u32]) -> Result<usize> {
    for slot in out {
        *slot = varint::take(block, &mut at)?;
    }
    Ok(at)
}

fn patched(block: &[u8], at: usize, bits: usize, out: &mut [u32]) -> Result<usize> {
    let exceptions = byte_at(block, at + 1)?;
    let mut end = unpack::<8>(block, at + 2, bits, out)?;
    for _ in 0..exceptions {
        let index = byte_at(block, end)?;
        end += 1;
        let high = u64::from(varint::take(block, &mut end)?) << bits;
        let high = u32::try_from(high)
            .map_err(|_| Corrupt("posting block, exception: more than 32 bits".to_string()))?;
        *out.get_mut(index)
            .ok_or_else(|| out_of_range("posting block, exception"))? |= high;
    }
    Ok(end)
}

/// Chooses the width of the low parts that takes the fewest bytes, and appends the values.
fn push_patched(values: &[u32], out: &mut Vec<u8>) -> Result<()> {
    let mut counts = [0usize; 33];
    for value in values {
        let bits = (u32::BITS - value.leading_zeros()) as usize;
        *counts.get_mut(bits).ok_or_else(|| out_of_range("bits"))? += 1;
    }
    let most = lanes::bits_of(values);
    let bytes_at = |bits: usize| {
        let wider = counts.iter().enumerate().skip(bits + 1);
        let (mut bytes, mut exceptions) = (lanes::packed_bytes::<8>(bits), 0);
        for (width, count) in wider {
            bytes += count * (1 + (width - bits).div_ceil(7));
            exceptions += count;
        }
        (exceptions <= 255).then_some(bytes)
    };
    let best = (0..=most)
        .filter_map(|bits| Some((bytes_at(bits)?, bits)))
        .min()
        .ok_or_else(|| out_of_range("posting block"))?;
    let bits = best.1;
    let is_exception = |value: u32| u64::from(value) >> bits != 0;
    push_byte(bits, out)?;
    push_byte(
        values.iter().filter(|value| is_exception(**value)).count(),
        out,
    )?;
    lanes::pack::<8>(values, bits, out)?;
    for (index, &value) in values.iter().enumerate() {
        if is_exception(value) {
            push_byte(index, out)?;
            varint::push(out, value >> bits);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn layouts() -> [Layout; 3] {
        [
            Layout::new(128, Tail::Fixed).unwrap(),
            Layout::new(128, Tail::Varint).unwrap(),
            Layout::new(256, Tail::Varint).unwrap(),
        ]
    }

    #[test]
    fn the_example_of_the_format_is_written() {
        let mut out = Vec::new();
        let layout = layouts()[1];
        let score = f32::from_le_bytes([0xa4, 0x75, 0x3c, 0x3f]);
        layout
            .encode(&[0, 2, 5], &[1, 1, 1], score, &mut out)
            .unwrap();
        assert_eq!(out, [0xa4, 0x75, 0x3c, 0x3f, 0, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn blocks_return() {
        for layout in layouts() {
            for count in [1, 2, 127, 128, 255, 256] {
                if count > layout.block_size() {
                    continue;
                }
                for step in [1u32, 3, 1000, 9_000_000] {
                    let documents: Vec<u32> = (0u32..).map(|i| 5 + i * step).take(count).collect();
                    let frequencies: Vec<u32> = (0u32..)
                        .map(|i| if i % 50 == 7 { u32::MAX } else { 1 + i % 3 })
                        .take(count)
                        .collect();
                    let mut out = Vec::new();
                    layout
                        .encode(&documents, &frequencies, 1.5, &mut out)
                        .unwrap();
                    let mut back = (vec![0; count], vec![0; count]);
                    let at = layout.documents(&out, &mut back.0).unwrap();
                    let end = layout.frequencies(&out, at, &mut back.1).unwrap();
                    assert_eq!(back, (documents.clone(), frequencies));
                    assert_eq!(end, out.len());
                    assert_eq!(layout.first(&out, count), Ok(documents[0]));
                    for cut in 0..out.len() {
                        let short = &out[..cut];
                        let ends = layout
                            .documents(short, &mut back.0)
                            .and_then(|at| layout.frequencies(short, at, &mut back.1));
                        assert!(ends.is_err());
                    }
                }
            }
        }
    }
}
