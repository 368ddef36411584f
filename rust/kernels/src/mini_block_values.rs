//! The values of one mini-block chunk: how many a chunk takes, and its buffers before compression.
//!
//! All chunks but the last hold a power of two of values: the largest that stays below a target of
//! bytes. Bit-packed chunks always have 1024.

use std::borrow::Cow;

use crate::bitmap::BitmapBuilder;
use crate::bitpacking::{self, GROUP};
use crate::byte_stream_split;
use crate::compression::{Compressor, Scheme};
use crate::error::{Corrupt, Result, ensure, grow, out_of_range, part, signed};
use crate::lz4_values;
use crate::offsets::OffsetsIn;
use crate::rle;

/// Values of one page, as Arrow holds them.
#[derive(Debug)]
pub enum Input<'a> {
    Fixed {
        data: &'a [u8],
        bits: usize,
    },
    /// Bits from bit `first`.
    Bits {
        data: &'a [u8],
        first: usize,
    },
    /// `n + 1` offsets into `data`.
    Variable {
        offsets: OffsetsIn<'a>,
        data: &'a [u8],
    },
    /// Rows of `bits` bits, with the bitmaps (and first bits) of nullable levels of items.
    Lists {
        validity: Vec<ItemValidity<'a>>,
        data: &'a [u8],
        bits: usize,
    },
}

impl Input<'_> {
    /// The approximate bytes of the uncompressed values.
    pub fn plain_bytes(&self, num_values: usize) -> Result<usize> {
        Ok(match self {
            Self::Fixed { bits, .. } | Self::Lists { bits, .. } => {
                num_values.saturating_mul(*bits) / 8
            }
            Self::Bits { .. } => num_values / 8,
            Self::Variable { offsets, .. } => {
                let data = offsets.get(num_values)?.saturating_sub(offsets.get(0)?);
                data + num_values * offsets.width()
            }
        })
    }
}

/// Validity of the items of a fixed-size list.
#[derive(Debug)]
pub struct ItemValidity<'a> {
    pub bitmap: &'a [u8],
    pub first: usize,
    pub per_row: usize,
}

/// How values are stored in the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Flat bits, strings with offsets, or fixed-size lists: the same form as the input.
    Plain,
    InlineBitpacking,
    Rle,
    ByteStreamSplit,
    /// LZ4 with one sequence per value of 128 bits, where the values of a chunk allow it.
    Lz4Values,
}

/// How values are cut into chunks, and how chunks are compressed.
#[derive(Debug, Clone, Copy)]
pub struct Chunking {
    /// Whether sizes are wide enough for chunks above 32 KiB (since 2.2).
    pub large: bool,
    /// A power of two, at most 32768; bit-packed chunks always have 1024.
    pub max_values: usize,
    /// Target bytes of the values of a chunk; None for a default that depends on the values.
    pub target_bytes: Option<usize>,
    /// Scheme and level for the first value buffer of each chunk.
    pub compression: Option<(Scheme, i32)>,
}

impl Default for Chunking {
    fn default() -> Self {
        Self {
            large: false,
            max_values: 4096,
            target_bytes: None,
            compression: None,
        }
    }
}

/// A chunk grows while it stays below this many bytes of values.
const TARGET_BYTES: usize = 8186;
/// Strings are often read one by one, so smaller chunks are faster.
const TARGET_STRING_BYTES: usize = 4096;
/// Streams are always joined as a whole, so smaller chunks are faster here, too.
const TARGET_SPLIT_BYTES: usize = 4097;
/// Pads strings to a multiple of their offsets' width.
const INNER_PAD: u8 = 0x48;

/// Values of one chunk, borrowed where they need no conversion.
pub type Buffers<'a> = Vec<Cow<'a, [u8]>>;

