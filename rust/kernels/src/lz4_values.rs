//! LZ4 blocks that have one sequence per value of 16 bytes.
//!
//! Decimals of few digits differ in their low bytes only: all have the same 16 - k high bytes. They
//! become literals of k bytes, each followed by a match of 16 - k bytes, which lies four values back
//! (decoders would have to wait for bytes that they have just written):
//!
//!     F0|m 49+k  16 bytes of each of values 0 to 3, k of value 4   40 00    m = the match's
//!     k<<4|m     k bytes of value 5                                40 00        length - 4
//!     …                                                            up to the last but one
//!     F0 01      16 bytes of the last value
//!
//! Any LZ4 decoder reads such a block. As all sequences have the same size, the place of each value
//! is known here, and values are decoded, or tested, without the bytes between.

use std::ops::Range;

use crate::error::{Result, grow, out_of_range, part};

/// Bytes of a value.
const WIDTH: usize = 16;
/// Most low bytes in which values may differ.
const MOST: usize = 8;
/// Bytes of the raw size.
const RAW: usize = 4;
/// Values at the start that are stored whole.
const WHOLE: usize = 4;
/// Bytes of a block before the literals of the next value.
const HEAD: usize = 2 + WHOLE * WIDTH;
/// The distance of a match, `WHOLE` values, as two bytes.
const BACK: [u8; 2] = [64, 0];
/// The token and the length of the last literals.
const TAIL: [u8; 2] = [0xF0, 1];
/// Bytes of a sequence without its literals: token and distance.
const FRAME: usize = 3;
/// The shortest match of LZ4.
const SHORTEST: usize = 4;
/// Records whose bytes are compared in one pass, which has enough of them for wide instructions.
const TOGETHER: usize = 32;
/// The length of literals in a token from which a byte with the rest follows.
const LONG: usize = 15;

/// Values of a block whose sequences are equal.
#[derive(Debug)]
pub struct Sequences<'a> {
    /// Values that are stored whole.
    whole: &'a [u8],
    /// Literals and distances of the other values but the last one, each after one byte that is a
    /// token, or precedes the literals.
    records: &'a [u8],
    last: &'a [u8; WIDTH],
    /// Low bytes in which values differ.
    low_bytes: usize,
    /// The bytes that all values have, in their place.
    high: u128,
}

/// The number of bytes of the values as u32, then their block; None if they have more low bytes than
/// it can store.
pub fn compressed(values: &[u8]) -> Option<Vec<u8>> {
    let raw = u32::try_from(values.len()).ok()?;
    let (whole, others) = values.split_at_checked(WHOLE * WIDTH)?;
    let ([first, middle @ .., last], []) = others.as_chunks::<WIDTH>() else {
        return None;
    };
    let low_bytes = low_bytes(values.as_chunks().0)?;
    let size = RAW + HEAD + (middle.len() + 1) * (low_bytes + FRAME) + TAIL.len() + WIDTH;
    let mut out = Vec::with_capacity(size);
    out.extend(raw.to_le_bytes());
    out.extend(head(low_bytes));
    out.extend(whole);
    out.extend(first.iter().take(low_bytes));
    out.extend(BACK);
    let token = token(low_bytes);
    for value in middle {
        out.push(token);
        out.extend(value.iter().take(low_bytes));
        out.extend(BACK);
    }
    out.extend(TAIL);
    out.extend(last);
    Some(out)
}

/// The number of low bytes in which values differ; None if they are too many.
fn low_bytes(values: &[[u8; WIDTH]]) -> Option<usize> {
    let first = u128::from_le_bytes(*values.first()?);
    let differing = values.iter().fold(0, |bits, value| {
        bits | (u128::from_le_bytes(*value) ^ first)
    });
    let bytes = bytes_of(differing).max(1);
    (bytes <= MOST).then_some(bytes)
}

#[allow(clippy::cast_possible_truncation)] // both are less than 256
fn head(low_bytes: usize) -> [u8; 2] {
    let (matched, literals) = (WIDTH - low_bytes, WHOLE * WIDTH + low_bytes);
    [0xF0 | (matched - SHORTEST) as u8, (literals - LONG) as u8]
}

