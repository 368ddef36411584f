//! Encoding one mini-block page: values and levels to chunks, chunk words and repetition index.
//!
//! Chunks are cut by the values; an entry without a value that lies on a boundary belongs to the
//! chunk after it. All chunks but the last hold a power of two of values. See `mini_block` for the
//! bytes of a chunk. The word of a chunk is `(bytes / 8 - 1) << 4 | log2(values)`, with 0 for the
//! last one's logarithm; the repetition index has, per chunk, the rows that end in it and the
//! entries of the row that continues.

use std::borrow::Cow;

use crate::bitmap::BitmapBuilder;
use crate::bitpacking::{self, GROUP};
use crate::block::{BlockPlan, encode_levels};
use crate::byte_stream_split;
use crate::compression::{Compressor, Scheme};
use crate::error::{Corrupt, Result, ensure, grow, out_of_range, part, rest, signed};
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
    fn plain_bytes(&self, num_values: usize) -> Result<usize> {
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

/// Levels of one page; empty slices where there are none.
#[derive(Debug)]
pub struct LevelsIn<'a> {
    pub rep: &'a [u16],
    pub def: &'a [u16],
    pub rep_plan: Option<BlockPlan>,
    pub def_plan: Option<BlockPlan>,
    pub max_rep: u16,
    pub max_visible: u16,
}

/// Buffers of one page.
#[derive(Debug, Default)]
pub struct Encoded {
    pub words: Vec<u8>,
    pub chunks: Vec<u8>,
    /// Two u64 per chunk; empty without lists.
    pub index: Vec<u8>,
}

/// A chunk grows while it stays below this many bytes of values.
const TARGET_BYTES: usize = 8186;
/// Strings are often read one by one, so smaller chunks are faster.
const TARGET_STRING_BYTES: usize = 4096;
/// Streams are always joined as a whole, so smaller chunks are faster here, too.
const TARGET_SPLIT_BYTES: usize = 4097;
/// Number of levels that are counted at once before each is examined.
const STRETCH: usize = 128;
const PAD: u8 = 0xFE;
/// Pads strings to a multiple of their offsets' width.
const INNER_PAD: u8 = 0x48;

/// Encodes `num_values` values (at least one) and their levels.
pub fn encode(
    input: &Input<'_>,
    coding: Coding,
    num_values: usize,
    levels: &LevelsIn<'_>,
    chunking: &Chunking,
) -> Result<Encoded> {
    let most = chunking.max_values;
    if !most.is_power_of_two() || !(2..=1 << 15).contains(&most) {
        return Err(Corrupt(format!("chunks of {most} values")));
    }
    let mut compressor = chunking
        .compression
        .map(|(scheme, level)| Compressor::new(scheme, level))
        .transpose()?;
    let mut made = Encoded::default();
    if coding != Coding::Rle {
        // Chunks have a few bytes of overhead; growing would copy the buffer repeatedly.
        let bytes = input.plain_bytes(num_values)?;
        made.chunks.reserve(bytes + bytes / 64);
    }
    let mut ends = Vec::new();
    let (mut value, mut entry) = (0, 0);
    while value < num_values {
        let (count, mut buffers) = next_chunk(input, coding, value, num_values - value, chunking)?;
        if let (Some(compressor), Some(first)) = (&mut compressor, buffers.first_mut()) {
            let mut packed = Vec::new();
            compressor.append(first, &mut packed)?;
            *first = packed.into();
        }
        let last = value + count == num_values;
        let entries = if last {
            levels.len()
        } else {
            levels.end_of(entry, count)?
        };
        write_chunk(
            &mut made,
            levels,
            entry..entries,
            &buffers,
            count,
            last,
            chunking.large,
        )?;
        if !levels.rep.is_empty() {
            index_chunk(
                part(levels.rep, entry, entries - entry, "levels")?,
                levels.max_rep,
                last,
                &mut ends,
            );
        }
        (value, entry) = (value + count, entries);
    }
    made.index = ends
        .iter()
        .flat_map(|(rows, partial)| [*rows, *partial])
        .flat_map(u64::to_le_bytes)
        .collect();
    Ok(made)
}

