//! Decoding the chunks of a mini-block page.
//!
//!     u16  num_levels                 entries of this chunk's levels
//!     u16  rep_size                   only with repetition levels
//!     u16  def_size                   only with definition levels
//!     uN   value_size[num_buffers]    N = 16, or 32 with large chunks
//!     pad to 8, then repetition, definition and each value buffer, each padded to 8
//!
//! Wanted rows come as sorted, disjoint ranges. Without lists a row is a value. With lists a row
//! begins at an entry of the highest repetition level, may span chunks, and its values are the
//! visible ones among its entries.

use std::ops::Range;
use std::slice;

use crate::block::{BlockPlan, decode_level_ranges, decode_levels};
use crate::error::{Result, ensure, part, size, u16_at, u32_at};
use crate::levels::Layers;
use crate::unravel::{Unraveled, Unraveler};
use crate::values::{Plan, Values, append};

/// What the descriptor of a page says of its chunks.
#[derive(Debug)]
pub struct Page {
    pub rep: Option<BlockPlan>,
    pub def: Option<BlockPlan>,
    pub values: Plan,
    pub num_buffers: usize,
    /// Value sizes are u32 instead of u16.
    pub large: bool,
    pub layers: Layers,
}

/// One chunk within the bytes at hand.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    pub start: usize,
    pub size: usize,
    pub num_values: usize,
    /// The first row that starts here (or would, if none does).
    pub first_row: usize,
    /// Number of rows that start here.
    pub num_rows: usize,
}

/// Where a whole page without lists stands within the bytes at hand.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// One word per chunk, see `Whole::chunks`.
    pub words: &'a [u8],
    /// The chunks, one behind the other.
    pub body: &'a [u8],
    pub num_items: usize,
    pub num_rows: usize,
}

const MAX_CHUNK_VALUES: usize = 32_768;

impl Whole<'_> {
    /// The chunks, as their words say: bytes / 8 - 1 from bit 4 on, and below the logarithm of the
    /// number of values, which is not read of the last chunk: it has what is left.
    fn chunks(&self, large: bool) -> Result<Vec<Chunk>> {
        let width = if large { 4 } else { 2 };
        let count = self.words.len() / width;
        let whole = count > 0 && self.words.len().is_multiple_of(width);
        ensure(
            whole,
            "chunk words, bytes",
            self.words.len(),
            format_args!("a multiple of {width}"),
        )?;
        let mut chunks = Vec::with_capacity(count);
        let (mut start, mut first_row) = (0, 0);
        for index in 0..count {
            let word = if large {
                size(
                    u32_at(self.words, width * index, "chunk words")?,
                    "chunk word",
                )?
            } else {
                usize::from(u16_at(self.words, width * index, "chunk words")?)
            };
            let is_last = index + 1 == count;
            let num_values = if is_last {
                self.num_items.saturating_sub(first_row)
            } else {
                1 << (word & 15)
            };
            let size = ((word >> 4) + 1) * 8;
            chunks.push(Chunk {
                start,
                size,
                num_values,
                first_row,
                num_rows: num_values,
            });
            start += size;
            first_row += num_values;
        }
        ensure(
            start <= self.body.len(),
            "chunks, bytes",
            start,
            format_args!("at most {}", self.body.len()),
        )?;
        let last = chunks.last().map_or(0, |chunk| chunk.num_values);
        ensure(
            (1..=MAX_CHUNK_VALUES).contains(&last),
            "values of the last chunk",
            last,
            format_args!("1 to {MAX_CHUNK_VALUES}"),
        )?;
        ensure(first_row == self.num_rows, "rows", first_row, self.num_rows)?;
        Ok(chunks)
    }
}

/// Decodes all rows of a page without lists.
pub fn decode_whole(page: &Page, whole: &Whole<'_>) -> Result<Decoded> {
    ensure(
        page.layers.max_rep == 0,
        "lists in the page",
        "some",
        "none",
    )?;
    let chunks = whole.chunks(page.large)?;
    decode(
        page,
        whole.body,
        &chunks,
        slice::from_ref(&(0..whole.num_rows)),
    )
}

/// Values and layers of the wanted rows.
#[derive(Debug)]
pub struct Decoded {
    pub values: Values,
    pub num_values: usize,
    pub layers: Vec<Unraveled>,
}

#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    rep: Vec<u16>,
    def: Vec<u16>,
    entries: Vec<Range<usize>>,
    values: Vec<Range<usize>>,
}

/// Decodes the wanted rows of the given chunks, which must hold them.
pub fn decode(
    page: &Page,
    body: &[u8],
    chunks: &[Chunk],
    rows: &[Range<usize>],
) -> Result<Decoded> {
    let wanted: usize = rows.iter().map(ExactSizeIterator::len).sum();
    let expected = if page.layers.max_rep == 0 { wanted } else { 0 };
    let stored: usize = chunks.iter().map(|chunk| chunk.size).sum();
    let in_chunks: usize = chunks.iter().map(|chunk| chunk.num_values).sum();
    let mut values = Values::new(
        &page.values,
        expected.min(in_chunks),
        stored.min(body.len()),
    )?;
    let mut levels = Unraveler::new(&page.layers);
    let mut scratch = Scratch::default();
    let mut cursor = 0;
    let mut num_values = 0;
    for chunk in chunks {
        num_values += decode_chunk(
            page,
            body,
            chunk,
            rows,
            &mut cursor,
            &mut scratch,
            &mut values,
            &mut levels,
        )
        .map_err(|error| error.at(format_args!("chunk of row {}", chunk.first_row)))?;
    }
    let layers = levels.finish();
    let found = layers.last().map_or(0, |layer| layer.len);
    ensure(found == wanted, "rows of the chunks", found, wanted)?;
    Ok(Decoded {
        values,
        num_values,
        layers,
    })
}

