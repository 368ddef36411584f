//! Values of one mini-block chunk, decoded by a plan and appended to a growing output.

use std::ops::Range;

use crate::bitmap::BitmapBuilder;
use crate::bitpacking;
use crate::block::inline_header;
use crate::byte_stream_split;
use crate::compression::{self, Scheme};
use crate::error::{Corrupt, Result, ensure};
use crate::fsst::SymbolTable;
use crate::lz4_values::Sequences;
use crate::offsets::Offsets;
use crate::ranges::{gather_values, is_all};
use crate::rle;
use crate::stored_strings::StoredStrings;

/// How the values of a chunk are stored. Widths are in bits.
#[derive(Debug, Clone)]
pub enum Plan {
    Flat {
        bits: usize,
    },
    InlineBitpacking {
        bits: usize,
    },
    Rle {
        bits: usize,
    },
    ByteStreamSplit {
        bits: usize,
    },
    Variable {
        offset_bits: usize,
    },
    Fsst {
        table: SymbolTable,
        offset_bits: usize,
    },
    /// Rows of `bits` bits in all, after one bitmap per entry of `validity` (items per row).
    FixedSizeList {
        validity: Vec<usize>,
        bits: usize,
    },
    General {
        scheme: Scheme,
        inner: Box<Plan>,
    },
}

/// The most bytes that a code decodes to: reserved memory that is never written costs nothing, but
/// growing it copies its content.
const FSST_GROWTH: usize = 8;

/// Runs are expanded before values are selected if there is a range for at most so many values.
const MANY: usize = 32;

/// Widest values that encodings shrink to a fraction; wider values are only ever compressed.
const NARROW_BITS: usize = 64;

/// How much wide values are expected to grow at most when they are decompressed.
const WIDE_GROWTH: usize = 8;

/// Values decoded so far.
#[derive(Debug)]
pub enum Values {
    Fixed(Vec<u8>),
    Bits(BitmapBuilder),
    Variable {
        offsets: Offsets,
        data: Vec<u8>,
    },
    /// Items of fixed-size lists: a bitmap per nullable level, then the items.
    Lists {
        validity: Vec<BitmapBuilder>,
        items: Box<Values>,
    },
}

impl Values {
    /// An empty output that fits what `plan` decodes to.
    /// Reserves memory for `expected` values, stored in `stored` bytes; both are only estimates.
    pub fn new(plan: &Plan, expected: usize, stored: usize) -> Result<Self> {
        Ok(match plan {
            Plan::Flat { bits: 1 } => Self::Bits(BitmapBuilder::default()),
            Plan::Flat { bits }
            | Plan::InlineBitpacking { bits }
            | Plan::Rle { bits }
            | Plan::ByteStreamSplit { bits } => {
                ensure(
                    bits % 8 == 0 && *bits > 0,
                    "value width, bits",
                    bits,
                    "a multiple of 8",
                )?;
                Self::Fixed(Vec::with_capacity(room(expected, *bits, stored)))
            }
            Plan::Variable { offset_bits } => Self::Variable {
                offsets: Offsets::with_capacity(*offset_bits, expected)?,
                data: Vec::with_capacity(stored),
            },
            Plan::Fsst { offset_bits, .. } => Self::Variable {
                offsets: Offsets::with_capacity(*offset_bits, expected)?,
                data: Vec::with_capacity(stored.saturating_mul(FSST_GROWTH)),
            },
            Plan::FixedSizeList { validity, bits } => Self::Lists {
                validity: validity.iter().map(|_| BitmapBuilder::default()).collect(),
                items: Box::new(if bits % 8 == 0 {
                    Self::Fixed(Vec::with_capacity(room(expected, *bits, stored)))
                } else {
                    Self::Bits(BitmapBuilder::default())
                }),
            },
            Plan::General { inner, .. } => Self::new(inner, expected, stored)?,
        })
    }

    /// An empty output of strings.
    pub fn variable(offset_bits: usize) -> Result<Self> {
        Ok(Self::Variable {
            offsets: Offsets::new(offset_bits)?,
            data: Vec::new(),
        })
    }
}