impl LevelsIn<'_> {
    fn len(&self) -> usize {
        self.rep.len().max(self.def.len())
    }

    /// The entry after the one that owns the `count`-th value from entry `start` on.
    fn end_of(&self, start: usize, count: usize) -> Result<usize> {
        if self.def.is_empty() {
            return Ok((start + count).min(self.len()));
        }
        let mut left = count;
        let mut end = start;
        for block in rest(self.def, start, "levels")?.chunks(STRETCH) {
            // Whole stretches are counted many entries at a time.
            let owners = block.iter().filter(|&&def| def <= self.max_visible).count();
            if owners < left {
                (left, end) = (left - owners, end + block.len());
                continue;
            }
            for &def in block {
                if left == 0 {
                    return Ok(end);
                }
                left -= usize::from(def <= self.max_visible);
                end += 1;
            }
        }
        Ok(end)
    }
}

/// Values of one chunk, borrowed where they need no conversion.
type Buffers<'a> = Vec<Cow<'a, [u8]>>;

fn next_chunk<'a>(
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

fn write_chunk(
    made: &mut Encoded,
    levels: &LevelsIn<'_>,
    entries: std::ops::Range<usize>,
    buffers: &[Cow<'_, [u8]>],
    count: usize,
    last: bool,
    large: bool,
) -> Result<()> {
    let start = made.chunks.len();
    let coded = [
        coded_levels(levels.rep_plan.as_ref(), levels.rep, &entries)?,
        coded_levels(levels.def_plan.as_ref(), levels.def, &entries)?,
    ];
    let num_levels = if coded.iter().any(Option::is_some) {
        entries.len()
    } else {
        0
    };
    put_u16(&mut made.chunks, num_levels, "levels of a chunk")?;
    for level in coded.iter().flatten() {
        put_u16(&mut made.chunks, level.len(), "levels of a chunk, bytes")?;
    }
    for buffer in buffers {
        if large {
            let size =
                u32::try_from(buffer.len()).map_err(|_| Corrupt("chunk too large".into()))?;
            made.chunks.extend(size.to_le_bytes());
        } else {
            put_u16(&mut made.chunks, buffer.len(), "values of a chunk, bytes")?;
        }
    }
    pad(&mut made.chunks, start);
    let coded = coded.iter().flatten().map(Vec::as_slice);
    for buffer in coded.chain(buffers.iter().map(AsRef::as_ref)) {
        made.chunks.extend_from_slice(buffer);
        pad(&mut made.chunks, start);
    }
    let log = if last { 0 } else { count.ilog2() };
    put_word(&mut made.words, made.chunks.len() - start, log, large)
}

fn put_word(words: &mut Vec<u8>, bytes: usize, log: u32, large: bool) -> Result<()> {
    let word = u32::try_from(bytes / 8 - 1)
        .ok()
        .filter(|units| units >> 28 == 0)
        .map(|units| units << 4 | log);
    let word = word.ok_or_else(|| Corrupt(format!("a chunk of {bytes} bytes")))?;
    if large {
        words.extend(word.to_le_bytes());
        return Ok(());
    }
    let word = u16::try_from(word)
        .map_err(|_| Corrupt(format!("a chunk of {bytes} bytes; at most 32768")))?;
    words.extend(word.to_le_bytes());
    Ok(())
}

fn coded_levels(
    plan: Option<&BlockPlan>,
    levels: &[u16],
    entries: &std::ops::Range<usize>,
) -> Result<Option<Vec<u8>>> {
    let Some(plan) = plan else { return Ok(None) };
    let mut out = Vec::new();
    encode_levels(
        plan,
        part(levels, entries.start, entries.len(), "levels")?,
        &mut out,
    )?;
    Ok(Some(out))
}

fn put_u16(out: &mut Vec<u8>, value: usize, what: &str) -> Result<()> {
    let value =
        u16::try_from(value).map_err(|_| Corrupt(format!("{what}: {value} is more than 65535")))?;
    out.extend(value.to_le_bytes());
    Ok(())
}

fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + (out.len() - start).next_multiple_of(8), PAD);
}