#[allow(clippy::cast_possible_truncation)] // two numbers below 16
fn token(low_bytes: usize) -> u8 {
    (low_bytes << 4 | (WIDTH - low_bytes - SHORTEST)) as u8
}

fn bytes_of(number: u128) -> usize {
    (u128::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// Evaluates an expression with the size of records as a constant.
macro_rules! with_size {
    ($low_bytes:expr, $size:ident => $value:expr) => {
        match $low_bytes {
            1 => with_size!(4, $size, $value),
            2 => with_size!(5, $size, $value),
            3 => with_size!(6, $size, $value),
            4 => with_size!(7, $size, $value),
            5 => with_size!(8, $size, $value),
            6 => with_size!(9, $size, $value),
            7 => with_size!(10, $size, $value),
            _ => with_size!(11, $size, $value),
        }
    };
    ($constant:literal, $size:ident, $value:expr) => {{
        const $size: usize = $constant;
        $value
    }};
}

impl<'a> Sequences<'a> {
    /// Finds the sequences of `count` values in a raw size and a block; None if it has others.
    pub fn of(data: &'a [u8], count: usize) -> Option<Self> {
        let (raw, block) = data.split_first_chunk::<RAW>()?;
        let low_bytes = usize::from(*block.get(1)?).checked_sub(WHOLE * WIDTH - LONG)?;
        let is_head = (1..=MOST).contains(&low_bytes) && block.starts_with(&head(low_bytes));
        if !is_head || u32::from_le_bytes(*raw) as usize != count.checked_mul(WIDTH)? {
            return None;
        }
        let size = count
            .checked_sub(WHOLE + 1)?
            .checked_mul(low_bytes + FRAME)?;
        let (whole, others) = block.get(2..)?.split_at_checked(HEAD - 2)?;
        let (others, last) = others.split_last_chunk::<WIDTH>()?;
        if others.get(size.checked_sub(1)?..)? != TAIL {
            return None;
        }
        let records = block.get(HEAD - 1..)?.get(..size)?;
        if !with_size!(low_bytes, SIZE => are_equal::<SIZE>(records)) {
            return None;
        }
        let low = 8 * low_bytes;
        let highs = whole
            .as_chunks()
            .0
            .iter()
            .map(|value| u128::from_le_bytes(*value) >> low << low);
        let high = u128::from_le_bytes(*whole.first_chunk()?) >> low << low;
        if highs.into_iter().any(|other| other != high) {
            return None;
        }
        Some(Self {
            whole,
            records,
            last,
            low_bytes,
            high,
        })
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        WHOLE + self.records.len() / (self.low_bytes + FRAME) + 1
    }

    /// The bits that all values fit, if their high bytes are zero.
    pub fn low_bits(&self) -> Option<usize> {
        let bytes = bytes_of(self.high | u128::from_le_bytes(*self.last)).max(self.low_bytes);
        (bytes <= MOST).then_some(8 * bytes)
    }

    /// Appends the low `bits` bits of all values, 8, 16, 32 or 64.
    #[allow(clippy::cast_possible_truncation)] // the caller drops the other bits
    pub fn append_low(&self, bits: usize, out: &mut Vec<u8>) {
        macro_rules! append {
            ($word:ty) => {{
                const BYTES: usize = size_of::<$word>();
                let whole = self.whole.as_chunks::<WIDTH>().0;
                out.extend(whole.iter().flat_map(|value| value.iter().take(BYTES)));
                let word = |low: u64| (low as $word | self.high as $word).to_le_bytes();
                with_size!(self.low_bytes, SIZE => append_words::<SIZE, _>(self.records, word, out));
                out.extend(self.last.iter().take(BYTES));
            }};
        }
        match bits {
            8 => append!(u8),
            16 => append!(u16),
            32 => append!(u32),
            _ => append!(u64),
        }
    }

    /// Appends the values at `ranges`.
    pub fn append(&self, ranges: &[Range<usize>], out: &mut Vec<u8>) -> Result<()> {
        let (count, size) = (self.count(), self.low_bytes + FRAME);
        let value = |low: u64| (u128::from(low) | self.high).to_le_bytes();
        for range in ranges {
            let (start, end) = (range.start, range.end);
            if start > end || end > count {
                return Err(out_of_range("values of a chunk"));
            }
            let within =
                |first, last| (start.clamp(first, last) - first)..(end.clamp(first, last) - first);
            let (head, middle) = (within(0, WHOLE), within(WHOLE, count - 1));
            out.extend(part(
                self.whole,
                head.start * WIDTH,
                head.len() * WIDTH,
                "values",
            )?);
            let records = part(
                self.records,
                middle.start * size,
                middle.len() * size,
                "values",
            )?;
            with_size!(self.low_bytes, SIZE => append_words::<SIZE, _>(records, value, out));
            if range.contains(&(count - 1)) {
                out.extend(self.last);
            }
        }
        Ok(())
    }
}

/// Whether tokens and distances are those of sequences of the same size. The first byte belongs to
/// the last value that is stored whole.
fn are_equal<const SIZE: usize>(records: &[u8]) -> bool {
    let Some((first, others)) = records.as_chunks().0.split_first() else {
        return true;
    };
    let (groups, others) = others.as_chunks::<TOGETHER>();
    let expected = [record::<SIZE>([token(SIZE - FRAME)], BACK); TOGETHER];
    let mut differing = [[0; SIZE]; TOGETHER];
    for group in groups {
        let pairs = group.as_flattened().iter().zip(expected.as_flattened());
        for (bits, (byte, expected)) in differing.as_flattened_mut().iter_mut().zip(pairs) {
            *bits |= byte ^ expected; // those of literals mean nothing
        }
    }
    let frame = record::<SIZE>([u8::MAX], [u8::MAX; 2]);
    let is_equal = |record: &[u8; SIZE], expected: &[u8; SIZE]| {
        let pairs = record.iter().zip(expected).zip(frame);
        pairs.fold(0, |bits, ((byte, expected), frame)| {
            bits | (byte ^ expected) & frame
        }) == 0
    };
    first.ends_with(&BACK)
        && differing.iter().all(|bits| is_equal(bits, &[0; SIZE]))
        && others
            .iter()
            .zip(expected)
            .all(|(other, expected)| is_equal(other, &expected))
}

/// A record without literals.
fn record<const SIZE: usize>(start: [u8; 1], end: [u8; 2]) -> [u8; SIZE] {
    let mut record = [0; SIZE];
    for (slot, byte) in record.iter_mut().zip(start) {
        *slot = byte;
    }
    for (slot, byte) in record.iter_mut().skip(SIZE - end.len()).zip(end) {
        *slot = byte;
    }
    record
}

/// Appends what becomes of the low bytes of each record.
fn append_words<const SIZE: usize, const N: usize>(
    records: &[u8],
    word: impl Fn(u64) -> [u8; N],
    out: &mut Vec<u8>,
) {
    let low = u64::MAX >> (64 - 8 * (SIZE - FRAME));
    let (records, _) = records.as_chunks::<SIZE>();
    let mut slots = grow(out, records.len() * N)
        .as_chunks_mut::<N>()
        .0
        .iter_mut();
    // One load of eight bytes a record, which reaches into those behind it.
    let together = records.windows(3);
    let last = records.len() - together.len();
    for (records, slot) in together.zip(slots.by_ref()) {
        let bytes = records.as_flattened().iter().skip(1);
        *slot = word(first_eight(bytes) & low);
    }
    for (record, slot) in records.iter().rev().take(last).rev().zip(slots) {
        *slot = word(first_eight(record.iter().skip(1)) & low);
    }
}

/// The number in up to eight bytes.
#[inline(always)]
fn first_eight<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    let mut word = [0; 8];
    for (slot, byte) in word.iter_mut().zip(bytes) {
        *slot = *byte;
    }
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::single_range_in_vec_init
    )]
    use super::*;
    use crate::compression::{Scheme, decompress};

    /// Values that differ in their `low_bytes` low bytes.
    fn values(low_bytes: usize, count: usize, high: u128) -> Vec<u8> {
        let number = |place: usize| {
            let low = (place as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xFF;
            let mask = (1u128 << (8 * low_bytes)) - 1;
            high & !mask | low & mask
        };
        (0..count)
            .flat_map(|place| number(place).to_le_bytes())
            .collect()
    }

    fn all_of(sequences: &Sequences<'_>, ranges: &[Range<usize>]) -> Vec<u8> {
        let mut out = vec![7];
        sequences.append(ranges, &mut out).unwrap();
        out.split_off(1)
    }

    #[test]
    fn other_decoders_read_the_blocks_and_values_are_found_in_them() {
        for low_bytes in 1..=MOST {
            for count in [6, 7, 8, 200] {
                for high in [0, u128::MAX, 0x0123 << 100] {
                    let values = values(low_bytes, count, high);
                    let packed = compressed(&values).unwrap();
                    assert_eq!(decompress(Scheme::Lz4, &packed).unwrap(), values);
                    let found = Sequences::of(&packed, count).unwrap();
                    assert_eq!(all_of(&found, &[0..count]), values);
                    let ranges = [1..count, 0..1, 3..5, 4..5, count - 1..count, 2..2, 1..2];
                    let expected = ranges
                        .iter()
                        .flat_map(|r| &values[16 * r.start..16 * r.end]);
                    assert_eq!(
                        all_of(&found, &ranges),
                        expected.copied().collect::<Vec<_>>()
                    );
                    let beyond = count - 1..count + 1;
                    assert!(found.append(&[beyond], &mut Vec::new()).is_err());
                }
            }
        }
    }

    #[test]
    fn a_block_has_these_bytes() {
        let numbers = [0x0101u128, 0x0202, 0x0303, 0x0404, 0x0505, 0x0606, 0x0707];
        let values: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut expected = vec![112, 0, 0, 0, 0xFA, 51];
        expected.extend_from_slice(&values[..64]);
        expected.extend_from_slice(&[5, 5, 64, 0, 0x2A, 6, 6, 64, 0, 0xF0, 1]);
        expected.extend_from_slice(&values[96..]);
        assert_eq!(compressed(&values), Some(expected));
    }

    #[test]
    fn low_bits_are_those_of_all_values() {
        for (low_bytes, bits) in [(1, 8), (1, 32), (2, 16), (3, 32), (4, 32), (5, 64), (8, 64)] {
            let values = values(low_bytes, 100, 0);
            let packed = compressed(&values).unwrap();
            let found = Sequences::of(&packed, 100).unwrap();
            assert_eq!(found.low_bits(), Some(8 * low_bytes));
            let mut low = Vec::new();
            found.append_low(bits, &mut low);
            let expected = values.chunks(WIDTH).flat_map(|value| &value[..bits / 8]);
            assert_eq!(low, expected.copied().collect::<Vec<_>>());
        }
        let same = values(2, 50, 0x0300_0000);
        let packed = compressed(&same).unwrap();
        let found = Sequences::of(&packed, 50).unwrap();
        assert_eq!(found.low_bits(), Some(32));
        let mut low = Vec::new();
        found.append_low(32, &mut low);
        assert_eq!(low[..4], same[..4]);
        let negative = compressed(&values(2, 50, u128::MAX)).unwrap();
        assert_eq!(Sequences::of(&negative, 50).unwrap().low_bits(), None);
    }

    #[test]
    fn values_that_differ_in_more_bytes_are_refused() {
        assert_eq!(compressed(&values(MOST + 1, 100, 0)), None);
        assert_eq!(compressed(&values(1, WHOLE + 1, 0)), None);
        assert_eq!(compressed(&values(1, 100, 0)[1..]), None);
    }

    #[test]
    fn damaged_blocks_are_what_a_decoder_says() {
        for count in [20, 2 * TOGETHER + 20] {
            let values = values(3, count, 1 << 90);
            let packed = compressed(&values).unwrap();
            for cut in 0..packed.len() {
                assert!(Sequences::of(&packed[..cut], count).is_none());
            }
            assert!(Sequences::of(&packed, count - 1).is_none());
            for place in 0..packed.len() {
                for bit in 0..8 {
                    let mut other = packed.clone();
                    other[place] ^= 1 << bit;
                    if let Some(found) = Sequences::of(&other, count) {
                        let decoded = decompress(Scheme::Lz4, &other).unwrap();
                        assert_eq!(all_of(&found, &[0..count]), decoded);
                    }
                }
            }
        }
    }
}
