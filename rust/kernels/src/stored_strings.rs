//! The strings of one mini-block chunk, compressed by FSST or not, appended to a growing output.

use std::ops::Range;

use crate::error::{Result, ensure, out_of_range, part, size, u32_at, u64_at};
use crate::fsst::{NOWHERE, Piece, SymbolTable};
use crate::offsets::Offsets;

/// Up to this many strings are decompressed one by one.
const FEW_STRINGS: usize = 4;

/// StoredStrings of one chunk: `count + 1` offsets from the start of the buffer, then the bytes.
pub(crate) struct StoredStrings<'a> {
    pub(crate) buffer: &'a [u8],
    width: usize,
    count: usize,
}

impl<'a> StoredStrings<'a> {
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
    pub(crate) fn append(
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

    /// Decompresses the strings of `ranges`.
    pub(crate) fn append_fsst(
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
