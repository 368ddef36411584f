//! Bit-packing of 32 slots in L lanes: L = 4 for 128 values, L = 8 for 256 values.
//!
//! Value `i` belongs to lane `i % L` and slot `i / L`. The slots of a lane are a stream of bits,
//! lowest bit first, cut into 32-bit words; word `w` of lane `l` lies at `w * L + l`, little-endian.
//! No bits take no bytes; all values are 0 then.

use crate::error::{Result, ensure, out_of_range};

/// Slots of a lane.
const SLOTS: usize = 32;

/// Calls the function for a width; the loop over slots is then without conditions.
macro_rules! by_width {
    ($bits:expr, $words:expr, $rows:expr, [$($width:literal)*]) => {
        match $bits {
            0 => {
                $rows.as_flattened_mut().fill(0);
                Ok(())
            }
            $($width => unpack_width::<L, $width>($words, $rows),)*
            _ => Err(out_of_range("lanes, bits")),
        }
    };
}

macro_rules! all_slots {
    ($slot:ident, $lanes:ident, $bits:ident, $words:expr, $rows:expr, [$($number:literal)*]) => {
        $($slot::<$lanes, $bits, $number>($words, $rows);)*
    };
}

/// Bytes of a group whose values have `bits` bits.
pub fn packed_bytes<const L: usize>(bits: usize) -> usize {
    4 * L * bits
}

/// Bits that the largest value needs.
pub fn bits_of(values: &[u32]) -> usize {
    let all = values.iter().fold(0, |all, value| all | value);
    (u32::BITS - all.leading_zeros()) as usize
}

/// Unpacks a group of `32 * L` values.
#[inline]
pub fn unpack<const L: usize>(packed: &[u8], bits: usize, out: &mut [u32]) -> Result<()> {
    check::<L>(packed, bits, out)?;
    let (words, _) = packed.as_chunks::<4>();
    let (words, _) = words.as_chunks::<L>();
    let (rows, _) = out.as_chunks_mut::<L>();
    let rows = rows
        .first_chunk_mut::<SLOTS>()
        .ok_or_else(|| out_of_range("lanes"))?;
    by_width!(bits, words, rows, [
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    ])
}

/// Unpacks values of a width that the compiler knows.
fn unpack_width<const L: usize, const BITS: usize>(
    words: &[[[u8; 4]; L]],
    rows: &mut [[u32; L]; SLOTS],
) -> Result<()> {
    let words = words
        .first_chunk::<BITS>()
        .ok_or_else(|| out_of_range("lanes"))?;
    all_slots!(unpack_slot, L, BITS, words, rows, [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    ]);
    Ok(())
}

/// Unpacks one slot of all lanes.
#[inline(always)]
fn unpack_slot<const L: usize, const BITS: usize, const SLOT: usize>(
    words: &[[[u8; 4]; L]; BITS],
    rows: &mut [[u32; L]; SLOTS],
) {
    let (word, shift) = (SLOT * BITS / 32, SLOT * BITS % 32);
    let (Some(low), Some(row)) = (words.get(word), rows.get_mut(SLOT)) else {
        return;
    };
    for (value, low) in row.iter_mut().zip(low) {
        *value = u32::from_le_bytes(*low) >> shift;
    }
    if shift + BITS > 32
        && let Some(high) = words.get(word + 1)
    {
        for (value, high) in row.iter_mut().zip(high) {
            *value |= u32::from_le_bytes(*high) << (32 - shift);
        }
    }
    for value in row {
        *value &= u32::MAX >> (32 - BITS);
    }
}

/// Appends a group of `32 * L` values, each with its low `bits` bits.
pub fn pack<const L: usize>(values: &[u32], bits: usize, out: &mut Vec<u8>) -> Result<()> {
    ensure(
        values.len() == SLOTS * L && bits <= 32,
        "lanes, values",
        values.len(),
        SLOTS * L,
    )?;
    if bits == 0 {
        return Ok(());
    }
    let mut words = vec![[0u32; L]; bits + 1];
    let mask = u32::MAX >> (32 - bits);
    let (rows, _) = values.as_chunks::<L>();
    for (slot, row) in rows.iter().enumerate() {
        let (word, shift) = (slot * bits / 32, slot * bits % 32);
        let [low, high] = words
            .get_mut(word..word + 2)
            .and_then(|two| two.first_chunk_mut::<2>())
            .ok_or_else(|| out_of_range("lanes"))?;
        for ((low, high), value) in low.iter_mut().zip(high).zip(row) {
            let shifted = u64::from(value & mask) << shift;
            let [a, b, c, d, e, f, g, h] = shifted.to_le_bytes();
            *low |= u32::from_le_bytes([a, b, c, d]);
            *high |= u32::from_le_bytes([e, f, g, h]);
        }
    }
    let used = words.iter().take(bits).flatten();
    out.extend(used.flat_map(|word| word.to_le_bytes()));
    Ok(())
}

fn check<const L: usize>(packed: &[u8], bits: usize, out: &[u32]) -> Result<()> {
    ensure(bits <= 32, "lanes, bits", bits, "at most 32")?;
    ensure(
        out.len() == SLOTS * L,
        "lanes, values",
        out.len(),
        SLOTS * L,
    )?;
    let bytes = packed_bytes::<L>(bits);
    ensure(packed.len() == bytes, "lanes, bytes", packed.len(), bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// The formula of the module text, bit by bit.
    fn naive<const L: usize>(values: &[u32], bits: usize) -> Vec<u8> {
        let mut words = vec![0u32; L * bits];
        for (i, value) in values.iter().enumerate() {
            for bit in 0..bits {
                let place = (i / L) * bits + bit;
                words[place / 32 * L + i % L] |= ((value >> bit) & 1) << (place % 32);
            }
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn round_trip<const L: usize>() {
        for bits in 0..=32 {
            let mask = if bits == 0 {
                0
            } else {
                u32::MAX >> (32 - bits)
            };
            let values: Vec<u32> = (0u32..)
                .map(|i| i.wrapping_mul(2_654_435_761) & mask)
                .take(32 * L)
                .collect();
            let mut packed = Vec::new();
            pack::<L>(&values, bits, &mut packed).unwrap();
            assert_eq!(packed, naive::<L>(&values, bits));
            let mut out = vec![0; 32 * L];
            unpack::<L>(&packed, bits, &mut out).unwrap();
            assert_eq!(out, values);
            assert!(bits_of(&values) <= bits);
            packed.push(0);
            assert!(unpack::<L>(&packed, bits, &mut out).is_err());
        }
        assert!(unpack::<L>(&[], 33, &mut vec![0; 32 * L]).is_err());
    }

    #[test]
    fn groups_of_128_return() {
        round_trip::<4>();
    }

    #[test]
    fn groups_of_256_return() {
        round_trip::<8>();
    }
}
