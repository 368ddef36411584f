//! Bit-packing of 1,024 values in FastLanes order.
//!
//! Words have T = 8, 16, 32 or 64 bits; a group has 1024 / T lanes and packs every value into W
//! bits. The value of (row, lane), row in 0..T, has the index
//!
//!     128 * (row % 8) + 16 * ORDER[row / 8] + lane        ORDER = 0 4 2 6 1 5 3 7
//!
//! (ORDER reverses three bits, so it is its own inverse),
//! and its bits start at bit `row * W` of its lane. Word `j` of lane `l` lies at `j * lanes + l`,
//! so that one row of all lanes is read and written with vector instructions.

use pulp::{Arch, Simd, WithSimd};

use crate::error::{Corrupt, Result, ensure, grow, out_of_range};
use crate::ranges::gather_values;

/// Values in one group.
pub const GROUP: usize = 1024;

/// The order of blocks of rows, and its inverse: three bits, reversed.
#[inline(always)]
fn order(block: usize) -> usize {
    (block & 1) << 2 | block & 2 | (block & 4) >> 2
}

#[inline(always)]
fn first_index(row: usize) -> usize {
    128 * (row % 8) + 16 * order(row / 8)
}

/// The number of the block of 64 values in a row of words of 16 bits, which have 64 lanes.
#[inline(always)]
pub fn block_of_row(row: usize) -> usize {
    first_index(row) / 64
}

/// Row and lane of the value with this index, for a word of `bits` bits.
fn row_and_lane(index: usize, bits: usize) -> (usize, usize) {
    let (s, q) = (index / 128, index % 128);
    let lane = q % (1024 / bits);
    (8 * order((q - lane) / 16) + s, lane)
}

/// Bytes of one group of words of `bits` bits packed to `width` bits each.
pub fn packed_bytes(width: usize) -> usize {
    GROUP * width / 8
}

fn missing() -> Corrupt {
    out_of_range("bit-packed group")
}

