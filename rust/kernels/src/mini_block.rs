//! Decoding the chunks of a mini-block page.
//!
//!     u16  num_levels                 entries of this chunk's levels
//!     u16  rep_size                   only with repetition levels
//!     u16  def_size                   only with definition levels
//!     uN   value_size[num_buffers]    N = 16, or 32 with large chunks
//!     pad to 8, then repetition, definition and each value buffer, each padded to 8
//! Selected rows are given as sorted, disjoint ranges. Without lists a row is a value. With lists a
//! row begins at an entry of the highest repetition level, may span chunks, and its values are the
//! visible ones among its entries.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::block::{BlockPlan, FEW, decode_level_ranges};
use crate::chunks::Chunk;
use crate::error::{Result, ensure, part, rest, size, u16_at, u32_at};
use crate::level_planes::{self, BLOCK, LevelPlanes, blocks_of, live_bits, low_bits};
use crate::levels::Layers;
use crate::narrow_indices;
use crate::ranges::num_rows;
use crate::unravel::{Unraveled, Unraveler};
use crate::values::{Plan, Values, append};

/// The layout of the chunks, from the descriptor of a page.
#[derive(Debug)]
pub struct Page {
    pub rep: Option<BlockPlan>,
    pub def: Option<BlockPlan>,
    pub values: Plan,
    /// Bits of the values as they are decoded, if these are indices of a small dictionary.
    pub index_bits: Option<usize>,
    pub num_buffers: usize,
    /// Value sizes are u32 instead of u16.
    pub large: bool,
    pub layers: Layers,
}

/// Some rows of one page: chunks within some bytes, which must contain the rows.
#[derive(Debug)]
pub struct Rows<'a> {
    pub body: &'a [u8],
    pub chunks: Vec<Chunk>,
    pub wanted: &'a [Range<usize>],
}

/// Values and layers of the selected rows.
#[derive(Debug)]
pub struct Decoded {
    pub values: Values,
    pub num_values: usize,
    pub layers: Vec<Unraveled>,
}

#[derive(Default)]
struct Scratch {
    levels: level_planes::Scratch,
    rep: LevelPlanes,
    def: LevelPlanes,
    /// The definition levels of some rows.
    picked: (Vec<u8>, Vec<u16>),
    entries: Vec<Range<usize>>,
    values: Vec<Range<usize>>,
}

/// Decodes rows of pages that have the same layout, one page after the other, and the levels of
/// so many of the inner-most layers (see `Unraveler::new`).
pub fn decode(page: &Page, pages: &[Rows<'_>], num_layers: usize) -> Result<Decoded> {
    let (mut expected, mut stored, mut num_lists) = (0, 0, 0);
    for rows in pages {
        let bytes: usize = rows.chunks.iter().map(|chunk| chunk.size).sum();
        let (bytes, wanted) = (bytes.min(rows.body.len()), num_rows(rows.wanted));
        stored += bytes;
        let in_chunks: usize = rows.chunks.iter().map(|chunk| chunk.num_values).sum();
        if page.layers.max_rep == 0 {
            expected += wanted.min(in_chunks);
            continue;
        }
        // A damaged page may claim more items and lists; these take some space as a rule.
        num_lists += wanted.min(bytes.saturating_mul(8));
        let rows_in_chunks: usize = rows.chunks.iter().map(|chunk| chunk.num_rows).sum();
        if wanted.saturating_mul(2) >= rows_in_chunks {
            expected += in_chunks.min(bytes);
        }
    }
    let mut decoder = Decoder::new(page, expected, stored, num_layers)?;
    decoder.levels.reserve(num_lists);
    for rows in pages {
        decoder.take(rows)?;
    }
    Ok(decoder.finish())
}

/// The values and levels decoded so far, of one page or of several.
struct Decoder<'a> {
    page: &'a Page,
    values: Values,
    levels: Unraveler,
    scratch: Scratch,
    num_values: usize,
}

