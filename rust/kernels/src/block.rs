//! Blocks: single buffers whose number of values is stored elsewhere (levels, dictionaries).
//!
//!     flat            n x width bytes
//!     inline          one word W, then 1,024 values packed to W bits (n is at most 1,024)
//!     out of line     groups of 1,024 packed to W bits, then the tail: raw words if they are no
//!                     longer than a packed group, else one more group
//!     rle             u64 bytes of the values part, values, one length byte per run
//!     general         a compressed block of another kind

use std::ops::Range;

use crate::bitmap::BitmapBuilder;
use crate::bitpacking::{self, GROUP, packed_bytes};
use crate::compression::{self, Scheme};
use crate::error::{Corrupt, Result, ensure, part, rest, size, u16_at, u64_at};
use crate::ranges::is_all;
use crate::rle;

/// How a block is stored. Widths are in bits.
#[derive(Debug, Clone)]
pub enum BlockPlan {
    Flat {
        bits: usize,
    },
    InlineBitpacking {
        bits: usize,
    },
    OutOfLineBitpacking {
        bits: usize,
        packed: usize,
    },
    Rle {
        bits: usize,
    },
    General {
        scheme: Scheme,
        inner: Box<BlockPlan>,
    },
}

/// Appends the `count` values of a block to `out`, little-endian.
pub fn decode(plan: &BlockPlan, data: &[u8], count: usize, out: &mut Vec<u8>) -> Result<()> {
    match plan {
        BlockPlan::Flat { bits } => {
            let bytes = count.saturating_mul(bits / 8);
            ensure(bits % 8 == 0, "flat block, bits", bits, "a multiple of 8")?;
            ensure(data.len() == bytes, "flat block, bytes", data.len(), bytes)?;
            out.extend_from_slice(data);
            Ok(())
        }
        BlockPlan::InlineBitpacking { bits } => {
            ensure(
                count <= GROUP,
                "inline bit-packed block, values",
                count,
                "at most 1024",
            )?;
            let (width, packed) = inline_header(data, *bits)?;
            unpack(packed, *bits, width, count, out)
        }
        BlockPlan::OutOfLineBitpacking { bits, packed } => {
            out_of_line(data, *bits, *packed, count, out)
        }
        BlockPlan::Rle { bits } => {
            let (values, lengths) = runs(data)?;
            rle::expand(values, lengths, bits / 8, count, out)
        }
        BlockPlan::General { scheme, inner } => {
            decode(inner, &compression::decompress(*scheme, data)?, count, out)
        }
    }
}

/// The items of the runs of a block, and their lengths.
pub(crate) fn runs(data: &[u8]) -> Result<(&[u8], &[u8])> {
    let values_bytes = size(u64_at(data, 0, "rle block header")?, "rle values, bytes")?;
    let values = part(data, 8, values_bytes, "rle values, bytes")?;
    Ok((values, rest(data, 8 + values_bytes, "rle lengths, bytes")?))
}

/// Appends whether the 16-bit levels at `ranges` of a block are 0; runs of them are not expanded.
pub fn append_zero_levels(
    plan: &BlockPlan,
    data: &[u8],
    count: usize,
    ranges: &[Range<usize>],
    (bytes, levels): &mut (Vec<u8>, Vec<u16>),
    out: &mut BitmapBuilder,
) -> Result<()> {
    if let BlockPlan::Rle { bits: 16 } = plan
        && is_all(ranges, count)
    {
        let (values, lengths) = runs(data)?;
        rle::check(values, lengths, 2, count)?;
        let mut left = count;
        for (value, &length) in values.as_chunks::<2>().0.iter().zip(lengths) {
            let length = usize::from(length).min(left);
            out.extend_constant(*value == [0, 0], length);
            left -= length;
        }
        return Ok(());
    }
    decode_level_ranges(plan, data, count, ranges, bytes, levels)?;
    out.extend_with(levels, |level| level == 0);
    Ok(())
}

/// Decodes a block of 16-bit levels into `out`, which is cleared first.
pub fn decode_levels(
    plan: &BlockPlan,
    data: &[u8],
    count: usize,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u16>,
) -> Result<()> {
    scratch.clear();
    decode(plan, data, count, scratch)?;
    let (words, rest) = scratch.as_chunks::<2>();
    ensure(
        words.len() == count && rest.is_empty(),
        "levels, bytes",
        scratch.len(),
        2 * count,
    )?;
    out.clear();
    out.extend(words.iter().map(|word| u16::from_le_bytes(*word)));
    Ok(())
}