macro_rules! width_of_word {
    ($name:ident, $word:ty, $bytes:literal) => {
        pub mod $name {
            use super::*;

            const BITS: usize = $bytes * 8;
            const LANES: usize = GROUP / BITS;

            /// Unpacks one group of values of `width` bits into `out`, little-endian.
            pub fn unpack(packed: &[u8], width: usize, out: &mut [[u8; $bytes]]) -> Result<()> {
                unpack_as(packed, width, out, <$word>::to_le_bytes)
            }

            /// Unpacks one group, each value into the bytes that `bytes_of` returns.
            pub fn unpack_as<const N: usize>(
                packed: &[u8],
                width: usize,
                out: &mut [[u8; N]],
                bytes_of: impl Fn($word) -> [u8; N],
            ) -> Result<()> {
                check(packed, width, out.len())?;
                if width == 0 {
                    out.fill([0; N]);
                    return Ok(());
                }
                Arch::new().dispatch(Unpack {
                    packed,
                    width,
                    out,
                    bytes_of,
                })
            }

            /// One item of each lane: loops over a fixed number become vector instructions.
            #[inline(always)]
            fn lanes(words: &[[u8; $bytes]], first: usize) -> Result<&[[u8; $bytes]; LANES]> {
                let words = words.get(first..).and_then(<[_]>::first_chunk);
                words.ok_or_else(missing)
            }

            #[inline(always)]
            fn lanes_mut<const N: usize>(
                slots: &mut [[u8; N]],
                first: usize,
            ) -> Result<&mut [[u8; N]; LANES]> {
                let slots = slots.get_mut(first..).and_then(<[_]>::first_chunk_mut);
                slots.ok_or_else(missing)
            }

            struct Unpack<'a, F, const N: usize> {
                packed: &'a [u8],
                width: usize,
                out: &'a mut [[u8; N]],
                bytes_of: F,
            }

            impl<F: Fn($word) -> [u8; N], const N: usize> WithSimd for Unpack<'_, F, N> {
                type Output = Result<()>;

                #[inline(always)]
                fn with_simd<S: Simd>(self, _: S) -> Result<()> {
                    let (words, _) = self.packed.as_chunks::<$bytes>();
                    for row in 0..BITS {
                        let values = row_of(words, self.width, row)?;
                        let slots = lanes_mut(self.out, first_index(row))?;
                        for (slot, value) in slots.iter_mut().zip(values) {
                            *slot = (self.bytes_of)(value);
                        }
                    }
                    Ok(())
                }
            }

            /// Appends the values of one group, each as the bytes that `bytes_of` returns.
            pub fn append_as<const N: usize>(
                packed: &[u8],
                width: usize,
                out: &mut Vec<u8>,
                bytes_of: impl Fn($word) -> [u8; N],
            ) -> Result<()> {
                check(packed, width, GROUP)?;
                if width == 0 {
                    grow(out, GROUP * N);
                    return Ok(());
                }
                out.reserve(GROUP * N);
                Arch::new().dispatch(Append {
                    packed,
                    width,
                    out,
                    bytes_of,
                })
            }

            /// Appends the values of one group, little-endian.
            pub fn append(packed: &[u8], width: usize, out: &mut Vec<u8>) -> Result<()> {
                append_as(packed, width, out, <$word>::to_le_bytes)
            }

            /// Appends rows in the order of their values, so that no byte is written twice.
            struct Append<'a, F> {
                packed: &'a [u8],
                width: usize,
                out: &'a mut Vec<u8>,
                bytes_of: F,
            }

            impl<F: Fn($word) -> [u8; N], const N: usize> WithSimd for Append<'_, F> {
                type Output = Result<()>;

                #[inline(always)]
                fn with_simd<S: Simd>(self, _: S) -> Result<()> {
                    let (words, _) = self.packed.as_chunks::<$bytes>();
                    for row in 0..8 {
                        for block in 0..BITS / 8 {
                            let row = 8 * order(block * LANES / 16) + row;
                            let values = row_of(words, self.width, row)?;
                            let bytes = values.map(&self.bytes_of);
                            self.out.extend_from_slice(bytes.as_flattened());
                        }
                    }
                    Ok(())
                }
            }

            /// The values of one row: one of each lane.
            #[inline(always)]
            fn row_of(words: &[[u8; $bytes]], width: usize, row: usize) -> Result<[$word; LANES]> {
                let mask = <$word>::MAX >> (BITS - width);
                let (word, shift) = (row * width / BITS, row * width % BITS);
                let low = lanes(words, word * LANES)?;
                let mut values = low.map(|low| <$word>::from_le_bytes(low) >> shift);
                if shift + width > BITS {
                    let high = lanes(words, (word + 1) * LANES)?;
                    for (value, high) in values.iter_mut().zip(high) {
                        *value |= <$word>::from_le_bytes(*high) << (BITS - shift);
                    }
                }
                Ok(values.map(|value| value & mask))
            }

            /// The value with this index (below 1,024) of one group.
            pub fn unpack_one(packed: &[u8], width: usize, index: usize) -> Result<[u8; $bytes]> {
                check(packed, width, GROUP)?;
                if width == 0 {
                    return Ok([0; $bytes]);
                }
                let (words, _) = packed.as_chunks::<$bytes>();
                let mask = <$word>::MAX >> (BITS - width);
                let (row, lane) = row_and_lane(index, BITS);
                let (word, shift) = (row * width / BITS, row * width % BITS);
                let at = |word: usize| -> Result<$word> {
                    let bytes = words.get(word * LANES + lane).ok_or_else(missing)?;
                    Ok(<$word>::from_le_bytes(*bytes))
                };
                let mut value = at(word)? >> shift;
                if shift + width > BITS {
                    value |= at(word + 1)? << (BITS - shift);
                }
                Ok((value & mask).to_le_bytes())
            }

            /// Packs one group, every value to its low `width` bits, and appends it to `out`.
            pub fn pack(
                values: &[[u8; $bytes]; GROUP],
                width: usize,
                out: &mut Vec<u8>,
            ) -> Result<()> {
                ensure(
                    width <= BITS,
                    "bit-packed width, bits",
                    width,
                    format_args!("at most {BITS}"),
                )?;
                let mut words = [0 as $word; GROUP];
                let mask = if width == 0 {
                    0
                } else {
                    <$word>::MAX >> (BITS - width)
                };
                for row in 0..BITS {
                    let (word, shift) = (row * width / BITS, row * width % BITS);
                    let spill = shift + width > BITS;
                    let first = first_index(row);
                    let from = values.get(first..first + LANES).ok_or_else(missing)?;
                    let (low, high) = words.split_at_mut((word + 1) * LANES);
                    let low = low.get_mut(word * LANES..).ok_or_else(missing)?;
                    if spill {
                        for ((slot, next), value) in low.iter_mut().zip(high).zip(from) {
                            let value = <$word>::from_le_bytes(*value) & mask;
                            *slot |= value << shift;
                            *next |= value >> (BITS - shift);
                        }
                    } else {
                        for (slot, value) in low.iter_mut().zip(from) {
                            *slot |= (<$word>::from_le_bytes(*value) & mask) << shift;
                        }
                    }
                }
                let used = words.iter().take(LANES * width);
                out.extend(used.flat_map(|word| word.to_le_bytes()));
                Ok(())
            }

            /// Bits that the largest value needs, values taken as unsigned.
            #[inline(always)]
            pub fn width_of(values: &[[u8; $bytes]]) -> usize {
                let (blocks, rest) = values.as_chunks::<16>();
                let mut bits = [0; 16];
                for block in blocks {
                    for (bits, value) in bits.iter_mut().zip(block) {
                        *bits |= <$word>::from_le_bytes(*value);
                    }
                }
                let bits = bits.iter().copied();
                let rest = rest.iter().map(|value| <$word>::from_le_bytes(*value));
                let all: $word = bits.chain(rest).fold(0, |all, bits| all | bits);
                BITS - all.leading_zeros() as usize
            }

            fn check(packed: &[u8], width: usize, slots: usize) -> Result<()> {
                ensure(
                    width <= BITS,
                    "bit-packed width, bits",
                    width,
                    format_args!("at most {BITS}"),
                )?;
                ensure(slots == GROUP, "bit-packed group, values", slots, GROUP)?;
                let bytes = packed_bytes(width);
                ensure(
                    packed.len() == bytes,
                    "bit-packed group, bytes",
                    packed.len(),
                    bytes,
                )
            }
        }
    };
}