#[allow(clippy::too_many_arguments)]
fn decode_chunk(
    page: &Page,
    body: &[u8],
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    scratch: &mut Scratch,
    values: &mut Values,
    levels: &mut Unraveler,
) -> Result<usize> {
    if !is_wanted(page, chunk, rows, cursor) {
        return Ok(0);
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
    append(
        &page.values,
        &buffers,
        chunk.num_values,
        &scratch.values,
        values,
    )?;
    Ok(scratch.values.iter().map(ExactSizeIterator::len).sum())
}

/// Whether a chunk holds any of the wanted rows; ranges in front of it are left behind.
fn is_wanted(page: &Page, chunk: &Chunk, rows: &[Range<usize>], cursor: &mut usize) -> bool {
    // A chunk with lists may begin in the middle of the row in front of its first.
    let first = chunk
        .first_row
        .saturating_sub(usize::from(page.layers.max_rep > 0));
    while rows.get(*cursor).is_some_and(|range| range.end <= first) {
        *cursor += 1;
    }
    let end = chunk.first_row + chunk.num_rows;
    rows.get(*cursor).is_some_and(|range| range.start < end)
}

/// Levels of the wanted rows of a chunk without lists, where every entry owns a value.
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
    let wanted = scratch.values.iter().map(ExactSizeIterator::len).sum();
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
    let Scratch {
        values, bytes, def, ..
    } = scratch;
    decode_level_ranges(plan, data, count, values, bytes, def)?;
    levels.push(&[], def, wanted)
}

/// Levels of the wanted rows of a chunk with lists.
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
    if let Some(plan) = &page.rep {
        let data = parts.next(parts.rep_size)?;
        decode_levels(plan, data, count, &mut scratch.bytes, &mut scratch.rep)?;
    }
    if let Some(plan) = &page.def {
        let data = parts.next(parts.def_size)?;
        decode_levels(plan, data, count, &mut scratch.bytes, &mut scratch.def)?;
    }
    ensure(
        scratch.rep.len() == count,
        "repetition levels",
        scratch.rep.len(),
        count,
    )?;
    select_entries(page, chunk, rows, cursor, scratch)?;
    for range in &scratch.entries {
        let rep = part(&scratch.rep, range.start, range.len(), "levels")?;
        let def = match &page.def {
            Some(_) => part(&scratch.def, range.start, range.len(), "levels")?,
            None => &[],
        };
        levels.push(rep, def, range.len())?;
    }
    Ok(())
}

/// Wanted rows of a chunk without lists, as ranges of its values.
fn select_values(
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

/// Wanted rows of a chunk with lists, as ranges of its entries and of its values.
fn select_entries(
    page: &Page,
    chunk: &Chunk,
    rows: &[Range<usize>],
    cursor: &mut usize,
    scratch: &mut Scratch,
) -> Result<()> {
    let visible = |def: u16| def <= page.layers.max_visible;
    let count = scratch.rep.len();
    let before = chunk.first_row.saturating_sub(1);
    while rows.get(*cursor).is_some_and(|range| range.end <= before) {
        *cursor += 1;
    }
    let total = if scratch.def.is_empty() || page.def.is_none() {
        count
    } else {
        scratch.def.iter().filter(|&&def| visible(def)).count()
    };
    ensure(
        total == chunk.num_values,
        "visible entries of a chunk",
        total,
        chunk.num_values,
    )?;
    let end = chunk.first_row + chunk.num_rows;
    if rows
        .get(*cursor)
        .is_some_and(|range| range.start <= before && range.end >= end)
    {
        scratch.entries.push(0..count);
        scratch.values.push(0..total);
        return Ok(());
    }
    let mut next_row = chunk.first_row;
    let mut selected = next_row > 0 && contains(rows, cursor, next_row - 1);
    let (mut entry_start, mut value_start, mut value) = (0, 0, 0);
    for (entry, &rep) in scratch.rep.iter().enumerate() {
        if rep == page.layers.max_rep {
            let now = contains(rows, cursor, next_row);
            next_row += 1;
            if now != selected {
                if selected {
                    scratch.entries.push(entry_start..entry);
                    scratch.values.push(value_start..value);
                }
                (entry_start, value_start, selected) = (entry, value, now);
            }
        }
        value += usize::from(
            page.def.is_none() || scratch.def.get(entry).is_some_and(|&def| visible(def)),
        );
    }
    if selected {
        scratch.entries.push(entry_start..count);
        scratch.values.push(value_start..value);
    }
    scratch.values.retain(|range| !range.is_empty());
    ensure(
        next_row == end,
        "rows that start in a chunk",
        next_row - chunk.first_row,
        chunk.num_rows,
    )
}

fn contains(rows: &[Range<usize>], cursor: &mut usize, row: usize) -> bool {
    while rows.get(*cursor).is_some_and(|range| range.end <= row) {
        *cursor += 1;
    }
    rows.get(*cursor).is_some_and(|range| range.start <= row)
}

/// Walks the buffers of a chunk.
struct Parts<'a> {
    bytes: &'a [u8],
    num_levels: usize,
    rep_size: usize,
    def_size: usize,
    sizes_at: usize,
    large: bool,
    position: usize,
}

impl<'a> Parts<'a> {
    fn new(page: &Page, bytes: &'a [u8]) -> Result<Self> {
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

    fn value_size(&self, index: usize) -> Result<usize> {
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

    fn next(&mut self, size: usize) -> Result<&'a [u8]> {
        let buffer = part(self.bytes, self.position, size, "buffer of a chunk, bytes")?;
        self.position += size.next_multiple_of(8);
        Ok(buffer)
    }
}