/// Adds `(rows that end in the chunk, entries of the row that continues)`.
fn index_chunk(rep: &[u16], max_rep: u16, last: bool, index: &mut Vec<(u64, u64)>) {
    let starts_row = rep.first() == Some(&max_rep);
    if starts_row
        && let Some((rows, partial)) = index.last_mut()
        && *partial != 0
    {
        (*rows, *partial) = (*rows + 1, 0);
    }
    let rows = rep
        .iter()
        .skip(1)
        .filter(|&&level| level == max_rep)
        .count();
    let open = rep
        .iter()
        .rev()
        .position(|&level| level == max_rep)
        .map_or(rep.len(), |back| back + 1);
    index.push(if last {
        (rows as u64 + 1, 0)
    } else {
        (rows as u64, open as u64)
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::joined_pages::{Columns, encode_each};

    fn none() -> LevelsIn<'static> {
        LevelsIn {
            rep: &[],
            def: &[],
            rep_plan: None,
            def_plan: None,
            max_rep: 0,
            max_visible: 0,
        }
    }

    #[test]
    fn the_smallest_page() {
        let data: Vec<u8> = [1i32, 2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        let input = Input::Fixed {
            data: &data,
            bits: 32,
        };
        let made = encode(&input, Coding::Plain, 3, &none(), &Chunking::default()).unwrap();
        assert_eq!(made.words, [0x20, 0x00]);
        assert_eq!(
            made.chunks,
            [
                0, 0, 12, 0, 0xfe, 0xfe, 0xfe, 0xfe, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xfe,
                0xfe, 0xfe, 0xfe
            ]
        );
        let wide = Chunking {
            large: true,
            ..Chunking::default()
        };
        let large = encode(&input, Coding::Plain, 3, &none(), &wide).unwrap();
        assert_eq!(large.words, [0x20, 0, 0, 0]);
    }

    #[test]
    fn pages_of_several_columns_equal_those_of_each() {
        let data: Vec<u8> = (0..60u8).collect();
        let chunking = Chunking::default();
        let columns = |bits, num_values, num_columns, def| Columns {
            data: &data,
            bits,
            num_values,
            num_columns,
            def,
            def_plan: None,
        };
        let plain = |columns| encode_each(&columns, Coding::Plain, &chunking, 64, 7);
        let joined = plain(columns(32, 5, 3, &[])).unwrap();
        let (mut start, mut sizes) = (0, joined.sizes.iter());
        for column in data.chunks(20) {
            let input = Input::Fixed {
                data: column,
                bits: 32,
            };
            let page = encode(&input, Coding::Plain, 5, &none(), &chunking).unwrap();
            for buffer in [page.words, page.chunks] {
                assert_eq!(*sizes.next().unwrap(), i64::try_from(buffer.len()).unwrap());
                let end = start + buffer.len();
                assert_eq!(joined.data.get(start..end).unwrap(), buffer);
                start = end.next_multiple_of(64);
                let padding = joined.data.get(end..start).unwrap();
                assert!(padding.iter().all(|&byte| byte == 7));
            }
        }
        assert_eq!(start, joined.data.len());
        for (bits, num_values, num_columns) in [(32, 7, 2), (0, 5, 3), (32, 0, 3), (1, 5, 94)] {
            assert!(plain(columns(bits, num_values, num_columns, &[])).is_err());
        }
        assert!(plain(columns(32, 5, 3, &[0; 5])).is_err());
    }

    #[test]
    fn strings_carry_their_padding() {
        let input = Input::Variable {
            offsets: OffsetsIn::Small(&[0, 2, 2, 5, 5, 6]),
            data: b"abcdef",
        };
        let made = encode(&input, Coding::Plain, 5, &none(), &Chunking::default()).unwrap();
        let expected = [
            0x18, 0, 0, 0, 0x1a, 0, 0, 0, 0x1a, 0, 0, 0, 0x1d, 0, 0, 0, 0x1d, 0, 0, 0, 0x1e, 0, 0,
            0, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x48, 0x48,
        ];
        assert_eq!(made.chunks.get(8..40), Some(&expected[..]));
    }

    #[test]
    fn lists_of_the_format_notes() {
        let data: Vec<u8> = [1i32, 2, 3, 4, 0, 5]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let levels = LevelsIn {
            rep: &[1, 0, 0, 1, 1, 1, 0, 1],
            def: &[0, 0, 0, 3, 2, 0, 1, 0],
            rep_plan: Some(BlockPlan::Flat { bits: 16 }),
            def_plan: Some(BlockPlan::Flat { bits: 16 }),
            max_rep: 1,
            max_visible: 1,
        };
        let made = encode(
            &Input::Fixed {
                data: &data,
                bits: 32,
            },
            Coding::Plain,
            6,
            &levels,
            &Chunking::default(),
        )
        .unwrap();
        assert_eq!(made.words, [0x70, 0]);
        assert_eq!(made.chunks.get(..8), Some(&[8, 0, 16, 0, 16, 0, 24, 0][..]));
        assert_eq!(made.index, [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn run_length_chunks_are_powers_of_two() {
        let data = 7u32.to_le_bytes().repeat(5000);
        let made = encode(
            &Input::Fixed {
                data: &data,
                bits: 32,
            },
            Coding::Rle,
            5000,
            &none(),
            &Chunking::default(),
        )
        .unwrap();
        assert_eq!(made.words, [0xcc, 0x00, 0x30, 0x00]);
    }
}