width_of_word!(words8, u8, 1);
width_of_word!(words16, u16, 2);
width_of_word!(words32, u32, 4);
width_of_word!(words64, u64, 8);

/// Appends the values of one group whose indices lie in `ranges` to `out`.
/// Few values are extracted one by one; for many, the whole group is unpacked.
pub fn append_ranges(
    packed: &[u8],
    bits: usize,
    width: usize,
    ranges: &[std::ops::Range<usize>],
    out: &mut Vec<u8>,
) -> Result<()> {
    match bits {
        8 => append::<1>(
            packed,
            width,
            ranges,
            out,
            words8::append,
            words8::unpack,
            words8::unpack_one,
        ),
        16 => append::<2>(
            packed,
            width,
            ranges,
            out,
            words16::append,
            words16::unpack,
            words16::unpack_one,
        ),
        32 => append::<4>(
            packed,
            width,
            ranges,
            out,
            words32::append,
            words32::unpack,
            words32::unpack_one,
        ),
        64 => append::<8>(
            packed,
            width,
            ranges,
            out,
            words64::append,
            words64::unpack,
            words64::unpack_one,
        ),
        _ => Err(Corrupt(format!("bit-packed words of {bits} bits"))),
    }
}

/// Packs one group, as `pack` of a word width does.
pub type Pack<const N: usize> = fn(&[[u8; N]; GROUP], usize, &mut Vec<u8>) -> Result<()>;

