//! Values of one mini-block chunk, decoded by a plan and appended to a growing output.

use std::ops::Range;

use crate::bitmap::BitmapBuilder;
use crate::bitpacking;
use crate::block::inline_header;
use crate::byte_stream_split;
use crate::compression::{self, Scheme};
use crate::error::{Corrupt, Result, ensure, out_of_range, part, size, u32_at, u64_at};
use crate::fsst::{NOWHERE, Piece, SymbolTable};
use crate::lz4_values::Sequences;
use crate::ranges::gather_values;
use crate::rle;

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

/// Up to this many strings are decompressed one by one.
const FEW_STRINGS: usize = 4;

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

/// Offsets of the Arrow type's width.
#[derive(Debug)]
pub enum Offsets {
    Small(Vec<i32>),
    Large(Vec<i64>),
}

impl Offsets {
    fn new(bits: usize) -> Result<Self> {
        match bits {
            32 => Ok(Self::Small(vec![0])),
            64 => Ok(Self::Large(vec![0])),
            _ => Err(Corrupt(format!("string offsets of {bits} bits"))),
        }
    }

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

    fn reserve(&mut self, count: usize) {
        match self {
            Self::Small(offsets) => offsets.reserve(count),
            Self::Large(offsets) => offsets.reserve(count),
        }
    }
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
            let strings = Strings::parse(only(buffers)?, *offset_bits, count)?;
            ranges
                .iter()
                .try_for_each(|range| strings.append(range, offsets, data))
        }
        (Plan::Fsst { table, offset_bits }, Values::Variable { offsets, data }) => {
            let strings = Strings::parse(only(buffers)?, *offset_bits, count)?;
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

pub(crate) fn is_all(ranges: &[Range<usize>], count: usize) -> bool {
    matches!(ranges, [all] if *all == (0..count))
}

/// Strings of one chunk: `count + 1` offsets from the start of the buffer, then the bytes.
pub(crate) struct Strings<'a> {
    pub(crate) buffer: &'a [u8],
    width: usize,
    count: usize,
}

impl<'a> Strings<'a> {
    pub(crate) fn parse(buffer: &'a [u8], offset_bits: usize, count: usize) -> Result<Self> {
        let width = offset_bits / 8;
        let table = (count + 1) * width;
        ensure(
            buffer.len() >= table,
            "string offsets, bytes",
            buffer.len(),
            format_args!("at least {table}"),
        )?;
        Ok(Self {
            buffer,
            width,
            count,
        })
    }

    fn offset(&self, index: usize) -> Result<usize> {
        if self.width == 4 {
            let offset = u32_at(self.buffer, index * 4, "string offset")?;
            size(offset, "string offset")
        } else {
            let offset = u64_at(self.buffer, index * 8, "string offset")?;
            size(offset, "string offset")
        }
    }

    /// Appends where each string begins in the buffer, and where the last one ends.
    pub(crate) fn ends(&self, out: &mut Vec<usize>) {
        let table = self.buffer.get(..(self.count + 1) * self.width);
        let table = table.unwrap_or(&[]); // `parse` made sure that it is there
        if self.width == 4 {
            let (offsets, _) = table.as_chunks::<4>();
            out.extend(offsets.iter().map(|end| u32::from_le_bytes(*end) as usize));
        } else {
            let (offsets, _) = table.as_chunks::<8>();
            let end = |end: &_| usize::try_from(u64::from_le_bytes(*end)).unwrap_or(usize::MAX);
            out.extend(offsets.iter().map(end)); // one beyond the data is refused by the caller
        }
    }

    /// Copies the strings of `range`, whose bytes are contiguous.
    fn append(
        &self,
        range: &Range<usize>,
        offsets: &mut Offsets,
        data: &mut Vec<u8>,
    ) -> Result<()> {
        ensure(
            range.end <= self.count,
            "string index",
            range.end,
            format_args!("at most {}", self.count),
        )?;
        offsets.reserve(range.len());
        let first = self.offset(range.start)?;
        let base = data.len();
        let mut previous = first;
        if let (4, Offsets::Small(offsets)) = (self.width, &mut *offsets) {
            previous = self.append_small(range, first, base, offsets)?;
        } else {
            for index in range.clone() {
                let end = self.offset(index + 1)?;
                ensure(
                    end >= previous,
                    "string offset",
                    end,
                    format_args!("at least {previous}"),
                )?;
                offsets.push(base + (end - first))?;
                previous = end;
            }
        }
        data.extend_from_slice(part(self.buffer, first, previous - first, "string data")?);
        Ok(())
    }