/// Appends the values at `ranges` of a chunk of `count` values.
pub fn append(
    plan: &Plan,
    buffers: &[&[u8]],
    count: usize,
    ranges: &[Range<usize>],
    out: &mut Values,
) -> Result<()> {
    match (plan, out) {
        (Plan::Flat { bits: 1 }, Values::Bits(out)) => {
            let data = only(buffers)?;
            ensure(
                data.len() == count.div_ceil(8),
                "bitmap, bytes",
                data.len(),
                count.div_ceil(8),
            )?;
            ranges
                .iter()
                .try_for_each(|range| out.extend_from(data, range.start, range.len()))
        }
        (Plan::Flat { bits }, Values::Fixed(out)) => {
            append_flat(only(buffers)?, bits / 8, count, ranges, out)
        }
        (Plan::InlineBitpacking { bits }, Values::Fixed(out)) => {
            let (width, packed) = inline_header(only(buffers)?, *bits)?;
            ensure(
                count <= bitpacking::GROUP,
                "bit-packed chunk, values",
                count,
                "at most 1024",
            )?;
            bitpacking::append_ranges(packed, *bits, width, ranges, out)
        }
        (Plan::Rle { bits }, Values::Fixed(out)) => {
            let [values, lengths] = buffers else {
                return Err(Corrupt(format!(
                    "rle: expected 2 buffers, found {}",
                    buffers.len()
                )));
            };
            if is_all(ranges, count) {
                return rle::expand(values, lengths, bits / 8, count, out);
            }
            if MANY * ranges.len() > count {
                let mut chunk = Vec::with_capacity(count * bits / 8);
                rle::expand(values, lengths, bits / 8, count, &mut chunk)?;
                return gather_values(&chunk, bits / 8, ranges, out);
            }
            rle::expand_ranges(values, lengths, bits / 8, count, ranges, out)
        }
        (Plan::ByteStreamSplit { bits }, Values::Fixed(out)) => {
            let data = only(buffers)?;
            if is_all(ranges, count) {
                return byte_stream_split::join(data, bits / 8, count, out);
            }
            let mut chunk = Vec::with_capacity(count * bits / 8);
            byte_stream_split::join(data, bits / 8, count, &mut chunk)?;
            append_flat(&chunk, bits / 8, count, ranges, out)
        }
        (Plan::Variable { offset_bits }, Values::Variable { offsets, data }) => {
            let strings = StoredStrings::parse(only(buffers)?, *offset_bits, count)?;
            ranges
                .iter()
                .try_for_each(|range| strings.append(range, offsets, data))
        }
        (Plan::Fsst { table, offset_bits }, Values::Variable { offsets, data }) => {
            let strings = StoredStrings::parse(only(buffers)?, *offset_bits, count)?;
            strings.append_fsst(ranges, table, offsets, data)
        }
        (
            Plan::FixedSizeList { validity, bits },
            Values::Lists {
                validity: bitmaps,
                items,
            },
        ) => {
            let Some((data, masks)) = buffers.split_last() else {
                return Err(Corrupt("fixed-size list: no buffer".into()));
            };
            ensure(
                masks.len() == validity.len(),
                "fixed-size list bitmaps",
                masks.len(),
                validity.len(),
            )?;
            for ((mask, per_row), bitmap) in masks.iter().zip(validity).zip(bitmaps) {
                for range in ranges {
                    bitmap.extend_from(mask, range.start * per_row, range.len() * per_row)?;
                }
            }
            append_items(data, *bits, count, ranges, items)
        }
        (Plan::General { scheme, inner }, out) => {
            let Some((first, others)) = buffers.split_first() else {
                return Err(Corrupt("compressed chunk: no buffer".into()));
            };
            if let (Some(sequences), Values::Fixed(out)) =
                (sequences(plan, first, count), &mut *out)
            {
                return sequences.append(ranges, out);
            }
            let raw = compression::decompress(*scheme, first)?;
            let mut unpacked = vec![raw.as_slice()];
            unpacked.extend_from_slice(others);
            append(inner, &unpacked, count, ranges, out)
        }
        _ => Err(Corrupt("the plan does not fit its output".into())),
    }
}

/// The sequences of a compressed chunk that has one per value.
pub(crate) fn sequences<'a>(plan: &Plan, data: &'a [u8], count: usize) -> Option<Sequences<'a>> {
    match plan {
        Plan::General {
            scheme: Scheme::Lz4,
            inner,
        } if matches!(**inner, Plan::Flat { bits: 128 }) => Sequences::of(data, count),
        _ => None,
    }
}

pub(crate) fn only<'a>(buffers: &[&'a [u8]]) -> Result<&'a [u8]> {
    match buffers {
        [one] => Ok(one),
        _ => Err(Corrupt(format!(
            "expected 1 value buffer, found {}",
            buffers.len()
        ))),
    }
}

fn append_flat(
    data: &[u8],
    width: usize,
    count: usize,
    ranges: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<()> {
    let bytes = count.saturating_mul(width);
    ensure(data.len() == bytes, "flat values, bytes", data.len(), bytes)?;
    if is_all(ranges, count) {
        out.extend_from_slice(data);
        return Ok(());
    }
    gather_values(data, width, ranges, out)
}

fn append_items(
    data: &[u8],
    bits: usize,
    count: usize,
    ranges: &[Range<usize>],
    items: &mut Values,
) -> Result<()> {
    match items {
        Values::Fixed(out) => append_flat(data, bits / 8, count, ranges, out),
        Values::Bits(out) => ranges
            .iter()
            .try_for_each(|range| out.extend_from(data, range.start * bits, range.len() * bits)),
        _ => Err(Corrupt("fixed-size list of strings".into())),
    }
}

/// Bytes to reserve. Narrow values may be stored in almost no bytes; wide values are not,
/// regardless of the width that a damaged page claims.
fn room(expected: usize, bits: usize, stored: usize) -> usize {
    let bytes = expected.saturating_mul(bits / 8);
    if bits <= NARROW_BITS {
        bytes
    } else {
        bytes.min(stored.saturating_mul(WIDE_GROWTH))
    }
}