impl<'a> Decoder<'a> {
    /// Reserves memory for some values, given their stored size in bytes.
    fn new(page: &'a Page, num_values: usize, stored: usize, num_layers: usize) -> Result<Self> {
        Ok(Self {
            page,
            values: match page.index_bits {
                Some(bits) => Values::new(&Plan::Flat { bits }, num_values, stored)?,
                None => Values::new(&page.values, num_values, stored)?,
            },
            levels: Unraveler::new(&page.layers, num_layers),
            scratch: Scratch::default(),
            num_values: 0,
        })
    }

    /// Appends the selected rows of a page.
    fn take(&mut self, rows: &Rows<'_>) -> Result<()> {
        let (mut cursor, before) = (0, self.levels.num_rows());
        for chunk in &rows.chunks {
            self.take_chunk(rows.body, chunk, rows.wanted, &mut cursor)
                .map_err(|error| error.at(format_args!("chunk of row {}", chunk.first_row)))?;
        }
        let (found, wanted) = (self.levels.num_rows() - before, num_rows(rows.wanted));
        ensure(found == wanted, "rows of the chunks", found, wanted)
    }

    fn take_chunk(
        &mut self,
        body: &[u8],
        chunk: &Chunk,
        rows: &[Range<usize>],
        cursor: &mut usize,
    ) -> Result<()> {
        let (page, scratch, levels) = (self.page, &mut self.scratch, &mut self.levels);
        if !is_wanted(page, chunk, rows, cursor) {
            return Ok(());
        }
        let bytes = part(body, chunk.start, chunk.size, "chunk, bytes")?;
        let mut parts = Parts::new(page, bytes)?;
        scratch.entries.clear();
        scratch.values.clear();
        if page.layers.max_rep == 0 {
            plain_levels(page, chunk, rows, cursor, &mut parts, scratch, levels)?;
        } else {
            nested_levels(page, chunk, rows, cursor, &mut parts, scratch, levels)?;
        }
        let mut buffers = Vec::with_capacity(page.num_buffers);
        for index in 0..page.num_buffers {
            let size = parts.value_size(index)?;
            buffers.push(parts.next(size)?);
        }
        let (plan, count, ranges) = (&page.values, chunk.num_values, &scratch.values);
        match (page.index_bits, &mut self.values) {
            (Some(bits), Values::Fixed(out)) => {
                narrow_indices::append(plan, &buffers, count, ranges, bits, out)?;
            }
            (_, out) => append(plan, &buffers, count, ranges, out)?,
        }
        self.num_values += num_rows(&scratch.values);
        Ok(())
    }

    fn finish(self) -> Decoded {
        Decoded {
            values: self.values,
            num_values: self.num_values,
            layers: self.levels.finish(),
        }
    }
}

/// Whether a chunk holds any of the selected rows; ranges before it are skipped.
pub(crate) fn is_wanted(
    page: &Page,
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
) -> bool {
    // A chunk with lists may begin in the middle of the row before its first row.
    let first = chunk
        .first_row
        .saturating_sub(usize::from(page.layers.max_rep > 0));
    while rows.get(*cursor).is_some_and(|range| range.end <= first) {
        *cursor += 1;
    }
    let end = chunk.first_row + chunk.num_rows;
    rows.get(*cursor).is_some_and(|range| range.start < end)
}

/// Levels of the selected rows of a chunk without lists, where every entry owns a value.
fn plain_levels(
    page: &Page,
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    parts: &mut Parts<'_>,
    scratch: &mut Scratch,
    levels: &mut Unraveler,
) -> Result<()> {
    select_values(chunk, rows, cursor, &mut scratch.values);
    let wanted = num_rows(&scratch.values);
    let Some(plan) = &page.def else {
        return levels.push(&[], &[], wanted);
    };
    let count = parts.num_levels;
    ensure(
        count == chunk.num_values,
        "levels of a chunk",
        count,
        chunk.num_values,
    )?;
    let data = parts.next(parts.def_size)?;
    match scratch.values.as_slice() {
        [range] if wanted > FEW => {
            let Scratch { rep, def, .. } = scratch;
            def.decode(plan, data, count, &mut scratch.levels)?;
            levels.push_planes(rep, def, range.clone())
        }
        ranges => {
            let (bytes, picked) = &mut scratch.picked;
            decode_level_ranges(plan, data, count, ranges, bytes, picked)?;
            levels.push(&[], picked, wanted)
        }
    }
}