    fn append_small(
        &self,
        range: &Range<usize>,
        first: usize,
        base: usize,
        offsets: &mut Vec<i32>,
    ) -> Result<usize> {
        let ends = part(
            self.buffer,
            (range.start + 1) * 4,
            range.len() * 4,
            "string offsets",
        )?;
        let (ends, _) = ends.as_chunks::<4>();
        let last = ends
            .last()
            .map_or(first, |end| u32::from_le_bytes(*end) as usize);
        let total = last
            .checked_sub(first)
            .and_then(|bytes| i32::try_from(base + bytes).ok());
        ensure(
            total.is_some(),
            "string offset",
            last,
            format_args!("at least {first}"),
        )?;
        let small = |at: usize| u32::try_from(at).map_err(|_| out_of_range("string offset"));
        let first = small(first)?;
        let shift = small(base)?.wrapping_sub(first);
        let (mut previous, mut sorted) = (first, true);
        offsets.extend(ends.iter().map(|end| {
            let end = u32::from_le_bytes(*end);
            sorted &= end >= previous;
            previous = end;
            end.wrapping_add(shift).cast_signed()
        }));
        ensure(
            sorted,
            "string offsets",
            "a smaller one",
            "ascending offsets",
        )?;
        Ok(last)
    }

    fn append_fsst(
        &self,
        ranges: &[Range<usize>],
        table: &SymbolTable,
        offsets: &mut Offsets,
        data: &mut Vec<u8>,
    ) -> Result<()> {
        if !table.is_coded() {
            return ranges
                .iter()
                .try_for_each(|range| self.append(range, offsets, data));
        }
        let last = ranges.last().map_or(0, |range| range.end);
        ensure(
            last <= self.count,
            "string index",
            last,
            format_args!("at most {}", self.count),
        )?;
        let wanted = ranges.iter().map(ExactSizeIterator::len).sum();
        offsets.reserve(wanted);
        match ranges {
            _ if wanted <= FEW_STRINGS => {
                let mut piece = Piece::default();
                let mut ranges = ranges.iter();
                ranges
                    .try_for_each(|range| self.append_each(range, table, &mut piece, offsets, data))
            }
            [range] => {
                let mut ends = Vec::with_capacity(wanted);
                let codes = self.codes(range, 0, &mut ends)?;
                append_codes(codes, &ends, table, offsets, data)
            }
            _ => {
                let (mut joined, mut ends) = (Vec::new(), Vec::with_capacity(wanted));
                for range in ranges {
                    let codes = self.codes(range, joined.len(), &mut ends)?;
                    joined.extend_from_slice(codes);
                }
                append_codes(&joined, &ends, table, offsets, data)
            }
        }
    }

    /// Decompresses few strings, one after the other.
    fn append_each(
        &self,
        range: &Range<usize>,
        table: &SymbolTable,
        piece: &mut Piece,
        offsets: &mut Offsets,
        data: &mut Vec<u8>,
    ) -> Result<()> {
        let mut start = self.offset(range.start)?;
        for index in range.clone() {
            let end = self.offset(index + 1)?;
            ensure(
                end >= start,
                "string offset",
                end,
                format_args!("at least {start}"),
            )?;
            let codes = part(self.buffer, start, end - start, "string data")?;
            table.decompress(codes, piece, data)?;
            offsets.push(data.len())?;
            start = end;
        }
        Ok(())
    }

    /// Returns the bytes of adjacent strings; appends where each of them ends, if the first one
    /// begins at `base`.
    fn codes(&self, range: &Range<usize>, base: usize, ends: &mut Vec<usize>) -> Result<&'a [u8]> {
        let start = self.offset(range.start)?;
        let first = (range.start + 1) * self.width;
        let stored = part(
            self.buffer,
            first,
            range.len() * self.width,
            "string offsets",
        )?;
        let (mut previous, mut is_sorted) = (start, true);
        let mut end_of = |end: usize| {
            is_sorted &= end >= previous;
            previous = end;
            base + end.saturating_sub(start)
        };
        if self.width == 4 {
            let (stored, _) = stored.as_chunks::<4>();
            ends.extend(
                stored
                    .iter()
                    .map(|end| end_of(u32::from_le_bytes(*end) as usize)),
            );
        } else {
            let (stored, _) = stored.as_chunks::<8>();
            for end in stored {
                ends.push(end_of(size(u64::from_le_bytes(*end), "string offset")?));
            }
        }
        ensure(is_sorted, "string offsets", "others", "ascending offsets")?;
        part(self.buffer, start, previous - start, "string data")
    }
}

/// Decompresses strings at once, given the end of each within their codes.
fn append_codes(
    codes: &[u8],
    ends: &[usize],
    table: &SymbolTable,
    offsets: &mut Offsets,
    data: &mut Vec<u8>,
) -> Result<()> {
    let mut marks = vec![0; codes.len() + 1];
    let base = data.len();
    let filled = table.expand_marked(codes, data, &mut marks)?;
    let mut is_known = true;
    let marked = ends.iter().map(|&end| {
        let mark = marks.get(end).copied().unwrap_or(NOWHERE);
        is_known &= mark != NOWHERE;
        base + mark as usize
    });
    offsets.extend(marked, base + filled)?;
    ensure(
        is_known,
        "string offsets",
        "others",
        "offsets where fsst codes begin",
    )
}