/// Takes the values of the next chunk from value `start` on: their number and their buffers.
pub fn next_chunk<'a>(
    input: &Input<'a>,
    coding: Coding,
    start: usize,
    left: usize,
    chunking: &Chunking,
) -> Result<(usize, Buffers<'a>)> {
    match (input, coding) {
        (Input::Fixed { data, bits }, Coding::Plain) => {
            let width = bits / 8;
            let count = chunking.count(width, TARGET_BYTES).min(left);
            let bytes = part(data, start * width, count * width, "values, bytes")?;
            Ok((count, vec![bytes.into()]))
        }
        (Input::Fixed { data, bits }, Coding::ByteStreamSplit) => {
            let width = bits / 8;
            let count = chunking.count(width, TARGET_SPLIT_BYTES).min(left);
            let bytes = part(data, start * width, count * width, "values, bytes")?;
            Ok((count, vec![byte_stream_split::split(bytes, width).into()]))
        }
        (Input::Fixed { data, bits: 128 }, Coding::Lz4Values) => {
            let count = chunking.count(16, TARGET_BYTES).min(left);
            let bytes = part(data, start * 16, count * 16, "values, bytes")?;
            if let Some(packed) = lz4_values::compressed(bytes) {
                return Ok((count, vec![packed.into()]));
            }
            let mut packed = Vec::new();
            Compressor::new(Scheme::Lz4, 0)?.append(bytes, &mut packed)?;
            Ok((count, vec![packed.into()]))
        }
        (Input::Fixed { data, bits }, Coding::InlineBitpacking) => {
            let count = GROUP.min(left);
            let bytes = part(data, start * bits / 8, count * bits / 8, "values, bytes")?;
            Ok((count, vec![pack(bytes, *bits)?.into()]))
        }
        (Input::Fixed { data, bits }, Coding::Rle) => {
            rle_chunk(data, bits / 8, start, left, chunking)
        }
        (Input::Bits { data, first }, Coding::Plain) => {
            let count = chunking.max_values.min(left);
            Ok((count, vec![bits_of(data, first + start, count)?.into()]))
        }
        (Input::Variable { offsets, data }, Coding::Plain) => {
            string_chunk(*offsets, data, start, left, chunking)
        }
        (
            Input::Lists {
                validity,
                data,
                bits,
            },
            Coding::Plain,
        ) => {
            let masks: usize = validity.iter().map(|mask| mask.per_row.div_ceil(8)).sum();
            let width = bits.div_ceil(8) + masks;
            let count = chunking.count(width, TARGET_BYTES).min(left);
            let mut buffers = Vec::with_capacity(validity.len() + 1);
            for mask in validity {
                let first = mask.first + start * mask.per_row;
                buffers.push(bits_of(mask.bitmap, first, count * mask.per_row)?.into());
            }
            buffers.push(if bits % 8 == 0 {
                let (first, size) = (start * bits / 8, count * bits / 8);
                part(data, first, size, "list items, bytes")?.into()
            } else {
                bits_of(data, start * bits, count * bits)?.into()
            });
            Ok((count, buffers))
        }
        _ => Err(Corrupt(format!("{coding:?} is for values of fixed width"))),
    }
}

impl Chunking {
    /// Values of `width` bytes per chunk: the largest power of two that stays below the target.
    fn count(&self, width: usize, target: usize) -> usize {
        let target = self.target_bytes.unwrap_or(target);
        let mut count = 2;
        while 2 * count <= self.max_values && 2 * count * width < target {
            count *= 2;
        }
        count
    }
}

fn bits_of(data: &[u8], first: usize, count: usize) -> Result<Vec<u8>> {
    let mut bits = BitmapBuilder::default();
    bits.extend_from(data, first, count)?;
    Ok(bits.finish())
}

fn pack(bytes: &[u8], bits: usize) -> Result<Vec<u8>> {
    match bits {
        8 => pack_words::<1>(
            bytes,
            bitpacking::words8::width_of,
            bitpacking::words8::pack,
        ),
        16 => pack_words::<2>(
            bytes,
            bitpacking::words16::width_of,
            bitpacking::words16::pack,
        ),
        32 => pack_words::<4>(
            bytes,
            bitpacking::words32::width_of,
            bitpacking::words32::pack,
        ),
        64 => pack_words::<8>(
            bytes,
            bitpacking::words64::width_of,
            bitpacking::words64::pack,
        ),
        _ => Err(Corrupt(format!("bit-packing of values of {bits} bits"))),
    }
}