/// Up to this many levels are extracted one by one instead of decoding the block.
pub const FEW: usize = 32;

/// Decodes the 16-bit levels at `ranges` of a block into `out`, which is cleared first.
pub fn decode_level_ranges(
    plan: &BlockPlan,
    data: &[u8],
    count: usize,
    ranges: &[Range<usize>],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u16>,
) -> Result<()> {
    let wanted: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    if let BlockPlan::OutOfLineBitpacking { bits: 16, packed } = plan
        && wanted <= FEW
    {
        out.clear();
        for index in ranges.iter().cloned().flatten() {
            out.push(packed_level(data, *packed, count, index)?);
        }
        return Ok(());
    }
    let mut all = Vec::new();
    decode_levels(plan, data, count, scratch, &mut all)?;
    if let [range] = ranges
        && *range == (0..count)
    {
        *out = all;
        return Ok(());
    }
    out.clear();
    for range in ranges {
        out.extend_from_slice(part(&all, range.start, range.len(), "levels")?);
    }
    Ok(())
}

fn packed_level(data: &[u8], width: usize, count: usize, index: usize) -> Result<u16> {
    ensure(
        index < count,
        "level index",
        index,
        format_args!("below {count}"),
    )?;
    let group_bytes = packed_bytes(width);
    let (group, place) = (index / GROUP, index % GROUP);
    let left = rest(data, group * group_bytes, "bit-packed groups, bytes")?;
    if group == count / GROUP && left.len() == count % GROUP * 2 {
        return u16_at(left, 2 * place, "level");
    }
    let packed = part(left, 0, group_bytes, "bit-packed group, bytes")?;
    Ok(u16::from_le_bytes(bitpacking::words16::unpack_one(
        packed, width, place,
    )?))
}

/// Splits an inline bit-packed buffer into its width and its packed words.
pub fn inline_header(data: &[u8], bits: usize) -> Result<(usize, &[u8])> {
    let header = part(data, 0, bits / 8, "inline bit-packing header, bytes")?;
    let mut word = [0u8; 8];
    for (slot, byte) in word.iter_mut().zip(header) {
        *slot = *byte;
    }
    let width = size(u64::from_le_bytes(word), "bit-packed width")?;
    ensure(
        width <= bits,
        "bit-packed width, bits",
        width,
        format_args!("at most {bits}"),
    )?;
    let packed = rest(data, bits / 8, "inline bit-packed words, bytes")?;
    Ok((width, packed))
}

fn unpack(packed: &[u8], bits: usize, width: usize, count: usize, out: &mut Vec<u8>) -> Result<()> {
    let range: Range<usize> = 0..count;
    bitpacking::append_ranges(packed, bits, width, std::slice::from_ref(&range), out)
}

fn out_of_line(
    data: &[u8],
    bits: usize,
    width: usize,
    count: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    ensure(
        width <= bits,
        "bit-packed width, bits",
        width,
        format_args!("at most {bits}"),
    )?;
    let group_bytes = packed_bytes(width);
    let (groups, tail) = (count / GROUP, count % GROUP);
    for group in 0..groups {
        let packed = part(
            data,
            group * group_bytes,
            group_bytes,
            "bit-packed group, bytes",
        )?;
        unpack(packed, bits, width, GROUP, out)?;
    }
    let left = rest(data, groups * group_bytes, "bit-packed groups, bytes")?;
    if left.len() == tail * bits / 8 {
        out.extend_from_slice(left);
        return Ok(());
    }
    unpack(left, bits, width, tail, out)
}

/// Packs values out of line to the width of the largest; returns this width and the block.
pub fn pack(data: &[u8], bits: usize) -> Result<(usize, Vec<u8>)> {
    use bitpacking::{words8, words16, words32, words64};
    match bits {
        8 => pack_words::<1>(data, words8::width_of, words8::pack),
        16 => pack_words::<2>(data, words16::width_of, words16::pack),
        32 => pack_words::<4>(data, words32::width_of, words32::pack),
        64 => pack_words::<8>(data, words64::width_of, words64::pack),
        _ => Err(Corrupt(format!("bit-packing of values of {bits} bits"))),
    }
}

