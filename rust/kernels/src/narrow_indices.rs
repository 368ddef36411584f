//! Indices of a small dictionary, decoded to words that are no wider than its number of values needs.
//!
//! Bit-packed indices lie in words of 32 bits or more as a rule. What is decoded is written and read
//! once more when the values are looked up, so it is kept short.

use std::ops::Range;

use crate::bitpacking::{self, GROUP, words16, words32, words64};
use crate::block::inline_header;
use crate::error::{Corrupt, Result, ensure};
use crate::narrow_words;
use crate::ranges::{gather_values, is_all, num_rows};
use crate::values::{Plan, only};

/// Bits of the decoded indices of a dictionary; None if they are decoded as they are.
///
/// The greatest number of these bits is not an index.
pub fn bits(plan: &Plan, num_items: usize) -> Option<usize> {
    let Plan::InlineBitpacking { bits } = *plan else {
        return None;
    };
    let narrow = [(8, u8::MAX.into()), (16, usize::from(u16::MAX))];
    let fits = |&(narrow, most): &(usize, usize)| narrow < bits && num_items <= most;
    narrow
        .iter()
        .find(|narrow| fits(narrow))
        .map(|&(bits, _)| bits)
}

/// Appends the indices at `ranges` of a chunk of `count` to `out`, as words of `narrow` bits.
///
/// Greater numbers, which only nulls and damaged pages have, become the greatest one.
pub fn append(
    plan: &Plan,
    buffers: &[&[u8]],
    count: usize,
    ranges: &[Range<usize>],
    narrow: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Plan::InlineBitpacking { bits } = *plan else {
        return Err(Corrupt("indices that are not bit-packed".into()));
    };
    let (width, packed) = inline_header(only(buffers)?, bits)?;
    let most = "at most 1024";
    ensure(count <= GROUP, "bit-packed chunk, values", count, most)?;
    if width <= narrow && is_all(ranges, GROUP) {
        return narrow_words::append(packed, bits, width, narrow, out);
    }
    if width <= narrow && num_rows(ranges) > bitpacking::FEW {
        let mut group = Vec::with_capacity(GROUP * narrow / 8);
        narrow_words::append(packed, bits, width, narrow, &mut group)?;
        return gather_values(&group, narrow / 8, ranges, out);
    }
    match bits {
        16 => append_each(packed, width, ranges, narrow, words16::unpack_one, out),
        32 => append_each(packed, width, ranges, narrow, words32::unpack_one, out),
        64 => append_each(packed, width, ranges, narrow, words64::unpack_one, out),
        _ => Err(Corrupt(format!("bit-packed words of {bits} bits"))),
    }
}

/// Appends the indices at `ranges` one by one.
fn append_each<const N: usize>(
    packed: &[u8],
    width: usize,
    ranges: &[Range<usize>],
    narrow: usize,
    unpack_one: impl Fn(&[u8], usize, usize) -> Result<[u8; N]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    for index in ranges.iter().cloned().flatten() {
        ensure(index < GROUP, "bit-packed index", index, "below 1024")?;
        let word = unpack_one(packed, width, index)?;
        let bytes = word.iter().rev();
        let number = bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let [low, high, ..] = number.min(u64::MAX >> (64 - narrow)).to_le_bytes();
        if narrow == 8 {
            out.push(low);
        } else {
            out.extend_from_slice(&[low, high]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    fn chunk(numbers: &[u32], width: u32) -> Vec<u8> {
        let mut values = [[0; 4]; GROUP];
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = number.to_le_bytes();
        }
        let mut data = width.to_le_bytes().to_vec();
        words32::pack(&values, width as usize, &mut data).unwrap();
        data
    }

    #[test]
    fn small_dictionaries_need_few_bits() {
        let plan = Plan::InlineBitpacking { bits: 32 };
        let found = [0, 255, 256, 65_535, 65_536].map(|num_items| bits(&plan, num_items));
        assert_eq!(found, [Some(8), Some(8), Some(16), Some(16), None]);
        assert_eq!(bits(&Plan::InlineBitpacking { bits: 16 }, 255), Some(8));
        assert_eq!(bits(&Plan::InlineBitpacking { bits: 16 }, 256), None);
        assert_eq!(bits(&Plan::Flat { bits: 32 }, 3), None);
    }

    #[test]
    fn indices_are_the_same() {
        let plan = Plan::InlineBitpacking { bits: 32 };
        for (narrow, width) in [(8, 8), (8, 9), (16, 9), (16, 20)] {
            let number = |at: u32| at.wrapping_mul(0x9e37_79b9) >> 7 & ((1 << width) - 1);
            let numbers: Vec<_> = (0..1024).map(number).collect();
            let data = chunk(&numbers, width);
            for (count, ranges) in [
                (1024, vec![0..1024]),
                (1024, vec![3..4, 90..1024]),
                (1000, vec![0..1000]),
                (1000, vec![7..9]),
            ] {
                let mut found = vec![7];
                append(&plan, &[&data], count, &ranges, narrow, &mut found).unwrap();
                let wanted = ranges.into_iter().flatten();
                let wanted = wanted.map(|at| *numbers.get(at).unwrap());
                let saturated = wanted.map(|number| number.min((1 << narrow) - 1));
                let bytes =
                    saturated.flat_map(|number| number.to_le_bytes().into_iter().take(narrow / 8));
                assert_eq!(found, [7].into_iter().chain(bytes).collect::<Vec<_>>());
            }
            let cut = data.get(..data.len() - 1).unwrap();
            assert!(append(&plan, &[cut], 1024, &[0..1024], narrow, &mut Vec::new()).is_err());
        }
    }
}