/// Levels of the selected rows of a chunk with lists.
fn nested_levels(
    page: &Page,
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    parts: &mut Parts<'_>,
    scratch: &mut Scratch,
    levels: &mut Unraveler,
) -> Result<()> {
    let count = parts.num_levels;
    let Scratch { rep, def, .. } = scratch;
    for (plan, size, planes) in [
        (&page.rep, parts.rep_size, &mut *rep),
        (&page.def, parts.def_size, def),
    ] {
        let Some(plan) = plan else {
            planes.set_zeros(count);
            continue;
        };
        let data = parts.next(size)?;
        planes.decode(plan, data, count, &mut scratch.levels)?;
    }
    let is_known = page.rep.is_some() || count == 0;
    ensure(is_known, "repetition levels", 0, count)?;
    select_entries(page, chunk, rows, cursor, scratch)?;
    let Scratch { rep, def, .. } = scratch;
    let mut ranges = scratch.entries.iter();
    ranges.try_for_each(|range| levels.push_planes(rep, def, range.clone()))
}

/// Selected rows of a chunk without lists, as ranges of its values.
pub(crate) fn select_values(
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    out: &mut Vec<Range<usize>>,
) {
    let (first, end) = (chunk.first_row, chunk.first_row + chunk.num_values);
    while let Some(range) = rows.get(*cursor) {
        if range.start >= end {
            break;
        }
        let (from, to) = (range.start.max(first), range.end.min(end));
        if from < to {
            out.push(from - first..to - first);
        }
        if range.end > end {
            break;
        }
        *cursor += 1;
    }
}

/// Selected rows of a chunk with lists, as ranges of its entries and of its values.
fn select_entries(
    page: &Page,
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    scratch: &mut Scratch,
) -> Result<()> {
    let Scratch {
        rep,
        def,
        entries,
        values,
        ..
    } = scratch;
    let before = chunk.first_row.saturating_sub(1);
    while rows.get(*cursor).is_some_and(|range| range.end <= before) {
        *cursor += 1;
    }
    let mut entry = Entry {
        levels: EntryLevels {
            layers: &page.layers,
            rep,
            def,
        },
        number: 0,
        row: chunk.first_row,
        value: 0,
    };
    let total = entry.levels.num_visible();
    ensure(
        total == chunk.num_values,
        "visible entries of a chunk",
        total,
        chunk.num_values,
    )?;
    let end = chunk.first_row + chunk.num_rows;
    let covers = |range: &Range<usize>| range.start <= before && range.end >= end;
    if rows.get(*cursor).is_some_and(covers) {
        entries.push(0..rep.len());
        values.push(0..total);
        return Ok(());
    }
    let starts = entry.levels.num_starts();
    ensure(
        starts == chunk.num_rows,
        "rows that start in a chunk",
        starts,
        chunk.num_rows,
    )?;
    for range in rest(rows, *cursor, "wanted rows")? {
        if range.start >= end {
            break;
        }
        // The row before the first continues here, from the first entry.
        if range.start >= chunk.first_row {
            entry.seek(range.start);
        }
        let (first_entry, first_value) = (entry.number, entry.value);
        entry.seek(range.end.min(end));
        if first_entry < entry.number {
            entries.push(first_entry..entry.number);
        }
        if first_value < entry.value {
            values.push(first_value..entry.value);
        }
    }
    Ok(())
}