fn pack_words<const N: usize>(
    data: &[u8],
    width_of: fn(&[[u8; N]]) -> usize,
    pack: bitpacking::Pack<N>,
) -> Result<(usize, Vec<u8>)> {
    let (values, _) = data.as_chunks::<N>();
    let (width, mut out) = (width_of(values), Vec::new());
    for group in values.chunks(GROUP) {
        if group.len() < GROUP && group.len() * N <= packed_bytes(width) {
            out.extend_from_slice(group.as_flattened());
            continue;
        }
        let mut padded = [[0u8; N]; GROUP];
        for (slot, value) in padded.iter_mut().zip(group) {
            *slot = *value;
        }
        pack(&padded, width, &mut out)?;
    }
    Ok((width, out))
}

/// Encodes 16-bit levels.
pub fn encode_levels(plan: &BlockPlan, levels: &[u16], out: &mut Vec<u8>) -> Result<()> {
    match plan {
        BlockPlan::Flat { bits: 16 } => {
            out.extend(levels.iter().flat_map(|level| level.to_le_bytes()));
            Ok(())
        }
        BlockPlan::OutOfLineBitpacking { bits: 16, packed } => {
            for group in levels.chunks(GROUP) {
                encode_group(group, *packed, out)?;
            }
            Ok(())
        }
        BlockPlan::Rle { bits: 16 } => {
            let bytes: Vec<u8> = levels
                .iter()
                .flat_map(|level| level.to_le_bytes())
                .collect();
            let (values, lengths) = rle::encode(&bytes, 2)?;
            out.extend((values.len() as u64).to_le_bytes());
            out.extend(values);
            out.extend(lengths);
            Ok(())
        }
        other => Err(Corrupt(format!("levels are not written as {other:?}"))),
    }
}

fn encode_group(group: &[u16], width: usize, out: &mut Vec<u8>) -> Result<()> {
    if group.len() < GROUP && group.len() * 2 <= packed_bytes(width) {
        out.extend(group.iter().flat_map(|level| level.to_le_bytes()));
        return Ok(());
    }
    let mut values = [[0u8; 2]; GROUP];
    for (slot, level) in values.iter_mut().zip(group) {
        *slot = level.to_le_bytes();
    }
    bitpacking::words16::pack(&values, width, out)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    #[test]
    fn out_of_line_levels_of_every_tail() {
        for packed in 1..=5usize {
            let plan = BlockPlan::OutOfLineBitpacking { bits: 16, packed };
            for count in [0, 1, 63, 64, 65, 320, 952, 1023, 1024, 1025, 3000] {
                let levels: Vec<u16> = (0..count).map(|i| (i * 7 % (1 << packed)) as u16).collect();
                let mut data = Vec::new();
                encode_levels(&plan, &levels, &mut data).unwrap();
                let (mut scratch, mut back) = (Vec::new(), Vec::new());
                decode_levels(&plan, &data, count, &mut scratch, &mut back).unwrap();
                assert_eq!(back, levels);
                if count > 0 {
                    let cut = &data[..data.len() - 1];
                    assert!(decode_levels(&plan, cut, count, &mut scratch, &mut back).is_err());
                }
            }
        }
    }

    #[test]
    fn rle_levels_there_and_back() {
        let plan = BlockPlan::Rle { bits: 16 };
        for count in [0usize, 1, 255, 256, 1024, 3000] {
            let levels: Vec<u16> = (0..count).map(|i| (i / 300 % 3) as u16).collect();
            let mut data = Vec::new();
            encode_levels(&plan, &levels, &mut data).unwrap();
            let (mut scratch, mut back) = (Vec::new(), Vec::new());
            decode_levels(&plan, &data, count, &mut scratch, &mut back).unwrap();
            assert_eq!(back, levels);
        }
    }

    #[test]
    fn rle_levels() {
        let mut data = 12u64.to_le_bytes().to_vec();
        data.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        data.extend([1, 255, 255, 255, 255, 3]);
        let (mut scratch, mut back) = (Vec::new(), Vec::new());
        decode_levels(
            &BlockPlan::Rle { bits: 16 },
            &data,
            1024,
            &mut scratch,
            &mut back,
        )
        .unwrap();
        assert_eq!(
            (back.len(), back[0], back[1..].iter().max()),
            (1024, 1, Some(&0))
        );
    }
}