fn pack_words<const N: usize>(
    bytes: &[u8],
    width_of: fn(&[[u8; N]]) -> usize,
    pack: bitpacking::Pack<N>,
) -> Result<Vec<u8>> {
    let (values, _) = bytes.as_chunks::<N>();
    let width = width_of(values);
    let mut group = [[0u8; N]; GROUP];
    for (slot, value) in group.iter_mut().zip(values) {
        *slot = *value;
    }
    let mut out = Vec::with_capacity(N + bitpacking::packed_bytes(width));
    out.extend(width.to_le_bytes().iter().take(N));
    pack(&group, width, &mut out)?;
    Ok(out)
}

fn rle_chunk(
    data: &[u8],
    width: usize,
    start: usize,
    left: usize,
    chunking: &Chunking,
) -> Result<(usize, Buffers<'static>)> {
    let target = chunking.target_bytes.unwrap_or(TARGET_BYTES);
    let mut count = chunking.max_values.min(left);
    loop {
        let bytes = part(data, start * width, count * width, "values, bytes")?;
        let (values, lengths) = rle::encode(bytes, width)?;
        let fits = values.len() + lengths.len() <= target;
        let regular = count.is_power_of_two() && count > 1;
        if fits && (count == left || regular) || count <= 2 {
            return Ok((count, vec![values.into(), lengths.into()]));
        }
        count = if regular {
            count / 2
        } else {
            (count / 2 + 1).next_power_of_two()
        }
        .min(count - 1);
    }
}

fn string_chunk(
    offsets: OffsetsIn<'_>,
    data: &[u8],
    start: usize,
    left: usize,
    chunking: &Chunking,
) -> Result<(usize, Buffers<'static>)> {
    let target = chunking.target_bytes.unwrap_or(TARGET_STRING_BYTES);
    let most = left.min(chunking.max_values);
    let width = offsets.width();
    let first = offsets.get(start)?;
    let bytes = |count: usize| -> Result<usize> {
        let end = offsets.get(start + count)?;
        let strings = end
            .checked_sub(first)
            .ok_or_else(|| Corrupt("string offsets descend".into()))?;
        Ok(strings + (count + 1) * width)
    };
    let mut count = 2;
    while 2 * count <= most && bytes(2 * count)? <= target {
        count *= 2;
    }
    if left <= 2 * count && left == most && (left <= 2 || bytes(left)? <= target) {
        count = left;
    }
    let head = (count + 1) * width;
    let mut out = Vec::with_capacity(bytes(count)? + width);
    let shift = signed(head, "string offsets")? - signed(first, "string offsets")?;
    match offsets {
        OffsetsIn::Small(all) => {
            put_ends::<i32, 4>(part(all, start, count + 1, "offsets")?, shift, &mut out)?;
        }
        OffsetsIn::Large(all) => {
            put_ends::<i64, 8>(part(all, start, count + 1, "offsets")?, shift, &mut out)?;
        }
    }
    let end = offsets.get(start + count)?;
    out.extend_from_slice(part(data, first, end - first, "string data")?);
    out.resize(out.len().next_multiple_of(width), INNER_PAD);
    Ok((count, vec![out.into()]))
}

/// Appends offsets of `N` bytes, moved.
fn put_ends<T: Copy + PartialOrd + Into<i64>, const N: usize>(
    ends: &[T],
    shift: i64,
    out: &mut Vec<u8>,
) -> Result<()> {
    ensure(
        ends.is_sorted(),
        "string offsets",
        "others",
        "ascending ones",
    )?;
    let (slots, _) = grow(out, N * ends.len()).as_chunks_mut::<N>();
    for (slot, &end) in slots.iter_mut().zip(ends) {
        let moved = end.into().wrapping_add(shift).to_le_bytes();
        *slot = *moved
            .first_chunk()
            .ok_or_else(|| out_of_range("string offsets"))?;
    }
    Ok(())
}
