//! Encoding one mini-block page: values and levels to chunks, chunk words and repetition index.
//!
//! Chunks are cut by the values (`mini_block_values`); an entry without a value that lies on a
//! boundary belongs to the chunk after it. See `mini_block` for the bytes of a chunk. The word of a
//! chunk is `(bytes / 8 - 1) << 4 | log2(values)`, with 0 for the last one's logarithm; the
//! repetition index has, per chunk, the rows that end in it and the entries of the row that
//! continues.

use std::borrow::Cow;

use crate::block::{BlockPlan, encode_levels};
use crate::compression::Compressor;
use crate::error::{Corrupt, Result, part, rest};
use crate::mini_block_values::{Chunking, Coding, Input, next_chunk};

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

/// Number of levels that are counted at once before each is examined.
const STRETCH: usize = 128;
const PAD: u8 = 0xFE;

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
    use crate::offsets::OffsetsIn;

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