/// Finds entries by their levels.
struct EntryLevels<'a> {
    layers: &'a Layers,
    rep: &'a LevelPlanes,
    def: &'a LevelPlanes,
}

impl EntryLevels<'_> {
    /// Which of a block of 64 entries start a row.
    #[inline(always)]
    fn starts(&self, block: usize) -> u64 {
        self.rep.block(block).equal(self.layers.max_rep)
    }

    /// Which of a block of 64 entries own a value.
    #[inline(always)]
    fn visible(&self, block: usize) -> u64 {
        self.def.block(block).at_most(self.layers.max_visible)
    }

    fn num_starts(&self) -> usize {
        Arch::new().dispatch(Count(0..self.rep.len(), |block| self.starts(block)))
    }

    fn num_visible(&self) -> usize {
        Arch::new().dispatch(Count(0..self.rep.len(), |block| self.visible(block)))
    }
}

/// Counts the bits of entries, given those of each block.
struct Count<F>(Range<usize>, F);

impl<F: Fn(usize) -> u64> WithSimd for Count<F> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let Self(entries, bits) = self;
        let counts = blocks_of(&entries).map(|block| bits(block) & live_bits(&entries, block));
        counts.map(|bits| bits.count_ones() as usize).sum()
    }
}

/// An entry of a chunk with lists.
struct Entry<'a> {
    levels: EntryLevels<'a>,
    number: usize,
    /// The next row to start, here or later.
    row: usize,
    /// Number of values of the preceding entries.
    value: usize,
}

impl Entry<'_> {
    /// Advances to the start of a row, or past the last entry.
    fn seek(&mut self, row: usize) {
        let left = self.number..self.levels.rep.len();
        for block in blocks_of(&left) {
            let live = live_bits(&left, block);
            let mut starts = self.levels.starts(block) & live;
            let visible = self.levels.visible(block) & live;
            let count = starts.count_ones() as usize;
            if self.row + count > row {
                for _ in self.row..row {
                    starts &= starts - 1; // more rows than these start here
                }
                let before = starts.trailing_zeros() as usize;
                self.value += (visible & low_bits(before)).count_ones() as usize;
                (self.number, self.row) = (block * BLOCK + before, row);
                return;
            }
            self.row += count;
            self.value += visible.count_ones() as usize;
        }
        self.number = left.end;
    }
}

/// Walks the buffers of a chunk.
pub(crate) struct Parts<'a> {
    bytes: &'a [u8],
    pub(crate) num_levels: usize,
    rep_size: usize,
    pub(crate) def_size: usize,
    sizes_at: usize,
    large: bool,
    position: usize,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(page: &Page, bytes: &'a [u8]) -> Result<Self> {
        let mut at = 2;
        let mut level_size = |present: bool| -> Result<usize> {
            if !present {
                return Ok(0);
            }
            at += 2;
            Ok(usize::from(u16_at(bytes, at - 2, "chunk header")?))
        };
        let rep_size = level_size(page.rep.is_some())?;
        let def_size = level_size(page.def.is_some())?;
        let header = at + page.num_buffers * if page.large { 4 } else { 2 };
        Ok(Self {
            bytes,
            num_levels: usize::from(u16_at(bytes, 0, "chunk header")?),
            rep_size,
            def_size,
            sizes_at: at,
            large: page.large,
            position: header.next_multiple_of(8),
        })
    }

    pub(crate) fn value_size(&self, index: usize) -> Result<usize> {
        if self.large {
            size(
                u32_at(self.bytes, self.sizes_at + 4 * index, "chunk header")?,
                "value buffer, bytes",
            )
        } else {
            Ok(usize::from(u16_at(
                self.bytes,
                self.sizes_at + 2 * index,
                "chunk header",
            )?))
        }
    }

    pub(crate) fn next(&mut self, size: usize) -> Result<&'a [u8]> {
        let buffer = part(self.bytes, self.position, size, "buffer of a chunk, bytes")?;
        self.position += size.next_multiple_of(8);
        Ok(buffer)
    }
}