type Append = fn(&[u8], usize, &mut Vec<u8>) -> Result<()>;
type Unpack<const N: usize> = fn(&[u8], usize, &mut [[u8; N]]) -> Result<()>;
type UnpackOne<const N: usize> = fn(&[u8], usize, usize) -> Result<[u8; N]>;

/// Up to this many values are extracted one by one.
pub const FEW: usize = 32;

fn append<const N: usize>(
    packed: &[u8],
    width: usize,
    ranges: &[std::ops::Range<usize>],
    out: &mut Vec<u8>,
    append_group: Append,
    unpack: Unpack<N>,
    unpack_one: UnpackOne<N>,
) -> Result<()> {
    if let [all] = ranges
        && *all == (0..GROUP)
    {
        return append_group(packed, width, out);
    }
    let wanted: usize = ranges.iter().map(std::iter::ExactSizeIterator::len).sum();
    if wanted <= FEW {
        for index in ranges.iter().cloned().flatten() {
            ensure(index < GROUP, "bit-packed index", index, "below 1024")?;
            out.extend_from_slice(&unpack_one(packed, width, index)?);
        }
        return Ok(());
    }
    let mut group = [[0u8; N]; GROUP];
    unpack(packed, width, &mut group)?;
    gather_values(group.as_flattened(), N, ranges, out)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]
    use super::*;

    /// The formula of the module text, value by value.
    fn naive_pack32(values: &[u32], width: usize) -> Vec<u8> {
        let mut words = vec![0u32; 32 * width];
        for row in 0..32 {
            for lane in 0..32 {
                let value = u64::from(values[first_index(row) + lane]);
                let bit = row * width;
                if width == 0 {
                    continue;
                }
                words[bit / 32 * 32 + lane] |= (value << (bit % 32)) as u32;
                if bit % 32 + width > 32 {
                    words[(bit / 32 + 1) * 32 + lane] |= (value >> (32 - bit % 32)) as u32;
                }
            }
        }
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    macro_rules! round_trip {
        ($test:ident, $module:ident, $word:ty, $bytes:literal) => {
            #[test]
            fn $test() {
                for width in 0..=$bytes * 8 {
                    let mask = if width == 0 {
                        0
                    } else {
                        <$word>::MAX >> ($bytes * 8 - width)
                    };
                    let mut values = [[0u8; $bytes]; GROUP];
                    for (i, slot) in values.iter_mut().enumerate() {
                        let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as $word;
                        *slot = (mixed & mask).to_le_bytes();
                    }
                    let mut packed = Vec::new();
                    $module::pack(&values, width, &mut packed).unwrap();
                    assert_eq!(packed.len(), packed_bytes(width));
                    assert!($module::width_of(&values) <= width);
                    let mut back = [[0u8; $bytes]; GROUP];
                    $module::unpack(&packed, width, &mut back).unwrap();
                    assert_eq!(back, values);
                    for index in [0, 1, 15, 16, 127, 128, 500, 1023] {
                        assert_eq!(
                            $module::unpack_one(&packed, width, index).unwrap(),
                            values[index]
                        );
                    }
                }
            }
        };
    }

    round_trip!(words_of_8_bits, words8, u8, 1);
    round_trip!(words_of_16_bits, words16, u16, 2);
    round_trip!(words_of_32_bits, words32, u32, 4);
    round_trip!(words_of_64_bits, words64, u64, 8);

    #[test]
    fn packs_as_the_formula_says() {
        for width in 1..=32usize {
            let values: Vec<u32> = (0..1024u32)
                .map(|i| i.wrapping_mul(2_654_435_761) >> (32 - width))
                .collect();
            let mut bytes = [[0u8; 4]; GROUP];
            for (slot, value) in bytes.iter_mut().zip(&values) {
                *slot = value.to_le_bytes();
            }
            let mut packed = Vec::new();
            words32::pack(&bytes, width, &mut packed).unwrap();
            assert_eq!(packed, naive_pack32(&values, width));
        }
    }
}
